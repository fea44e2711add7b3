// The page: whenever photo, names or number of views change, ask the server and draw the answer.

import * as bars from "./bars.js";
import * as chips from "./chips.js";
import * as copy from "./copy.js";
import * as path from "./path.js";
import * as photo from "./photo.js";
import * as views from "./views.js";
import { classify, get, Trouble, useToken } from "./api.js";
import { $, make, percent } from "./dom.js";

const NAMES = ["tabby cat", "tiger", "espresso", "bowl of soup", "rocket", "airplane", "daisy", "sunflower", "palace", "castle"];
const COUNTS = [1, 2, 4, 8, 16, 32, 64, 128];
const PAUSE = 350; // milliseconds without a change before the server is asked

let chosen = null; // {file, name}
let shown = null; // {answer, name, labels, views}
let running = new AbortController();
let timer = 0;

const plural = (n) => (n === 1 ? "1 view" : `${n} views`);
const count = () => COUNTS[Number($("views").value)];

function later(wait = PAUSE) {
  clearTimeout(timer);
  running.abort();
  timer = setTimeout(ask, wait);
}

async function ask() {
  const labels = chips.current();
  if (!chosen) return say("");
  if (labels.length < 2) return complain("Two names at least, please: what is it, and what might it be instead?");
  const asked = { ...chosen, labels, views: count() };
  const mine = (running = new AbortController());
  say(`Looking ${asked.views === 1 ? "once" : `${asked.views} times`} …`, true);
  try {
    const answer = await classify(asked, mine.signal);
    if (mine.signal.aborted) return;
    shown = { answer, name: asked.name, labels, views: asked.views };
    draw(answer);
  } catch (error) {
    if (error.name === "AbortError" || mine.signal.aborted) return;
    fail(error);
  }
}

function draw(answer) {
  complain("");
  say(`${plural(answer.views)}, ${(answer.milliseconds / 1000).toFixed(1)} s`);
  // Seen below as the headline; here it is read out
  $("status").prepend(make("span", { class: "quiet" }, `${answer.label}, ${percent(answer.score)}. `));
  bars.draw(answer);
  views.draw(answer, photo.bitmap, path.look);
  path.draw(answer);
  copy.forget();
  $("why").hidden = false;
}

function fail(error) {
  if (!(error instanceof Trouble)) {
    complain("Something on this page failed. Loading it again may help.");
    throw error;
  }
  complain(error.message, error.wait);
  $("gate").hidden = !error.needsToken;
  if (error.needsToken) $("token").focus();
}

/** Say what is wrong, and try again after `wait` seconds where the server told when; "" takes it back. */
function complain(message, wait = 0) {
  clearTimeout(timer);
  $("trouble").hidden = !message;
  document.body.classList.toggle("troubled", message !== "");
  $("problem").textContent = message;
  $("again").hidden = !chosen;
  if (message) say("");
  countDown(wait);
}

/** Stands outside the alert, which would be read out again every second. */
function countDown(wait) {
  $("countdown").textContent = wait ? `Trying again in ${wait} s …` : "";
  if (wait) timer = setTimeout(wait > 1 ? () => countDown(wait - 1) : ask, 1000);
}

function say(text, busy = false) {
  $("status").textContent = text;
  document.body.classList.toggle("busy", busy);
}

/** Take another photo, or none: what was answered belongs to the one before. */
function take(picture) {
  chosen = picture;
  shown = null;
  clearTimeout(timer);
  running.abort();
  for (const id of ["answer", "why", "key"]) $(id).hidden = true;
  complain("");
}

function showCount() {
  $("count").textContent = count();
  $("views").setAttribute("aria-valuetext", plural(count()));
}

const pictures = photo.start(
  (picture) => {
    take(picture);
    if (!picture) return;
    $("intro").hidden = true;
    later(0);
  },
  (message) => complain(message),
);

async function greet() {
  try {
    const [{ models }] = await Promise.all([get("/v1/models"), pictures.samples()]);
    $("model").textContent = `model: ${models.map(({ name }) => name).join(", ")}`;
    $("gate").hidden = true;
  } catch (error) {
    fail(error);
  }
}

chips.start(NAMES, () => later());
copy.start(() => shown);
$("views").addEventListener("input", () => {
  showCount();
  later();
});
$("again").addEventListener("click", () => later(0));
$("gate").addEventListener("submit", async (event) => {
  event.preventDefault();
  useToken($("token").value.trim());
  complain("");
  await greet();
  later(0);
});
showCount();
greet();
