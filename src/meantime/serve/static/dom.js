// Small helpers that every part of the page shares.

export const $ = (id) => document.getElementById(id);

/** An element with attributes and children; `on…` attributes are listeners. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A share in words short enough for a label; what is not quite nothing is not called zero. */
export function percent(share) {
  return share > 0 && share < 0.0005 ? "<0.1 %" : `${(100 * share).toFixed(1)} %`;
}
