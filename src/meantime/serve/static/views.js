// The views: crops drawn from the photo, shaded by inlierness, and their boxes on the photo.

import { $, make, makeSvg } from "./dom.js";

const SIDE = 96; // pixels of a crop's canvas
const BOXES = 3; // of the most and of the least trusted

/** `onLook(i)` is called with the view that is pointed at, or null. */
export function draw(answer, bitmap, onLook) {
  const { inlierness, boxes, flips } = answer;
  const count = inlierness.length;
  const order = inlierness.map((_, i) => i).sort((a, b) => inlierness[b] - inlierness[a]);
  const most = order.slice(0, BOXES).filter((i) => inlierness[i] * count > 1.01);
  const least = order.slice(-BOXES).filter((i) => inlierness[i] * count < 0.5);
  const standing = [...least.map((i) => box(boxes[i], bitmap, "doubted")), ...most.reverse().map((i) => box(boxes[i], bitmap, "trusted"))];
  $("boxes").replaceChildren(...standing);
  $("key").hidden = false;

  const look = (i) => {
    $("boxes").replaceChildren(...(i === null ? standing : [box(boxes[i], bitmap, "looked")]));
    $("about").textContent = i === null ? ABOUT : `${describe(i, answer)}.`;
    onLook(i);
  };
  const shade = shades(inlierness);
  const buttons = order.map((i, place) => {
    const button = make("button", {
      type: "button", tabindex: place ? -1 : 0, "aria-label": describe(i, answer),
      onpointerenter: () => look(i), onfocus: () => look(i), onpointerleave: () => look(null), onblur: () => look(null),
    }, crop(bitmap, boxes[i], flips[i]));
    button.style.setProperty("--t", shade[i].toFixed(3));
    return button;
  });
  const grid = $("grid");
  grid.replaceChildren(...buttons);
  grid.onkeydown = (event) => walk(event, buttons);
  $("about").textContent = ABOUT;
}

const ABOUT = "Point at one, or walk with the arrow keys, to see where it is.";

function describe(i, { inlierness, flips }) {
  const kind = i === 0 ? "The whole photo" : flips[i] ? `Crop ${i}, mirrored` : `Crop ${i}`;
  const times = inlierness[i] * inlierness.length;
  const trust = times < 0.01 ? "trusted hardly at all" : `trusted ${times.toPrecision(2)} times the average`;
  return `${kind}: ${trust}`;
}

/** Inlierness falls off by orders of magnitude: the root keeps the middle apart from the bottom. */
export function shades(inlierness) {
  const greatest = Math.max(...inlierness);
  return inlierness.map((y) => (greatest > 0 ? Math.sqrt(y / greatest) : 0));
}

function crop(bitmap, [left, top, right, bottom], flip) {
  const canvas = make("canvas", { width: SIDE, height: SIDE });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  if (flip) {
    pen.translate(SIDE, 0);
    pen.scale(-1, 1);
  }
  const { width: w, height: h } = bitmap;
  pen.drawImage(bitmap, left * w, top * h, Math.max(1, (right - left) * w), Math.max(1, (bottom - top) * h), 0, 0, SIDE, SIDE);
  return canvas;
}

function box([left, top, right, bottom], { width: w, height: h }, kind) {
  const area = { x: left * w, y: top * h, width: (right - left) * w, height: (bottom - top) * h, rx: w / 200 };
  // A dark line below the bright one is seen on any photo.
  return makeSvg("g", { class: kind }, makeSvg("rect", { class: "halo", ...area }), makeSvg("rect", area));
}

/** One stop of the Tab key for the whole grid; arrows walk in it. */
function walk(event, buttons) {
  const at = buttons.indexOf(document.activeElement);
  const columns = buttons.filter((b) => b.offsetTop === buttons[0].offsetTop).length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  const to = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : at + step;
  if (at < 0 || !(to >= 0 && to < buttons.length)) return;
  event.preventDefault();
  buttons[at].tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
}
