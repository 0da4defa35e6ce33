// What the model says of itself, asked once for all parts of the page.

import * as api from "./api.js";

let asked = null;

/** Tell what the model is; an empty table if the server does not say. */
export function about() {
  asked ??= api.model().catch(() => {
    asked = null;
    return {};
  });
  return asked;
}

/** Forget it, for another key may be told more. */
export const forgetAbout = () => {
  asked = null;
};

/** Tell whether the server says that it can do something. */
export const able = (model, what) => Boolean(model.abilities?.[what]);

/** Tell the names of the variants. */
export const variantsOf = (model) =>
  (model.variants ?? []).map((one) => (typeof one === "string" ? one : one.name)).filter(Boolean);
