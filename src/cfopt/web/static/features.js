// The features of a context: a slider each, a lock, and the range an answer may use.

import { paired, unpaired } from "./address.js";
import { el } from "./dom.js";
import { capital, number } from "./words.js";

const ONLY = { increase: "may only rise", decrease: "may only fall" };

const given = (input) => input.value !== "" && Number.isFinite(Number(input.value));

export class Features {
  /** @param on {changed(values) after each move, limited() after each change of a lock or range} */
  constructor(host, features, on) {
    this.features = features;
    this.on = on;
    this.values = features.map(() => 0);
    this.rows = features.map((feature, k) => this.#row(feature, k));
    // The columns of a one-hot group are one choice, not several sliders.
    const groups = new Map();
    features.forEach(({ group }, k) => {
      if (typeof group === "number") groups.set(group, [...(groups.get(group) ?? []), k]);
    });
    this.choices = [...groups.values()].map((columns) => this.#choice(columns));
    const loose = this.rows.filter(({ feature }) => typeof feature.group !== "number");
    host.replaceChildren(el("ul", { class: "features-list" }, [...loose, ...this.choices].map(({ node }) => node)));
  }

  set(values) {
    this.values = [...values];
    this.rows.forEach((row, k) => row.put(values[k]));
    this.choices.forEach((choice) => choice.put());
  }

  /** Locks and ranges of a search, as `limits` gave them. */
  set limits({ locked = [], lower = {}, upper = {} }) {
    const fixed = ({ name, immutable }) => immutable || locked.includes(name);
    for (const { feature, lock, from, to, tell } of this.rows) {
      lock.checked = fixed(feature);
      from.value = lower[feature.name] ?? feature.lower ?? "";
      to.value = upper[feature.name] ?? feature.upper ?? "";
      tell();
    }
    for (const { columns, lock } of this.choices) lock.checked = columns.every((k) => fixed(this.features[k]));
  }

  /** Locks and ranges as an address holds them: by the numbers of the features. */
  get state() {
    const number = (k) => (this.rows[k].lock.checked && !this.features[k].immutable ? k : null);
    const ends = (end, own) =>
      paired(
        this.rows
          .map((row, k) => [k, row[end].value, String(row.feature[own] ?? "")])
          .filter(([, value, usual]) => value !== usual && value !== ""),
      );
    const locked = this.rows.map((_, k) => number(k)).filter((k) => k !== null);
    for (const { columns, lock } of this.choices) {
      if (lock.checked) locked.push(...columns.filter((k) => !this.features[k].immutable));
    }
    return { locked: locked.join(), lower: ends("from", "lower"), upper: ends("to", "upper") };
  }

  set state({ locked = "", lower, upper }) {
    const named = (pairs) =>
      Object.fromEntries([...pairs].filter(([k]) => this.features[k]).map(([k, value]) => [this.features[k].name, value]));
    const columns = locked.split(",").filter(Boolean).map(Number);
    this.limits = {
      locked: columns.map((k) => this.features[k]?.name),
      lower: named(unpaired(lower)),
      upper: named(unpaired(upper)),
    };
  }

  /** What is wrong with a range or with the value in it, in a sentence; "" if nothing is. */
  get fault() {
    const faults = this.rows.map(({ feature, lock, from, to }, k) => {
      const called = capital(feature.name);
      const [low, high] = [from, to].map((input) => (given(input) ? Number(input.value) : null));
      if (!lock.checked && low !== null && high !== null && low > high) {
        return `The range of ${feature.name} is reversed: it goes from ${number(low)} down to ${number(high)}. Swap the two.`;
      }
      const value = this.values[k];
      const out = (least, most) => value < (least ?? -Infinity) || value > (most ?? Infinity);
      if (out(feature.lower, feature.upper)) {
        const allowed = between(number(feature.lower), number(feature.upper));
        return `${called} is ${number(value)}, but this pipeline knows only ${allowed}. Move it there.`;
      }
      const outside = !lock.checked && out(low, high);
      return outside ? `${called} is outside the range that you gave it. Move it, or widen the range.` : "";
    });
    return faults.find(Boolean) ?? "";
  }

  /** What an answer may do, as the server takes it. */
  get limits() {
    const locked = new Set(this.rows.filter(({ lock }) => lock.checked).map(({ feature }) => feature.name));
    for (const { columns, lock } of this.choices) {
      if (lock.checked) for (const k of columns) locked.add(this.features[k].name);
    }
    const lower = {};
    const upper = {};
    for (const { feature, from, to } of this.rows) {
      if (locked.has(feature.name)) continue;
      if (given(from)) lower[feature.name] = Number(from.value);
      if (given(to)) upper[feature.name] = Number(to.value);
    }
    return { locked: [...locked], lower, upper };
  }

  #row(feature, k) {
    const { name, min, max, step, integer } = feature;
    const id = `feature-${k}`;
    const slider = el("input", { type: "range", id, min, max, step: integer ? 1 : step, value: min });
    const box = el("input", { type: "number", step: integer ? 1 : "any", "aria-label": `${name}, exactly` });
    const lock = lockOf([feature]);
    const range = this.#range(feature, id, lock.input);
    const put = (value) => {
      slider.value = value;
      slider.setAttribute("aria-valuetext", number(value));
      slider.style.setProperty("--at", `${(100 * (slider.value - min)) / (max - min || 1)}%`);
    };
    // The solver's noise is not a number worth reading.
    const shown = (value) => (Math.abs(value) < 1e-9 * (max - min) ? 0 : Number(Number(value).toPrecision(4)));
    const moved = (value) => {
      this.values[k] = Number(value);
      put(value);
      this.on.changed(this.values);
    };
    slider.addEventListener("input", () => {
      box.value = shown(slider.value);
      moved(slider.value);
    });
    box.addEventListener("input", () => given(box) && moved(box.value));
    // A box that was emptied shows again what counts.
    box.addEventListener("change", () => {
      if (!given(box)) box.value = shown(this.values[k]);
    });
    const label = el("label", { class: "name", for: id }, name);
    const node = el("li", { class: "feature" }, label, slider, box, lock.node, range.parts);
    const tell = range.mark(node);
    return {
      feature, node, lock: lock.input, from: range.from, to: range.to, tell,
      put: (value) => {
        put(value);
        box.value = shown(value);
      },
    };
  }

  /** What an answer may make of a feature: in words, and opened to be changed. */
  #range({ name, lower, upper, only }, id, lock) {
    const field = { type: "number", step: "any", placeholder: "any" };
    const bound = (value, words) => el("input", { ...field, value: value ?? "", "aria-label": `${name} ${words}` });
    const [from, to] = [bound(lower, "at least"), bound(upper, "at most")];
    const limits = el("div", { class: "limits", id: `${id}-limits`, hidden: true },
      el("span", {}, "In an answer"), el("label", {}, "from ", from), el("label", {}, "to ", to));
    const words = el("span", {});
    const opens = { "aria-expanded": "false", "aria-controls": limits.id };
    const button = el("button", { type: "button", class: "range", ...opens }, words);
    button.addEventListener("click", () => {
      limits.hidden = !limits.hidden;
      button.setAttribute("aria-expanded", String(!limits.hidden));
      if (!limits.hidden) from.focus();
    });
    const mark = (node) => {
      const tell = () => {
        words.textContent = lock.checked ? "locked" : span(from, to, only);
        button.setAttribute("aria-label", `${name} in an answer: ${words.textContent}`);
        node.classList.toggle("locked", lock.checked);
        node.classList.toggle("ranged", from.value !== String(lower ?? "") || to.value !== String(upper ?? ""));
      };
      for (const input of [lock, from, to]) {
        input.addEventListener("input", () => {
          tell();
          this.on.limited();
        });
      }
      tell();
      return tell;
    };
    return { from, to, mark, parts: [button, limits] };
  }

