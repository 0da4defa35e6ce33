// Sets the colours before anything is drawn, so that the page never flashes in the other scheme.
// It is a plain script and not a module, because modules wait until the page has been read.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("sdgar.theme");
  } catch {
    // A browser may forbid storage; then the system's scheme holds.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
