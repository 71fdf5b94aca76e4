// Numbers and names as the report writes them.

const MINUS = "\u2212";
const HUGE = 1e15; // from here on as powers of ten

/** A number with a few digits that mean something: 28.08, 0.731, 1,204. */
export function number(value, digits = 4) {
  if (typeof value === "string") return value; // of a category
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text =
    size >= 10 ** digits && size < HUGE
      ? value.toLocaleString("en", { maximumFractionDigits: 0 })
      : String(Number(value.toPrecision(size < 1e-3 ? 1 : digits)));
  return text.replace("-", MINUS);
}

/** The same with its sign. */
export const signed = (value) => (value > 0 ? "+" : "") + number(value, 3);

/** A fraction in percent: 0.064 is 6.4%. */
export function percent(part) {
  if (part === null || part === undefined || !Number.isFinite(part)) return "";
  const value = 100 * part;
  if (Math.abs(value) < 0.05) return "0%";
  const digits = Math.abs(value) < 10 ? 1 : 0;
  const text = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${text.replace("-", MINUS)}%`;
}

/** A clock: tenths of a second below a minute. */
export const seconds = (value) =>
  value < 60 ? `${value.toFixed(1)} s` : `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;

/** How long something took. */
export const duration = (value) => (value < 1 ? `${Math.max(1, Math.round(1000 * value))} ms` : seconds(value));

/** The letters of a column: A to Z, then AA. */
export function letters(column) {
  let text = "";
  for (let rest = column + 1; rest > 0; rest = Math.floor((rest - 1) / 26)) {
    text = String.fromCharCode(65 + ((rest - 1) % 26)) + text;
  }
  return text;
}

/** A cell of a map: column and row, as in chess. */
export const cellName = ([row, column]) => `${letters(column)}${row + 1}`;

/** The cell of a name, [row, column]; null if it is none. */
export function cellOf(name) {
  const [, column, row] = name.match(/^([A-Z]+)(\d+)$/) ?? [];
  if (!column) return null;
  return [Number(row) - 1, [...column].reduce((sum, letter) => 26 * sum + letter.charCodeAt(0) - 64, 0) - 1];
}

/** An answer and what can be done with it; a way on where there is none. */
export const summedUp = (verdict, more) =>
  verdict ? `The answer: ${verdict} ${more}` : "This time there is no answer. Change something, and ask again.";

/** A word in front of a sentence. */
export const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/** "one step", "4 steps". */
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
