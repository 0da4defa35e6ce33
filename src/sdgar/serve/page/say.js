// What the page says while it waits, when it has nothing, and when something went wrong.

import { h } from "./dom.js";
import { askAgain } from "./key.js";

const region = document.getElementById("live");
let timer = 0;

/** Tell screen readers what has changed; only the last of many quick changes is told. */
export function say(text) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    region.textContent = text;
  }, 250);
}

/** Show what went wrong as a sentence, with a way to try again. */
export function failure(problem, again) {
  const tried = () => {
    askAgain();
    again();
  };
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("p", { class: "notice-title" }, problem.title ?? "The page made a mistake"),
    h("p", null, problem.message),
    again && h("button", { type: "button", class: "button", onclick: tried }, "Try again"),
  );
}

/** Show that there is nothing, and what to do about it. */
export const nothing = (title, text, ...more) =>
  h(
    "div",
    { class: "notice empty" },
    h("p", { class: "notice-title" }, title),
    h("p", null, text),
    more,
  );

/** Draw grey rows where a list will be. */
export function skeleton(rows, kind = "row") {
  return h(
    "div",
    { class: `skeleton skeleton-${kind}`, "aria-hidden": "true" },
    Array.from({ length: rows }, () => h("div", { class: "bone" }, h("i"), h("b"), h("s"))),
  );
}

/** Fill a place with what a question answers: bones at first, then the answer or a sentence. */
export async function fill(place, bones, question, drawn, signal) {
  place.setAttribute("aria-busy", "true");
  place.replaceChildren(bones());
  try {
    const answer = await question();
    if (signal.aborted) return null;
    place.replaceChildren(...[drawn(answer)].flat());
    return answer;
  } catch (problem) {
    if (signal.aborted || problem.name === "AbortError") return null;
    if (!("code" in problem)) console.error(problem);
    const again = () => {
      place.tabIndex = -1; // the button goes away, and the focus with it
      place.focus();
      fill(place, bones, question, drawn, signal);
    };
    place.replaceChildren(failure(problem, again));
    return null;
  } finally {
    if (!signal.aborted) place.removeAttribute("aria-busy");
  }
}
