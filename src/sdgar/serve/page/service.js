// The health of the service, asked for every few seconds while one looks at it.

import * as api from "./api.js";
import { columns, tableBehind } from "./charts.js";
import { h } from "./dom.js";
import { failure, skeleton } from "./say.js";
import { count, duration, label, number, several } from "./words.js";

const EVERY_MS = 5000;

const total = (value) =>
  value && typeof value === "object"
    ? Object.values(value).reduce((sum, one) => sum + Number(one || 0), 0)
    : value;

const stat = (name) => {
  const value = h("span", { class: "stat" }, "–");
  const small = h("span", { class: "small" });
  return { root: h("div", null, h("dt", null, name), h("dd", null, value, small)), value, small };
};

/** Make a chart that is drawn anew only when its numbers are. */
function chart(title, ends, unit, signal) {
  const place = h("div");
  const head = h("p", { class: "small" });
  let old = "";
  const root = h("section", { class: "card" }, h("h2", null, title), head, place);
  const ago = (at, n) => (at === n - 1 ? `this ${unit}` : `${several(n - 1 - at, unit)} ago`);
  const show = (values, words) => {
    head.textContent = words;
    if (String(values) === old) return;
    old = String(values);
    const open = place.querySelector("details")?.open ?? false;
    const told = (value, at) => `${ago(at, values.length)}: ${count(value)}`;
    const behind = tableBehind(
      title,
      [label(unit), "Number"],
      values.map((value, at) => [ago(at, values.length), count(value)]).reverse(),
    );
    behind.open = open;
    place.replaceChildren(
      columns({ values, label: `${title}. ${words}`, ends, told, signal }),
      behind,
    );
  };
  return { root, show };
}

/** Draw the page of the service. */
export function service(place, route, signal) {
  document.title = "Service · sdgar";
  const parts = {
    rate: stat("Requests a minute"),
    p50: stat("Median latency"),
    p99: stat("99th percentile"),
    errors: stat("Errors"),
    queue: stat("Waiting"),
    uptime: stat("Up for"),
  };
  const requests = chart("Requests a minute", ["an hour ago", "now"], "minute", signal);
  const feedback = chart("Feedback an hour", ["a day ago", "now"], "hour", signal);
  const stats = h(
    "dl",
    { class: "stats" },
    Object.values(parts).map((one) => one.root),
  );
  const notice = h("div");
  const fresh = h("p", { class: "small" }, "It refreshes every 5 seconds while you look at it.");
  const charts = h("div", { class: "cards" }, requests.root, feedback.root);
  const body = h("div", { "aria-busy": "true" }, skeleton(4, "card"));
  place.replaceChildren(
    h(
      "header",
      { class: "who" },
      h("div", null, h("h1", { tabindex: "-1" }, "The service"), fresh),
    ),
    notice,
    body,
  );

  function show(told) {
    const minutes = told.requests?.per_minute ?? [];
    const hours = told.feedback_per_hour ?? [];
    const ms = (value) => (typeof value === "number" ? `${number(value)} ms` : "–");
    const last = minutes.at(-2) ?? minutes.at(-1) ?? 0;
    parts.rate.value.textContent = count(last);
    parts.rate.small.textContent = `${count(told.requests?.total ?? 0)} in all`;
    parts.p50.value.textContent = ms(told.latency_ms?.p50);
    parts.p50.small.textContent = "half are answered sooner";
    parts.p99.value.textContent = ms(told.latency_ms?.p99);
    parts.p99.small.textContent =
      typeof told.batch?.mean === "number" ? `${number(told.batch.mean)} requests a batch` : "";
    parts.errors.value.textContent = count(total(told.errors) ?? 0);
    parts.errors.small.textContent =
      typeof told.errors === "object" && told.errors
        ? Object.entries(told.errors)
            .map(([name, n]) => `${name}: ${count(n)}`)
            .join(", ")
        : "status 500 and above";
    parts.queue.value.textContent = count(total(told.queue) ?? 0);
    parts.queue.small.textContent = "requests in the queue";
    parts.uptime.value.textContent = duration(told.uptime ?? 0);
    parts.uptime.small.textContent = "since the start";
    const sum = (values) => values.reduce((a, b) => a + b, 0);
    if (minutes.length)
      requests.show(
        minutes,
        `${count(sum(minutes))} in the last ${several(minutes.length, "minute")}.`,
      );
    if (hours.length)
      feedback.show(
        hours,
        `${several(sum(hours), "event")} in the last ${several(hours.length, "hour")}.`,
      );
    if (!body.contains(stats)) body.replaceChildren(stats, charts);
    fresh.textContent = `As of ${new Date().toLocaleTimeString("en")}. It refreshes every 5 seconds while you look at it.`;
  }

  let timer = 0;
  async function ask() {
    clearTimeout(timer);
    if (document.visibilityState === "visible") {
      try {
        show(await api.service(signal));
        notice.replaceChildren();
      } catch (problem) {
        if (signal.aborted || problem.name === "AbortError") return;
        if (!("code" in problem)) console.error(problem);
        if (!body.contains(stats)) body.replaceChildren();
        notice.replaceChildren(failure(problem, ask));
      }
      body.removeAttribute("aria-busy");
    }
    if (!signal.aborted) timer = setTimeout(ask, EVERY_MS);
  }
  document.addEventListener(
    "visibilitychange",
    () => document.visibilityState === "visible" && ask(),
    { signal },
  );
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  ask();
}
