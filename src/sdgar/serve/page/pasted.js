// Ids that someone pastes, and the items that they name.

import * as api from "./api.js";
import { fresh, h } from "./dom.js";
import { several } from "./words.js";

const MOST = 200;
const AT_ONCE = 6;
const PIECES = /"(?:[^"\\]|\\.)*"|[^,;\t\n\r]+/g;

/** Read ids from text: with commas, semicolons, tabs or new lines between, or as JSON. */
export function pasted(text) {
  const inside = text.trim().replace(/^\[([\s\S]*)\]$/, "$1");
  const found = (inside.match(PIECES) ?? []).map((piece) => {
    const word = piece.trim();
    if (!/^".*"$/s.test(word)) return word;
    try {
      return JSON.parse(word);
    } catch {
      return word;
    }
  });
  return [...new Set(found.filter(Boolean))];
}

/**
 * Look items up, a few at a time. The server tells each id as the model has it, so that "17" becomes
 * the integer 17 if the ids of the model are integers.
 */
export async function resolved(ids, signal) {
  const found = new Array(ids.length).fill(null);
  const missing = ids.slice(MOST).map(String);
  let next = 0;
  const worker = async () => {
    while (next < Math.min(ids.length, MOST)) {
      const at = next++;
      try {
        found[at] = await api.item(ids[at], signal);
      } catch (problem) {
        if (problem.status !== 404) throw problem;
        missing.push(String(ids[at]));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, ids.length) }, worker));
  return { found, entries: found.filter(Boolean), missing };
}

/** Make the field for pasted ids. */
export function pasteBox(taken) {
  const id = fresh("paste");
  const field = h("textarea", { id, rows: "4", placeholder: "17, 42, 108", spellcheck: "false" });
  const report = h("p", { class: "small", role: "status" });
  const button = h("button", { type: "button", class: "button" }, "Add these");
  button.addEventListener("click", async () => {
    const ids = pasted(field.value);
    if (!ids.length) return (report.textContent = "There are no ids in the field.");
    button.disabled = true;
    report.textContent = `Looking for ${several(ids.length, "item")} …`;
    try {
      await taken(ids, (words) => (report.textContent = words));
      field.value = "";
    } catch (problem) {
      if (problem.name !== "AbortError") report.textContent = problem.message;
    } finally {
      button.disabled = false;
    }
    return null;
  });
  return h(
    "details",
    { class: "paste" },
    h("summary", null, "Paste several"),
    h(
      "label",
      { for: id },
      "Ids, one on a line or with commas between; in quotes if an id has a comma",
    ),
    field,
    button,
    report,
  );
}
