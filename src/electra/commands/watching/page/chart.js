// One figure: the curves of all shown runs, a cursor that mouse and arrow keys move, its values as text.
import { make } from "/page/common.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 190;
const ROOM = { left: 46, right: 10, top: 8, bottom: 22 };
const UNITS = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]];

export function short(value) {
  if (value === null || value === undefined) return "\u2013";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-3)) return value.toExponential(1);
  for (const [unit, name] of UNITS) {
    if (size >= (unit === 1e3 ? 1e4 : unit)) return `${Number((value / unit).toPrecision(3))} ${name}`;
  }
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "\u2013";
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) found.push(n * step);
  return found;
}

function draw(tag, attributes, names = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (names) element.setAttribute("class", names);
  return element;
}

export class Chart {
  constructor(chart) {
    this.chart = chart;
    this.runs = [];
    this.axis = "step";
    this.at = null; // where the cursor stands, on the axis; null: nowhere
    this.figure = make("figure");
    const caption = make("figcaption");
    caption.append(make("b", chart.title), make("span", chart.note));
    this.svg = draw("svg", { role: "img", tabindex: 0 });
    this.readout = make("p", "", "readout");
    this.readout.setAttribute("aria-live", "polite");
    this.figure.append(caption, this.svg, this.readout);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.move(null));
    this.svg.addEventListener("blur", () => this.move(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  show(runs, axis) {
    this.runs = runs.filter((run) => run.curves[this.chart.key]);
    this.axis = axis;
    this.draw();
  }

  points(run) {
    const curve = run.curves[this.chart.key];
    const found = [];
    for (let n = 0; n < curve.mean.length; n += 1) {
      const x = curve[this.axis][n];
      if (x !== null) found.push({ x, y: curve.mean[n], low: curve.low[n] ?? null, high: curve.high[n] ?? null });
    }
    return found;
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!width) return;
    const curves = this.runs.map((run) => ({ run, points: this.points(run) })).filter((one) => one.points.length);
    this.curves = curves;
    const all = curves.flatMap((one) => one.points);
    this.figure.hidden = !all.length;
    if (!all.length) return;
    const reference = this.chart.reference;
    const xs = all.map((one) => one.x);
    const ys = all.map((one) => one.y);
    if (typeof reference === "number") ys.push(reference);
    let [low, high] = [ys.reduce((a, b) => Math.min(a, b)), ys.reduce((a, b) => Math.max(a, b))];
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    [low, high] = [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
    const first = Math.min(0, xs.reduce((a, b) => Math.min(a, b)));
    const last = xs.reduce((a, b) => Math.max(a, b)) || 1;
    const inner = { width: width - ROOM.left - ROOM.right, height: HEIGHT - ROOM.top - ROOM.bottom };
    const x = (value) => ROOM.left + ((value - first) / (last - first)) * inner.width;
    const y = (value) => ROOM.top + (1 - (Math.min(high, Math.max(low, value)) - low) / (high - low)) * inner.height;
    this.scale = { x, y, first, last, inner };

    const parts = [];
    for (const value of ticks(low, high, 4)) {
      parts.push(draw("line", { x1: ROOM.left, x2: width - ROOM.right, y1: y(value), y2: y(value) }, "rule"));
      const label = draw("text", { x: ROOM.left - 6, y: y(value) + 4, "text-anchor": "end" });
      label.textContent = short(value);
      parts.push(label);
    }
    for (const value of ticks(first, last, width < 260 ? 3 : 4)) {
      const label = draw("text", { x: x(value), y: HEIGHT - 5, "text-anchor": x(value) > width - 24 ? "end" : "middle" });
      label.textContent = this.axis === "seconds" ? duration(value) : short(value);
      parts.push(label);
    }
    if (typeof reference === "number") {
      parts.push(draw("line", { x1: ROOM.left, x2: width - ROOM.right, y1: y(reference), y2: y(reference) }, "reference"));
    }
    for (const { run, points } of curves) {
      const names = `c${run.colour} d${run.colour}`;
      const banded = points.filter((one) => one.low !== null);
      if (banded.length) {
        const over = banded.map((one) => `${x(one.x)},${y(one.high)}`);
        const under = banded.map((one) => `${x(one.x)},${y(one.low)}`).reverse();
        parts.push(draw("polygon", { points: [...over, ...under].join(" ") }, `band c${run.colour}`));
      }
      parts.push(draw("polyline", { points: points.map((one) => `${x(one.x)},${y(one.y)}`).join(" ") }, `line ${names}`));
      if (points.length <= 40) {
        for (const one of points) parts.push(draw("circle", { cx: x(one.x), cy: y(one.y), r: 2.4 }, `dot c${run.colour}`));
      }
    }
    this.cursor = draw("g", {});
    this.svg.replaceChildren(...parts, this.cursor);
    const ends = curves.map(({ run, points }) => `${run.name} ${short(points.at(-1).y)}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.chart.title}, newest: ${ends}. Arrow keys read it point by point.`);
    this.move(this.at);
  }

  move(at) {
    this.at = at;
    if (!this.scale) return;
    const { x, y } = this.scale;
    const parts = [];
    const told = [];
    if (at !== null) parts.push(draw("line", { x1: x(at), x2: x(at), y1: ROOM.top, y2: HEIGHT - ROOM.bottom }, "cursor"));
    for (const { run, points } of this.curves) {
      const near = at === null ? points.at(-1)
        : points.reduce((a, b) => (Math.abs(b.x - at) < Math.abs(a.x - at) ? b : a));
      if (at !== null) parts.push(draw("circle", { cx: x(near.x), cy: y(near.y), r: 4 }, `dot c${run.colour}`));
      const value = make("span", "", `c${run.colour}`);
      value.append(make("i"), this.curves.length > 1 ? `${run.name} ${short(near.y)}` : short(near.y));
      told.push(value);
    }
    const axis = { step: "step ", tokens: "", seconds: "" }[this.axis];
    const place = at === null ? "newest" : `${axis}${this.axis === "seconds" ? duration(at) : short(at)}${this.axis === "tokens" ? " tokens" : ""}`;
    this.cursor.replaceChildren(...parts);
    this.readout.replaceChildren(...told, place);
  }

  point(event) {
    if (!this.scale) return;
    const box = this.svg.getBoundingClientRect();
    const share = (event.clientX - box.left - ROOM.left) / this.scale.inner.width;
    this.nearest(this.scale.first + Math.min(1, Math.max(0, share)) * (this.scale.last - this.scale.first));
  }

  nearest(at) {
    const xs = this.curves.flatMap((one) => one.points.map((point) => point.x));
    this.move(xs.reduce((a, b) => (Math.abs(b - at) < Math.abs(a - at) ? b : a)));
  }

  key(event) {
    const xs = [...new Set(this.curves.flatMap((one) => one.points.map((point) => point.x)))].sort((a, b) => a - b);
    const place = this.at === null ? xs.length - 1 : xs.indexOf(this.at);
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: xs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.move(xs[Math.min(xs.length - 1, Math.max(0, to))]);
  }
}
