// Charts of what ran where and when, in a viewport. Bars outside the view are not drawn. With places, a borrowed bar is hatched: one with units that
// belong to another home than its task's.
"use strict";
(() => {
  const { element, ticks, viewport } = punctual;
  const LEFT = 60, BOTTOM = 24;

  const chart = (holder) => {
    const data = JSON.parse(holder.querySelector("script").textContent);
    data.bars = data.bars.map(([from, to, first, count, task, stage, members, finished]) =>
      ({ from, to, first, count, task, stage, members, finished }));
    const first = Math.min(...data.bars.map((bar) => bar.from));
    const last = Math.max(...data.bars.map((bar) => bar.to));
    const row = Math.min(40, Math.max(6, 240 / data.units));
    const height = data.units * row + BOTTOM;
    const svg = element("svg", { role: "img" }, holder);
    for (const home of data.homes) {
      const range = home.count > 1 ? `units ${home.first} to ${home.first + home.count - 1}` : `unit ${home.first}`;
      home.name = `${range} (${home.tasks.map((task) => data.tasks[task]).join(", ")})`;
    }
    const common = (a, b) => Math.min(a.first + a.count, b.first + b.count) - Math.max(a.first, b.first);
    // Of a bar: its home, and the other homes whose units it takes.
    const lent = (bar) => {
      const home = data.homes.find((home) => home.tasks.includes(bar.task));
      return { home, owners: data.homes.filter((other) => home && other !== home && common(bar, other) > 0) };
    };
    const where = (bar, { home, owners }) => {
      if (!home) return "";
      const units = bar.count > 1 ? `units ${bar.first} to ${bar.first + bar.count - 1}` : `unit ${bar.first}`;
      if (owners.length > 0) {
        return `; on ${units}, borrowed from ${owners.map((owner) => owner.name).join(" and ")}; its home is ${home.name}`;
      }
      return `; on ${units}, ${common(bar, home) === home.count ? "its home" : `a cell of its home, ${home.name}`}`;
    };
    // Diagonals within a bar.
    const hatch = (left, top, width, tall) => {
      const lines = [];
      for (let sum = 4; sum < width + tall; sum += 8) {
        const x1 = Math.max(0, sum - tall), x2 = Math.min(width, sum);
        lines.push(`M${left + x1} ${top + sum - x1}L${left + x2} ${top + sum - x2}`);
      }
      return lines.join("");
    };
    const label = (bar, width) => {
      const stage = `${bar.stage}${bar.members > 1 ? ` x${bar.members}` : ""}`;
      const named = `${data.tasks[bar.task]} ${stage}`;
      return named.length * 7 + 8 < width ? named : stage;
    };
    const draw = ({ from, to, width: wide }) => {
      svg.replaceChildren();
      const scale = (wide - LEFT) / (to - from);
      const x = (us) => LEFT + (us - from) * scale;
      for (const { at, text } of ticks(from, to, wide - LEFT)) {
        element("line", { class: "grid", x1: x(at), x2: x(at), y1: 0, y2: height - BOTTOM }, svg);
        element("text", { x: x(at), y: height - 8, "text-anchor": "middle" }, svg).textContent = text;
      }
      for (const bar of data.bars) {
        if (bar.to < from || bar.from > to) continue;
        const left = Math.max(x(bar.from), LEFT), width = Math.max(x(bar.to) - left, 0.5);
        const top = bar.first * row + 1, tall = bar.count * row - 2;
        const loan = lent(bar), borrowed = loan.owners.length > 0;
        const box = element("rect", { x: left, y: top, width, height: tall, rx: 2, class: borrowed ? "borrowed" : "",
          fill: data.colours[bar.task], opacity: bar.finished ? 0.9 : 0.35 }, svg);
        const what = `${data.tasks[bar.task]}, stage ${bar.stage}, batch of ${bar.members}`;
        element("title", {}, box).textContent =
          `${what}${bar.finished ? "" : ", stopped"}: ${bar.from.toFixed(1)} to ${bar.to.toFixed(1)} us` +
          ` (${(bar.to - bar.from).toFixed(1)} us)${where(bar, loan)}`;
        if (borrowed) element("path", { class: "hatch", d: hatch(left, top, Math.min(width, wide + 10 - left), tall) }, svg);
        if (width > 34 && tall > 11) {
          element("text", { class: "inside", x: left + 4, y: top + tall / 2 + 4 }, svg).textContent = label(bar, width);
        }
      }
      for (const home of data.homes) {
        const top = home.first * row, tall = home.count * row, one = home.tasks.length === 1;
        if (top > 0) element("line", { class: "home", x1: LEFT - 10, x2: wide, y1: top, y2: top }, svg);
        const strip = element("rect", { x: LEFT - 8, y: top + 1, width: 5, height: tall - 2 }, svg);
        if (one) strip.setAttribute("fill", data.colours[home.tasks[0]]); else strip.setAttribute("class", "shared");
        element("title", {}, strip).textContent = `home: ${home.name}`;
      }
      const every = Math.ceil(12 / row);
      for (let unit = 0; unit < data.units; unit += every) {
        element("text", { x: 4, y: unit * row + 11 }, svg).textContent = `unit ${unit}`;
      }
    };
    const to = Math.min(last, first + (last - first) * 0.25 + 1);
    viewport(holder, svg, { first, last, from: first, to, left: () => LEFT, height, draw });
  };
  document.querySelectorAll(".gantt").forEach(chart);
})();
