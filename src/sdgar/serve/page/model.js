// The page of the model: what it is, what it learned from, how good it is, and what it can do.

import * as api from "./api.js";
import { curve, tableBehind } from "./charts.js";
import { h } from "./dom.js";
import { fill, nothing, skeleton } from "./say.js";
import { count, label, number, percent, time } from "./words.js";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const SHARES = new Set(["gini", "coverage", "density", "recall", "share"]);

/** Write any value of the answer in words. */
function written(name, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (isNumber(value) && SHARES.has(name) && value >= 0 && value <= 1) return percent(value);
  if (isNumber(value) && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  if (isNumber(value) || typeof value === "bigint") return number(value);
  if (Array.isArray(value)) return value.map((one) => written(name, one)).join(", ") || "–";
  if (typeof value === "object") {
    return (
      Object.entries(value)
        .map(([key, one]) => `${key} ${written(key, one)}`)
        .join(", ") || "–"
    );
  }
  return String(value);
}

const pairs = (table, skip = []) =>
  h(
    "dl",
    { class: "pairs" },
    Object.entries(table)
      .filter(([name]) => !skip.includes(name))
      .map(([name, value]) =>
        h("div", null, h("dt", null, label(name)), h("dd", null, written(name, value))),
      ),
  );

const card = (title, ...content) => h("section", { class: "card" }, h("h2", null, title), content);

function bigNumbers(data) {
  const first = ["users", "items", "interactions"].filter((name) => name in data);
  return h(
    "dl",
    { class: "big-numbers" },
    first.map((name) =>
      h("div", null, h("dt", null, label(name)), h("dd", null, count(data[name]))),
    ),
  );
}

function metrics(own, popular) {
  const names = Object.keys(own).filter((name) => isNumber(own[name]));
  if (!names.length)
    return nothing("Not measured", "The model was saved without a report on test rows.");
  const most = Math.max(...names.flatMap((name) => [own[name], popular?.[name] ?? 0]), 1e-9);
  const bar = (value, kind) =>
    h(
      "span",
      { class: `meter ${kind}`, "aria-hidden": "true" },
      h("i", { vars: { part: `${Math.max(0, value / most) * 100}%` } }),
    );
  const row = (name) => {
    const beside = popular?.[name];
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, label(name)),
      h("td", null, h("span", null, number(own[name])), bar(own[name], "own")),
      popular &&
        h(
          "td",
          null,
          isNumber(beside) ? [h("span", null, number(beside)), bar(beside, "other")] : "–",
        ),
      popular &&
        h(
          "td",
          { class: "lift" },
          isNumber(beside) && beside > 0 ? `× ${(own[name] / beside).toFixed(1)}` : "–",
        ),
    );
  };
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Metrics" },
    h(
      "table",
      { class: "metrics" },
      h("caption", { class: "unseen" }, "Metrics of the model and of the most popular items"),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Metric"),
          h("th", { scope: "col" }, "This model"),
          popular && h("th", { scope: "col" }, "Most popular"),
          popular && h("th", { scope: "col" }, "Ratio"),
        ),
      ),
      h("tbody", null, names.map(row)),
    ),
  );
}

function training(points, signal) {
  const measured = points.filter((one) => isNumber(one.metric));
  if (measured.length < 2)
    return nothing("No curve", "The model was computed at once, or its log was not kept.");
  const best = measured.reduce((a, b) => (b.metric > a.metric ? b : a));
  const words = `The metric on validation rows over ${measured.length} looks, best at ${number(best.metric)} in epoch ${best.epoch}.`;
  const names = Object.keys(measured[0]).filter(
    (name) => name !== "epoch" && isNumber(measured[0][name]),
  );
  return [
    h("p", { class: "small" }, words),
    curve({
      points: measured.map((one) => [one.epoch, one.metric]),
      label: words,
      xName: "epoch",
      signal,
    }),
    tableBehind(
      "The training curve",
      ["Epoch", ...names.map(label)],
      measured.map((one) => [String(one.epoch), ...names.map((name) => number(one[name]))]),
    ),
  ];
}

function gauge(name, value, most, words) {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  return h(
    "div",
    { class: "gauge" },
    h(
      "p",
      { class: "gauge-head" },
      h("b", null, name),
      h("span", null, `${number(value)} of ${count(most)}`),
    ),
    h(
      "span",
      { class: "meter own", "aria-hidden": "true" },
      h("i", { vars: { part: `${share * 100}%` } }),
    ),
    h("p", { class: "small" }, words),
  );
}

