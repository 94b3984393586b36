"use strict";
// The dashboard: a list of runs to pick from, and the same figures as in the report, which follow running runs.
(() => {
  const { card, el } = fedcell;
  const MOST_PICKED = 100, MOST_LISTED = 400, REDRAW_MS = 400;
  const token = takeToken();
  const listed = new Map(); // id -> facts of a run
  const details = new Map(); // id -> a run with its rows, for those that were picked
  const picked = new Set();
  const view = { runs: [], groups: [], hidden: new Set(), mapOf: (run) => run.map };

  // The token comes behind the # of the address, which browsers never send, and goes out of sight.
  function takeToken() {
    const found = new URLSearchParams(location.hash.slice(1)).get("token");
    if (found) {
      sessionStorage.setItem("fedcell-token", found);
      history.replaceState(null, "", location.pathname);
    }
    return sessionStorage.getItem("fedcell-token");
  }

  // ---------------------------------------------------------------- the page

  const { parts, redraw } = fedcell.panels(view);
  const search = el("input", { type: "search", placeholder: "filter by method, folder, scenario, seed", "aria-label": "filter", on: { input: showList } });
  const stateFilter = fedcell.choice("state", [["", "all"]], "", showList);
  const list = el("ul", { class: "list" }), count = el("span", { class: "faint" });
  const said = el("p", { class: "notice", hidden: true, role: "status" }), line = el("span", { class: "faint" }, "connecting");
  const empty = el("div", { class: "notice" }, "Looking for runs.");
  const type = (text) => el("pre", {}, text);
  const none = [
    el("p", {}, "There is no run in this folder yet. Type this in a terminal, in the folder that the dashboard was started in:"),
    type("fedcell run fedavg fedprox --rounds 30"),
    el("p", {}, "It shows up here by itself. If your runs are elsewhere, start the dashboard on their folder:"),
    type("fedcell dashboard DIR"),
  ];
  const figures = el("div", { hidden: true }, parts.endings.node,
    card("Curves", parts.toggles.node, parts.scores.node),
    card("So far", parts.summary.node),
    el("div", { class: "pair" }, card("Who was scheduled when", parts.schedule.node), card("Cell map", parts.map.node)),
    card("Where energy and time went", parts.bars.node, parts.costs.node),
    card("Stragglers, and why", parts.outcomes.node, parts.own.node));
  document.getElementById("page").append(el("div", { class: "board" },
    el("nav", { class: "side", "aria-label": "runs" },
      el("div", { class: "top" }, el("h1", {}, "fedcell"), line),
      search,
      el("div", { class: "bar" }, stateFilter.node, count),
      el("div", { class: "bar" }, el("button", { on: { click: pickShown } }, "pick all shown"), el("button", { on: { click: pickNone } }, "pick none")),
      list),
    el("main", { class: "main" }, el("div", { class: "top" }, el("span", {}), fedcell.themeButton(redraw)), said, empty, figures)));

  function say(text) {
    said.textContent = text;
    said.hidden = !text;
  }

  // ---------------------------------------------------------------- the list of runs

  const rowNodes = new Map(); // id -> the parts of its line in the list

  function shownRuns() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = stateFilter.select.value;
    const fits = (run) => (!wanted || run.state === wanted)
      && words.every((word) => `${run.label} ${run.id} ${run.scenario} seed ${run.seed} ${run.state}`.toLowerCase().includes(word));
    const newest = new Map();
    for (const run of listed.values()) newest.set(run.comparison, Math.max(newest.get(run.comparison) ?? 0, run.changed));
    const running = (run) => (run.state === "running" ? 0 : 1);
    return [...listed.values()].filter(fits).sort((a, b) => running(a) - running(b)
      || newest.get(b.comparison) - newest.get(a.comparison) || (a.id < b.id ? -1 : 1));
  }

  function showList() {
    const states = new Map();
    for (const run of listed.values()) states.set(run.state, (states.get(run.state) ?? 0) + 1);
    const options = [["", `all (${listed.size})`], ...[...states].sort().map(([state, n]) => [state, `${state} (${n})`])];
    fedcell.refill(stateFilter.select, options, stateFilter.select.value);
    const shown = shownRuns();
    count.textContent = `${shown.length} shown, ${picked.size} picked` + (shown.length > MOST_LISTED ? `; the first ${MOST_LISTED} are listed` : "");
    list.replaceChildren(...shown.slice(0, MOST_LISTED).map(rowOf));
  }

  function rowOf(run) {
    if (!rowNodes.has(run.id)) rowNodes.set(run.id, makeRow(run.id));
    const row = rowNodes.get(run.id);
    row.box.checked = picked.has(run.id);
    row.box.disabled = run.state === "damaged";
    row.what.textContent = run.label;
    row.state.textContent = run.state;
    row.state.className = `state ${run.state}`;
    row.state.title = run.message;
    row.progress.max = run.total || 1;
    row.progress.value = run.rounds ?? 0;
    const score = run.score == null ? "" : `, ${fedcell.score(run.metric, run.score)}`;
    row.where.textContent = ["damaged", "failed"].includes(run.state) && run.message ? run.message
      : `${run.id === "." ? run.comparison : run.id} · seed ${run.seed} · ${run.rounds ?? 0} of ${run.total}${score}`;
    row.stop.hidden = !(token && run.state === "running");
    if (row.stop.hidden) row.stop.textContent = "stop";
    return row.node;
  }

  function makeRow(id) {
    const box = el("input", { type: "checkbox", on: { change: () => { if (box.checked) picked.add(id); else picked.delete(id); pickedChanged(); } } });
    const what = el("span"), where = el("span", { class: "where" }), state = el("span", { class: "state" });
    const progress = el("progress", { "aria-label": "rounds" });
    const stop = el("button", { class: "stop", on: { click: (event) => { event.preventDefault(); askToStop(id, stop); } } }, "stop");
    box.setAttribute("aria-label", `show ${id}`);
    const node = el("li", { class: "run", "data-run": id }, box, el("span", { class: "what" }, what, " ", stop), state, progress, where);
    return { node, box, what, where, state, progress, stop };
  }

  function pickShown() {
    shownRuns().filter((run) => run.state !== "damaged").slice(0, MOST_PICKED).forEach((run) => picked.add(run.id));
    pickedChanged();
  }

  function pickNone() {
    picked.clear();
    pickedChanged();
  }

  // The second press within a few seconds sends the request.
  async function askToStop(id, button) {
    if (button.textContent === "stop") {
      button.textContent = "really stop?";
      setTimeout(() => { if (button.textContent === "really stop?") button.textContent = "stop"; }, 4000);
      return;
    }
    button.textContent = "stopping";
    const answer = await fetch("/api/stop", { method: "POST", headers: { "content-type": "application/json", "x-fedcell-token": token },
      body: JSON.stringify({ run: id }) });
    const { error, again } = await answer.json();
    say(error ?? `${id} was asked to stop after its present round. A comparison ends with it, a sweep continues with its other runs. To resume: ${again}`);
  }

  // ---------------------------------------------------------------- picked runs and what is new of them

  async function pickedChanged() {
    showList();
    const missing = [...picked].filter((id) => !details.has(id));
    await Promise.all(missing.map(async (id) => {
      const answer = await fetch(`/api/run?run=${encodeURIComponent(id)}`);
      if (answer.ok) details.set(id, await answer.json());
      else picked.delete(id);
    }));
    regroup();
    connect();
  }

  function regroup(wait = 0) {
    empty.replaceChildren(...(listed.size ? ["Pick runs on the left."] : none));
    view.runs = [...picked].map((id) => details.get(id)).filter(Boolean);
    view.groups = fedcell.groups(view.runs);
    empty.hidden = view.runs.length > 0;
    figures.hidden = !view.runs.length;
    later(wait);
  }

  // Draw soon; new rows wait a little for others, what a person did does not.
  let timer = null;
  function later(wait) {
    if (timer && wait) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = null;
      if (view.runs.length) redraw();
    }, wait);
  }

  let source = null, waiting = null;
  function connect() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      source?.close();
      const query = new URLSearchParams();
      for (const { id, epoch, totals } of view.runs) { query.append("run", id); query.append("at", `${epoch}.${totals.rounds}`); }
      source = new EventSource(`/api/events?${query}`);
      source.addEventListener("list", (event) => takeList(JSON.parse(event.data)));
      source.addEventListener("rows", (event) => takeRows(JSON.parse(event.data)));
      source.addEventListener("open", () => { line.textContent = "live"; });
      source.addEventListener("error", () => { line.textContent = "not connected"; });
    }, 100);
  }

  function takeList({ runs, ids }) {
    const first = !listed.size, present = new Set(ids);
    for (const run of runs) {
      listed.set(run.id, run);
      if (details.has(run.id)) Object.assign(details.get(run.id), { state: run.state, message: run.message, traceback: run.traceback });
    }
    for (const id of listed.keys()) {
      if (!present.has(id)) [listed, details, rowNodes].forEach((map) => map.delete(id)), picked.delete(id);
    }
    if (first && listed.size && !picked.size) pickFirst();
    else { showList(); regroup(REDRAW_MS); }
  }

  // At the start: the comparisons that are running, or else the one that was written last.
  function pickFirst() {
    const shown = shownRuns().filter((run) => run.state !== "damaged");
    const running = shown.filter((run) => run.state === "running");
    const places = new Set((running.length ? running : shown.slice(0, 1)).map((run) => run.comparison));
    const first = shown.filter((run) => places.has(run.comparison) && run.state !== "waiting");
    first.slice(0, MOST_PICKED).forEach((run) => picked.add(run.id));
    pickedChanged();
  }

  function takeRows({ id, epoch, anew, totals, rows }) {
    const run = details.get(id);
    if (!run) return;
    if (anew || run.epoch !== epoch) Object.assign(run, { epoch, rows });
    else append(run, rows);
    run.totals = totals;
    later(REDRAW_MS);
  }

  // Add rounds that are not here yet; then drop those that the server has dropped since, as its series became longer.
  function append(run, fresh) {
    const have = run.rows, last = have.done.at(-1) ?? 0, start = have.done.length;
    const from = fresh.done.findIndex((done) => done > last);
    const names = ["done", "clock_s", "compute_joule", "radio_joule", "uplink_bit", "selected", "delivered", "other_joule"];
    if (from >= 0) {
      names.forEach((name) => have[name].push(...fresh[name].slice(from)));
      for (const name of new Set([...Object.keys(have.metrics), ...Object.keys(fresh.metrics)])) {
        have.metrics[name] ??= Array(start).fill(null);
        have.metrics[name].push(...(fresh.metrics[name]?.slice(from) ?? Array(fresh.done.length - from).fill(null)));
      }
    }
    const lastLetters = have.letters.at(-1)?.[0] ?? 0;
    have.letters.push(...fresh.letters.filter(([done]) => done > lastLetters));
    const keeps = (stride) => (done) => done === 1 || done === run.total || done % stride === 0;
    if (fresh.letters_stride !== have.letters_stride) {
      have.letters = have.letters.filter(([done]) => keeps(fresh.letters_stride)(done));
      have.letters_stride = fresh.letters_stride;
    }
    if (fresh.stride !== have.stride) {
      const kept = have.done.map(keeps(fresh.stride));
      names.forEach((name) => { have[name] = have[name].filter((_, i) => kept[i]); });
      Object.keys(have.metrics).forEach((name) => { have.metrics[name] = have.metrics[name].filter((_, i) => kept[i]); });
      have.stride = fresh.stride;
    }
  }

  if (!token) say("To stop runs from here, open the address that fedcell dashboard printed.");
  fedcell.parts = parts;
  fedcell.view = view;
  fedcell.append = append;
  connect();
})();
