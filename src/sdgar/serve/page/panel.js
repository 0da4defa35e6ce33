// Recommendations with their dials. Every change asks anew after a short rest, and an answer that
// comes after a newer question was asked is dropped.

import * as api from "./api.js";
import { variantsOf } from "./about.js";
import { dialsPanel, wishes } from "./dials.js";
import { fresh, h } from "./dom.js";
import { rankedList } from "./list.js";
import { failure, nothing, say, skeleton } from "./say.js";
import { BASES, listed, several } from "./words.js";

const REST_MS = 220;
const REASONS = 3;

function basisLine(list) {
  const [name, sentence] = BASES[list.basis] ?? [list.basis, ""];
  const facts = [`model ${list.model}`, list.variant && `variant ${list.variant}`];
  return h(
    "div",
    { class: "basis" },
    h("p", null, h("span", { class: `basis-name by-${list.basis}` }, name), " ", sentence),
    h("p", { class: "small" }, facts.filter(Boolean).join(" · ")),
  );
}

function remarks({ lists, unknown }, asked) {
  const [list] = lists;
  const said = [];
  if (list.short && list.items.length) {
    said.push(`Only ${several(list.items.length, "item")} of ${asked.k} are left to recommend.`);
  }
  if (unknown?.items?.length) {
    said.push(
      `The model does not know ${listed(unknown.items.map(String))}, so it is passed over.`,
    );
  }
  return said.map((text) => h("p", { class: "remark" }, text));
}

/** Draw the panel in grey, for as long as it is not known what the model can do. */
export const bones = (title) =>
  h(
    "section",
    { class: "panel" },
    h("h2", null, title),
    h("div", { class: "dials dials-bones" }),
    h("div", { class: "panel-head" }),
    skeleton(10),
  );

/**
 * Make the panel. ``source()`` gives whom the list is for, as a request says it; ``why(item)`` the
 * request for an explanation; ``turned(dials)`` is told when a dial moves.
 */
export function panel({
  title,
  source,
  why,
  buttons,
  pointed,
  answered,
  dials,
  turned,
  model,
  signal,
}) {
  let now = dials;
  let asked = null;
  let timer = 0;
  let last = null;
  const name = fresh("title");
  const head = h("div", { class: "panel-head" });
  const place = h("div", { class: "panel-body" });
  const explain = async (item, reasons) => {
    const body = { ...why(), items: [item], reasons, details: true };
    return (await api.explain(body, signal)).items[0];
  };
  const list = rankedList({
    label: title,
    buttons: (entry) => buttons(entry, last),
    explain: why && explain,
    pointed,
  });

  function draw(answer, request) {
    last = answer;
    const [first] = answer.lists;
    head.replaceChildren(basisLine(first), ...remarks(answer, request));
    if (!first.items.length) {
      list.forget();
      place.replaceChildren(
        nothing(
          "Nothing is left to recommend",
          "Let fewer categories out, or turn the dials back.",
        ),
      );
      say("Nothing is left to recommend.");
      return;
    }
    if (!place.contains(list.list)) place.replaceChildren(list.list);
    say(list.show(first.items));
  }

  async function ask() {
    const whom = source();
    asked?.abort();
    if (!whom) return;
    root.classList.remove("instead");
    const own = (asked = new AbortController());
    signal.addEventListener("abort", () => own.abort(), { once: true });
    place.setAttribute("aria-busy", "true");
    if (!place.firstChild || !place.contains(list.list)) place.replaceChildren(skeleton(now.k));
    const request = { ...whom, ...wishes(now), reasons: REASONS, details: true };
    try {
      const answer = await api.recommend(request, own.signal);
      if (own.signal.aborted) return;
      draw(answer, request);
      answered?.(answer);
    } catch (problem) {
      if (own.signal.aborted || problem.name === "AbortError") return;
      if (!("code" in problem)) console.error(problem);
      list.forget();
      head.replaceChildren();
      root.classList.add("instead");
      place.replaceChildren(failure(problem, again));
    } finally {
      if (asked === own) place.removeAttribute("aria-busy");
    }
  }

  /** Ask again after a failure; the button goes away, so the place takes the focus. */
  function again() {
    place.tabIndex = -1;
    place.focus();
    ask();
  }

  /** Ask for the list again, after a rest if changes come quickly. */
  function refresh(rest = REST_MS) {
    clearTimeout(timer);
    if (rest) timer = setTimeout(ask, rest);
    else ask();
  }

  /** Show something else in place of a list, and drop what was asked. */
  function instead(...elements) {
    clearTimeout(timer);
    asked?.abort();
    list.forget();
    head.replaceChildren();
    root.classList.add("instead");
    place.removeAttribute("aria-busy");
    place.replaceChildren(...elements);
  }

  const controls = dialsPanel({
    dials,
    variants: variantsOf(model),
    signal,
    changed: (value) => {
      now = value;
      turned(value);
      refresh();
    },
  });
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  const root = h(
    "section",
    { class: "panel", "aria-labelledby": name },
    h("h2", { id: name }, title),
    controls,
    head,
    place,
  );
  return { root, refresh, instead };
}
