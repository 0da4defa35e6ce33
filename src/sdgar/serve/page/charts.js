// Charts, drawn as SVG at the width that there is, each with a table of its numbers behind it.

import { h, s } from "./dom.js";
import { number } from "./words.js";

/** Choose about ``wanted`` round values that cover a range. */
export function ticks(low, high, wanted = 4) {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((one) => one >= raw);
  const first = Math.ceil(low / step - 1e-9) * step;
  const found = [];
  for (let value = first; value <= high + step * 1e-6; value += step)
    found.push(Number(value.toPrecision(12)));
  return found;
}

/** Put the numbers of a chart into a table that one can open. */
export function tableBehind(caption, columns, rows) {
  return h(
    "details",
    { class: "behind" },
    h("summary", null, "The numbers as a table"),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h(
        "table",
        null,
        h("caption", { class: "unseen" }, caption),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            columns.map((name) => h("th", { scope: "col" }, name)),
          ),
        ),
        h(
          "tbody",
          null,
          rows.map(([head, ...cells]) =>
            h(
              "tr",
              null,
              h("th", { scope: "row" }, head),
              cells.map((cell) => h("td", null, cell)),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Draw a chart whenever the width of its place changes. */
function drawnToFit(height, label, draw, signal) {
  const place = h("div", { class: "chart" });
  place.style.setProperty("--height", `${height}px`);
  let drawn = 0;
  const observer = new ResizeObserver(([{ contentRect }]) => {
    const width = Math.round(contentRect.width);
    if (!width || width === drawn) return;
    drawn = width;
    place.replaceChildren(
      s(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
        draw(width, height),
      ),
    );
  });
  observer.observe(place);
  signal?.addEventListener("abort", () => observer.disconnect(), { once: true });
  return place;
}

/** Draw a curve of points [x, y], with its best point marked. */
export function curve({ points, label, xName, signal }) {
  const ys = points.map(([, y]) => y);
  const xs = points.map(([x]) => x);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const best = points.reduce((a, b) => (b[1] > a[1] ? b : a));
  const low = Math.min(...ys);
  const high = Math.max(...ys);
  const marks = ticks(low - (high - low) * 0.05, high + (high - low) * 0.08);
  const [y0, y1] = [Math.min(low, marks[0]), Math.max(high, marks.at(-1))];
  const draw = (width, height) => {
    const box = { left: 52, right: width - 14, top: 22, bottom: height - 30 };
    const px = (x) => box.left + ((x - x0) / (x1 - x0 || 1)) * (box.right - box.left);
    const py = (y) => box.bottom - ((y - y0) / (y1 - y0 || 1)) * (box.bottom - box.top);
    const path = points
      .map(([x, y], n) => `${n ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`)
      .join("");
    const bx = px(best[0]);
    const anchor = bx > width - 110 ? "end" : bx < 120 ? "start" : "middle";
    const cursor = s("g", { class: "cursor" });
    const follow = (event) => {
      const at = event.offsetX;
      const near = points.reduce((a, b) =>
        Math.abs(px(b[0]) - at) < Math.abs(px(a[0]) - at) ? b : a,
      );
      const cx = px(near[0]);
      const side = cx > width / 2 ? "end" : "start";
      cursor.replaceChildren(
        s("line", { x1: cx, x2: cx, y1: box.top, y2: box.bottom }),
        s("circle", { cx, cy: py(near[1]), r: 4 }),
        s(
          "text",
          { x: cx + (side === "end" ? -8 : 8), y: box.bottom - 8, "text-anchor": side },
          `${xName} ${near[0]}: ${number(near[1])}`,
        ),
      );
    };
    return [
      marks.map((y) => [
        s("line", { class: "grid", x1: box.left, x2: box.right, y1: py(y), y2: py(y) }),
        s(
          "text",
          { class: "tick", x: box.left - 8, y: py(y) + 4, "text-anchor": "end" },
          String(y),
        ),
      ]),
      ticks(x0, x1, width > 480 ? 8 : 4)
        .filter(Number.isInteger)
        .map((x) =>
          s(
            "text",
            { class: "tick", x: px(x), y: height - 10, "text-anchor": "middle" },
            String(x),
          ),
        ),
      s("path", { class: "area", d: `${path}L${px(x1)} ${box.bottom}L${px(x0)} ${box.bottom}Z` }),
      s("path", { class: "line", d: path }),
      s("circle", { class: "best", cx: bx, cy: py(best[1]), r: 5 }),
      s(
        "text",
        { class: "best-label", x: bx, y: py(best[1]) - 11, "text-anchor": anchor },
        `${number(best[1])} in ${xName} ${best[0]}`,
      ),
      cursor,
      s("rect", {
        class: "touch",
        width,
        height,
        onpointermove: follow,
        onpointerleave: () => cursor.replaceChildren(),
      }),
    ];
  };
  return drawnToFit(240, label, draw, signal);
}

/** Draw one bar for each value, the newest at the right. */
export function columns({ values, label, ends, told, signal }) {
  const most = Math.max(...values, 1);
  const marks = ticks(0, most, 2).filter(Number.isInteger);
  const top = Math.max(most, marks.at(-1) ?? 0);
  const draw = (width, height) => {
    const box = { left: 40, right: width - 4, top: 12, bottom: height - 24 };
    const step = (box.right - box.left) / values.length;
    const gap = Math.min(3, step * 0.25);
    const py = (y) => box.bottom - (y / top) * (box.bottom - box.top);
    return [
      marks.map((y) => [
        s("line", { class: "grid", x1: box.left, x2: box.right, y1: py(y), y2: py(y) }),
        s(
          "text",
          { class: "tick", x: box.left - 8, y: py(y) + 4, "text-anchor": "end" },
          String(y),
        ),
      ]),
      values.map((value, n) =>
        s(
          "rect",
          {
            class: "column",
            x: box.left + n * step + gap / 2,
            width: Math.max(1, step - gap),
            y: py(value),
            height: Math.max(value ? 1 : 0, box.bottom - py(value)),
            rx: Math.min(2, step / 4),
          },
          s("title", null, told(value, n)),
        ),
      ),
      s("text", { class: "tick", x: box.left, y: height - 6 }, ends[0]),
      s("text", { class: "tick", x: box.right, y: height - 6, "text-anchor": "end" }, ends[1]),
    ];
  };
  return drawnToFit(150, label, draw, signal);
}
