// Charts of what ran where and when. Wheel or +/-: zoom; drag or arrow keys: move; 0 or double
// click: everything. Bars outside the view are not drawn. With places, a borrowed bar is hatched: one with units that
// belong to another home than its task's.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const LEFT = 60, BOTTOM = 24, WIDTH = 1300;
  const element = (name, attributes, parent) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.appendChild(made);
    return made;
  };
  const time = (us, step) =>
    step >= 1e6 ? `${us / 1e6} s` : step >= 1e3 ? `${us / 1e3} ms` : `${us} us`;
  // 1, 2 or 5 times a power of ten, so that some eight of them fill the view.
  const tick = (span) => {
    const rough = span / 8, power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough);
  };

  const chart = (holder) => {
    const data = JSON.parse(holder.querySelector("script").textContent);
    data.bars = data.bars.map(([from, to, first, count, task, stage, members, finished]) =>
      ({ from, to, first, count, task, stage, members, finished }));
    const first = Math.min(...data.bars.map((bar) => bar.from));
    const last = Math.max(...data.bars.map((bar) => bar.to));
    const row = Math.min(40, Math.max(6, 240 / data.units));
    const height = data.units * row + BOTTOM;
    const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" }, holder);
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
    let from = first, to = Math.min(last, first + (last - first) * 0.25 + 1);

    const draw = () => {
      svg.replaceChildren();
      const scale = (WIDTH - LEFT) / (to - from);
      const x = (us) => LEFT + (us - from) * scale;
      const step = tick(to - from);
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        element("line", { class: "grid", x1: x(at), x2: x(at), y1: 0, y2: height - BOTTOM }, svg);
        element("text", { x: x(at), y: height - 8, "text-anchor": "middle" }, svg).textContent =
          time(Number(at.toPrecision(12)), step);
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
        if (borrowed) element("path", { class: "hatch", d: hatch(left, top, Math.min(width, WIDTH + 10 - left), tall) }, svg);
        if (width > 34 && tall > 11) {
          element("text", { class: "inside", x: left + 4, y: top + tall / 2 + 4 }, svg).textContent = label(bar, width);
        }
      }
      for (const home of data.homes) {
        const top = home.first * row, tall = home.count * row, one = home.tasks.length === 1;
        if (top > 0) element("line", { class: "home", x1: LEFT - 10, x2: WIDTH, y1: top, y2: top }, svg);
        const strip = element("rect", { x: LEFT - 8, y: top + 1, width: 5, height: tall - 2,
          fill: one ? data.colours[home.tasks[0]] : "#808080" }, svg);
        element("title", {}, strip).textContent = `home: ${home.name}`;
      }
      const every = Math.ceil(12 / row);
      for (let unit = 0; unit < data.units; unit += every) {
        element("text", { x: 4, y: unit * row + 11 }, svg).textContent = `unit ${unit}`;
      }
    };
    const show = (start, span) => {
      span = Math.min(Math.max(span, 10), last - first);
      from = Math.min(Math.max(start, first), last - span);
      to = from + span;
      draw();
    };
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT);
      return from + Math.min(Math.max(share, 0), 1) * (to - from);
    };
    const zoom = (factor, centre) => show(centre - (centre - from) * factor, (to - from) * factor);

    holder.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
    }, { passive: false });
    let grabbed = null;
    svg.addEventListener("pointerdown", (event) => {
      grabbed = at(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (grabbed !== null) show(from + grabbed - at(event), to - from);
    });
    svg.addEventListener("pointerup", () => { grabbed = null; });
    holder.addEventListener("dblclick", () => show(first, last - first));
    holder.addEventListener("keydown", (event) => {
      const span = to - from, middle = from + span / 2;
      const keys = {
        "+": () => zoom(0.5, middle), "-": () => zoom(2, middle), "0": () => show(first, last - first),
        ArrowLeft: () => show(from - span / 4, span), ArrowRight: () => show(from + span / 4, span),
      };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
    draw();
  };
  document.querySelectorAll(".gantt").forEach(chart);
})();
