// Choices among items as bars: filled if taken, dashed if asked for.

import { el } from "./dom.js";
import { number, percent } from "./words.js";

const FULL = 1e-6; // the fraction of a capacity up to which an excess is rounding

/** One button for each item: filled if decided, dashed if asked for; `click` is called with its number. */
function itemRows(names, costs, decision, alternative, avoided, click) {
  const below = Math.max(0, ...costs.map((cost) => -cost));
  const span = below + Math.max(0, ...costs) || 1;
  const part = (value) => `${(100 * value) / span}%`;
  const taken = (one, k) => one?.[k] > 0.5;
  return names.map((name, k) => {
    const kinds = ["bar"];
    if (taken(decision, k)) kinds.push("taken-factual");
    if (taken(alternative, k)) kinds.push("dashed-other");
    if (taken(avoided, k)) kinds.push("avoided");
    const left = costs[k] < 0 ? below + costs[k] : below;
    const bar = el("i", { class: kinds.join(" "), "--left": part(left), "--width": part(Math.abs(costs[k])) });
    const parts = [
      el("span", { class: "name" }, name),
      el("span", { class: "lane", "--zero": part(below) }, bar),
      el("span", { class: "price" }, number(costs[k], 3)),
    ];
    const checked = String(taken(alternative ?? decision, k));
    const button = { type: "button", role: "checkbox", "aria-checked": checked, "data-item": k };
    return el("li", {}, el("button", { ...button, onclick: () => click(k) }, parts));
  });
}

/** Items that are put in or left out of the alternative with a click. */
export class ItemsDrawing {
  uses = "With this";
  avoids = "Without this";
  help = "Click items to add them to your alternative or to remove them.";

  /**
   * @param scene {entries, weights, capacities}
   * @param on {wanted(decision)}
   */
  constructor(host, { entries, weights, capacities }, on) {
    Object.assign(this, { names: entries.map(({ name }) => name), weights, capacities, on });
    this.list = el("ul", { class: "items", "aria-label": "Items of your alternative" });
    this.room = el("p", { class: "small room" });
    host.replaceChildren(this.list, this.room);
  }

  show({ costs, prices = costs, decision }, alternative, avoided = null) {
    const focused = document.activeElement?.dataset?.item;
    const shown = alternative ?? decision;
    const click = (k) => this.on.entry(k) || this.on.wanted(shown.map((value, j) => (j === k ? Number(value < 0.5) : value)));
    this.list.replaceChildren(...itemRows(this.names, prices, decision, alternative, avoided, click));
    if (focused !== undefined) this.list.querySelector(`[data-item="${focused}"]`)?.focus();
    this.room.textContent = this.#filled(shown);
  }

  /** Why a selection cannot be asked about: it is too heavy; "" if it is not. */
  fault(decision) {
    const over = Math.max(0, ...this.#parts(decision));
    return over > 1 + FULL ? `Your selection is too heavy: ${percent(over)} of what fits. Remove something.` : "";
  }

  /** How full each capacity is, as fractions. */
  #parts(decision) {
    const used = (row) => row.reduce((sum, weight, j) => sum + weight * decision[j], 0);
    return (this.weights ?? []).map((row, k) => used(row) / this.capacities[k]);
  }

  #filled(decision) {
    const parts = this.#parts(decision);
    if (!parts.length) return "";
    const over = this.fault(decision) ? ": too much" : "";
    const listed = parts.map((part) => `${Math.round(100 * part)}%`).join(" and ");
    return `It takes ${listed} of the ${parts.length > 1 ? "capacities" : "capacity"}${over}.`;
  }
}
