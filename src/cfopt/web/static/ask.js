// The question in plain words, the button that asks it, and how the search is going.

import { el, usable } from "./dom.js";
import { Terms } from "./terms.js";
import { counted, seconds } from "./words.js";

export class Ask {
  /**
   * @param host the section to fill
   * @param on {ask(), cancel(), change()}
   */
  constructor(host, on) {
    this.host = host;
    this.on = on;
    this.name = `kind-${host.id}`;
    this.button = el("button", { type: "submit", class: "primary" }, "Explain");
    this.why = el("p", { class: "small why", id: `${host.id}-why` });
    this.button.setAttribute("aria-describedby", this.why.id);
    this.naive = el("input", { type: "checkbox", onchange: () => this.on.change() });
    const beside = el("span", {}, "Also show the naive answer: the nearest pixels, plausible or not");
    this.naiveRow = el("label", { class: "check" }, this.naive, beside);
    this.kinds = el("div", { class: "kinds", role: "radiogroup", "aria-label": "Question" });
    this.sliderRows = el("div", {});
    this.terms = new Terms(() => this.on.change());
    const parts = [this.kinds, this.sliderRows, this.terms.host, this.naiveRow];
    this.form = el("form", { novalidate: true }, parts);
    this.go = el("div", { class: "go" }, this.button, this.why);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.on.ask();
    });
    this.time = el("span", { class: "time" }, "");
    this.stop = el("button", { type: "button", onclick: () => this.on.cancel() }, "Cancel");
    const track = el("div", { class: "track", role: "progressbar", "aria-label": "Search" });
    this.progress = el("div", { class: "progress", hidden: true }, track, this.time, this.stop);
    this.form.append(this.go);
    host.append(this.form, this.progress);
  }

  /** The questions that a pipeline can be asked, and options that fit it. */
  suit(pipeline) {
    const { questions, plausible } = pipeline;
    this.terms.suit(pipeline);
    const kept = this.kind ?? questions[0].kind;
    this.questions = new Map(questions.map((one) => [one.kind, one]));
    this.sliders = new Map(questions.map(({ kind, sliders }) => [kind, sliders.map((one) => new Slider(one))]));
    const choice = ({ kind, title, more }) => {
      const radio = { type: "radio", name: this.name, value: kind, checked: kind === kept };
      const input = el("input", { ...radio, onchange: () => this.#chosen() });
      return el("label", { class: "kind" }, input, el("span", {}, el("b", {}, title), el("small", {}, more)));
    };
    this.kinds.replaceChildren(...questions.map(choice));
    this.naiveRow.hidden = !plausible;
    this.#chosen();
  }

  get kind() {
    return this.kinds.querySelector("input:checked")?.value;
  }

  /** Choose the first question about an alternative, and return its words. */
  contrast() {
    const { kind, title } = [...this.questions.values()].find(({ contrasts }) => contrasts);
    this.question = { kind };
    return title;
  }

  /** Whether the question is about an alternative. */
  get contrasts() {
    return this.questions?.get(this.kind)?.contrasts ?? true;
  }

  /** The question without its alternative. */
  get question() {
    const { kind } = this;
    return { kind, ...Object.fromEntries(this.sliders.get(kind).map((one) => [one.name, one.fraction])) };
  }

  /** A question that was asked before, by this page or over HTTP. */
  set question(asked) {
    const choice = this.kinds.querySelector(`input[value="${asked.kind}"]`);
    if (choice) choice.checked = true;
    for (const slider of this.sliders.get(asked.kind) ?? []) {
      if (asked[slider.name] !== undefined) slider.fraction = asked[slider.name];
    }
    this.#chosen();
  }

  /** The question as an address holds it. */
  get state() {
    const { kind, ...sliders } = this.question;
    const given = Object.entries(sliders).map(([name, value]) => [`q.${name}`, value]);
    return { kind, ...Object.fromEntries(given), ...this.terms.state, beside: this.naive.checked && !this.naiveRow.hidden ? 1 : "" };
  }

  set state({ kind, beside, ...rest }) {
    this.naive.checked = Boolean(beside);
    this.terms.state = rest;
    if (!this.questions.has(kind)) return;
    const sliders = Object.entries(rest).filter(([name]) => name.startsWith("q."));
    this.question = { kind, ...Object.fromEntries(sliders.map(([name, text]) => [name.slice(2), Number(text)])) };
  }

  /** Whether it can be asked; if not, why. */
  allow(why) {
    usable(this.button, !why);
    this.why.textContent = why;
  }

  get allowed() {
    return this.button.getAttribute("aria-disabled") !== "true";
  }

  /** While a search runs: no other question, a clock, and a way to stop it. */
  busy(yes) {
    this.progress.hidden = !yes;
    this.form.inert = yes;
    this.go.hidden = yes;
    this.form.classList.toggle("busy", yes);
    if (yes) this.time.textContent = "Waiting for a worker";
  }

  report({ status, place, seconds: passed, step }, what = "Searching") {
    if (status === "queued") {
      const before = place > 1 ? `, ${place} searches ahead` : place === 1 ? ", one search ahead" : "";
      this.time.textContent = `Waiting for a worker${before}`;
      return;
    }
    const steps = step ? `, ${counted(step, "step")}` : "";
    this.time.textContent = `${what}: ${seconds(passed ?? 0)}${steps}`;
  }

  #chosen() {
    this.sliderRows.replaceChildren(...this.sliders.get(this.kind).map((one) => one.host));
    this.on.change();
  }
}

/** A fraction in percent: "at least 30% off the best". */
class Slider {
  constructor({ name, before, after, low, high, step, usual }) {
    Object.assign(this, { name, low, high, step });
    const range = { type: "range", min: low, max: high, step, value: usual, oninput: () => this.#show() };
    this.input = el("input", { ...range, "aria-label": `${before} this much ${after}, in percent` });
    this.output = el("output", {});
    this.host = el("p", { class: "far" }, `${before} `, this.output, ` ${after}`, this.input);
    this.#show();
  }

  get fraction() {
    return Number(this.input.value) / 100;
  }

  /** One from elsewhere may lie beyond the range, or between two steps. */
  set fraction(fraction) {
    const value = Number((100 * fraction).toPrecision(6));
    const step = value % this.step ? "any" : this.step;
    Object.assign(this.input, { min: Math.min(this.low, value), max: Math.max(this.high, value), step, value });
    this.#show();
  }

  #show() {
    const { min, max, value } = this.input;
    this.output.textContent = `${value}%`;
    this.input.style.setProperty("--at", `${(100 * (value - min)) / (max - min)}%`);
  }
}
