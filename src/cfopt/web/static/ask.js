// The question in plain words, the button that asks it, and how the search is going.

import { el, usable } from "./dom.js";
import { counted, seconds } from "./words.js";

const FAR = { min: 5, max: 100, step: 5 }; // percent off the best

const WORDS = {
  route: {
    absolute: ["What would have made mine the best?", "No other route would have cost less."],
    relative: ["When would mine have beaten this one?", "Mine would have cost less than the route decided."],
    epsilon: ["What would have made this one clearly wrong?", "No route of yours is needed."],
  },
  other: {
    absolute: ["What would have made mine the best?", "No other choice would have been better."],
    relative: ["When would mine have beaten this one?", "Mine would have been better than the decision."],
    epsilon: ["What would have made this one clearly wrong?", "No alternative is needed."],
  },
};

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
    const percent = { type: "range", ...FAR, value: 30, oninput: () => this.#told() };
    this.epsilon = el("input", { ...percent, "aria-label": "At least so far off the best, in percent" });
    this.off = el("output", {});
    this.naive = el("input", { type: "checkbox" });
    const beside = el("span", {}, "Beside it the naive answer: the nearest pixels, plausible or not");
    this.naiveRow = el("label", { class: "check" }, this.naive, beside);
    this.kinds = el("div", { class: "kinds", role: "radiogroup", "aria-label": "Question" });
    this.far = el("p", { class: "far", hidden: true }, "at least ", this.off, " off the best", this.epsilon);
    this.form = el("form", { novalidate: true }, this.kinds, this.far, this.naiveRow);
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
    this.#told();
  }

  /** Words and options that fit a pipeline. */
  suit({ noun, plausible }) {
    const words = WORDS[noun === "route" ? "route" : "other"];
    const kept = this.kind ?? "absolute";
    const choice = ([kind, [title, more]]) => {
      const radio = { type: "radio", name: this.name, value: kind, checked: kind === kept };
      const input = el("input", { ...radio, onchange: () => this.#chosen() });
      return el("label", { class: "kind" }, input, el("span", {}, el("b", {}, title), el("small", {}, more)));
    };
    this.kinds.replaceChildren(...Object.entries(words).map(choice));
    this.naiveRow.hidden = !plausible;
    this.#chosen();
  }

  get kind() {
    return this.kinds.querySelector("input:checked")?.value;
  }

  /** The question without its alternative. */
  get question() {
    const { kind } = this;
    return kind === "epsilon" ? { kind, epsilon: Number(this.epsilon.value) / 100 } : { kind };
  }

  /** A question that was asked before, by this page or over HTTP. */
  set question({ kind, epsilon = null }) {
    const choice = this.kinds.querySelector(`input[value="${kind}"]`);
    if (choice) choice.checked = true;
    if (epsilon !== null) {
      const value = Number((100 * epsilon).toPrecision(6));
      const step = value % FAR.step ? "any" : FAR.step;
      Object.assign(this.epsilon, { min: Math.min(FAR.min, value), max: Math.max(FAR.max, value), step, value });
      this.#told();
    }
    this.#chosen();
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
      const before = place > 1 ? `, ${place} searches before it` : place === 1 ? ", one search before it" : "";
      this.time.textContent = `Waiting for a worker${before}`;
      return;
    }
    const steps = step ? `, ${counted(step, "step")}` : "";
    this.time.textContent = `${what}: ${seconds(passed ?? 0)}${steps}`;
  }

  #chosen() {
    this.far.hidden = this.kind !== "epsilon";
    this.on.change();
  }

  #told() {
    const { min, max, value } = this.epsilon;
    this.off.textContent = `${value}%`;
    this.epsilon.style.setProperty("--at", `${(100 * (value - min)) / (max - min)}%`);
  }
}
