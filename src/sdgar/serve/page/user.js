// A user: the history and the recommendations side by side.

import * as api from "./api.js";
import { able, about } from "./about.js";
import { dialsFrom, dialsInto } from "./dials.js";
import { h, icon, unseen } from "./dom.js";
import { keyOf, linkTo, linkToTrial, spelled } from "./ids.js";
import { bones, panel } from "./panel.js";
import { picture } from "./picture.js";
import { failure, fill, nothing, say, skeleton } from "./say.js";
import { count, several, titleOf } from "./words.js";

const MOST_SHOWN = 100;
const MOST_TRIED = 50;
const KINDS = {
  like: { kind: "like", weight: 1, icon: "like", word: "Like" },
  dislike: { kind: "dislike", weight: -1, icon: "dislike", word: "Not for me" },
};

/** Draw one item of the history. */
function past(entry) {
  return h(
    "li",
    { class: "past", data: { key: keyOf(entry.item) } },
    picture(entry),
    h("a", { href: linkTo("item", entry.item) }, titleOf(entry)),
    entry.from === "feedback" && h("span", { class: "tag fresh" }, "since training"),
  );
}

function history(answer, trial) {
  trial.hidden = !answer.items.length;
  if (!answer.items.length) {
    return nothing(
      "No history",
      "Nothing is stored of this person, and the model learned nothing of them.",
    );
  }
  const newest = [...answer.items].reverse();
  trial.href = linkToTrial(answer.items.slice(-MOST_TRIED).map((one) => one.item));
  const total = answer.total ?? newest.length;
  const recent = newest.filter((one) => one.from === "feedback").length;
  const all = total > newest.length ? `${count(newest.length)} of ${several(total, "item")}` : several(total, "item");
  const shown = recent ? `${all}, ${count(recent)} of them since training, the newest first` : all;
  return [h("p", { class: "small" }, shown), h("ul", { class: "history" }, newest.map(past))];
}

function facts(told) {
  const features = Object.entries(told.features ?? {}).map(([name, value]) => `${name} ${value}`);
  const said = [
    told.known ? "in the model" : "not in the model",
    told.events ? `${several(told.events, "event")} stored` : null,
    ...features,
  ];
  return [
    h("span", { class: "id" }, `id ${spelled(told.id)}`),
    ...(told.categories ?? []).map((name) => h("span", { class: "tag" }, name)),
    h("span", null, said.filter(Boolean).join(" · ")),
  ];
}

/** Draw the page of a user. */
export async function user(place, route, signal) {
  const { id } = route;
  document.title = `${id} · sdgar`;
  const heading = h("h1", { tabindex: "-1" }, String(id));
  const line = h("p", { class: "facts" }, h("span", { class: "id" }, `id ${spelled(id)}`));
  const portrait = h("span", null, picture({ id }, { round: true, large: true }));
  const trial = h("a", { class: "button", href: "#/try", hidden: true }, "Try changing it");
  const past = h("div");
  const side = h(
    "section",
    { class: "side", "aria-labelledby": "history-title" },
    h("div", { class: "side-head" }, h("h2", { id: "history-title" }, "History"), trial),
    past,
  );
  const columns = h("div", { class: "columns" }, side, bones("Recommended"));
  place.replaceChildren(
    h("header", { class: "who" }, portrait, h("div", null, heading, line)),
    columns,
  );

  const loadHistory = () =>
    fill(
      past,
      () => skeleton(8, "line"),
      async () => {
        try {
          return await api.historyOf(id, MOST_SHOWN, signal);
        } catch (problem) {
          if (problem.status === 404) return { items: [], total: 0 };
          throw problem;
        }
      },
      (answer) => history(answer, trial),
      signal,
    );
  loadHistory();
  api.user(id, signal).then(
    (told) => {
      heading.textContent = titleOf(told);
      document.title = `${titleOf(told)} · sdgar`;
      line.replaceChildren(...facts(told));
      portrait.replaceChildren(picture(told, { round: true, large: true }));
    },
    (problem) => {
      if (problem.status === 404) line.append("nobody with this id is known");
    },
  );

  const model = await about();
  if (signal.aborted) return;
  let writes = able(model, "feedback");

  async function tell(kind, entry, answer, button) {
    button.disabled = true;
    try {
      await api.feedback(
        {
          user: id,
          item: entry.item,
          kind: kind.kind,
          weight: kind.weight,
          request: answer.request,
        },
        signal,
      );
      say(`Stored: ${kind.word}, ${titleOf(entry)}. The list is asked for again.`);
      loadHistory();
      list.refresh(0);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      writes = problem.status !== 403 && problem.status !== 409;
      button.closest(".buttons").replaceChildren();
      list.root.querySelector(".panel-head").append(failure(problem));
    }
  }

  const buttons = (entry, answer) =>
    writes &&
    Object.values(KINDS).map((kind) => {
      const button = h(
        "button",
        { type: "button", class: `round-button ${kind.kind}`, title: kind.word },
        icon(kind.icon),
        unseen(`${kind.word}: ${titleOf(entry)}`),
      );
      button.addEventListener("click", () => tell(kind, entry, answer, button));
      return button;
    });

  /** Mark the items of the history that speak for the entry one looks at. */
  function pointed(entry) {
    const wanted = new Set((entry?.because ?? []).map((reason) => keyOf(reason.item)));
    for (const row of past.querySelectorAll(".past"))
      row.classList.toggle("speaks", wanted.has(row.dataset.key));
  }

  const list = panel({
    title: "Recommended",
    source: () => ({ users: [id] }),
    why: () => ({ user: id }),
    buttons,
    pointed,
    model,
    signal,
    dials: dialsFrom(route.parameters),
    turned: (dials) => route.rewrite((parameters) => dialsInto(parameters, dials)),
  });
  columns.replaceChildren(side, list.root);
  list.refresh(0);
}
