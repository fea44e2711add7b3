// The names as chips: typed, pasted as a list, taken away one by one.

import { $, make } from "./dom.js";

export const MOST = 1000;
const names = [];
let changed = () => {};

export function start(initial, onChange) {
  add(initial);
  changed = onChange;
  const input = $("names");
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // an Enter that ends a word of an input method
    if (event.key === "Enter" || event.key === ",") {
      event.preventDefault();
      take(input);
    } else if (event.key === "Backspace" && input.value === "" && names.length) {
      remove(names.at(-1));
    }
  });
  input.addEventListener("input", () => input.value.includes(",") && take(input)); // keyboards of phones
  input.addEventListener("blur", () => take(input));
  input.addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text") ?? "";
    if (!/[,\n]/.test(text)) return;
    event.preventDefault();
    add(text.split(/[,\n]/));
  });
  $("chips").addEventListener("click", (event) => event.target === $("chips") && input.focus());
}

export const current = () => [...names];

function take(input) {
  if (!input.value.trim()) return;
  add(input.value.split(","));
  input.value = "";
}

function add(texts) {
  const fresh = texts.map((text) => text.trim().slice(0, 200)).filter((text) => text && !names.includes(text));
  names.push(...new Set(fresh));
  names.length = Math.min(names.length, MOST);
  if (fresh.length) update();
}

function remove(name) {
  names.splice(names.indexOf(name), 1);
  update();
  $("names").focus();
}

function update() {
  $("list").replaceChildren(...names.map((name) => make("li", {}, make("span", {}, name),
    make("button", { type: "button", "aria-label": `Remove ${name}`, title: "remove", onclick: () => remove(name) }, "×"))));
  changed();
}
