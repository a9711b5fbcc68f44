// Rows along one time, in a viewport. A pointer on a bar shows all bars that are about the same; a click keeps them shown.
"use strict";
(() => {
  const { element, ticks, viewport } = punctual;
  const TOP = 22, LANE = 18, GAP = 6, HEADING = 20;
  // Of the names, in pixels: for all of a long one, or a third of a small screen.
  const left = (width) => Math.min(170, width / 3);

  const chart = (holder) => {
    const data = JSON.parse(holder.querySelector("script").textContent);
    const bars = data.bars.map(([[row, lane, from, to], [colour, shape, bad], labels, title, threads]) =>
      ({ row, lane, from, to, colour, shape, bad, labels, title, threads, parts: [] }));
    // Parts stand behind their bar.
    let whole = null;
    for (const bar of bars) {
      if (bar.shape === "part") whole?.parts.push(bar); else if (bar.shape !== "due") whole = bar;
    }
    let height = TOP;
    data.rows.forEach((row, index) => {
      const begins = index === 0 || data.rows[index - 1].group !== row.group;
      if (begins && row.group !== row.name) { height += HEADING; row.heading = height - 6; }
      row.top = height;
      height += row.lanes * LANE + GAP;
    });
    const svg = element("svg", { role: "img" }, holder);
    // What is drawn of each thread, to show it.
    let drawn = new Map(), kept = null, under = null, pressed = null;
    const shown = (threads) => {
      holder.classList.toggle("chosen", threads !== null);
      svg.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
      for (const thread of threads ?? []) {
        for (const one of drawn.get(thread) ?? []) one.classList.add("chosen");
      }
    };
    const box = (bar, x, view) => {
      const row = data.rows[bar.row], top = row.top + bar.lane * LANE;
      const left = Math.max(x(bar.from), view.left), right = Math.min(x(bar.to), view.width);
      if (bar.shape === "tick") {
        return element("rect", { x: x(bar.from) - 0.5, y: top, rx: 0, width: 1, height: LANE - 2 }, svg);
      }
      if (bar.shape === "due") {
        const middle = top + LANE / 2 - 1;
        return element("path", { d: `M${left} ${middle}H${x(bar.to)}M${x(bar.to)} ${top}v${LANE - 2}` }, svg);
      }
      const inset = bar.shape === "part" ? 3 : 0;
      const width = Math.max(right - left, 0.75);
      return element("rect", { x: left, y: top + inset, width, height: LANE - 2 - 2 * inset,
        rx: Math.min(2, width / 5) }, svg);
    };
    // Where a label of this width covers none of its parts.
    const room = (bar, x, view, width) => {
      let left = Math.max(x(bar.from), view.left);
      for (const part of bar.parts) {
        if (x(part.from) - left >= width) return left;
        left = Math.max(left, x(part.to));
      }
      return Math.min(x(bar.to), view.width) - left >= width ? left : null;
    };
    const write = (bar, x, view) => {
      for (const label of bar.labels) {
        const left = room(bar, x, view, label.length * 6.2 + 8);
        if (left === null) continue;
        const top = data.rows[bar.row].top + bar.lane * LANE;
        element("text", { class: `label in-${bar.shape}`, x: left + 4, y: top + 12 }, svg).textContent = label;
        return;
      }
    };
    const draw = (view) => {
      const { from, to, left, width } = view, letters = Math.floor(left / 7);
      svg.replaceChildren();
      drawn = new Map();
      under = pressed = null;
      const scale = (width - left) / (to - from);
      const x = (us) => left + (us - from) * scale;
      for (const { at, text } of ticks(from, to, width - left)) {
        element("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP - 4, y2: height }, svg);
        element("text", { x: x(at), y: 12, "text-anchor": "middle" }, svg).textContent = text;
      }
      for (const row of data.rows) {
        if (row.heading) {
          element("text", { class: "group", x: 4, y: row.heading }, svg).textContent = row.group;
        }
        const name = element("text", { x: row.heading || row.group !== row.name ? 12 : 4, y: row.top + 12,
          class: row.group === row.name ? "group" : "" }, svg);
        name.textContent = row.name.length > letters ? `${row.name.slice(0, letters - 1)}…` : row.name;
        element("title", {}, name).textContent = row.name;
        element("line", { class: "rule", x1: 4, x2: width, y1: row.top - GAP / 2, y2: row.top - GAP / 2 }, svg);
      }
      for (const bar of bars) {
        if (bar.to < from || bar.from > to) continue;
        const one = box(bar, x, view);
        one.setAttribute("class", `${bar.shape}${bar.bad ? " bad" : ""}`);
        one.style.setProperty("--colour", data.colours[bar.colour]);
        element("title", {}, one).textContent = bar.title;
        for (const thread of bar.threads) {
          if (!drawn.has(thread)) drawn.set(thread, []);
          drawn.get(thread).push(one);
        }
        one.addEventListener("pointerenter", () => {
          under = bar.threads;
          if (kept === null && under.length > 0) shown(under);
        });
        one.addEventListener("pointerleave", () => {
          under = null;
          if (kept === null) shown(null);
        });
        if (bar.shape !== "tick") write(bar, x, view);
      }
      shown(kept);
    };
    // The view captures the pointer, so the bar does not learn of the click.
    holder.addEventListener("pointerdown", () => { pressed = under; }, true);
    svg.addEventListener("click", () => {
      if (pressed === null) return;
      kept = kept === null && pressed.length > 0 ? pressed : null;
      shown(kept);
    });
    const first = Math.min(data.from, ...bars.map((bar) => bar.from));
    const last = Math.max(data.to, ...bars.map((bar) => bar.to));
    viewport(holder, svg, { first, last, from: data.from, to: data.to, left, height, draw });
  };
  document.querySelectorAll(".timeline").forEach(chart);
})();
