"use strict";
// The report: everything is in the page, in the element #data.
(() => {
  const { card, el } = fedcell;
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = data.runs.map((run) => ({ ...run, settings: { ...data.base, ...run.settings } }));
  const view = { runs, groups: fedcell.groups(runs), hidden: new Set(), mapOf: (run) => data.maps[run.map] };

  const { parts, redraw } = fedcell.panels(view);
  document.getElementById("page").append(el("main", { class: "report" },
    el("header", { class: "top" }, el("h1", {}, data.title), fedcell.themeButton(redraw)),
    ...question(data.question),
    ...data.notes.map((note) => el("p", { class: "notice" }, note)),
    parts.endings.node,
    card("What came out", parts.summary.node,
      el("p", { class: "faint" }, `${fedcell.scoreMeaning(runs)} time: simulated, or measured on real devices, whose energy is not known and stands as 0. computing, sending: energy of all devices. delivered: devices heard of those selected, per round. With several seeds: means, ± half of the 95 % interval.`)),
    ...comparison(data.comparison),
    card("Curves", parts.toggles.node, parts.scores.node),
    card("Where energy and time went", parts.bars.node, parts.costs.node),
    card("Who was scheduled when", parts.schedule.node),
    card("Stragglers, and why", parts.outcomes.node, parts.own.node),
    card("Cell map", parts.map.node),
    settings(),
    ...ledger(data.ledger),
    el("footer", { class: "faint" }, `Made by fedcell ${data.version} from `, el("code", {}, data.folder), "."),
  ));
  redraw();
  fedcell.parts = parts;
  fedcell.view = view;

  function question({ scenarios, methods, seeds, rounds }) {
    const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
    const range = (values) => (values.length > 6 ? `${values[0]} to ${values.at(-1)}` : values.join(", "));
    const worlds = scenarios.map(({ name, summary }) => el("p", {}, "Scenario ", el("code", {}, name), summary && `: ${summary}`));
    const varied = data.config.filter((row) => row.values.length > 1 && row.key !== "seed").map((row) => row.key);
    const asked = `What does ${methods.length > 1 ? `each of ${count(methods.length, "method")}` : methods[0]?.label} achieve, in ${fedcell.leading(runs)?.title ?? "its metric"}, seconds and joules? `
      + `${count(runs.length, "run")}, ${seeds.length > 1 ? "seeds" : "seed"} ${range(seeds)}; ${range(rounds)} rounds each.`
      + (varied.length ? ` Varied: ${varied.slice(0, 8).join(", ")}${varied.length > 8 ? ` and ${varied.length - 8} more` : ""}.` : "");
    const list = el("details", {}, el("summary", {}, "The methods"), el("ul", {}, ...methods.map(({ label, summary }) =>
      el("li", {}, el("code", {}, label), `: ${summary}`))));
    return [el("p", {}, asked), ...worlds, list];
  }

  function comparison({ sections, lines }) {
    if (!sections.length) return lines.length ? [card("Held against each other", ...lines.map((line) => el("p", { class: "faint" }, line)))] : [];
    const tables = sections.flatMap(({ title, cells: [header, ...rows] }) =>
      [el("h3", {}, title[0].toUpperCase() + title.slice(1)), fedcell.table(header, rows, header.map((_, i) => i).slice(1))]);
    return [card("Held against each other", ...tables, ...lines.map((line) => el("p", { class: "faint" }, line)))];
  }

  function settings() {
    const HEADER = ["key", "value", "scenario's preset", "default", "meaning"];
    const section = (title, rows, header, cells) => {
      const special = rows.filter((row) => row.rank < 3), rest = rows.filter((row) => row.rank === 3);
      return [el("h3", {}, title),
        special.length ? fedcell.table(header, special.map(cells), [], (at) => (special[at].rank < 2 ? "changed" : null))
          : el("p", {}, "All are defaults."),
        el("details", {}, el("summary", {}, `${rest.length} with their default`), fedcell.table(header, rest.map(cells)))];
    };
    return card("Settings",
      el("p", { class: "faint" }, "A mark on the left: differs between the runs, or from the scenario's preset."),
      ...section("World, data, model, training", data.config, HEADER,
        (row) => [el("code", {}, row.key), row.values.join(" / "), row.preset, row.default, row.help]),
      ...section("Methods", data.methods, ["method", "key", "value", "default", "meaning"],
        (row) => [row.method, el("code", {}, row.key), row.values.join(" / "), row.default, row.help]));
  }

  function ledger(rows) {
    if (!rows.length) return [];
    const papers = [...new Set(rows.map((row) => row.paper))];
    return [card(`What the paper claims, and what was measured (${papers.join(", ")})`,
      el("p", { class: "faint" }, "From the experiments beside the code, not from the runs of this page."),
      fedcell.table(["experiment", "claim", "paper", "here", "seeds", "verdict", "why"],
        rows.map((row) => [row.experiment, row.text, row.printed, row.ours, row.seeds, el("span", { class: "verdict" }, row.verdict), row.reason])))];
  }
})();
