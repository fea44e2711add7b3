// Filters and sorts what is on the page. Without it everything is there too, the least certain first.
"use strict";

const $ = (id) => document.getElementById(id);
const inOrder = new Intl.Collator("en", { numeric: true }).compare;

const sections = [...document.querySelectorAll("main > section")].map((section) => {
  const boxes = [...section.querySelectorAll(".cards, .tiles, .rows")].map((box) => ({ box, items: itemsOf(box) }));
  const count = section.querySelector(".count");
  return { section, count, total: count.textContent, boxes };
});

function itemsOf(box) {
  return [...box.children].map((element) => {
    const file = element.querySelector(".file");
    return { element, label: element.dataset.label, path: file.title || file.textContent };
  });
}

function filter() {
  const label = $("label").value;
  const words = $("find").value.trim().toLowerCase();
  let any = false;
  for (const { section, count, total, boxes } of sections) {
    let shown = 0;
    for (const { box, items } of boxes) {
      const before = shown;
      for (const { element, label: given, path } of items) {
        const fits = (!label || given === label) && (!words || path.toLowerCase().includes(words));
        element.hidden = !fits;
        shown += fits;
      }
      box.hidden = shown === before;
    }
    section.hidden = shown === 0;
    count.textContent = label || words ? `${shown.toLocaleString("en")} of ${total}` : total;
    any ||= shown > 0;
  }
  $("nothing").hidden = any || sections.length === 0;
  document.querySelector("main").classList.toggle("filtered", Boolean(label || words));
  for (const button of buttons) button.setAttribute("aria-pressed", button.value === label);
}

function sort() {
  const byPath = $("sort").value === "path";
  for (const { boxes } of sections) {
    for (const { box, items } of boxes) {
      const order = byPath ? [...items].sort((a, b) => inOrder(a.path, b.path)) : items;
      const all = document.createDocumentFragment();
      for (const { element } of order) all.append(element);
      box.append(all);
    }
  }
}

// Whoever asks from far down the page wants to see the answer from its beginning.
function show() {
  const top = document.querySelector("main").offsetTop - $("bar").offsetHeight;
  if (scrollY > top) scrollTo(0, top);
}

const buttons = [...document.querySelectorAll(".labels button")];
for (const button of buttons) {
  $("label").append(new Option(button.firstElementChild.textContent, button.value));
  button.disabled = false;
  button.addEventListener("click", () => {
    $("label").value = $("label").value === button.value ? "" : button.value;
    filter();
  });
}
for (const id of ["find", "label"]) $(id).addEventListener("input", () => (filter(), show()));
$("sort").addEventListener("input", () => (sort(), show()));
$("bar").addEventListener("submit", (event) => event.preventDefault());
$("bar").hidden = false;
