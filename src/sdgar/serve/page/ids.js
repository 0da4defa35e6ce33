// Ids of users and items. An id is a text or an integer, and 17 is another id than "17": wherever
// an id is written as text, its type can be read from it again.

/** Tell the integer of a text of digits, as a number where that is exact. */
function integer(text) {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

/** Spell an id so that its type can be told: an integer plainly, a text like it in quotes. */
export function spelled(id) {
  if (typeof id !== "string") return String(id);
  return /^-?\d+$/.test(id) || id.startsWith('"') ? JSON.stringify(id) : id;
}

/** Read an id from its spelling; null if there is none. */
export function unspelled(text) {
  if (/^-?\d+$/.test(text)) return integer(text);
  if (!text.startsWith('"')) return text || null;
  try {
    const id = JSON.parse(text);
    return typeof id === "string" && id ? id : null;
  } catch {
    return text;
  }
}

/** Name an id in a table of the page, where types must not be mixed up. */
export const keyOf = (id) => `${typeof id === "string" ? "t" : "i"}:${id}`;

/** Tell whether two ids are one. */
export const same = (a, b) => keyOf(a) === keyOf(b);

/** Encode any text for an address; half characters, which addresses cannot hold, are replaced. */
export function encoded(text) {
  return encodeURIComponent(String(text).replace(/\p{Surrogate}/gu, "\ufffd"));
}

/** Write the address of a user or an item on this page. */
export const linkTo = (what, id) => `#/${what}/${encoded(spelled(id))}`;

/** Write the address of the trial with these items as the history. */
export function linkToTrial(ids) {
  return `#/try${ids.length ? "?" : ""}${ids.map((id) => `i=${encoded(spelled(id))}`).join("&")}`;
}
