// The reasons for an entry: which items of the history speak for it, how much, and by what.

import { h, icon, unseen } from "./dom.js";
import { linkTo } from "./ids.js";
import { failure } from "./say.js";
import { listed, number, percent, titleOf } from "./words.js";

const split = (reason) =>
  typeof reason.by_weights === "number" && typeof reason.by_vectors === "number";

/** Tell how a share is written: of the score where the shares are parts of it, else as it is. */
function writer(entry) {
  const shares = entry.because.map((reason) => reason.share);
  const sum = shares.reduce((a, b) => a + b, 0);
  const parts = entry.score > 0 && shares.every((one) => one >= 0) && sum <= entry.score * 1.001;
  return parts ? (share) => percent(share / entry.score) : number;
}

function bar(reason, most) {
  const part = (value) => `${Math.min(100, (Math.abs(value ?? 0) / most) * 100)}%`;
  const pieces = split(reason)
    ? [
        ["weights", reason.by_weights],
        ["vectors", reason.by_vectors],
      ]
    : [["whole", reason.share]];
  return h(
    "span",
    { class: "bar", "aria-hidden": "true" },
    pieces.map(([name, value]) =>
      h("i", { class: `${name}${value < 0 ? " against" : ""}`, vars: { part: part(value) } }),
    ),
  );
}

function row(reason, most, written) {
  const spoken = split(reason)
    ? `, of which ${written(reason.by_weights)} by weights and ${written(reason.by_vectors)} by vectors`
    : "";
  return h(
    "li",
    null,
    h("a", { class: "reason-name", href: linkTo("item", reason.item) }, titleOf(reason)),
    bar(reason, most),
    h("span", { class: "reason-share" }, written(reason.share), unseen(spoken)),
  );
}

function legend(reasons) {
  if (!reasons.some(split)) return null;
  return h(
    "p",
    { class: "legend" },
    h("span", { class: "swatch weights" }),
    "by weights between items, exact ",
    h("span", { class: "swatch vectors" }),
    "by vectors",
  );
}

/** Draw all reasons of an entry as bars, and say what they leave over. */
function drawn(entry) {
  const most = Math.max(
    ...entry.because.map((r) =>
      split(r) ? Math.abs(r.by_weights) + Math.abs(r.by_vectors) : Math.abs(r.share),
    ),
    1e-12,
  );
  const written = writer(entry);
  const shares = entry.because.reduce((sum, reason) => sum + reason.share, 0);
  const rest = typeof entry.rest === "number" ? entry.rest : null;
  return [
    h(
      "ul",
      { class: "reasons" },
      entry.because.map((reason) => row(reason, most, written)),
    ),
    legend(entry.because),
    rest !== null &&
      h(
        "p",
        { class: "legend" },
        `These explain ${written(shares)} of the score of ${number(entry.score)}; the rest, ${written(rest)}, comes from other items and from what is common to everyone.`,
      ),
  ];
}

/** Make the part of an entry that says why; ``explain(item)`` asks for what the list leaves out. */
export function why(entry, explain) {
  const names = entry.because.map(titleOf);
  const place = h("div", { class: "why-more" });
  const whole = entry.because.reduce((sum, reason) => sum + Math.abs(reason.share), 0) || 1;
  const box = h(
    "details",
    { class: "why" },
    h(
      "summary",
      null,
      h("span", { class: "why-text" }, "Because of ", h("b", null, listed(names))),
      h(
        "span",
        { class: "mini", "aria-hidden": "true" },
        entry.because.map((reason) =>
          h("i", { vars: { part: `${(Math.abs(reason.share) / whole) * 100}%` } }),
        ),
      ),
      icon("chevron"),
    ),
    place,
  );
  const show = (one, ...more) =>
    place.replaceChildren(...[drawn(one), more].flat().filter(Boolean));
  let done = false;
  box.addEventListener("toggle", async () => {
    if (!box.open || done) return;
    done = true;
    show(entry);
    if (!explain) return;
    try {
      show(await explain(entry.item, entry.because.length));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      const untold = problem.status === 409 || problem.status === 404;
      show(entry, untold ? h("p", { class: "legend" }, problem.message) : failure(problem));
    }
  });
  return box;
}
