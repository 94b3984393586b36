"use strict";
// Tables, and the chips that show and hide methods.
(() => {
  const { el } = fedcell;

  // A table; cells are texts or nodes, and columns named in `numbers` are aligned as numbers.
  fedcell.table = (header, rows, numbers = [], classOf = () => null) => {
    const kind = (i) => (numbers.includes(i) ? "number" : i === 0 ? "name" : null);
    return el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ...header.map((text, i) => el("th", { class: kind(i), scope: "col" }, text)))),
      el("tbody", {}, ...rows.map((row, at) => el("tr", { class: classOf(at) }, ...row.map((cell, i) => el("td", { class: kind(i) }, cell)))))));
  };

  // One row per group: scores and costs, the mean over seeds with the half width of its 95 % interval.
  fedcell.summaryTable = () => {
    const node = el("div");
    const HEADER = ["method", "runs", "state", "best", "final", "time", "computing", "sending", "uplink", "delivered"];
    const SERVED = ["hits", "backhaul", "saved"];
    const MORE = [["downlink_bit", "downlink", "bit"], ["receive_joule", "receiving", "J"], ["idle_joule", "idle", "J"]]; // of some worlds
    function draw(view) {
      const named = view.runs.length > 0 && !fedcell.leading(view.runs);
      const served = view.runs.some((run) => "hit_ratio" in run.totals);
      const brought = (group) => [percent(group, "hit_ratio"), mean(group, "video_backhaul_bit", "bit"), percent(group, "saved_share")];
      const short = fedcell.shortNames(view.groups);
      const more = MORE.filter(([name]) => view.runs.some((run) => run.totals[name]));
      const rows = view.groups.map((group, i) => [
        el("span", { class: "chip", title: group.name }, fedcell.sample(group.index), short[i]),
        String(group.runs.length), states(group.runs),
        score(group, "best", named), score(group, "final", named),
        mean(group, "clock_s", "s"), mean(group, "compute_joule", "J"), mean(group, "radio_joule", "J"), mean(group, "uplink_bit", "bit"),
        delivered(group), ...more.map(([name, , unit]) => mean(group, name, unit)), ...(served ? brought(group) : []),
      ]);
      node.replaceChildren(fedcell.table([...HEADER, ...more.map(([, title]) => title), ...(served ? SERVED : [])], rows, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]));
    }
    return { node, draw };
  };

  function states(runs) {
    const counts = new Map();
    runs.forEach((run) => {
      const text = run.state === "finished" ? "finished" : `${run.state} (${run.totals.rounds} of ${run.total})`;
      counts.set(text, (counts.get(text) ?? 0) + 1);
    });
    return [...counts].map(([text, count]) => (count > 1 && counts.size > 1 ? `${count} ${text}` : text)).join(", ");
  }

  // Runs that did not come to their end, and why; a traceback unfolds.
  fedcell.endings = () => {
    const node = el("div");
    function draw(view) {
      const ended = view.runs.filter((run) => run.message && run.state !== "finished");
      node.replaceChildren(...ended.slice(0, MOST_ENDINGS).map((run) => el("div", { class: "notice ending" },
        el("p", {}, el("span", { class: `state ${run.state}` }, run.state), ` ${fedcell.runName(run)}, after ${run.totals.rounds} of ${run.total} rounds: `, run.message),
        run.traceback ? el("details", {}, el("summary", {}, "traceback"), el("pre", {}, run.traceback)) : null)));
      if (ended.length > MOST_ENDINGS) node.append(el("p", { class: "faint" }, `and ${ended.length - MOST_ENDINGS} more`));
    }
    return { node, draw };
  };

  const MOST_ENDINGS = 20;

  const valuesOf = (group, name) => group.runs.map((run) => run.totals[name]).filter((value) => value != null);

  function score(group, name, named) {
    const { metric } = group.runs[0];
    if (metric.share) return percent(group, name) + (named ? ` ${metric.title}` : "");
    const values = valuesOf(group, name);
    if (!values.length) return "-";
    const half = fedcell.halfWidth(values);
    return fedcell.digits(fedcell.mean(values)) + (half == null ? "" : ` ± ${fedcell.digits(half)}`) + (named ? ` ${metric.title}` : "");
  }

  function percent(group, name) {
    const values = valuesOf(group, name).map((value) => 100 * value);
    if (!values.length) return "-";
    const half = fedcell.halfWidth(values);
    return fedcell.mean(values).toFixed(1) + (half == null ? "" : ` ± ${half.toFixed(1)}`);
  }

  function mean(group, name, unit) {
    const values = valuesOf(group, name);
    return values.length ? fedcell.human(fedcell.mean(values), unit) : "-";
  }

  function delivered(group) {
    const rounds = group.runs.reduce((sum, run) => sum + run.totals.rounds, 0);
    const sum = (name) => group.runs.reduce((sum, run) => sum + run.totals[name], 0);
    return rounds && sum("selected") ? `${(sum("delivered") / rounds).toFixed(1)} of ${(sum("selected") / rounds).toFixed(1)}` : "-";
  }

  // Buttons that show and hide the curves of a method.
  fedcell.toggles = (redraw) => {
    const node = el("div", { class: "chips" });
    function draw(view) {
      const short = fedcell.shortNames(view.groups);
      node.replaceChildren(...view.groups.map((group, i) => {
        const flip = () => { if (!view.hidden.delete(group.key)) view.hidden.add(group.key); redraw(); };
        return el("button", { class: "chip", title: group.name, "aria-pressed": String(!view.hidden.has(group.key)), on: { click: flip } },
          fedcell.sample(group.index), short[i]);
      }));
    }
    return { node, draw };
  };

  // The columns that methods record of themselves, such as the reasons of stragglers: means per round.
  fedcell.ownColumns = () => {
    const node = el("div");
    function draw(view) {
      const names = new Set(view.runs.flatMap((run) => Object.keys(run.totals.means)));
      [...Object.keys(fedcell.SCORES), "accuracy_std"].forEach((name) => names.delete(name));
      const why = [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
      const groups = view.groups.filter((group) => group.runs.some((run) => why.some((name) => name in run.totals.means)));
      if (!groups.length) { node.replaceChildren(); return; }
      const rows = why.map((name) => [name, ...groups.map((group) => {
        const values = group.runs.map((run) => run.totals.means[name]).filter((value) => value != null);
        return values.length ? fedcell.digits(fedcell.mean(values)) : "-";
      })]);
      const open = node.querySelector("details")?.open ?? why.some((name) => !rank(name));
      node.replaceChildren(el("details", { open }, el("summary", {}, "Columns that the methods record of themselves: mean per round"),
        fedcell.table(["column", ...groups.map((group) => group.name)], rows, groups.map((_, i) => i + 1))));
    }
    return { node, draw };
  };

  const rank = (name) => (/straggler|infeasible|late|outage/.test(name) ? 0 : 1);
})();
