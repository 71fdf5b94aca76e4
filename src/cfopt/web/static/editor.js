// What a hand does on a map: draw a route or paint terrain, and take it back.

import { announce, byId, notice, usable } from "./dom.js";
import { Palette } from "./palette.js";
import { Sketch } from "./sketch.js";
import { cellName, counted } from "./words.js";

const UNDONE = 100; // steps that can be taken back

/** The tools beside the map, and what they do on it. */
export class Editor {
  #undone = []; // earlier routes and paintings, the newest last

  /**
   * @param on {now() the map shown: costs and value, changed() after each change of the route,
   *   painted() after each change of the map, original() its image before any painting,
   *   resting() whether nothing may be changed}
   */
  constructor(on) {
    this.on = on;
    this.painted = false;
    byId("undo").addEventListener("click", () => this.#undo());
    byId("finish").addEventListener("click", () => this.#finish());
    byId("clear").addEventListener("click", () => {
      if (this.sketch.route.length) this.lead([], "Your route is cleared.");
    });
    for (const tool of document.getElementsByName("tool")) tool.addEventListener("change", () => this.#tooled());
  }

  /** Work on the maps of a pipeline. */
  async suit({ grid, terrains }, board) {
    this.board = board;
    this.sketch = new Sketch(grid);
    this.palette = new Palette(byId("palette"), terrains ?? [], () => this.#unpaint());
    const paints = Boolean(terrains?.length);
    byId("tools").hidden = !paints;
    if (!paints) document.querySelector("input[name=tool][value=draw]").checked = true;
    this.#tooled();
    await this.palette.ready();
  }

  /** Begin on another map, with a route or without. */
  begin(route = []) {
    this.#undone = [];
    this.painted = false;
    this.sketch.route = route;
  }

  /** Take a route as a whole, and say so. */
  lead(route, words) {
    this.#remember();
    this.sketch.route = route;
    this.on.changed();
    announce(words ?? this.sketch.words(this.on.now()));
  }

  /** Which buttons do something. */
  tell() {
    usable(byId("undo"), this.#undone.length > 0);
    usable(byId("clear"), this.sketch.route.length > 0);
    usable(byId("finish"), !this.sketch.complete);
  }

  // Pointer and keys, as the board reports them

  press(cell) {
    if (this.on.resting()) return;
    this.#remember(this.#painting);
    if (this.#painting) this.#paint(cell);
    else this.sketch.press(cell);
    this.on.changed();
  }

  drag(cell) {
    if (this.on.resting()) return;
    if (this.#painting) this.#paint(cell);
    else this.sketch.lead(cell);
    this.on.changed();
  }

  enter(cell) {
    if (this.on.resting()) return;
    this.#remember(this.#painting);
    if (this.#painting) this.#paint(cell);
    else this.#toggle(cell);
  }

  key(name) {
    if (this.on.resting()) return false;
    if (name === "Backspace" || name === "Delete") this.#undo();
    else if (name === "f" || name === "F") this.#finish();
    else return false;
    return true;
  }

  get #painting() {
    return document.querySelector("input[name=tool]:checked").value === "paint";
  }

  #toggle(cell) {
    const before = this.sketch.route.length;
    this.sketch.toggle(cell);
    this.on.changed();
    const { route } = this.sketch;
    if (!route.length) announce("Your route is empty.");
    else if (this.sketch.complete) announce(this.sketch.words(this.on.now()));
    else if (route.length < before) announce(`Cut back to ${cellName(route.at(-1))}.`);
    else announce(`Led to ${cellName(cell)}, ${counted(route.length, "cell")}.`);
  }

  #finish() {
    if (this.sketch.complete) return;
    const whole = this.sketch.finished(this.on.now().costs);
    if (whole) this.lead(whole);
    else notice("From there the goal cannot be reached without crossing your route. Undo some of it.");
  }

  #remember(paints = false) {
    const pixels = paints ? this.board.pixels() : null;
    this.#undone.push({ route: this.sketch.route, pixels, painted: this.painted });
    if (this.#undone.length > UNDONE) this.#undone.shift();
  }

  #undo() {
    const before = this.#undone.pop();
    if (!before) {
      announce("There is nothing to undo.");
      return;
    }
    this.sketch.route = before.route;
    if (before.pixels) {
      this.board.restore(before.pixels);
      this.painted = before.painted;
      this.on.painted();
    }
    this.on.changed();
    announce(before.pixels ? "The painting was undone." : this.sketch.words(this.on.now()));
  }

  // Painting

  #tooled() {
    byId("palette").hidden = !this.#painting;
    byId("board").classList.toggle("painting", this.#painting);
  }

  #paint(cell) {
    this.board.stamp(this.palette.tile, cell);
    this.painted = true;
    this.on.painted();
  }

  async #unpaint() {
    if (this.on.resting() || !this.painted) return;
    this.#remember(true);
    await this.board.show(this.on.original());
    this.painted = false;
    this.on.painted();
  }
}
