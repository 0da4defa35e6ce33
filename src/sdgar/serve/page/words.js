// Numbers and facts in words.

const plain = new Intl.NumberFormat("en");
const fine = new Intl.NumberFormat("en", { style: "percent", maximumSignificantDigits: 2 });
const percents = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });

/** Write a whole number with its thousands apart. */
export const count = (value) => plain.format(value);

/** Write a number and its noun: "1 item", "2 items". */
export const several = (value, noun, nouns = `${noun}s`) =>
  `${count(value)} ${Number(value) === 1 ? noun : nouns}`;

/** Write a number with about as many digits as one reads. */
export function number(value) {
  if (typeof value === "bigint") return plain.format(value);
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return plain.format(value);
  const size = Math.abs(value);
  if (size >= 1000) return plain.format(Math.round(value));
  if (size > 0 && size < 0.001) return value.toExponential(1);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4);
}

/** Write a share as a percentage; small ones keep two digits. */
export const percent = (value) => (value > 0 && value < 0.01 ? fine : percents).format(value);

/** Write a duration in its two greatest units. */
export function duration(seconds) {
  const units = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of units) {
    const whole = Math.floor(left / size);
    left -= whole * size;
    if (whole) parts.push(`${whole} ${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

/** Write a time, which is seconds since 1970 or a text, in the reader's own way. */
export function time(value) {
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  if (value === null || value === undefined || Number.isNaN(date.getTime())) return null;
  return date.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
}

/** Write only the day of a time. */
export function day(value) {
  const date = new Date(value * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleDateString("en", { dateStyle: "medium" });
}

/** Join texts as one would say them. */
export function listed(texts) {
  if (texts.length < 2) return texts.join("");
  return `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}

/** Turn a name of a field into words. */
export function label(name) {
  const words = String(name)
    .replaceAll("_", " ")
    .replace(/^(ndcg|map|mrr|hr|kl)\b/i, (m) => m.toUpperCase());
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What an item or a user is called. */
export const titleOf = (one) => one.name || String(one.item ?? one.id ?? one.user);

export const BASES = {
  model: ["Trained", "The model learned these tastes in training."],
  feedback: [
    "Folded in from feedback",
    "The list takes in what was stored since the model was trained.",
  ],
  history: [
    "Folded in from this history",
    "The model never saw this person; it works from the items given.",
  ],
  popular: [
    "Most popular",
    "The model knows nothing of this person yet, so everyone's favourites stand in.",
  ],
};
