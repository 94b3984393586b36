"use strict";
// Who was scheduled when, and what became of it: devices by rounds, one coloured cell each, with its letter if there is room.
(() => {
  const { el } = fedcell;
  const LEFT = 34, BOTTOM = 18;

  fedcell.schedule = (redraw) => {
    const state = { run: "", order: "number", only: "" };
    const run = fedcell.choice("run", [], "", (value) => { state.run = value; redraw(); });
    const order = fedcell.choice("sorted by", [["number", "number"], ["distance", "distance"], ["delivered", "share delivered"]],
      state.order, (value) => { state.order = value; redraw(); });
    const canvas = el("canvas", { class: "schedule", role: "img", "aria-label": "outcome of every device in every round" });
    const chips = el("div", { class: "chips" }), told = el("p", { class: "told" }), remark = el("p", { class: "faint" });
    const node = el("div", {}, el("div", { class: "bar" }, run.node, order.node, chips), canvas, told, remark);
    let shown = null;

    function draw(view) {
      state.run = fedcell.chooseRun(run.select, view.runs, state.run);
      const chosen = view.runs.find((one) => one.id === state.run);
      shown = chosen ? layout(canvas, chosen, view.mapOf(chosen), state.order) : null;
      legend(chosen);
      paint(canvas, shown, state.only);
      const stride = chosen?.rows.letters_stride ?? 1;
      remark.textContent = !shown ? "No rounds yet." : stride > 1 ? `Every ${stride}th round is shown.` : "";
    }

    function legend(chosen) {
      const present = fedcell.OUTCOMES.filter(({ letter }) => chosen?.totals.outcomes[letter]);
      chips.replaceChildren(...present.map((outcome) => {
        const swatch = fedcell.svg("svg", { class: "swatch", viewBox: "0 0 1 1" },
          fedcell.svg("rect", { width: 1, height: 1, fill: fedcell.outcomeColour(outcome) }));
        const pick = () => { state.only = state.only === outcome.letter ? "" : outcome.letter; redraw(); };
        return el("button", { class: "chip", "aria-pressed": String(!state.only || state.only === outcome.letter), on: { click: pick } },
          swatch, `${outcome.letter} ${outcome.word}: ${chosen.totals.outcomes[outcome.letter]}`);
      }));
    }

    canvas.addEventListener("mousemove", (event) => {
      const hit = shown && cellAt(canvas, shown, event);
      const outcome = hit && fedcell.OUTCOMES.find(({ letter }) => letter === hit.letter);
      told.textContent = outcome ? `device ${hit.device}, round ${hit.done}: ${outcome.word}` : "";
    });
    new ResizeObserver(() => { if (shown && canvas.clientWidth !== shown.width) redraw(); }).observe(canvas);
    return { node, draw };
  };

  function layout(canvas, run, map, order) {
    const columns = run.rows.letters;
    if (!columns.length) return null;
    const nDevices = columns[0][1].length;
    const rowHeight = Math.max(2, Math.min(14, Math.floor(420 / nDevices)));
    const width = canvas.clientWidth || 800;
    return { columns, width, rowHeight, devices: sorted(nDevices, columns, map, order),
      cellWidth: (width - LEFT) / columns.length, height: rowHeight * nDevices + BOTTOM };
  }

  function sorted(nDevices, columns, map, order) {
    const devices = [...Array(nDevices).keys()];
    const key = order === "distance" && map?.distance_m ? (k) => map.distance_m[k]
      : order === "delivered" ? (k) => -fedcell.deliveredShare(columns, k) : (k) => k;
    const values = devices.map(key);
    return devices.sort((a, b) => values[a] - values[b]);
  }

  // Share of the rounds shown in which a device delivered, of those in which it was selected.
  fedcell.deliveredShare = (columns, device) => {
    let selected = 0, delivered = 0;
    for (const [, letters] of columns) {
      if (letters[device] !== ".") selected++;
      if (letters[device] === "D") delivered++;
    }
    return selected ? delivered / selected : 0;
  };

  function paint(canvas, shown, only) {
    if (!shown) { canvas.height = 0; return; }
    const ratio = window.devicePixelRatio || 1;
    canvas.width = shown.width * ratio;
    canvas.height = shown.height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const colours = Object.fromEntries(fedcell.OUTCOMES.map((one) => [one.letter, fedcell.outcomeColour(one)]));
    const gap = shown.cellWidth > 4 && shown.rowHeight > 4 ? 1 : 0, lettered = shown.cellWidth >= 11 && shown.rowHeight >= 11;
    pen.font = "9px ui-monospace, monospace";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    shown.columns.forEach(([, letters], column) => {
      const x = LEFT + column * shown.cellWidth;
      shown.devices.forEach((device, row) => {
        const letter = letters[device];
        pen.fillStyle = only && letter !== only ? colours["."] : colours[letter];
        pen.fillRect(x, row * shown.rowHeight, shown.cellWidth - gap + (gap ? 0 : 0.5), shown.rowHeight - gap);
        if (lettered && letter !== "." && letter !== "D" && (!only || letter === only)) {
          pen.fillStyle = fedcell.ink("paper");
          pen.fillText(letter, x + shown.cellWidth / 2, (row + 0.5) * shown.rowHeight);
        }
      });
    });
    labels(pen, shown);
  }

  function labels(pen, shown) {
    pen.fillStyle = fedcell.ink("faint");
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(14 / shown.rowHeight));
    shown.devices.forEach((device, row) => { if (row % every === 0) pen.fillText(String(device), LEFT - 5, (row + 0.5) * shown.rowHeight); });
    pen.textBaseline = "bottom";
    const steps = Math.min(shown.columns.length, 8);
    for (let i = 0; i < steps; i++) {
      const column = Math.round((i * (shown.columns.length - 1)) / Math.max(steps - 1, 1));
      pen.textAlign = i === 0 ? "left" : i === steps - 1 ? "right" : "center";
      const x = LEFT + (column + (i === 0 ? 0 : i === steps - 1 ? 1 : 0.5)) * shown.cellWidth;
      pen.fillText((i === 0 ? "round " : "") + shown.columns[column][0], x, shown.height);
    }
  }

  function cellAt(canvas, shown, event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - LEFT) / shown.cellWidth);
    const device = shown.devices[Math.floor((event.clientY - box.top) / shown.rowHeight)];
    if (column < 0 || column >= shown.columns.length || device == null) return null;
    const [done, letters] = shown.columns[column];
    return { device, done, letter: letters[device] };
  }
})();
