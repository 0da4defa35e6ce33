// The page: it reads the address, draws the part that it names, and starts what is always there.

import { about, forgetAbout } from "./about.js";
import { combobox } from "./combobox.js";
import { h, icon } from "./dom.js";
import { explore } from "./explore.js";
import { linkTo, unspelled } from "./ids.js";
import { item } from "./item.js";
import { askAgain, startKeys } from "./key.js";
import { model } from "./model.js";
import { nothing } from "./say.js";
import { service } from "./service.js";
import { startTheme } from "./toggle.js";
import { trial } from "./trial.js";
import { user } from "./user.js";

const PARTS = { "": explore, user, item, try: trial, model, service };
const main = document.getElementById("main");
const slot = document.getElementById("search-slot");
const search = combobox({
  label: "Search users and items",
  placeholder: "Search a user or an item",
  sides: ["users", "items"],
  taken: (side, entry) => {
    location.hash = linkTo(side === "users" ? "user" : "item", entry.id);
  },
});
let leaving = new AbortController();

/** Read the address: the part, the id if there is one, and the parameters. */
function routeOf(hash) {
  const [path, rest = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const at = path.indexOf("/");
  const part = at < 0 ? path : path.slice(0, at);
  let id = null;
  try {
    id = at < 0 ? null : unspelled(decodeURIComponent(path.slice(at + 1)));
  } catch {
    // The address is damaged, and names nothing.
  }
  const parameters = new URLSearchParams(rest);
  const rewrite = (change) => {
    change(parameters);
    const text = String(parameters);
    history.replaceState(null, "", `#/${path}${text ? `?${text}` : ""}`);
  };
  return { part, id, parameters, rewrite };
}

function lost(place) {
  document.title = "Not here · sdgar";
  place.replaceChildren(
    h("h1", { tabindex: "-1" }, "There is nothing at this address"),
    nothing(
      "Perhaps a letter is missing",
      "Search for a user or an item, or begin at the front.",
      h("a", { class: "button", href: "#/" }, "To the front"),
    ),
  );
}

function draw(first) {
  leaving.abort();
  leaving = new AbortController();
  search.close();
  askAgain();
  const route = routeOf(location.hash);
  const needsId = route.part === "user" || route.part === "item";
  const part =
    Object.hasOwn(PARTS, route.part) && (!needsId || route.id !== null) ? PARTS[route.part] : lost;
  main.className = `part-${part.name}`;
  if (part !== explore) slot.replaceChildren(search.root);
  part(main, route, leaving.signal, search.root);
  for (const link of document.querySelectorAll("#nav a")) {
    const here = link.dataset.parts.split(" ").includes(route.part || "explore");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (first) return;
  scrollTo(0, 0);
  main.querySelector("h1")?.focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  const writing = event.target.matches?.("input, textarea, select");
  if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    search.input.focus();
  }
});
addEventListener("hashchange", () => draw(false));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part of an address after # names a part of the page here
  main.focus();
});
search.root.setAttribute("role", "search");
document.getElementById("key-button").prepend(icon("key"));
about(); // most parts want to know, so it is asked for at once
startTheme();
startKeys(() => {
  forgetAbout();
  draw(true);
});
draw(true);