  #choice(columns) {
    const features = columns.map((k) => this.features[k]);
    const { title, values } = valuesOf(features.map(({ name }) => name));
    const options = columns.map((k, j) => el("option", { value: k }, values[j]));
    const select = el("select", { "aria-label": title ?? `One of ${values.join(", ")}` }, options);
    const lock = lockOf(features);
    select.addEventListener("change", () => {
      for (const k of columns) this.values[k] = k === Number(select.value) ? 1 : 0;
      this.on.changed(this.values);
    });
    return {
      columns,
      lock: lock.input,
      node: el("li", { class: "feature choice" }, el("span", { class: "name" }, title ?? "one of"), select, lock.node),
      put: () => {
        select.value = columns.reduce((a, b) => (this.values[b] > this.values[a] ? b : a));
      },
    };
  }
}

/** The values of a category: what stands behind "day=" in all names, with "day" as their title. */
function valuesOf(names) {
  const title = names[0].slice(0, names[0].lastIndexOf("="));
  const shared = title && names.every((name) => name.startsWith(`${title}=`));
  return shared ? { title, values: names.map((name) => name.slice(title.length + 1)) } : { values: names };
}

/** A padlock for some features; closed for good where they cannot change. */
function lockOf(features) {
  const fixed = features.some(({ immutable }) => immutable);
  const label = `Lock ${features.map(({ name }) => name).join(", ")}`;
  const input = el("input", { type: "checkbox", checked: fixed, disabled: fixed, "aria-label": label });
  const title = fixed ? "It cannot change" : "Keep it as it is in every answer";
  return { input, node: el("label", { class: "lock", title }, input, el("i", { "aria-hidden": "true" })) };
}

/** A range in words; an end that is "" is open. */
function between(low, high) {
  return low && high ? `${low} to ${high}` : low ? `at least ${low}` : high ? `at most ${high}` : "";
}

function span(from, to, only) {
  const [low, high] = [from, to].map((input) => given(input) && number(Number(input.value)));
  return [between(low, high), ONLY[only]].filter(Boolean).join(", ") || "any value";
}
