// The button that changes between light and dark. What one chooses is remembered; until then the
// system's scheme holds.

import { icon } from "./dom.js";

const NAME = "sdgar.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : system.matches;
};

/** Start the button in the header. */
export function startTheme() {
  const button = document.getElementById("theme-button");
  const show = () => {
    const other = isDark() ? "light" : "dark";
    button.replaceChildren(icon(isDark() ? "sun" : "moon"));
    button.setAttribute("aria-label", `Use ${other} colours`);
    button.title = `Use ${other} colours`;
  };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(NAME, theme);
    } catch {
      // A browser may forbid storage; then the choice holds until the page is closed.
    }
    show();
  });
  system.addEventListener("change", show);
  show();
}
