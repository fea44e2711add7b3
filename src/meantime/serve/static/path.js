// The views on their two main axes, and the way of the mode among them.

import { $, makeSvg } from "./dom.js";
import { shades } from "./views.js";

const [WIDTH, HEIGHT, EDGE] = [320, 250, 18];
let dots = [];

export function draw({ points, path, inlierness }) {
  const place = fit([...points, ...path]);
  const shade = shades(inlierness);
  dots = points.map((point, i) => {
    const [cx, cy] = place(point);
    const dot = makeSvg("circle", { class: "dot", cx, cy, r: 2.5 + 2.5 * shade[i] });
    dot.style.setProperty("--t", shade[i].toFixed(3));
    return dot;
  });
  const way = path.map(place);
  const parts = [...dots];
  if (way.length) {
    const [end, begin] = [way.at(-1), way[0]];
    if (way.length > 1) parts.push(makeSvg("polyline", { class: "way", points: way.map((p) => p.join(",")).join(" ") }));
    parts.push(makeSvg("circle", { class: "begin", cx: begin[0], cy: begin[1], r: 4.5 }));
    parts.push(makeSvg("path", { class: "mode", d: `M${end[0]} ${end[1] - 8}l8 8-8 8-8-8z` }));
    parts.push(name("start", begin, end), name("mode", end, begin));
  }
  $("path").replaceChildren(...parts);
}

/** Make the dot of a view stand out; null lets all be alike again. */
export function look(i) {
  dots.forEach((dot, j) => dot.classList.toggle("looked", i === j));
  if (i !== null) dots[i].parentNode?.insertBefore(dots[i], dots[i].parentNode.querySelector(".way"));
}

/** A name beside a point, on the side that is away from another one; above or below it where the two are close. */
function name(text, [x, y], [otherX, otherY]) {
  const [close, upper] = [Math.hypot(x - otherX, y - otherY) < 60, text === "mode" ? y <= otherY : y < otherY];
  if (close) return makeSvg("text", { x: Math.min(WIDTH - 24, Math.max(24, x)), y: upper ? y - 13 : y + 21, "text-anchor": "middle" }, text);
  const left = x < otherX ? x > 60 : x > WIDTH - 60;
  return makeSvg("text", { x: left ? x - 12 : x + 12, y: y + 4, "text-anchor": left ? "end" : "start" }, text);
}

function fit(all) {
  const [xs, ys] = [all.map((p) => p[0]), all.map((p) => p[1])];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((WIDTH - 2 * EDGE) / (right - left || 1), (HEIGHT - 2 * EDGE) / (high - low || 1));
  const [x0, y0] = [WIDTH / 2 - (scale * (left + right)) / 2, HEIGHT / 2 + (scale * (low + high)) / 2];
  return ([x, y]) => [Number((x0 + scale * x).toFixed(1)), Number((y0 - scale * y).toFixed(1))];
}
