// Any other problem: the server's drawing, and its columns to be ticked or given as numbers.

import { drawn, el } from "./dom.js";
import { number } from "./words.js";

const LISTED = 60; // columns that are listed one by one
const SPELLED = 12; // up to so many parts a decision is spelled out
const HINTS = 4; // of a longer one
const NOISE = 1e-6; // as exactly as solvers answer

export class ColumnsDrawing {
  uses = "With this";
  avoids = "Without this";

  /** @param on {wanted(decision)} */
  constructor(host, list, { decision_names: names, columns }, on) {
    Object.assign(this, { host, on });
    this.columns = columns ?? (names ?? []).map((name) => ({ name, binary: true }));
    this.fields = this.columns.length <= LISTED ? this.columns.map((column, k) => this.#field(column, k)) : [];
    const binary = this.columns.every((column) => column.binary);
    const help = binary ? "Tick what your alternative takes." : "Enter how much of each your alternative takes.";
    this.help = this.fields.length ? help : "Take the decision of another row.";
    if (this.fields.length) list.replaceChildren(el("div", { class: "ticks" }, this.fields.map(({ node }) => node)));
  }

  show({ decision, drawing }, alternative) {
    this.host.replaceChildren(...[drawn(drawing)].filter(Boolean));
    this.shown = alternative ?? decision;
    this.fields.forEach(({ put }, k) => put(this.shown[k]));
  }

  /** A decision in a few words, as the server names it. */
  called(decision) {
    const part = ({ name }, k) => (Math.abs(decision[k] - 1) < NOISE ? name : `${name} = ${number(decision[k])}`);
    const parts = this.columns.map(part).filter((_, k) => Math.abs(decision[k]) > NOISE);
    if (parts.length > SPELLED) parts.splice(HINTS, Infinity, `${parts.length - HINTS} more`);
    if (parts.length < 2) return parts[0] ?? "nothing";
    return `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
  }

  #want(k, amount) {
    this.on.wanted(this.shown.map((value, j) => (j === k ? amount : value)));
  }

  #field(column, k) {
    return column.binary ? this.#tick(column, k) : this.#amount(column, k);
  }

  #tick({ name }, k) {
    const input = el("input", { type: "checkbox", onchange: () => this.#want(k, Number(input.checked)) });
    const put = (value) => {
      input.checked = value > 0.5;
    };
    return { node: el("label", { class: "check" }, input, el("span", {}, name)), put };
  }

  #amount({ name, integer, lower, upper }, k) {
    const input = el("input", { type: "number", min: lower, max: upper, step: integer ? 1 : "any" });
    const given = () => input.value !== "" && Number.isFinite(Number(input.value));
    const put = (value) => {
      // What is being typed stays as it is.
      if (!given() || Number(input.value) !== value) input.value = Number(value.toPrecision(6));
    };
    input.addEventListener("input", () => given() && this.#want(k, Number(input.value)));
    input.addEventListener("change", () => put(this.shown[k]));
    return { node: el("label", { class: "amount" }, input, el("span", {}, name)), put };
  }
}
