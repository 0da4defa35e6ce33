// An item: what is known of it, and what is like it.

import * as api from "./api.js";
import { fresh, h, icon } from "./dom.js";
import { linkToTrial, spelled } from "./ids.js";
import { rankedList } from "./list.js";
import { picture } from "./picture.js";
import { failure, fill, nothing, say, skeleton } from "./say.js";
import { label, number, several, titleOf } from "./words.js";

const WAYS = { auto: "Best way", vectors: "Vectors", weights: "Weights" };
const TOLD = {
  vectors: "Compared by their vectors: the same kind of people like them.",
  weights: "Compared by the weights between items: they appear in the same histories.",
};

function factsOf(told) {
  const rows = [
    ["Id", h("span", { class: "id" }, spelled(told.id))],
    [
      "Categories",
      told.categories?.length
        ? told.categories.map((name) => h("span", { class: "tag" }, name))
        : "none",
    ],
    ...Object.entries(told.features ?? {}).map(([name, value]) => [
      label(name),
      typeof value === "number" && !Number.isInteger(value) ? number(value) : String(value),
    ]),
    ["Model", told.known ? "knows it" : "does not know it"],
    ["Feedback", several(told.events ?? 0, "event")],
    ["Shown", told.hidden ? "hidden: never recommended" : "may be recommended"],
  ];
  return h(
    "dl",
    { class: "pairs" },
    rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

function ways(chosen) {
  const group = fresh("by");
  return h(
    "fieldset",
    { class: "ways" },
    h("legend", { class: "unseen" }, "Compared by"),
    Object.entries(WAYS).map(([value, words]) =>
      h(
        "label",
        { class: "way" },
        h("input", {
          type: "radio",
          name: group,
          value,
          checked: value === "auto",
          onchange: () => chosen(value),
        }),
        h("span", null, words),
      ),
    ),
  );
}

/** Draw the page of an item. */
export function item(place, route, signal) {
  const { id } = route;
  document.title = `${id} · sdgar`;
  const heading = h("h1", { tabindex: "-1" }, String(id));
  const portrait = h("span", null, picture({ id }, { large: true }));
  const facts = h("div");
  const words = h("p", { class: "small", role: "status" });
  const body = h("div", { class: "panel-body" });
  let asked = null;

  const list = rankedList({
    label: "Similar items",
    buttons: (entry) =>
      h(
        "a",
        {
          class: "round-button",
          href: linkToTrial([id, entry.item]),
          title: "Try both as a history",
        },
        icon("add"),
        h("span", { class: "unseen" }, `Try a history with ${titleOf(entry)}`),
      ),
  });

  function draw(answer) {
    const [found] = answer.lists;
    words.textContent = TOLD[answer.by] ?? `Compared by ${answer.by}.`;
    if (found.basis === "unknown" || !found.similar.length) {
      list.forget();
      words.textContent = "";
      body.replaceChildren(
        nothing(
          "Nothing to compare",
          "The model does not know this item, so it cannot tell what is like it.",
        ),
      );
      return;
    }
    if (!body.contains(list.list)) body.replaceChildren(list.list);
    say(list.show(found.similar));
  }

  async function compare(by) {
    asked?.abort();
    const own = (asked = new AbortController());
    signal.addEventListener("abort", () => own.abort(), { once: true });
    body.setAttribute("aria-busy", "true");
    if (!body.contains(list.list)) body.replaceChildren(skeleton(8));
    try {
      const answer = await api.similar({ items: [id], k: 12, by, details: true }, own.signal);
      if (!own.signal.aborted) draw(answer);
    } catch (problem) {
      if (own.signal.aborted || problem.name === "AbortError") return;
      list.forget();
      words.textContent = "";
      body.replaceChildren(failure(problem, () => compare(by)));
    } finally {
      if (asked === own) body.removeAttribute("aria-busy");
    }
  }

  place.replaceChildren(
    h(
      "header",
      { class: "who" },
      portrait,
      h(
        "div",
        null,
        heading,
        h(
          "p",
          { class: "facts" },
          h("a", { class: "button", href: linkToTrial([id]) }, "Start a history with it"),
        ),
      ),
    ),
    h(
      "div",
      { class: "columns" },
      h(
        "section",
        { class: "side", "aria-labelledby": "facts-title" },
        h("h2", { id: "facts-title" }, "Facts"),
        facts,
      ),
      h(
        "section",
        { class: "panel", "aria-labelledby": "similar-title" },
        h(
          "div",
          { class: "side-head" },
          h("h2", { id: "similar-title" }, "Similar items"),
          ways(compare),
        ),
        words,
        body,
      ),
    ),
  );
  fill(
    facts,
    () => skeleton(5, "line"),
    () => api.item(id, signal),
    (told) => {
      heading.textContent = titleOf(told);
      document.title = `${titleOf(told)} · sdgar`;
      portrait.replaceChildren(picture(told, { large: true }));
      return factsOf(told);
    },
    signal,
  );
  compare("auto");
}
