// A wish that leaves the plan open: what it goes through or takes, and what it leaves out.

import { counted } from "./words.js";

const NAMED = 6; // entries that are named

const listed = (names) => {
  const shown = names.length > NAMED ? [...names.slice(0, NAMED), counted(names.length - NAMED, "more").replace(/s$/, "")] : names;
  return shown.length < 2 ? (shown[0] ?? "") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
};
const numbers = (text = "") => new Set(text.split(",").filter(Boolean).map(Number));

export class Wish {
  uses = new Set(); // numbers of entries
  avoids = new Set();

  get empty() {
    return !this.uses.size && !this.avoids.size;
  }

  /** Ask for an entry, in "uses" or "avoids", or no longer. */
  toggle(entry, mode) {
    const other = mode === "uses" ? this.avoids : this.uses;
    other.delete(entry);
    if (!this[mode].delete(entry)) this[mode].add(entry);
  }

  clear() {
    this.uses.clear();
    this.avoids.clear();
  }

  copy() {
    return Object.assign(new Wish(), { uses: new Set(this.uses), avoids: new Set(this.avoids) });
  }

  /** As a request has it. */
  get asked() {
    const given = ["uses", "avoids"].filter((mode) => this[mode].size);
    return Object.fromEntries(given.map((mode) => [mode, [...this[mode]]]));
  }

  /** A wish of a request, whose entries may be names. */
  read({ uses = [], avoids = [] }, names) {
    const known = (entries) => new Set((entries ?? []).map((one) => (typeof one === "string" ? names.indexOf(one) : one)));
    Object.assign(this, { uses: known(uses), avoids: known(avoids) });
  }

  /** As an address holds it. */
  get state() {
    return { uses: [...this.uses].join(), avoids: [...this.avoids].join() };
  }

  set state({ uses, avoids }) {
    Object.assign(this, { uses: numbers(uses), avoids: numbers(avoids) });
  }

  /** In a sentence: "Any route with A-B, and without G-H." */
  words(noun, names) {
    const said = (entries) => listed([...entries].map((k) => names[k] ?? `entry ${k}`));
    const parts = [
      this.uses.size ? `with ${said(this.uses)}` : "",
      this.avoids.size ? `without ${said(this.avoids)}` : "",
    ].filter(Boolean);
    return `Any ${noun} ${parts.join(", and ")}.`;
  }
}
