// The features of a context: a slider each, a lock, and the range an answer may use.

import { el } from "./dom.js";
import { number } from "./words.js";

export class Features {
  /**
   * @param changed called with the values after each move of a slider
   * @param limited called after each change of a lock or a range
   */
  constructor(host, features, changed, limited) {
    this.features = features;
    this.limited = limited;
    this.values = features.map(() => 0);
    this.rows = features.map((feature, k) => this.#row(feature, k, changed));
    // The columns of a one-hot group are one choice, not several sliders.
    const groups = new Map();
    features.forEach(({ group }, k) => {
      if (group !== null && group !== undefined) groups.set(group, [...(groups.get(group) ?? []), k]);
    });
    this.choices = [...groups.values()].map((columns) => this.#choice(columns, changed));
    const loose = this.rows.filter(({ feature }) => feature.group === null || feature.group === undefined);
    host.replaceChildren(el("ul", { class: "features-list" }, loose.map(({ node }) => node), this.choices.map(({ node }) => node)));
  }

  set(values) {
    this.values = [...values];
    this.rows.forEach((row, k) => row.put(values[k]));
    this.choices.forEach((choice) => choice.put());
  }

  /** The name of a feature that is outside its own range; null if there is none. */
  get outside() {
    const { lower, upper } = this.limits;
    const out = this.features.find(({ name }, k) => this.values[k] < (lower[name] ?? -Infinity) || this.values[k] > (upper[name] ?? Infinity));
    return out?.name ?? null;
  }

  /** What an answer may do, as the server takes it. */
  get limits() {
    const locked = new Set(this.rows.filter(({ lock }) => lock.checked).map(({ feature }) => feature.name));
    for (const { columns, lock } of this.choices) if (lock.checked) for (const k of columns) locked.add(this.features[k].name);
    const lower = {};
    const upper = {};
    for (const { feature, from, to } of this.rows) {
      if (locked.has(feature.name)) continue;
      if (from.value !== "" && Number.isFinite(Number(from.value))) lower[feature.name] = Number(from.value);
      if (to.value !== "" && Number.isFinite(Number(to.value))) upper[feature.name] = Number(to.value);
    }
    return { locked: [...locked], lower, upper };
  }

  #row(feature, k, changed) {
    const { name, min, max, step, integer, immutable } = feature;
    const id = `feature-${k}`;
    const slider = el("input", { type: "range", id, min, max, step: integer ? 1 : step, value: min });
    const box = el("input", { type: "number", step: integer ? 1 : "any", "aria-label": `${name}, exactly` });
    const lock = el("input", { type: "checkbox", checked: immutable, disabled: immutable, "aria-label": `Lock ${name}` });
    const from = el("input", { type: "number", step: "any", value: feature.lower ?? "", placeholder: "any", "aria-label": `${name} at least` });
    const to = el("input", { type: "number", step: "any", value: feature.upper ?? "", placeholder: "any", "aria-label": `${name} at most` });
    const limits = el("div", { class: "limits", id: `${id}-limits`, hidden: true }, el("span", {}, "In an answer"), el("label", {}, "from ", from), el("label", {}, "to ", to));
    const words = el("span", {});
    const range = el("button", { type: "button", class: "range", "aria-expanded": "false", "aria-controls": limits.id, onclick: () => {
      limits.hidden = !limits.hidden;
      range.setAttribute("aria-expanded", String(!limits.hidden));
      if (!limits.hidden) from.focus();
    } }, words);
    const told = () => {
      const [low, high] = [from.value, to.value].map((value) => number(Number(value)));
      const span = from.value === "" ? (to.value === "" ? "any value" : `at most ${high}`) : to.value === "" ? `at least ${low}` : `${low} to ${high}`;
      words.textContent = lock.checked ? "locked" : span;
      range.setAttribute("aria-label", `${name} in an answer: ${words.textContent}`);
      node.classList.toggle("locked", lock.checked);
      node.classList.toggle("ranged", from.value !== String(feature.lower ?? "") || to.value !== String(feature.upper ?? ""));
    };
    const paint = () => slider.style.setProperty("--at", `${(100 * (slider.value - min)) / (max - min || 1)}%`);
    const row = {
      feature, lock, from, to,
      put: (value) => {
        slider.value = value;
        box.value = Number(Number(value).toPrecision(4));
        slider.setAttribute("aria-valuetext", number(value));
        paint();
      },
    };
    slider.addEventListener("input", () => {
      this.values[k] = Number(slider.value);
      box.value = Number(Number(slider.value).toPrecision(4));
      paint();
      changed(this.values);
    });
    box.addEventListener("input", () => {
      if (box.value === "" || !Number.isFinite(Number(box.value))) return;
      this.values[k] = Number(box.value);
      slider.value = box.value;
      paint();
      changed(this.values);
    });
    for (const input of [lock, from, to]) {
      input.addEventListener("input", () => {
        told();
        this.limited();
      });
    }
    const node = el("li", { class: "feature" },
      el("label", { class: "name", for: id }, name), slider, box,
      el("label", { class: "lock", title: immutable ? "It cannot change" : "Keep it as it is in every answer" }, lock, el("i", { "aria-hidden": "true" })), range, limits);
    row.node = node;
    told();
    return row;
  }

  #choice(columns, changed) {
    const names = columns.map((k) => this.features[k].name);
    const select = el("select", { "aria-label": `One of ${names.join(", ")}` }, columns.map((k, j) => el("option", { value: k }, names[j])));
    const immutable = columns.some((k) => this.features[k].immutable);
    const lock = el("input", { type: "checkbox", checked: immutable, disabled: immutable, "aria-label": `Lock ${names.join(", ")}` });
    select.addEventListener("change", () => {
      for (const k of columns) this.values[k] = k === Number(select.value) ? 1 : 0;
      changed(this.values);
    });
    const node = el("li", { class: "feature choice" }, el("span", { class: "name" }, "one of"), select, el("label", { class: "lock" }, lock, el("i", { "aria-hidden": "true" })));
    return { columns, lock, node, put: () => { select.value = columns.reduce((a, b) => (this.values[b] > this.values[a] ? b : a)); } };
  }
}
