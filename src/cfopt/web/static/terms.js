// What an answer has to be like, beside the question: how few changes, how robust.

import { el } from "./dom.js";
import { counted, number } from "./words.js";

const OPTIONS = 5; // answers to choose from at most

/** A slider with its value in words. */
class Choice {
  /** @param words of a value, @param changed called after each move */
  constructor({ min, max, step, label }, words, changed) {
    const said = () => {
      this.output.textContent = words(this.value);
      this.input.setAttribute("aria-valuetext", words(this.value));
      const { min: low, max: high, value } = this.input;
      this.input.style.setProperty("--at", `${(100 * (value - low)) / (high - low || 1)}%`);
    };
    this.said = said;
    this.output = el("output", {});
    const oninput = () => {
      said();
      changed();
    };
    this.input = el("input", { type: "range", min, max, step, value: min, "aria-label": label, oninput });
    this.host = el("p", { class: "far" }, this.output, this.input);
  }

  get value() {
    return Number(this.input.value);
  }

  set value(value) {
    this.input.value = value;
    this.said();
  }
}

export class Terms {
  constructor(changed) {
    this.changed = changed;
    this.host = el("details", { class: "keys terms" }, el("summary", {}, "What the answer has to be like"));
  }

  /** The terms that make sense for a pipeline: none where pixels change. */
  suit({ features }) {
    const count = features?.length ?? 0;
    this.host.hidden = count === 0;
    this.most = count;
    const few = (most) => (most < count ? `at most ${counted(most, "feature")} may change` : "any number of features may change");
    const safe = (off) => (off ? `still right if the context is off by ${number(off)}` : "right in the answer itself");
    this.few = new Choice({ min: 1, max: count, step: 1, label: "How many features may change" }, few, this.changed);
    this.safe = new Choice({ min: 0, max: 1, step: 0.05, label: "How far off the context may be" }, safe, this.changed);
    const several = (most) => (most > 1 ? `up to ${most} answers that differ in kind` : "one answer, the nearest");
    this.several = new Choice({ min: 1, max: OPTIONS, step: 1, label: "How many answers" }, several, this.changed);
    this.priced = el("input", { type: "checkbox", onchange: this.changed });
    const also = el("span", {}, "Also in prices: what the costs themselves would have had to be");
    this.few.value = count;
    this.safe.value = 0;
    this.several.value = 1;
    const [summary] = this.host.children;
    const choices = [this.few, this.safe, this.several].map(({ host }) => host);
    this.host.replaceChildren(summary, ...choices, el("label", { class: "check" }, this.priced, also));
  }

  /** As a request has them: {max_changes, robust, options, prices}, each only if it is asked for. */
  get asked() {
    if (this.host.hidden) return {};
    return {
      ...(this.few.value < this.most ? { max_changes: this.few.value } : {}),
      ...(this.safe.value > 0 ? { robust: this.safe.value } : {}),
      ...(this.several.value > 1 ? { options: this.several.value } : {}),
      ...(this.priced.checked ? { prices: true } : {}),
    };
  }

  set asked({ max_changes: few, robust, options, prices }) {
    if (this.host.hidden) return;
    this.few.value = few ?? this.most;
    this.safe.value = robust ?? 0;
    this.several.value = options ?? 1;
    this.priced.checked = Boolean(prices);
    if (few || robust || options > 1 || prices) this.host.open = true;
  }

  /** As an address holds them. */
  get state() {
    const { max_changes: few, robust: safe, options: ways, prices } = this.asked;
    return { few, safe, ways, priced: prices && 1 };
  }

  set state({ few, safe, ways, priced }) {
    const [max_changes, robust, options] = [few, safe, ways].map((text) => text && Number(text));
    this.asked = { max_changes, robust, options, prices: priced };
  }
}
