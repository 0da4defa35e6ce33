// The picture of an item or a user: the store's, or one that is drawn from the id.

import { h, s } from "./dom.js";
import { keyOf } from "./ids.js";
import { titleOf } from "./words.js";

/** Mix the characters of a text into a number that is always the same for it (FNV-1a). */
function hash(text) {
  let value = 0x811c9dc5;
  for (const letter of text) value = Math.imul(value ^ letter.codePointAt(0), 0x01000193) >>> 0;
  // Ids that differ by one character only shall not look alike either.
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}

/** Tell the first letters of the two words that a name begins with, articles left out. */
function initials(name) {
  const words = name.replace(/^(the|an?)\s+/i, "").match(/[\p{L}\p{N}]+/gu) ?? [];
  const digits = words.length > 1 ? words.find((word) => /^\d+$/.test(word)) : undefined;
  if (digits) return digits.replace(/^0+(?=\d)/, "").slice(-3);
  if (words.length === 1)
    return Array.from(words[0])
      .slice(0, /^\d+$/.test(words[0]) ? 3 : 1)
      .join("");
  return (
    words
      .slice(0, 2)
      .map((word) => Array.from(word)[0])
      .join("") || "·"
  );
}

const SHAPES = [
  () => [s("circle", { cx: 40, cy: 10, r: 26 }), s("circle", { cx: 6, cy: 44, r: 16 })],
  () => [s("path", { d: "M0 48V22Q14 10 26 24T48 18V48Z" })],
  () => [s("path", { d: "M-4 40 22 6 30 26 40 16 56 44V52H-4Z" })],
  () => [s("path", { d: "M0 30 30 0H48V12L12 48H0Z" })],
  () => [s("path", { d: "M24 -4A28 28 0 0 1 24 52Z" })],
  () => [s("path", { d: "M0 0H24V24H48V48H24V24H0Z" })],
];

/** Draw a picture by the colour and the form that belong to an id. */
function drawn(one, id) {
  const number = hash(keyOf(id));
  const hue = number % 360;
  const shape = SHAPES[(number >>> 9) % SHAPES.length]();
  return s(
    "svg",
    {
      viewBox: "0 0 48 48",
      "aria-hidden": "true",
      focusable: "false",
      preserveAspectRatio: "xMidYMid slice",
    },
    s("rect", { width: 48, height: 48, fill: `hsl(${hue} 38% 78%)` }),
    s("g", { fill: `hsl(${(hue + 24) % 360} 42% 66%)` }, shape),
    s("text", { x: 24, y: 25, fill: `hsl(${hue} 60% 17%)` }, initials(titleOf(one)).toUpperCase()),
  );
}

/** Tell whether a picture's address is one that a page may load. */
function address(text) {
  try {
    const { protocol, href } = new URL(text, document.baseURI);
    if (protocol === "data:") return /^data:image\//i.test(href) ? href : null;
    return protocol === "https:" || protocol === "http:" ? href : null;
  } catch {
    return null;
  }
}

/** Show the picture of an item or a user; it says nothing to screen readers, the name stands by. */
export function picture(one, { round = false, large = false } = {}) {
  const id = one.item ?? one.id ?? one.user;
  const frame = h("span", { class: `picture${round ? " round" : ""}${large ? " large" : ""}` });
  const source = one.picture ? address(one.picture) : null;
  if (source === null) {
    frame.append(drawn(one, id));
    return frame;
  }
  const image = h("img", {
    src: source,
    alt: "",
    loading: source.startsWith("data:") ? "eager" : "lazy",
    decoding: "async",
    referrerpolicy: "no-referrer",
    onerror: () => frame.replaceChildren(drawn(one, id)),
  });
  frame.append(image);
  return frame;
}
