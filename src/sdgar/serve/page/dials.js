// The dials of a list: length, diversity, popularity, what is left out, and who answers. Their
// state is part of the address, so that a link shows the same list.

import * as api from "./api.js";
import { fresh, h } from "./dom.js";
import { count } from "./words.js";

const FIRST_CATEGORIES = 14;
const PLAIN = { k: 10, diversity: 0, popularity: 0, without: [], variant: null };

const within = (text, low, high, other) => {
  const value = Number(text);
  return text === null || !Number.isFinite(value) ? other : Math.min(high, Math.max(low, value));
};

/** Read the dials from an address. */
export function dialsFrom(parameters) {
  return {
    k: Math.round(within(parameters.get("k"), 1, 100, PLAIN.k)),
    diversity: within(parameters.get("diversity"), 0, 1, 0),
    popularity: within(parameters.get("popularity"), -1, 1, 0),
    without: [...new Set(parameters.getAll("without"))].filter(Boolean).slice(0, 100),
    variant: parameters.get("variant") || null,
  };
}

/** Write the dials into an address; those at rest are left out. */
export function dialsInto(parameters, dials) {
  for (const name of Object.keys(PLAIN)) parameters.delete(name);
  for (const name of ["k", "diversity", "popularity", "variant"]) {
    if (dials[name] !== PLAIN[name]) parameters.set(name, dials[name]);
  }
  for (const name of dials.without) parameters.append("without", name);
}

/** Give what a request for recommendations says of the dials. */
export function wishes(dials) {
  return {
    k: dials.k,
    diversity: dials.diversity,
    popularity: dials.popularity,
    ...(dials.without.length ? { exclude_categories: dials.without } : {}),
    ...(dials.variant ? { variant: dials.variant } : {}),
  };
}

const POPULARITY = (value) =>
  value === 0
    ? "as it is"
    : value < 0
      ? `the popular is buried by ${-value}`
      : `the popular is preferred by ${value}`;
const DIVERSITY = (value) => (value === 0 ? "by score alone" : `unlike each other by ${value}`);
const SIGNED = (value) => (value === 0 ? "off" : `${value < 0 ? "−" : "+"}${Math.abs(value)}`);
const SHORT = (value) => (value === 0 ? "off" : String(value));

function slider({ name, low, high, step, value, words, short, ends, moved }) {
  const id = fresh("dial");
  const told = h("output", { for: id, class: "dial-value", "aria-hidden": "true" }, short(value));
  const input = h("input", {
    id,
    type: "range",
    min: low,
    max: high,
    step,
    value: String(value),
    "aria-valuetext": words(value),
    oninput: () => {
      const now = Math.round(Number(input.value) * 100) / 100;
      told.textContent = short(now);
      input.setAttribute("aria-valuetext", words(now));
      paint();
      moved(now);
    },
  });
  const paint = () => {
    const at = ((Number(input.value) - low) / (high - low)) * 100;
    const rest = ((Math.max(low, 0) - low) / (high - low)) * 100;
    input.style.setProperty("--from", `${Math.min(at, rest)}%`);
    input.style.setProperty("--to", `${Math.max(at, rest)}%`);
  };
  paint();
  return h(
    "div",
    { class: "dial" },
    h("div", { class: "dial-head" }, h("label", { for: id }, name), told),
    input,
    h(
      "div",
      { class: "dial-ends", "aria-hidden": "true" },
      h("span", null, ends[0]),
      h("span", null, ends[1]),
    ),
  );
}

function chips(categories, dials, changed) {
  const wanted = new Set(dials.without);
  const names = categories.map((one) => one.name);
  const gone = dials.without.filter((name) => !names.includes(name)).map((name) => ({ name }));
  const chip = ({ name, items }) =>
    h(
      "label",
      { class: "chip" },
      h("input", {
        type: "checkbox",
        checked: wanted.has(name),
        onchange: (event) => {
          if (event.target.checked) wanted.add(name);
          else wanted.delete(name);
          changed([...wanted]);
        },
      }),
      h("span", null, name, items !== undefined && h("small", null, count(items))),
    );
  const all = [...gone, ...[...categories].sort((a, b) => b.items - a.items)];
  const first = all.slice(0, FIRST_CATEGORIES).map(chip);
  const others = all.slice(FIRST_CATEGORIES);
  const box = h("div", { class: "chips" }, first);
  if (others.length) {
    const more = h("button", { type: "button", class: "link" }, `${count(others.length)} more`);
    more.addEventListener("click", () => {
      const rest = others.map(chip);
      more.replaceWith(...rest);
      rest[0].querySelector("input").focus();
    });
    box.append(more);
  }
  return box;
}