/** Say how the generator of negatives is, by the same bounds that training warns by. */
function generator(health) {
  const { x_perplexity: x, states, y_perplexity: y, items, kl, ...others } = health;
  const said = [];
  if (isNumber(x) && isNumber(states))
    said.push(
      gauge(
        "States a user draws from",
        x,
        states,
        "1 is a single state, all of them is a uniform choice.",
      ),
    );
  if (isNumber(y) && isNumber(items))
    said.push(
      gauge(
        "Items a state proposes",
        y,
        items,
        "1 is a single item, all of them is a uniform choice.",
      ),
    );
  const collapsed = (isNumber(x) && states > 1 && x < 1.05) || (isNumber(y) && y < 1.05);
  const inert = isNumber(x) && isNumber(y) && states > 1 && x > 0.999 * states && y > 0.999 * items;
  const verdict = collapsed
    ? ["bad", "Collapsed: its proposals hardly vary."]
    : inert
      ? ["bad", "Inert: its proposals are uniform."]
      : ["good", "Healthy: neither collapsed nor uniform."];
  return [
    said.length > 0 && h("p", { class: `verdict ${verdict[0]}` }, verdict[1]),
    said,
    isNumber(kl) &&
      h(
        "p",
        { class: "small" },
        `Its distance from the ideal proposals is ${number(kl)} nats (KL).`,
      ),
    Object.keys(others).length > 0 && pairs(others),
  ];
}

function concentration(table) {
  const said = {
    gini: "0: all items are recommended equally often; 100%: one item to everyone.",
    coverage: "The share of items that at least one list has.",
  };
  return [
    ["gini", "coverage"]
      .filter((name) => isNumber(table[name]))
      .map((name) =>
        h(
          "div",
          { class: "gauge" },
          h(
            "p",
            { class: "gauge-head" },
            h("b", null, label(name)),
            h("span", null, percent(table[name])),
          ),
          h(
            "span",
            { class: "meter own", "aria-hidden": "true" },
            h("i", { vars: { part: `${table[name] * 100}%` } }),
          ),
          h("p", { class: "small" }, said[name]),
        ),
      ),
    pairs(table, ["gini", "coverage"]),
  ];
}

function index(told) {
  const kinds = {
    exact: "Exact: every item is scored for every list.",
    faiss: "Approximate: a faiss index chooses the items to score.",
  };
  return [h("p", null, kinds[told.kind] ?? label(told.kind ?? "unknown")), pairs(told, ["kind"])];
}

function abilities(table) {
  return h(
    "ul",
    { class: "abilities" },
    Object.entries(table).map(([name, value]) =>
      h(
        "li",
        { class: value ? "yes" : "no" },
        h("span", { "aria-hidden": "true" }, value ? "✓" : "–"),
        h("span", null, label(name)),
        h(
          "span",
          { class: "small" },
          typeof value === "boolean" ? (value ? "yes" : "no") : written(name, value),
        ),
      ),
    ),
  );
}

function variants(all) {
  return h(
    "ul",
    { class: "variants" },
    all.map((one) => {
      if (typeof one === "string") return h("li", null, h("b", null, one));
      const { name, ...rest } = one;
      return h(
        "li",
        null,
        h("b", null, name),
        " ",
        h("span", { class: "small" }, written("", rest)),
      );
    }),
  );
}

function drawn(told, signal) {
  const has = (table) => table && Object.keys(table).length > 0;
  const when = [
    told.trained_at && ["trained", told.trained_at],
    told.loaded_at && ["loaded", told.loaded_at],
  ]
    .filter(Boolean)
    .map(([word, value]) => `${word} ${time(value) ?? value}`);
  return [
    h(
      "p",
      { class: "facts" },
      h("span", { class: "tag" }, told.system ?? "model"),
      h("span", { class: "id" }, told.version),
      h("span", null, when.join(" · ")),
    ),
    has(told.data) && bigNumbers(told.data),
    h(
      "div",
      { class: "cards" },
      h(
        "div",
        { class: "wide" },
        card("How good it is", metrics(told.metrics ?? {}, told.popular_metrics)),
      ),
      h("div", { class: "wide" }, card("Training", training(told.curve ?? [], signal))),
    ),
    h(
      "div",
      { class: "pack" },
      has(told.generator) && card("Generator of negatives", generator(told.generator)),
      has(told.concentration) &&
        card("Concentration and coverage", concentration(told.concentration)),
      has(told.index) && card("Index", index(told.index)),
      has(told.abilities) && card("What it can do", abilities(told.abilities)),
      Object.keys(told.data ?? {}).length > 3 &&
        card("Data", pairs(told.data, ["users", "items", "interactions"])),
      told.variants?.length > 0 && card("Variants", variants(told.variants)),
      has(told.settings) &&
        card(
          "Settings",
          h(
            "details",
            { open: Object.keys(told.settings).length <= 12 },
            h("summary", null, `All ${Object.keys(told.settings).length} settings`),
            pairs(told.settings),
          ),
        ),
    ),
  ];
}

/** Draw the page of the model. */
export function model(place, route, signal) {
  document.title = "Model · sdgar";
  const body = h("div");
  place.replaceChildren(
    h("header", { class: "who" }, h("div", null, h("h1", { tabindex: "-1" }, "The model"))),
    body,
  );
  fill(
    body,
    () => skeleton(4, "card"),
    () => api.model(signal),
    (told) => drawn(told, signal).filter(Boolean),
    signal,
  );
}
