// A field that finds users and items while one types, after the combobox pattern of ARIA: arrow
// keys walk through what is found, Enter takes it, Escape closes.

import * as api from "./api.js";
import { fresh, h, icon, unseen } from "./dom.js";
import { picture } from "./picture.js";
import { several, titleOf } from "./words.js";

const WAIT_MS = 140;
const MOST = 8;
const NAMES = { users: "Users", items: "Items" };

/** Make a search field; ``taken(side, entry)`` is told what was chosen. */
export function combobox({ label, placeholder, sides, taken, stays = false, signal }) {
  const listId = fresh("found");
  const input = h("input", {
    type: "text",
    role: "combobox",
    class: "search-field",
    placeholder,
    "aria-label": label,
    "aria-expanded": "false",
    "aria-controls": listId,
    "aria-autocomplete": "list",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    enterkeyhint: "search",
  });
  const list = h("div", {
    id: listId,
    class: "found",
    role: "listbox",
    "aria-label": label,
    hidden: true,
  });
  const status = h("div", { class: "unseen", role: "status" });
  const hint = h("div", { class: "found-note", hidden: true });
  const popup = h("div", { class: "popup", hidden: true }, list, hint);
  const root = h("div", { class: "search" }, icon("search"), input, popup, status);
  let options = [];
  let active = -1;
  let timer = 0;
  let asked = null;
  let shown = ""; // the text whose results are in the list

  function close() {
    clearTimeout(timer);
    asked?.abort();
    popup.hidden = true;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  }

  function note(text) {
    hint.hidden = !text;
    hint.textContent = text;
    status.textContent = text;
    popup.hidden = !text && options.length === 0;
  }

  function move(to) {
    options[active]?.element.setAttribute("aria-selected", "false");
    active = to;
    const now = options[active];
    if (!now) return input.removeAttribute("aria-activedescendant");
    now.element.setAttribute("aria-selected", "true");
    now.element.scrollIntoView({ block: "nearest" });
    return input.setAttribute("aria-activedescendant", now.element.id);
  }

  function take(option) {
    close();
    input.value = "";
    if (stays) input.focus();
    taken(option.side, option.entry);
  }

  function drawnOption(side, entry) {
    const option = { side, entry };
    const facts = [entry.name ? String(entry.id) : null, entry.known ? null : "not in the model"];
    option.element = h(
      "div",
      {
        role: "option",
        id: fresh("option"),
        class: "option",
        "aria-selected": "false",
        onmousedown: (event) => event.preventDefault(),
        onclick: () => take(option),
        onmousemove: () => options[active] !== option && move(options.indexOf(option)),
      },
      picture(entry, { round: side === "users" }),
      h("span", { class: "option-name" }, titleOf(entry)),
      h("span", { class: "option-fact" }, facts.filter(Boolean).join(" · ")),
    );
    return option;
  }

  function show(answers) {
    options = [];
    const groups = answers.map(([side, found]) => {
      const own = found.map((entry) => drawnOption(side, entry));
      options.push(...own);
      if (!own.length) return null;
      const name = fresh("group");
      const title = h("div", { class: "found-title", id: name, role: "presentation" }, NAMES[side]);
      return h(
        "div",
        { role: "group", "aria-labelledby": name },
        title,
        own.map((one) => one.element),
      );
    });
    list.replaceChildren(...groups.filter(Boolean));
    list.hidden = options.length === 0;
    popup.hidden = false;
    input.setAttribute("aria-expanded", String(options.length > 0));
    note(options.length ? "" : `Nothing begins with or is named “${input.value.trim()}”.`);
    if (options.length)
      status.textContent = `${several(options.length, "result")}. Use the arrow keys.`;
    move(-1);
  }

  async function ask() {
    const text = input.value.trim();
    clearTimeout(timer);
    asked?.abort();
    if (!text) return close();
    const own = (asked = new AbortController());
    root.classList.add("busy");
    try {
      const limit = sides.length > 1 ? Math.ceil(MOST / 2) + 1 : MOST;
      const found = await Promise.all(
        sides.map(async (side) => [side, (await api.search(side, text, limit, own.signal)).found]),
      );
      if (!own.signal.aborted) {
        shown = text;
        show(found);
      }
    } catch (problem) {
      if (own.signal.aborted || problem.name === "AbortError") return null;
      options = [];
      list.hidden = true;
      note(problem.message);
    } finally {
      if (asked === own) root.classList.remove("busy");
    }
    return null;
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    const last = options.length - 1;
    const open = !popup.hidden && last >= 0;
    // Results of a shorter text must not be taken for those of the whole one.
    const current = () => shown === input.value.trim();
    if (event.key === "ArrowDown" && !(open && current())) ask();
    else if (event.key === "ArrowDown") move(active >= last ? 0 : active + 1);
    else if (event.key === "ArrowUp" && open) move(active <= 0 ? last : active - 1);
    else if (event.key === "Home" && open && active >= 0) move(0);
    else if (event.key === "End" && open && active >= 0) move(last);
    else if (event.key === "Enter" && open && current()) take(options[Math.max(active, 0)]);
    else if (event.key === "Enter" && input.value.trim() && !current())
      ask().then(() => current() && options.length && take(options[0]));
    else if (event.key === "Escape" && !popup.hidden) close();
    else if (event.key === "Escape" && input.value) input.value = "";
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", () =>
    setTimeout(() => root.contains(document.activeElement) || close(), 0),
  );
  signal?.addEventListener("abort", close);
  return { root, input, close };
}
