"use strict";
// Curves: any column over rounds, time, energy or uplink traffic; means over seeds with their 95 % interval.
// Seeds are averaged along the straight lines between their evaluations; fewer than three seeds are drawn run by run.
(() => {
  const { el } = fedcell;
  const MOST_POINTS = 16000; // of all lines of a chart
  const FEW = 3; // seeds from which on a band says more than the runs themselves

  const AXES = {
    done: { title: "round", unit: "", of: (rows) => rows.done },
    clock_s: { title: "time", unit: "s", of: (rows) => rows.clock_s },
    joule: { title: "energy of all devices", unit: "J", of: (rows) => rows.compute_joule.map((a, i) => a + rows.radio_joule[i] + (rows.other_joule?.[i] ?? 0)) },
    uplink_bit: { title: "uplink traffic", unit: "bit", of: (rows) => rows.uplink_bit },
  };
  const AXIS_OPTIONS = Object.entries(AXES).map(([key, axis]) => [key, axis.title]);

  // Columns that are kept as running totals: shown per round, as the mean since the round shown before.
  const COSTS = {
    clock_s: ["length of a round", "s"], compute_joule: ["energy for computing, per round", "J"],
    radio_joule: ["energy for sending, per round", "J"], uplink_bit: ["uplink traffic per round", "bit"],
    selected: ["devices selected per round", ""], delivered: ["devices delivered per round", ""],
  };
  fedcell.SCORES = { // columns of evaluations, those that lead first
    accuracy: ["test accuracy", "%"], f1: ["test F1", "%"], rmse: ["test RMSE", ""], perplexity: ["test perplexity", ""],
    label_accuracy: ["test accuracy of single labels", "%"], subset_accuracy: ["test accuracy of all labels of a sample", "%"],
    mae: ["test MAE", ""], r2: ["test R2", ""], token_accuracy: ["test accuracy of tokens", "%"], loss: ["test loss", ""],
  };
  const SCORES = { ...fedcell.SCORES,
    downlink_bit: ["downlink traffic per round", "bit"], receive_joule: ["energy for receiving, per round", "J"],
    idle_joule: ["energy of standing by, per round", "J"],
    hit_ratio: ["hits of edge servers", "%"], delivery_s: ["delivery of a file", "s"],
    video_backhaul_bit: ["requested files on the backhaul, per round", "bit"], fetch_bit: ["files fetched ahead, per round", "bit"],
  };

  function metricsOf(runs, kind) {
    if (kind === "costs") return Object.entries(COSTS).map(([key, [title]]) => [key, title]);
    const names = new Set(runs.flatMap((run) => Object.keys(run.rows.metrics)));
    const first = Object.keys(SCORES).filter((name) => names.delete(name));
    return [...first, ...[...names].sort()].map((name) => [name, SCORES[name]?.[0] ?? name]);
  }

  // [x, y] of one run at the rounds in which the metric was measured.
  fedcell.points = (run, axisName, metric, kind) => {
    const rows = run.rows, x = AXES[axisName].of(rows);
    const values = kind === "costs" ? perRound(rows, metric) : rows.metrics[metric] ?? [];
    const points = [];
    for (let i = 0; i < x.length; i++) if (values[i] != null) points.push([x[i], values[i]]);
    return points;
  };

  function perRound(rows, name) {
    return rows[name].map((total, i) => (total - (i ? rows[name][i - 1] : 0)) / (rows.done[i] - (i ? rows.done[i - 1] : 0)));
  }

  // The mean of curves as long as every one of them is known and has not ended: [x, mean, low, high].
  fedcell.band = (curves) => {
    const begin = Math.max(...curves.map((curve) => curve[0][0]));
    const end = Math.max(begin, Math.min(...curves.map((curve) => curve.at(-1)[0])));
    const at = [...new Set(curves.flatMap((curve) => curve.map(([x]) => x)))].sort((a, b) => a - b);
    const next = curves.map(() => 0);
    const out = [];
    for (const x of at) {
      curves.forEach((curve, i) => { while (next[i] < curve.length && curve[next[i]][0] <= x) next[i]++; });
      if (x < begin || x > end) continue;
      const values = curves.map((curve, i) => between(curve[next[i] - 1], curve[next[i]], x));
      const mean = fedcell.mean(values), half = fedcell.halfWidth(values);
      out.push(half == null ? [x, mean, mean, mean] : [x, mean, mean - half, mean + half]);
    }
    return out;
  };

  // The value at x on the straight line from one point to the next, if there is one.
  function between([left, value], next, x) {
    return next && x > left ? value + ((next[1] - value) * (x - left)) / (next[0] - left) : value;
  }

  // The component: controls and a chart; `kind` is "scores" or "costs".
  fedcell.curves = (kind, redraw) => {
    const state = { axis: "done", metric: kind === "costs" ? "compute_joule" : "", seeds: "mean", log: false };
    const set = (name) => (value) => { state[name] = value; redraw(); };
    const axis = fedcell.choice("over", AXIS_OPTIONS, state.axis, set("axis"));
    const metric = fedcell.choice("show", [], state.metric, set("metric"));
    const seeds = fedcell.choice("seeds", [["mean", "mean and 95 % interval"], ["each", "every run"]], "mean", set("seeds"));
    const log = el("input", { type: "checkbox", on: { change: () => set("log")(log.checked) } });
    const chartNode = el("div", { class: kind === "costs" ? "chart low" : "chart", role: "img", "aria-label": "curves" });
    const remark = el("p", { class: "faint" });
    const node = el("div", {},
      el("div", { class: "bar" }, metric.node, axis.node, seeds.node, el("label", {}, log, "logarithmic")), chartNode, remark);
    let chart = null;

    function draw(view) {
      chart ??= fedcell.chart(chartNode);
      state.metric = fedcell.refill(metric.select, metricsOf(view.runs, kind), state.metric);
      const several = view.groups.some((group) => group.runs.length > 1);
      seeds.node.hidden = !several;
      const lines = view.groups.filter((group) => !view.hidden.has(group.key)).flatMap((group) => linesOf(group, state, kind));
      chart.setOption(optionOf(lines, state, kind), { notMerge: true, lazyUpdate: true });
      remark.textContent = remarkOf(lines, several && state.seeds === "mean");
    }
    return { node, draw, chart: () => chart };
  };

  function linesOf(group, state, kind) {
    const curves = group.runs.map((run) => fedcell.points(run, state.axis, state.metric, kind)).filter((curve) => curve.length);
    if (!curves.length) return [];
    const line = (points, n) => ({ name: group.name, index: group.index, points, n, free: points.at(-1)[0] === 0 });
    if (state.seeds === "each" || curves.length < FEW) return curves.map((curve) => line(curve, 1));
    const points = fedcell.band(curves);
    return points.length ? [line(points, curves.length)] : [];
  }

  function remarkOf(lines, banded) {
    const parts = [];
    if (!lines.length) parts.push("Nothing was measured yet.");
    const counts = lines.map((line) => line.n).filter((n) => n > 1);
    if (banded && !counts.length && lines.length) parts.push("Fewer than 3 seeds: a line for every run.");
    if (banded && counts.length) {
      const [low, high] = [Math.min(...counts), Math.max(...counts)];
      parts.push(`Mean over ${low === high ? high : `${low} to ${high}`} seeds, as far as all of them have come; the band is the 95 % interval of the mean.`);
    }
    if (lines.some((line) => line.free)) parts.push("A level line: reached at no cost on this axis.");
    return parts.join(" ");
  }

  // ---------------------------------------------------------------- the chart

  fedcell.chart = (node) => {
    const chart = echarts.init(node, null, { renderer: "canvas" });
    new ResizeObserver(() => chart.resize()).observe(node);
    return chart;
  };

  fedcell.axis = (name, more = {}) => ({
    name, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: fedcell.ink("ink") },
    axisLabel: { color: fedcell.ink("faint"), hideOverlap: true }, axisLine: { show: true, lineStyle: { color: fedcell.ink("faint") } },
    splitLine: { lineStyle: { color: fedcell.ink("line") } }, ...more,
  });

  function optionOf(lines, state, kind) {
    const axis = AXES[state.axis];
    const [title, unit] = (kind === "costs" ? COSTS : SCORES)[state.metric] ?? [state.metric, ""];
    const xs = lines.map((line) => line.points.at(-1)[0]), ys = lines.flatMap((line) => line.points.map((point) => Math.abs(point[1])));
    const [xSize, xUnit] = fedcell.scale(Math.max(...xs, 0), axis.unit);
    const [ySize, yUnit] = fedcell.scale(ys.reduce((a, b) => Math.max(a, b), 0), unit);
    const scaled = lines.map((line) => ({ ...line,
      points: thin(line.points, MOST_POINTS / lines.length).map(([x, ...y]) => [x / xSize, ...y.map((value) => value / ySize)]).filter(([x]) => !state.log || x > 0) }));
    return {
      animation: false,
      grid: { left: 64, right: 24, top: 26, bottom: 48 },
      xAxis: fedcell.axis(axis.title + (xUnit && ` (${xUnit})`), { type: state.log ? "log" : "value" }),
      yAxis: fedcell.axis(title + (yUnit && ` (${yUnit})`), { type: "value", scale: kind !== "costs", nameGap: 44 }),
      tooltip: { trigger: "axis", renderMode: "richText", confine: true, backgroundColor: fedcell.ink("panel"),
        textStyle: { color: fedcell.ink("ink"), fontSize: 12 }, formatter: (hits) => told(hits, xUnit) },
      toolbox: { right: 4, top: -6, iconStyle: { borderColor: fedcell.ink("faint") },
        feature: { saveAsImage: { title: "save", name: "curves", backgroundColor: fedcell.ink("paper") } } },
      dataZoom: [{ type: "inside", filterMode: "none" }],
      series: scaled.flatMap((line) => [...(line.n > 1 ? [bandSeries(line)] : []), ...lineSeries(line, lines.length)]),
    };
  }

  // A chart is some hundred pixels wide: more points than that cost time and show nothing.
  function thin(points, limit) {
    const every = Math.ceil(points.length / Math.max(limit, 150));
    return every < 2 ? points : points.filter((_, i) => i % every === 0 || i === points.length - 1);
  }

  function told(hits, xUnit) {
    const lines = hits.filter((hit) => hit.seriesType === "line");
    if (!lines.length) return "";
    const shown = lines.sort((a, b) => b.value[1] - a.value[1]).slice(0, 14);
    const texts = shown.map(({ value: [, y, low], seriesName, marker }) =>
      `${marker} ${fedcell.digits(y)}${low != null && low < y ? ` ± ${fedcell.digits(y - low)}` : ""}  ${seriesName}`);
    if (lines.length > shown.length) texts.push(`and ${lines.length - shown.length} more`);
    return [`${fedcell.digits(lines[0].axisValue)} ${xUnit}`, ...texts].join("\n");
  }

  // The line, and a few of its points as markers that do not hide those of its neighbours.
  function lineSeries(line, nLines) {
    const look = fedcell.look(line.index), every = Math.max(Math.ceil(line.points.length / 7), 1);
    const offset = Math.floor((line.index * every) / Math.max(nLines, 1)) % every;
    const level = line.free && line.points.length
      ? { silent: true, symbol: "none", lineStyle: { color: look.colour, type: look.dash, width: 2 },
          data: [{ yAxis: line.points.at(-1)[1], label: { formatter: line.name, position: "insideEndTop", color: fedcell.ink("ink") } }] }
      : undefined;
    const common = { name: line.name, color: look.colour, emphasis: { disabled: true }, silent: true };
    return [
      { ...common, type: "line", data: line.points, symbol: "none", z: 3, markLine: level, sampling: "lttb",
        lineStyle: { width: 2, type: look.dash } },
      { ...common, type: "scatter", data: line.points.filter((_, i) => i % every === offset), symbol: look.marker, symbolSize: 7, z: 4,
        tooltip: { show: false } },
    ];
  }

  // The interval as one polygon.
  function bandSeries(line) {
    const { colour } = fedcell.look(line.index);
    return {
      type: "custom", name: line.name, data: [[line.points[0]?.[0] ?? 0, 0]], silent: true, z: 1, clip: true, tooltip: { show: false },
      renderItem: (_, api) => ({
        type: "polygon", silent: true, style: { fill: colour, opacity: 0.16 },
        shape: { points: [
          ...line.points.map(([x, , , high]) => api.coord([x, high])),
          ...line.points.toReversed().map(([x, , low]) => api.coord([x, low])),
        ] },
      }),
      encode: { x: 0, y: [] },
    };
  }
})();
