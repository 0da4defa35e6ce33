// A history that one puts together: every change is answered by a new list.

import * as api from "./api.js";
import { about } from "./about.js";
import { combobox } from "./combobox.js";
import { dialsFrom, dialsInto } from "./dials.js";
import { h, icon, unseen } from "./dom.js";
import { flip } from "./flip.js";
import { keyOf, linkTo, same, spelled, unspelled } from "./ids.js";
import { bones, panel } from "./panel.js";
import { pasteBox, resolved } from "./pasted.js";
import { picture } from "./picture.js";
import { fill, nothing, say, skeleton } from "./say.js";
import { listed, several, titleOf } from "./words.js";

const known = new Map(); // what is known of items, for as long as the page is open
const remember = (entry) =>
  known.set(keyOf(entry.item ?? entry.id), { ...entry, id: entry.item ?? entry.id });
const told = (id) => known.get(keyOf(id)) ?? { id };

/** Draw the page. */
export async function trial(place, route, signal) {
  document.title = "Try a history · sdgar";
  let items = route.parameters
    .getAll("i")
    .map(unspelled)
    .filter((id) => id !== null);
  items = items.filter((id, at) => items.findIndex((one) => same(one, id)) === at);
  const before = [];
  let unknown = new Set();
  const rows = new Map();

  const list = h("ul", { class: "history own", "aria-label": "The history" });
  const number = h("span", { class: "small" });
  const undo = h(
    "button",
    { type: "button", class: "button", disabled: true },
    icon("undo"),
    "Undo",
  );
  const clear = h("button", { type: "button", class: "button", disabled: true }, "Clear");
  const begin = h("div");
  const search = combobox({
    label: "Add an item",
    placeholder: "Add an item by name or id",
    sides: ["items"],
    stays: true,
    signal,
    taken: (_, entry) => {
      remember(entry);
      add([entry.id], titleOf(entry));
    },
  });

  function rowOf(id) {
    const key = keyOf(id);
    const entry = told(id);
    const element = rows.get(key) ?? h("li", { class: "past", data: { key } });
    rows.set(key, element);
    const had = element.contains(document.activeElement);
    const remove = h(
      "button",
      {
        type: "button",
        class: "round-button",
        title: "Remove",
        onclick: () => drop(id),
        onkeydown: (event) => {
          if (event.key === "Delete" || event.key === "Backspace") {
            event.preventDefault();
            drop(id);
          }
        },
      },
      icon("dislike"),
      unseen(`Remove ${titleOf(entry)}`),
    );
    const warning = unknown.has(key)
      ? [h("span", { class: "tag warn" }, "unknown to the model")]
      : [];
    const link = h("a", { href: linkTo("item", id) }, titleOf(entry));
    element.replaceChildren(picture(entry), link, ...warning, remove);
    if (had) remove.focus();
    return element;
  }

  function draw() {
    flip(list, () => {
      const keys = new Set(items.map(keyOf));
      for (const key of rows.keys()) if (!keys.has(key)) rows.delete(key);
      list.replaceChildren(...items.map(rowOf));
    });
    list.hidden = !items.length;
    number.textContent = items.length ? several(items.length, "item") : "empty";
    undo.disabled = !before.length;
    clear.disabled = !items.length;
  }

  /** Take a new history, keep the old one for undo, and ask for its list. */
  function become(next, words) {
    before.push(items);
    settle(next, words);
  }

  function settle(next, words) {
    items = next;
    route.rewrite((parameters) => {
      parameters.delete("i");
      for (const id of items) parameters.append("i", spelled(id));
    });
    draw();
    if (words) say(words);
    ask();
  }

  function ask() {
    if (items.length) recommended?.refresh();
    else recommended?.instead(start());
  }

  function add(ids, words) {
    const next = ids.filter((id) => !items.some((one) => same(one, id)));
    if (next.length) become([...items, ...next], `Added ${words}.`);
    else say(`${words} is there already.`);
  }

  function drop(id) {
    const at = items.findIndex((one) => same(one, id));
    become(
      items.filter((_, n) => n !== at),
      `Removed ${titleOf(told(id))}. Undo brings it back.`,
    );
    const next = list.children[Math.min(at, list.children.length - 1)]?.querySelector("button");
    (next ?? search.input).focus();
  }

  function back() {
    if (!before.length) return;
    settle(before.pop(), "Undone.");
    if (undo.disabled) search.input.focus();
  }

  undo.addEventListener("click", back);
  clear.addEventListener("click", () => {
    become([], "The history is empty. Undo brings it back.");
    undo.focus();
  });
  document.addEventListener(
    "keydown",
    (event) => {
      const writing = event.target.matches?.("textarea, input[type=text]") && event.target.value;
      if (
        (event.ctrlKey || event.metaKey) &&
        !event.shiftKey &&
        event.key.toLowerCase() === "z" &&
        !writing
      ) {
        event.preventDefault();
        back();
      }
    },
    { signal },
  );

  /** Offer some items to begin with. */
  function start() {
    const place = h("div");
    fill(
      place,
      () => skeleton(6, "tile"),
      () => api.popular(12, signal),
      (answer) => [
        nothing(
          "Begin with something you know",
          "Click an item, search for one, or paste ids. The list follows at once.",
        ),
        h(
          "ul",
          { class: "tiles" },
          answer.items.map((entry) =>
            h(
              "li",
              null,
              h(
                "button",
                {
                  type: "button",
                  class: "tile",
                  onclick: () => {
                    remember(entry);
                    add([entry.item], titleOf(entry));
                    search.input.focus();
                  },
                },
                picture(entry, { large: true }),
                h("span", { class: "tile-name" }, titleOf(entry)),
                unseen("Add to the history"),
              ),
            ),
          ),
        ),
      ],
      signal,
    );
    return place;
  }

  /** Mark what the model does not know, and what speaks for the entry one looks at. */
  function answered(answer) {
    unknown = new Set((answer.unknown?.items ?? []).map(keyOf));
    for (const id of items) {
      const warned = rows.get(keyOf(id))?.querySelector(".warn") !== null;
      if (warned !== unknown.has(keyOf(id))) rowOf(id);
    }
  }

  function pointed(entry) {
    const wanted = new Set((entry?.because ?? []).map((reason) => keyOf(reason.item)));
    for (const [key, row] of rows) row.classList.toggle("speaks", wanted.has(key));
  }

  const paste = pasteBox(async (ids, report) => {
    const { entries, missing } = await resolved(ids, signal);
    entries.forEach(remember);
    if (entries.length)
      add(
        entries.map((one) => one.id),
        several(entries.length, "item"),
      );
    report(
      missing.length
        ? `Not found: ${listed(missing.slice(0, 5))}${missing.length > 5 ? ` and ${missing.length - 5} more` : ""}.`
        : `${several(entries.length, "item")} taken.`,
    );
  });
  const side = h(
    "section",
    { class: "side", "aria-labelledby": "own-title" },
    h("div", { class: "side-head" }, h("h2", { id: "own-title" }, "The history"), number),
    search.root,
    list,
    begin,
    h("div", { class: "row-of-buttons" }, undo, clear),
    paste,
  );
  const columns = h("div", { class: "columns" }, side, bones("Recommended"));
  place.replaceChildren(
    h(
      "header",
      { class: "who" },
      h(
        "div",
        null,
        h("h1", { tabindex: "-1" }, "Try a history"),
        h(
          "p",
          { class: "lead" },
          "What would someone be recommended who likes these items? Nothing is stored.",
        ),
      ),
    ),
    columns,
  );
  draw();
  const missing = items.filter((id) => !known.has(keyOf(id)));
  resolved(missing, signal).then(
    ({ found }) => {
      found.forEach(
        (entry, at) => entry && known.set(keyOf(missing[at]), { ...entry, id: missing[at] }),
      );
      draw();
    },
    () => {},
  );

  let recommended = null;
  const model = await about();
  if (signal.aborted) return;
  recommended = panel({
    title: "Recommended",
    source: () => (items.length ? { histories: [{ items }] } : null),
    why: () => ({ history: items }),
    buttons: (entry) =>
      h(
        "button",
        {
          type: "button",
          class: "round-button",
          title: "Add to the history",
          onclick: () => {
            remember(entry);
            add([entry.item], titleOf(entry));
          },
        },
        icon("add"),
        unseen(`Add ${titleOf(entry)} to the history`),
      ),
    pointed,
    answered,
    model,
    signal,
    dials: dialsFrom(route.parameters),
    turned: (dials) => route.rewrite((parameters) => dialsInto(parameters, dials)),
  });
  columns.replaceChildren(side, recommended.root);
  if (items.length) recommended.refresh(0);
  else recommended.instead(start());
}
