// Asking the server, and saying in one sentence what went wrong.

let token = "";
export function useToken(text) {
  token = text;
}
export const hasToken = () => token !== "";

export class Trouble extends Error {
  constructor(message, { wait = 0, needsToken = false } = {}) {
    super(message);
    this.wait = wait; // seconds after which to ask again by itself
    this.needsToken = needsToken;
  }
}

export async function get(address) {
  return ask(address, {});
}

/** The answer with all its details; an aborted request rejects with AbortError. */
export async function classify({ file, name, labels, views }, signal) {
  const form = new FormData();
  form.append("image", file, name);
  form.append("labels", JSON.stringify(labels));
  form.append("views", views);
  form.append("top", labels.length);
  form.append("detail", "true");
  return ask("/v1/classify", { method: "POST", body: form, signal });
}

async function ask(address, options) {
  let response;
  try {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    response = await fetch(address, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("The server cannot be reached. Is it still running?");
  }
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && body) return body;
  throw refusal(response, body?.error?.message);
}

function refusal(response, said) {
  const told = said ? `: ${said}.` : ".";
  switch (response.status) {
    case 401:
      return new Trouble("This server wants a token before it answers.", { needsToken: true });
    case 413:
      return new Trouble(`That is too large for this server${told}`);
    case 429:
    case 503: {
      const wait = Math.min(60, Math.max(1, Number(response.headers.get("Retry-After")) || 2));
      return new Trouble("The server is busy.", { wait });
    }
    default:
      if (response.status >= 500) return new Trouble(`The server has failed (${response.status})${told}`);
      return new Trouble(said ? `${said[0].toUpperCase()}${said.slice(1)}.` : `The server refused this (${response.status}).`);
  }
}
