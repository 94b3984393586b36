"use strict";
// Bars: where energy, time and uplink went, and what became of the devices, one bar per method.
(() => {
  const { el } = fedcell;

  const total = (name) => (run) => run.totals[name];
  const more = (name) => (run) => run.totals[name] ?? 0; // of some worlds alone
  const COSTS = [
    { title: "energy", unit: "J", parts: [["computing", total("compute_joule")], ["sending", total("radio_joule")], ["receiving", more("receive_joule")], ["idle", more("idle_joule")]] },
    { title: "time", unit: "s", parts: [["time", total("clock_s")]] },
    { title: "traffic", unit: "bit", parts: [["uplink", total("uplink_bit")], ["downlink", more("downlink_bit")]] },
  ];

  // The component of costs: one chart for each of energy, time and traffic.
  fedcell.costBars = () => {
    const nodes = COSTS.map((cost) => el("div", { class: "chart low", role: "img", "aria-label": cost.title }));
    let charts = null;
    function draw(view) {
      charts ??= nodes.map(fedcell.chart);
      const groups = view.groups.filter((group) => !view.hidden.has(group.key));
      COSTS.forEach((cost, i) => {
        const sums = groups.map((group) => cost.parts.reduce((sum, [, of]) => sum + fedcell.mean(group.runs.map(of)), 0));
        const [size, unit] = fedcell.scale(Math.max(...sums, 0), cost.unit);
        const parts = cost.parts.map(([name, of]) => ({ name, values: groups.map((group) => fedcell.mean(group.runs.map(of)) / size) }));
        fit(charts[i], nodes[i], groups.length);
        charts[i].setOption(barOption(`${cost.title} (${unit})`, groups, parts, cost.parts.length > 1), { notMerge: true });
      });
    }
    return { node: el("div", { class: "pair" }, ...nodes), draw };
  };

  // The component of outcomes: shares of all device rounds, without the idle ones.
  fedcell.outcomeBars = () => {
    const node = el("div", { class: "chart low", role: "img", "aria-label": "outcomes" });
    let chart = null;
    function draw(view) {
      chart ??= fedcell.chart(node);
      const groups = view.groups.filter((group) => !view.hidden.has(group.key));
      const shown = fedcell.OUTCOMES.filter(({ letter }) => letter !== ".");
      const count = (group, letter) => group.runs.reduce((sum, run) => sum + run.totals.outcomes[letter], 0);
      const sums = groups.map((group) => shown.reduce((sum, { letter }) => sum + count(group, letter), 0));
      const parts = shown.map((outcome) => ({
        name: outcome.word, colour: fedcell.outcomeColour(outcome),
        values: groups.map((group, i) => (sums[i] ? (100 * count(group, outcome.letter)) / sums[i] : 0)),
      })).filter((part) => part.values.some((value) => value > 0));
      fit(chart, node, groups.length);
      chart.setOption(barOption("share of the selected devices (%)", groups, parts, true), { notMerge: true });
    }
    return { node, draw };
  };

  function fit(chart, node, nGroups) {
    const height = `${Math.min(Math.max(90 + 30 * nGroups, 150), 900)}px`;
    if (node.style.height !== height) { node.style.height = height; chart.resize(); }
  }

  function barOption(title, groups, parts, legend) {
    const colours = fedcell.dark() ? ["#56B4E9", "#E69F00"] : ["#0072B2", "#E69F00"];
    const names = groups.map((group) => group.name), short = fedcell.shortNames(groups);
    return {
      animation: false,
      aria: { enabled: true, decal: { show: legend } },
      grid: { left: 8, right: 24, top: legend ? 34 : 12, bottom: 40, containLabel: true },
      legend: { show: legend, top: 0, textStyle: { color: fedcell.ink("ink") } },
      xAxis: fedcell.axis(title, { type: "value" }),
      yAxis: fedcell.axis("", { type: "category", inverse: true, data: short,
        axisLabel: { color: fedcell.ink("ink"), width: 150, overflow: "break" } }),
      tooltip: { trigger: "item", renderMode: "richText", confine: true, backgroundColor: fedcell.ink("panel"),
        textStyle: { color: fedcell.ink("ink"), fontSize: 12 },
        formatter: (hit) => `${names[hit.dataIndex]}\n${hit.seriesName}: ${fedcell.digits(hit.value)}` },
      series: parts.map((part, i) => ({ type: "bar", stack: "all", name: part.name, data: part.values, barMaxWidth: 22,
        itemStyle: { color: part.colour ?? colours[i], decal: legend ? undefined : { symbol: "none" } } })),
    };
  }
})();
