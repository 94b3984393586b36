"use strict";
// The cell map: base stations, devices, and one number per device as its shade.
(() => {
  const { el, svg } = fedcell;
  const SHADES = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"]; // dark to light, also in grey

  const NUMBERS = {
    gain_db: ["mean gain", "dB", (map) => map.gain_db],
    delivered: ["share delivered", "%", (map, run) => map.cell.map((_, k) => 100 * fedcell.deliveredShare(run.rows.letters, k))],
    cpu_hz: ["highest CPU clock", "GHz", (map) => map.cpu_hz.map((value) => value / 1e9)],
    power_dbm: ["highest power", "dBm", (map) => map.power_dbm],
    distance_m: ["distance", "m", (map) => map.distance_m],
  };

  fedcell.cellMap = (redraw) => {
    const state = { run: "", number: "gain_db" };
    const run = fedcell.choice("run", [], "", (value) => { state.run = value; redraw(); });
    const number = fedcell.choice("shade", Object.entries(NUMBERS).map(([key, [title]]) => [key, title]), state.number,
      (value) => { state.number = value; redraw(); });
    const scale = el("span", { class: "bar" }), picture = el("div"), told = el("p", { class: "told" }), remark = el("p", { class: "faint" });
    const node = el("div", {}, el("div", { class: "bar" }, run.node, number.node, scale), picture, told, remark);

    function draw(view) {
      state.run = fedcell.chooseRun(run.select, view.runs, state.run);
      const chosen = view.runs.find((one) => one.id === state.run), map = chosen && view.mapOf(chosen);
      told.textContent = "";
      if (!map?.positions) {
        picture.replaceChildren();
        scale.replaceChildren();
        remark.textContent = map?.note || "No map of this run is in the page.";
        return;
      }
      const [title, unit, of] = NUMBERS[state.number], values = of(map, chosen);
      const low = Math.min(...values), high = Math.max(...values);
      const say = (k) => { told.textContent = k == null ? "" : sentence(map, k, title, values[k], unit); };
      picture.replaceChildren(plan(map, values, low, high, say));
      scale.replaceChildren(fedcell.digits(low), shadeBar(), `${fedcell.digits(high)} ${unit}`);
      remark.textContent = [state.number === "gain_db" ? `Gain: path loss and shadowing, ${map.gain_note}.` : "", map.note].join(" ").trim();
    }
    return { node, draw };
  };

  function sentence(map, k, title, value, unit) {
    return `device ${k}, cell ${map.cell[k]}: ${fedcell.digits(map.distance_m[k])} m from its base station; ${title} ${fedcell.digits(value)} ${unit}`;
  }

  function plan(map, values, low, high, say) {
    const reach = map.reach_m;
    const xs = map.stations.map(([x]) => x), ys = map.stations.map(([, y]) => y);
    const left = Math.min(...xs) - 1.04 * reach, top = -Math.max(...ys) - 1.04 * reach;
    const width = Math.max(...xs) + 1.04 * reach - left, height = -Math.min(...ys) + 1.04 * reach - top;
    const size = Math.max(width, height), dot = Math.max(0.006, 0.016 - map.cell.length * 2e-5) * size;
    const picture = svg("svg", { class: "cells", viewBox: `${left} ${top} ${width} ${height}`, role: "img", "aria-label": "cell map" });
    map.stations.forEach(([x, y]) => picture.append(map.shape === "square"
      ? svg("rect", { class: "ground", x: x - reach, y: -y - reach, width: 2 * reach, height: 2 * reach })
      : svg("circle", { class: "ground", cx: x, cy: -y, r: reach })));
    map.positions.forEach(([x, y], k) => {
      const share = high > low ? (values[k] - low) / (high - low) : 0.5;
      const tell = () => say(k), hush = () => say(null);
      picture.append(svg("circle", { class: "device", cx: x, cy: -y, r: dot, fill: shade(share), tabindex: 0,
        on: { mouseenter: tell, focus: tell, mouseleave: hush, blur: hush } }));
    });
    map.stations.forEach(([x, y], cell) => {
      const s = 0.022 * size;
      picture.append(svg("path", { class: "station", d: `M${x} ${-y - s}L${x + s} ${-y + s}L${x - s} ${-y + s}Z` }, svg("title", {}, `base station ${cell}`)));
    });
    return picture;
  }

  function shade(share) {
    const place = Math.min(Math.max(share, 0), 1) * (SHADES.length - 1), index = Math.min(Math.floor(place), SHADES.length - 2);
    const [a, b] = [SHADES[index], SHADES[index + 1]].map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
    return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * (place - index))).join(",")})`;
  }

  function shadeBar() {
    const bar = svg("svg", { class: "scale", viewBox: "0 0 60 1", preserveAspectRatio: "none", "aria-hidden": "true" });
    for (let i = 0; i < 60; i++) bar.append(svg("rect", { x: i, width: 1.1, height: 1, fill: shade(i / 59) }));
    return bar;
  }
})();