const bones = () =>
  h(
    "div",
    { class: "chips" },
    Array.from({ length: 6 }, () => h("span", { class: "chip bone" })),
  );

/** Make the dials; ``changed(dials)`` is told of every move. */
export function dialsPanel({ dials, variants, changed, signal }) {
  let now = { ...dials };
  const turn = (part) => {
    now = { ...now, ...part };
    reset.hidden = Object.keys(PLAIN).every((n) => String(now[n]) === String(PLAIN[n]));
    changed(now);
  };
  const title = fresh("leave-out");
  const offered = h("div", null, bones());
  // A fieldset would say the same, but Chromium may lose one that changes inside closed details.
  const leaveOut = h(
    "div",
    { class: "leave-out", role: "group", "aria-labelledby": title },
    h("p", { id: title, class: "leave-out-title" }, "Leave out"),
    offered,
  );
  const body = h("div", { class: "dials-body" });
  const reset = h("button", { type: "button", class: "link reset", hidden: true }, "Back to rest");
  const panel = h(
    "details",
    { class: "dials", open: matchMedia("(min-width: 60rem)").matches || undefined },
    h(
      "summary",
      null,
      h("span", null, "Dials"),
      h("span", { class: "dials-hint" }, "diversity, popularity, length, categories"),
    ),
    reset,
    body,
  );

  function variantDial() {
    if (!variants || variants.length < 2) return null;
    const id = fresh("dial");
    const select = h(
      "select",
      { id, onchange: () => turn({ variant: select.value || null }) },
      h("option", { value: "" }, "the user's own"),
      variants.map((name) =>
        h("option", { value: name, selected: now.variant === name || undefined }, name),
      ),
    );
    return h(
      "div",
      { class: "dial" },
      h("div", { class: "dial-head" }, h("label", { for: id }, "Variant")),
      select,
    );
  }

  function draw() {
    body.replaceChildren(
      h(
        "div",
        { class: "dial-row" },
        slider({
          name: "Diversity",
          low: 0,
          high: 1,
          step: 0.05,
          value: now.diversity,
          words: DIVERSITY,
          short: SHORT,
          ends: ["alike", "varied"],
          moved: (value) => turn({ diversity: value }),
        }),
        slider({
          name: "Popularity",
          low: -1,
          high: 1,
          step: 0.1,
          value: now.popularity,
          words: POPULARITY,
          short: SIGNED,
          ends: ["rare finds", "hits"],
          moved: (value) => turn({ popularity: value }),
        }),
        slider({
          name: "Length",
          low: 1,
          high: 50,
          step: 1,
          value: Math.min(now.k, 50),
          words: (k) => `${k} items`,
          short: String,
          ends: ["1", "50"],
          moved: (value) => turn({ k: value }),
        }),
        ...[variantDial()].filter(Boolean),
      ),
      leaveOut,
    );
  }

  reset.addEventListener("click", () => {
    turn(PLAIN);
    draw();
    drawChips();
    body.querySelector("input").focus();
  });
  let categories = [];
  const drawChips = () => {
    leaveOut.hidden = categories.length === 0 && now.without.length === 0;
    offered.replaceChildren(chips(categories, now, (without) => turn({ without })));
  };
  draw();
  reset.hidden = Object.keys(PLAIN).every((n) => String(now[n]) === String(PLAIN[n]));
  api.categories(signal).then(
    (answer) => {
      ({ categories } = answer);
      drawChips();
    },
    () => drawChips(), // without a store there are no categories, and nothing to leave out
  );
  return panel;
}
