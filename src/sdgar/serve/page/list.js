// A ranked list: rows keep their place in the page when the order changes, glide to the new one,
// and say by how much they moved.

import { h, icon, unseen } from "./dom.js";
import { flip } from "./flip.js";
import { keyOf, linkTo } from "./ids.js";
import { picture } from "./picture.js";
import { why } from "./reasons.js";
import { number, several, titleOf } from "./words.js";

/** Show how far an entry moved since the last list. */
function moved(before, now) {
  if (before === now) return null;
  if (before === undefined) return h("span", { class: "moved new" }, "new");
  const by = Math.abs(before - now);
  const [sign, word] = before > now ? ["up", "up"] : ["down", "down"];
  return h(
    "span",
    { class: `moved ${sign}` },
    icon(sign),
    String(by),
    unseen(` ${by === 1 ? "place" : "places"} ${word}`),
  );
}

const tags = (entry) => [
  ...(entry.categories ?? []).map((name) => h("span", { class: "tag" }, name)),
  ...(entry.rules ?? []).map((rule) => h("span", { class: "tag rule" }, rule)),
];

/** Draw the name of an entry, and what stands under it. */
function named(entry) {
  return h(
    "div",
    { class: "entry-name" },
    h("a", { href: linkTo("item", entry.item) }, titleOf(entry)),
    h(
      "div",
      { class: "tags" },
      entry.name && h("span", { class: "id" }, String(entry.item)),
      tags(entry),
    ),
  );
}

/**
 * Make a ranked list. ``buttons(entry)`` gives the buttons of an entry, ``explain(item)`` asks for
 * its reasons, and ``pointed(entry or null)`` is told which entry one looks at.
 */
export function rankedList({ label, buttons = () => [], explain, pointed = () => {} }) {
  const list = h("ol", { class: "ranked", "aria-label": label });
  const entries = new Map();
  let rows = new Map();
  let ranks = null;

  function fresh(key) {
    const element = h("li", { class: "entry", data: { key } });
    for (const event of ["pointerenter", "focusin"]) {
      element.addEventListener(event, () => pointed(entries.get(key)));
    }
    for (const event of ["pointerleave", "focusout"]) {
      element.addEventListener(event, () => pointed(null));
    }
    return element;
  }

  function row(entry, badge) {
    const element = rows.get(keyOf(entry.item)) ?? fresh(keyOf(entry.item));
    const opened = element.querySelector("details.why")?.open ?? false;
    const focus = element.contains(document.activeElement)
      ? [...element.querySelectorAll("a, button, summary")].indexOf(document.activeElement)
      : -1;
    const reasons = entry.because?.length ? why(entry, explain) : null;
    element.replaceChildren(
      h("span", { class: "rank" }, String(entry.rank), badge),
      picture(entry),
      named(entry),
      h("span", { class: "score", title: "score" }, unseen("score "), number(entry.score)),
      h("div", { class: "buttons" }, buttons(entry)),
      ...[reasons].filter(Boolean),
    );
    if (reasons && opened) reasons.open = true;
    if (focus >= 0)
      requestAnimationFrame(() => element.querySelectorAll("a, button, summary")[focus]?.focus());
    return element;
  }

  /** Show these entries; the first time they only appear. Says what changed in a sentence. */
  function show(items) {
    const now = new Map(items.map((entry) => [keyOf(entry.item), entry.rank]));
    entries.clear();
    for (const entry of items) entries.set(keyOf(entry.item), entry);
    const old = ranks;
    const had = list.contains(document.activeElement);
    let changed = 0;
    flip(list, () => {
      const next = new Map();
      for (const entry of items) {
        const key = keyOf(entry.item);
        const badge = old && moved(old.get(key), entry.rank);
        if (badge) changed += 1;
        next.set(key, row(entry, badge));
      }
      // Rows that stay are moved and not put in anew, so that none of them loses the focus.
      for (const [key, element] of rows) if (!next.has(key)) element.remove();
      let at = list.firstElementChild;
      for (const element of next.values()) {
        if (element === at) at = at.nextElementSibling;
        else list.insertBefore(element, at);
      }
      rows = next;
    });
    ranks = now;
    if (had && !list.contains(document.activeElement)) {
      requestAnimationFrame(() => {
        if (document.activeElement === document.body) list.querySelector("a, button")?.focus();
      });
    }
    if (!old) return `${several(items.length, "item")} listed.`;
    const gone = [...old.keys()].filter((key) => !now.has(key)).length;
    if (!changed && !gone) return "The list stays as it is.";
    return `${several(changed, "entry", "entries")} moved or new, ${gone} left out.`;
  }

  /** Forget the last list, so that the next one is not compared with it. */
  function forget() {
    ranks = null;
    rows = new Map();
    list.replaceChildren();
  }

  return { list, show, forget };
}
