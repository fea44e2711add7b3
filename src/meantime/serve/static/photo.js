// The photo: dropped, pasted, chosen or one of the samples.

import { get } from "./api.js";
import { $, make } from "./dom.js";

const LARGEST = 1400; // pixels of the copy that is drawn; the server gets the file itself

export let bitmap = null;

/** `onPhoto({file, name})` is called with what can be shown or null, `onTrouble(message)` with why there is none. */
export function start(onPhoto, onTrouble) {
  const take = async (file, name) => {
    try {
      bitmap = await reduced(file);
    } catch {
      hide();
      onPhoto(null);
      onTrouble(`${name || "That"} is not a picture that can be read. JPEG, PNG, WebP and GIF are.`);
      return;
    }
    show(name);
    onPhoto({ file, name });
  };
  const files = (list) => {
    const file = [...(list ?? [])].find((f) => f.type.startsWith("image/")) ?? list?.[0];
    if (file) take(file, file.name || "photo.png");
  };
  $("file").addEventListener("change", (event) => {
    files(event.target.files);
    event.target.value = ""; // so that the same file can be chosen again
  });
  document.addEventListener("paste", (event) => files(event.clipboardData?.files));
  dropping(files);
  return { samples: () => samples(take, onTrouble) };
}

function dropping(files) {
  let depth = 0; // enter and leave also come from what lies inside
  const mark = (change) => $("drop").classList.toggle("over", (depth = Math.max(0, depth + change)) > 0);
  document.addEventListener("dragenter", () => mark(1));
  document.addEventListener("dragleave", () => mark(-1));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    mark(-depth);
    files(event.dataTransfer?.files);
  });
}

async function samples(take, onTrouble) {
  const { samples: list } = await get("/v1/samples");
  const choose = async ({ name, url }) => {
    try {
      const response = await fetch(url);
      if (!response.ok) throw new Error(response.statusText);
      await take(await response.blob(), `${name}.jpg`);
    } catch {
      onTrouble("The sample cannot be fetched. Is the server still running?");
    }
  };
  $("samples").replaceChildren(...list.map((sample) =>
    make("button", { type: "button", "aria-label": `Sample: ${sample.name}`, title: sample.name, onclick: () => choose(sample) },
      make("img", { src: sample.url, alt: "", loading: "lazy" }))));
}

async function reduced(file) {
  const whole = await createImageBitmap(file); // turned as its EXIF data say
  const scale = LARGEST / Math.max(whole.width, whole.height);
  if (scale >= 1) return whole;
  const resizeWidth = Math.max(1, Math.round(whole.width * scale));
  const resizeHeight = Math.max(1, Math.round(whole.height * scale));
  const small = await createImageBitmap(whole, { resizeWidth, resizeHeight, resizeQuality: "high" });
  whole.close();
  return small;
}

function hide() {
  $("stage").hidden = true;
  $("invite").hidden = false;
}

function show(name) {
  const canvas = $("photo");
  [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  canvas.setAttribute("aria-label", `Photo: ${name}`);
  $("boxes").setAttribute("viewBox", `0 0 ${bitmap.width} ${bitmap.height}`);
  $("boxes").replaceChildren();
  $("stage").hidden = false;
  $("invite").hidden = true;
}
