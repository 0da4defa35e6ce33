// Elements from names and values. Texts become text nodes and nothing is ever read as HTML, so that
// an id or a name may hold any characters.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "vars") {
      for (const [key, one] of Object.entries(value)) element.style.setProperty(`--${key}`, one);
    } else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false),
  );
  return element;
}

/** Make an element. */
export const h = (tag, attributes, ...children) =>
  filled(document.createElement(tag), attributes, children);

/** Make an element of a drawing. */
export const s = (tag, attributes, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

let made = 0;

/** Give an id that no other element has. */
export const fresh = (word) => `${word}-${++made}`;

/** Draw one of the page's small signs; it says nothing to screen readers. */
export function icon(name) {
  const paths = {
    up: "M8 13V3M3.5 7.5 8 3l4.5 4.5",
    down: "M8 3v10M3.5 8.5 8 13l4.5-4.5",
    like: "M8 13.5 3.2 8.8a3.1 3.1 0 0 1 4.4-4.4l.4.4.4-.4a3.1 3.1 0 0 1 4.4 4.4Z",
    dislike: "M3.5 3.5l9 9M12.5 3.5l-9 9",
    add: "M8 3v10M3 8h10",
    search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.7-1.3L14 14",
    sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M13 3l-1.1 1.1M4.1 11.9 3 13",
    moon: "M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1Z",
    key: "M10 8.8a3.2 3.2 0 1 0-2.8-2.8L2 11.2V14h2.8l.9-1v-1.4h1.4L10 8.8Z",
    undo: "M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8H6",
    chevron: "M6 3.5 10.5 8 6 12.5",
    person: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 14.5a5.5 5.5 0 0 1 11 0",
    similar: "M5.5 10.5a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM10.5 13.5a4 4 0 1 0 0-8 4 4 0 0 0 0 8Z",
  };
  return s(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    s("path", { d: paths[name] }),
  );
}

/** Say something to screen readers only. */
export const unseen = (text) => h("span", { class: "unseen" }, text);
