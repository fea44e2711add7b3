// The answer as JSON, and the question as curl or Python.

import { hasToken } from "./api.js";
import { $ } from "./dom.js";

export function start(current) {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const text = WRITERS[button.dataset.copy](current());
      $("code").textContent = text;
      $("code").hidden = false;
      $("copied").textContent = (await copied(text)) ? "Copied." : "Select it below to copy it.";
    });
  }
}

export function forget() {
  $("code").hidden = true;
  $("copied").textContent = "";
}

const WRITERS = {
  json: ({ answer }) => JSON.stringify(answer, (_, value) => (typeof value === "number" ? Number(value.toPrecision(6)) : value), 1)
    .replace(/\[\s+([^[\]{}]*?)\s+\]/g, (_, inside) => `[${inside.replace(/\s*\n\s*/g, " ")}]`), // lists of numbers in a line
  curl: ({ name, labels, views }) => [
    `curl ${location.origin}/v1/classify`,
    ...(hasToken() ? ['-H "Authorization: Bearer $TOKEN"'] : []), // the token itself is not for a clipboard
    `-F ${shell(`image=@"${name.replace(/["\\]/g, "\\$&")}"`)}`, // in quotes, or curl ends a name at ; and ,
    `--form-string ${shell(`labels=${JSON.stringify(labels)}`)}`,
    `-F views=${views}`,
  ].join(" \\\n  "),
  python: ({ answer, name, labels, views }) => {
    const elsewhere = answer.model === "embedded" ? "" : `, encoder=${python(location.origin)}`;
    return [
      "import meantime as mt",
      "",
      `clf = mt.Classifier([${labels.map(python).join(", ")}]${elsewhere}, views=${views})`,
      `p = clf(${python(name)})`,
      "print(p.label, p.score)",
    ].join("\n");
  },
};

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const python = (text) => JSON.stringify(text); // a JSON string is a Python string

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text); // only there on https and localhost
    return true;
  } catch {
    return false;
  }
}
