// Rows glide from where they were to where they are: first, last, invert, play.

const MS = 420;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** Change a list by ``change`` and let its rows move to their new places. */
export function flip(list, change) {
  const before = new Map();
  if (!calm.matches) {
    for (const row of list.children) before.set(row, row.getBoundingClientRect().top);
  }
  change();
  if (calm.matches || before.size === 0) return;
  for (const row of list.children) {
    const old = before.get(row);
    if (old === undefined) {
      row.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MS, easing: "ease-out" });
      continue;
    }
    const by = old - row.getBoundingClientRect().top;
    if (Math.abs(by) < 1) continue;
    row.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], {
      duration: MS,
      easing: "cubic-bezier(0.2, 0.8, 0.2, 1)",
    });
  }
}
