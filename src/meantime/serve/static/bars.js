// The answer: its name, what plain zero-shot says to it, and both as bars.

import { $, make, percent } from "./dom.js";

const MOST = 6; // names shown

export function draw(answer) {
  const plain = new Map(answer.plain.scores.map(({ label, score }) => [label, score]));
  $("label").textContent = answer.label;
  $("score").textContent = percent(answer.score);
  const verdict = $("verdict");
  const changed = answer.label !== answer.plain.label;
  verdict.textContent = changed ? `plain zero-shot says ${answer.plain.label}` : "plain zero-shot agrees";
  verdict.classList.toggle("changed", changed);

  const shown = answer.scores.slice(0, MOST);
  if (changed && !shown.some(({ label }) => label === answer.plain.label)) {
    shown[shown.length - 1] = answer.scores.find(({ label }) => label === answer.plain.label);
  }
  const rows = shown.map(({ label, score }) => make("tr", {}, make("th", { scope: "row" }, label),
    cell("plain", plain.get(label) ?? 0, label === answer.plain.label),
    cell("ours", score, label === answer.label)));
  const rest = answer.scores.length - shown.length;
  if (rest > 0) rows.push(make("tr", { class: "rest" }, make("td", { colspan: 3 }, `and ${rest} less likely`)));
  $("bars").replaceChildren(...rows);
  $("answer").hidden = false;
}

function cell(kind, share, best) {
  const bar = make("i", { "aria-hidden": "true" });
  bar.style.width = `${100 * share}%`;
  const track = make("span", { class: "track" }, bar);
  return make("td", { class: best ? `${kind} best` : kind }, make("div", {}, track, make("span", { class: "share" }, percent(share))));
}
