// The first page: a search, some people to look at, and what everyone likes.

import * as api from "./api.js";
import { h } from "./dom.js";
import { linkTo } from "./ids.js";
import { picture } from "./picture.js";
import { fill, nothing, skeleton } from "./say.js";
import { day, several, titleOf } from "./words.js";

function tile(entry, fact) {
  return h(
    "li",
    null,
    h(
      "a",
      { class: "tile", href: linkTo("item", entry.item) },
      picture(entry, { large: true }),
      h("span", { class: "tile-name" }, titleOf(entry)),
      h("span", { class: "tile-fact" }, fact),
    ),
  );
}

const person = (one) =>
  h(
    "li",
    null,
    h(
      "a",
      { class: "person", href: linkTo("user", one.id) },
      picture(one, { round: true }),
      h("span", null, titleOf(one)),
    ),
  );

function section(title, bones, question, drawn, signal) {
  const place = h("div");
  const root = h("section", { class: "shelf" }, h("h2", null, title), place);
  fill(place, bones, question, drawn, signal);
  return root;
}

/** Ask for what is new; without a store nothing is. */
async function newest(signal) {
  try {
    return await api.latest(6, signal);
  } catch (problem) {
    if (problem.status === 409) return { items: [] };
    throw problem;
  }
}

/** Draw the page; ``search`` is the search field, which this page shows larger than others. */
export function explore(place, route, signal, search) {
  document.title = "Explore · sdgar";
  const tiles = (fact) => (answer) =>
    answer.items.length
      ? h(
          "ul",
          { class: "tiles" },
          answer.items.map((entry) => tile(entry, fact(entry))),
        )
      : nothing("Nothing yet", "As soon as there are items, they stand here.");
  place.replaceChildren(
    h(
      "div",
      { class: "hero" },
      h("h1", { tabindex: "-1" }, "Whose list would you like to see?"),
      h(
        "p",
        { class: "lead" },
        "Look up a person to see what they like and what is recommended to them, or an item to see what is like it.",
      ),
      search,
      h(
        "p",
        { class: "small" },
        "Press ",
        h("kbd", null, "/"),
        " to search from anywhere, or ",
        h("a", { href: "#/try" }, "put a history together"),
        " of your own.",
      ),
    ),
    section(
      "Some people",
      () => skeleton(6, "person"),
      () => api.search("users", "", 12, signal),
      (answer) =>
        answer.found.length
          ? h("ul", { class: "people" }, answer.found.map(person))
          : nothing("Nobody yet", "The model knows no users."),
      signal,
    ),
    section(
      "Liked by most",
      () => skeleton(6, "tile"),
      () => api.popular(12, signal),
      tiles((entry) => several(entry.score, "person", "people")),
      signal,
    ),
    section(
      "New here",
      () => skeleton(6, "tile"),
      () => newest(signal),
      tiles((entry) => day(entry.score)),
      signal,
    ),
  );
}
