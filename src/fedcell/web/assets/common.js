"use strict";
// Shared by both pages: making elements, units, the look of a method, grouping runs over seeds.
// Text of a run only ever becomes a text node or text in a canvas, never markup.
const fedcell = {};

(() => {
  const SVG = "http://www.w3.org/2000/svg";

  // An element: fedcell.el("p", { class: "faint", on: { click } }, "text", child)
  fedcell.el = (tag, properties = {}, ...children) => fill(document.createElement(tag), properties, children);
  fedcell.svg = (tag, properties = {}, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

  function fill(node, properties, children) {
    for (const [name, value] of Object.entries(properties)) {
      if (name === "on") Object.entries(value).forEach(([event, act]) => node.addEventListener(event, act));
      else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child != null));
    return node;
  }

  // A <select> with a label; options are [value, text] pairs.
  fedcell.choice = (label, options, chosen, change) => {
    const select = fedcell.el("select", { on: { change: () => change(select.value) } });
    fedcell.refill(select, options, chosen);
    return { node: fedcell.el("label", {}, label, select), select };
  };

  // Replace the options of a <select> when they changed; returns the value that is chosen now.
  fedcell.refill = (select, options, chosen) => {
    const wanted = JSON.stringify(options);
    if (select.dataset.options !== wanted) {
      select.dataset.options = wanted;
      select.replaceChildren(...options.map(([value, text]) => fedcell.el("option", { value }, text)));
    }
    if (options.some(([value]) => value === chosen)) select.value = chosen;
    return select.value;
  };

  // ---------------------------------------------------------------- numbers

  const UNITS = {
    s: [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "us"]],
    J: [[1e6, "MJ"], [1e3, "kJ"], [1, "J"], [1e-3, "mJ"], [1e-6, "uJ"]],
    bit: [[1e12, "Tbit"], [1e9, "Gbit"], [1e6, "Mbit"], [1e3, "kbit"], [1, "bit"]],
    "%": [[0.01, "%"]],
    "": [[1, ""]],
  };

  // The size and name of the largest unit that a value fills.
  fedcell.scale = (value, unit) => UNITS[unit].find(([size]) => Math.abs(value) >= size) ?? UNITS[unit].at(-1);

  fedcell.digits = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "-");

  fedcell.human = (value, unit) => {
    if (value == null || !Number.isFinite(value)) return "-";
    if (value === 0) return "0";
    const [size, name] = fedcell.scale(value, unit);
    return `${Number((value / size).toPrecision(3))} ${name}`.trim();
  };

  fedcell.mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  // Half of the 95 % interval of a mean: t s / sqrt(n), with Student's t.
  const T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12,
    2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042];
  fedcell.halfWidth = (values) => {
    const n = values.length;
    if (n < 2) return null;
    const mean = fedcell.mean(values);
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1);
    return (T95[n - 2] ?? 1.96) * Math.sqrt(variance / n);
  };

  // ---------------------------------------------------------------- looks

  // Okabe and Ito's colours without yellow; dash and marker tell curves apart in grey.
  const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#B07400"];
  const DARK = ["#56B4E9", "#F0813A", "#2CC99C", "#DB9ABD", "#FFFFFF", "#7C9CE8", "#E69F00"];
  const DASHES = ["solid", [8, 3], [2, 2], [9, 3, 2, 3], [14, 4]];
  const MARKERS = ["circle", "rect", "triangle", "diamond", "emptyCircle", "emptyRect", "emptyTriangle"];

  fedcell.dark = () => document.documentElement.dataset.theme === "dark";
  fedcell.ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  fedcell.look = (index) => ({
    colour: (fedcell.dark() ? DARK : LIGHT)[index % LIGHT.length],
    dash: DASHES[index % DASHES.length],
    marker: MARKERS[index % MARKERS.length],
  });

  // A short piece of a method's line, for legends.
  fedcell.sample = (index) => {
    const { colour, dash } = fedcell.look(index);
    const line = { x1: 1, y1: 6, x2: 33, y2: 6, stroke: colour, "stroke-width": 3 };
    if (Array.isArray(dash)) line["stroke-dasharray"] = dash.join(" ");
    return fedcell.svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, fedcell.svg("line", line));
  };

  // What a letter of the record means, from light to dark; order of a stack.
  fedcell.OUTCOMES = [
    { letter: "D", word: "delivered", light: "#7EC3EC", dark: "#5AA9DA" },
    { letter: "T", word: "late", light: "#D55E00", dark: "#F0813A" },
    { letter: "E", word: "out of energy", light: "#E6B23A", dark: "#F2CC68" },
    { letter: "O", word: "outage", light: "#5B3A8C", dark: "#A98BDB" },
    { letter: "X", word: "invalid", light: "#111111", dark: "#FFFFFF" },
    { letter: ".", word: "idle", light: "#E7EAEE", dark: "#2A313A" },
  ];
  fedcell.outcomeColour = (outcome) => (fedcell.dark() ? outcome.dark : outcome.light);

  // Light or dark: the reader's system decides until the button is pressed.
  fedcell.themeButton = (redraw) => {
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const show = (dark) => {
      document.documentElement.dataset.theme = dark ? "dark" : "light";
      button.textContent = dark ? "light" : "dark";
    };
    const button = fedcell.el("button", { on: { click: () => { show(!fedcell.dark()); redraw(); } } });
    show(system.matches);
    system.addEventListener("change", () => { show(system.matches); redraw(); });
    return button;
  };

  // ---------------------------------------------------------------- runs

  // Runs with the same method and settings are one group, to be averaged over its seeds.
  fedcell.groups = (runs) => {
    const varied = keysThatVary(runs), byKey = new Map(), byLabel = new Map();
    for (const run of runs) {
      const key = JSON.stringify([run.label, ...varied.map((name) => run.settings[name])]);
      if (!byKey.has(key)) {
        byKey.set(key, { key, label: run.label, settings: run.settings, runs: [], index: byKey.size });
        byLabel.set(run.label, [...(byLabel.get(run.label) ?? []), byKey.get(key)]);
      }
      byKey.get(key).runs.push(run);
    }
    for (const alike of byLabel.values()) nameApart(alike);
    return [...byKey.values()];
  };

  function keysThatVary(runs) {
    const keys = new Set(runs.flatMap((run) => Object.keys(run.settings)));
    return [...keys].filter((key) => runs.some((run) => run.settings[key] !== runs[0].settings[key])).sort((a, b) => (b === "scenario") - (a === "scenario") || (a < b ? -1 : 1));
  }

  // Name groups of one method by as few settings as tell them apart.
  function nameApart(groups) {
    const text = (group, keys) => keys.map((key) => `${key}=${group.settings[key]}`).join(", ");
    const kinds = (keys) => new Set(groups.map((group) => text(group, keys))).size;
    const left = new Set(keysThatVary(groups)), keys = [];
    while (left.size && kinds(keys) < groups.length) {
      const best = [...left].reduce((a, b) => (kinds([...keys, b]) > kinds([...keys, a]) ? b : a));
      left.delete(best);
      keys.push(best);
    }
    for (const group of groups) group.name = [group.label, ...(keys.length ? [text(group, keys)] : [])].join(", ");
  }

  // A value of a leading metric: shares in %, others by name.
  fedcell.score = (metric, value) => (metric.share ? `${(100 * value).toFixed(1)} %` : `${metric.title} ${fedcell.digits(value)}`);

  // The leading metric of all runs; null if they learn different things.
  fedcell.leading = (runs) => (new Set(runs.map((run) => run.metric.name)).size === 1 ? runs[0].metric : null);

  // How to read the columns best and final.
  fedcell.scoreMeaning = (runs) => {
    const metric = fedcell.leading(runs);
    if (!metric) return "best, final: of the test metric that is named.";
    return metric.share ? `best, final: test ${metric.title} in %.` : `best, final: test ${metric.title} (${metric.rises ? "more" : "less"} is better).`;
  };

  // What differs between the names of groups: settings that all of them have are left out, and a method that all share.
  fedcell.shortNames = (groups) => {
    const split = groups.map(({ name }) => {
      const [, method, rest] = name.match(/^([^:,]*)[:,]? ?(.*)$/s);
      return { method, pairs: rest.split(/, ?(?=[^,=]+=)/).filter(Boolean) };
    });
    const everywhere = (pair) => split.every(({ pairs }) => pairs.includes(pair));
    const own = split.map(({ pairs }) => pairs.filter((pair) => groups.length < 2 || !everywhere(pair)));
    const one = new Set(split.map(({ method }) => method)).size === 1;
    const alike = groups.length > 1 && one && own.every((pairs) => pairs.length);
    const names = split.map(({ method }, i) => [...(alike ? [] : [method]), ...own[i]].join(", "));
    return new Set(names).size === groups.length ? names : groups.map(({ name }) => name);
  };

  // A <select> of one run; at first one that is running, or one in which devices took part.
  fedcell.chooseRun = (select, runs, chosen) => {
    const first = runs.find((run) => run.state === "running" && run.totals.selected) ?? runs.find((run) => run.totals.selected);
    const known = runs.some((run) => run.id === chosen);
    return fedcell.refill(select, runs.map((run) => [run.id, fedcell.runName(run)]), known ? chosen : first?.id);
  };

  fedcell.card = (title, ...children) => fedcell.el("section", { class: "card" }, fedcell.el("h2", {}, title), ...children);

  // What both pages show of a view, by name, and what draws all of it anew.
  fedcell.panels = (view) => {
    const parts = {};
    const redraw = () => Object.values(parts).forEach((part) => part.draw(view));
    const only = (name) => () => parts[name].draw(view);
    Object.assign(parts, {
      toggles: fedcell.toggles(redraw),
      summary: fedcell.summaryTable(),
      endings: fedcell.endings(),
      scores: fedcell.curves("scores", only("scores")),
      bars: fedcell.costBars(),
      costs: fedcell.curves("costs", only("costs")),
      schedule: fedcell.schedule(only("schedule")),
      outcomes: fedcell.outcomeBars(),
      own: fedcell.ownColumns(),
      map: fedcell.cellMap(only("map")),
    });
    return { parts, redraw };
  };

  fedcell.runName = (run) => `${run.label}, seed ${run.seed}, ${run.id === "." ? run.comparison : run.id}`;
})();
