// Questions to the server. An answer that is no success becomes a Problem with a sentence in it.

import { encoded } from "./ids.js";
import { askForKey, keyOfSession } from "./key.js";
import { parse, stringify } from "./json.js";

const BASE = new URL("v1/", document.baseURI);

/** What went wrong, in a sentence that can be shown. */
export class Problem extends Error {
  constructor(detail, { status = 0, code = "network", title = "No answer" } = {}) {
    super(detail);
    Object.assign(this, { status, code, title });
  }
}

async function problemOf(response) {
  let told = {};
  try {
    told = parse(await response.text());
  } catch {
    // An answer from something between us and the server need not be JSON.
  }
  const detail = typeof told.detail === "string" && told.detail;
  return new Problem(detail || `The server answered with status ${response.status}.`, {
    status: response.status,
    code: told.code ?? "error",
    title: told.title ?? "Something went wrong",
  });
}

async function once(path, { body, signal, headers = {} }) {
  const key = keyOfSession();
  const sent = { accept: "application/json", ...headers };
  if (key) sent.authorization = `Bearer ${key}`;
  if (body !== undefined) sent["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(path, BASE), {
      method: body === undefined ? "GET" : "POST",
      headers: sent,
      body: body === undefined ? undefined : stringify(body),
      signal,
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. It may be stopped, or the network is down.");
  }
  if (response.status === 401) return { refused: key };
  if (!response.ok) throw await problemOf(response);
  const text = await response.text();
  signal?.throwIfAborted();
  try {
    return { answer: parse(text) };
  } catch {
    throw new Problem("The answer of the server cannot be read.", { code: "unreadable" });
  }
}

async function ask(path, options = {}) {
  for (;;) {
    const { answer, refused } = await once(path, options);
    if (refused === undefined) return answer;
    if (!(await askForKey(refused))) {
      const how = { status: 401, code: "unauthorized", title: "A key is needed" };
      throw new Problem("This server answers only to those who have a key.", how);
    }
    options.signal?.throwIfAborted();
  }
}

/** Write the part of an address after the question mark, without what is not given. */
function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return given.map(([name, value]) => `${name}=${encoded(value)}`).join("&");
}

/** A path cannot hold the ids "." and "..", which browsers resolve; those are searched for. */
async function entry(side, id, signal) {
  if (id !== "." && id !== "..") return ask(`${side}/${encoded(id)}`, { signal });
  const { found } = await ask(`${side}?${query({ query: id, limit: 20 })}`, { signal });
  const hit = found.find((one) => one.id === id);
  if (hit) return hit;
  throw new Problem(`Nothing is known of ${id}.`, {
    status: 404,
    code: "not_found",
    title: "Not Found",
  });
}

export const recommend = (body, signal) => ask("recommend", { body, signal });
export const similar = (body, signal) => ask("similar", { body, signal });
export const explain = (body, signal) => ask("explain", { body, signal });
export const item = (id, signal) => entry("items", id, signal);
export const user = (id, signal) => entry("users", id, signal);
export const search = (side, text, limit, signal) =>
  ask(`${side}?${query({ query: text, limit })}`, { signal });
export const historyOf = (id, limit, signal) =>
  ask(`history?${query({ user: id, limit })}`, { signal });
export const categories = (signal) => ask("categories", { signal });
export const popular = (k, signal) => ask(`popular?${query({ k })}`, { signal });
export const latest = (k, signal) => ask(`latest?${query({ k })}`, { signal });
export const model = (signal) => ask("model", { signal });
export const service = (signal) => ask("service", { signal });

/** Store one event; it is stored once, however often the network makes us send it. */
export function feedback(event, signal) {
  const headers = { "idempotency-key": random() };
  return ask("feedback", { body: { events: [event] }, signal, headers });
}

function random() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
