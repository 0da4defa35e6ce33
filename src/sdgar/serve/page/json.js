// JSON in which every integer keeps its value. An id may be any 64-bit integer, and JavaScript's
// numbers are exact only up to 2^53: greater ones are held as BigInt and written as they came.

const MARK = "\u0000integer ";
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG = /\d{16}/;
const MARKED = /"\\u0000integer (-?\d+)"/g;

/** Read JSON text. */
export function parse(text) {
  if (!LONG.test(text)) return JSON.parse(text);
  const marked = text.replace(TOKENS, (token) =>
    /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token))
      ? JSON.stringify(MARK + token)
      : token,
  );
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/** Write a value as JSON text. */
export function stringify(value) {
  const text = JSON.stringify(value, (_, one) =>
    typeof one === "bigint" ? MARK + String(one) : one,
  );
  return text.replace(MARKED, "$1");
}
