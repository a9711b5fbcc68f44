// What charts along time have in common: elements, ticks, and a view that is zoomed and moved. Wheel or +/-: zoom; drag or
// arrow keys: move; 0 or double click: everything.
"use strict";
const punctual = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const element = (name, attributes, parent) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.appendChild(made);
    return made;
  };
  const time = (us, step) =>
    step >= 1e6 ? `${us / 1e6} s` : step >= 1e3 ? `${us / 1e3} ms` : `${us} us`;
  // 1, 2 or 5 times a power of ten, so that at most `count` of them fill the view.
  const tick = (span, count) => {
    const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough);
  };
  // The times to mark in a view that is `width` pixels wide, with their texts.
  const ticks = (from, to, width) => {
    const step = tick(to - from, Math.max(2, Math.floor(width / 80))), found = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      found.push({ at, text: time(Number(at.toPrecision(12)), step) });
    }
    return found;
  };
  // Shows `from` to `to` of `first` to `last`, in microseconds, by `draw({ from, to, left, width })`. The chart is as
  // wide as its holder, so that its words are as large on any screen, and its times begin `left(width)` pixels from its left.
  const viewport = (holder, svg, { first, last, from, to, left: leftOf, height, draw }) => {
    let width = 0, left = 0;
    const redraw = () => draw({ from, to, left, width });
    const show = (start, span) => {
      span = Math.min(Math.max(span, 10), last - first);
      from = Math.min(Math.max(start, first), last - span);
      to = from + span;
      redraw();
    };
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width * width - left) / (width - left);
      return from + Math.min(Math.max(share, 0), 1) * (to - from);
    };
    const zoom = (factor, centre) => show(centre - (centre - from) * factor, (to - from) * factor);
    holder.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
    }, { passive: false });
    // A pointer that moves less than this clicks.
    const STILL = 3;
    let grabbed = null, pressed = 0;
    svg.addEventListener("pointerdown", (event) => {
      grabbed = at(event);
      pressed = event.clientX;
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (grabbed === null || Math.abs(event.clientX - pressed) < STILL) return;
      pressed = Infinity;
      show(from + grabbed - at(event), to - from);
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
    new ResizeObserver(() => {
      const wide = Math.max(holder.clientWidth, 300);
      if (wide === width) return;
      width = wide;
      left = leftOf(width);
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      redraw();
    }).observe(holder);
  };
  return { element, ticks, viewport };
})();
