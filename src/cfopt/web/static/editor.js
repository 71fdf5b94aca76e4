// What a hand does on a map: draw a route or paint terrain, and take it back.

import { announce, byId, notice, usable } from "./dom.js";
import { Palette } from "./palette.js";
import { Sketch } from "./sketch.js";
import { Past } from "./undo.js";
import { Wish } from "./wish.js";
import { cellName, counted } from "./words.js";

/** The tools beside the map, and what they do on it. */
export class Editor {
  #past = new Past(); // earlier routes and paintings
  wish = new Wish(); // cells by their numbers
  strokes = new Map(); // what was painted: cells by their numbers, with the numbers of terrains

  /**
   * @param on {now() the map shown: costs and value, changed() after each change of the route,
   *   painted() after each change of the map, original() its image before any painting,
   *   resting() whether nothing may be changed}
   */
  constructor(on) {
    this.on = on;
    byId("undo").addEventListener("click", () => this.undo());
    byId("finish").addEventListener("click", () => this.#finish());
    byId("straighten").addEventListener("click", () => {
      this.lead(this.sketch.straight);
      byId("finish").focus(); // the button that was pressed is gone
    });
    byId("clear").addEventListener("click", () => {
      if (this.sketch.route.length || !this.wish.empty) this.lead([], "Your route is cleared.");
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
    this.#past.clear();
    this.strokes = new Map();
    this.wish = new Wish();
    this.sketch.route = route;
  }

  get painted() {
    return this.strokes.size > 0;
  }

  /** Paint what was painted before, without deciding anew. */
  repaint(strokes) {
    for (const [cell, terrain] of strokes) {
      const { rows, cols } = this.board.grid;
      if (cell < rows * cols && this.palette.tile(terrain)) this.#stamp(cell, terrain);
    }
  }

  /** Take a route as a whole, and say so. */
  lead(route, words) {
    this.#remember();
    this.wish.clear();
    this.sketch.route = route;
    this.on.changed();
    announce(words ?? this.sketch.words(this.on.now()));
  }

  /** Which buttons do something. */
  tell() {
    const detour = this.sketch.detour(this.on.now());
    byId("detour").hidden = !detour;
    byId("detour-said").textContent = detour;
    usable(byId("undo"), this.#past.length > 0);
    usable(byId("clear"), this.sketch.route.length > 0 || !this.wish.empty);
    this.board.showMarks(this.wish.uses, this.wish.avoids);
    usable(byId("finish"), !this.sketch.complete);
  }

  // Pointer and keys, as the board reports them

  press(cell) {
    if (this.on.resting()) return;
    this.#remember(this.#painting);
    if (this.#wishing) {
      this.#wishFor(cell);
      return;
    }
    if (this.#painting) this.#paint(cell);
    else this.#draw(() => this.sketch.press(cell));
    this.on.changed();
  }

  drag(cell) {
    if (this.on.resting() || this.#wishing) return;
    if (this.#painting) this.#paint(cell);
    else this.#draw(() => this.sketch.drag(cell));
    this.on.changed();
  }

  enter(cell) {
    if (this.on.resting()) return;
    this.#remember(this.#painting);
    if (this.#painting) this.#paint(cell);
    else if (this.#wishing) this.#wishFor(cell);
    else this.#draw(() => this.#toggle(cell));
  }

  /** A route that is drawn takes the place of a wish. */
  #draw(change) {
    this.wish.clear();
    change();
  }

  key(name) {
    if (this.on.resting()) return false;
    if (name === "Backspace" || name === "Delete") this.undo();
    else if (name === "f" || name === "F") this.#finish();
    else return false;
    return true;
  }

  get #tool() {
    return document.querySelector("input[name=tool]:checked").value;
  }

  get #painting() {
    return this.#tool === "paint";
  }

  get #wishing() {
    return this.#tool === "uses" || this.#tool === "avoids";
  }

  /** Wish for a cell, or no longer; a route that was drawn is then none. */
  #wishFor([row, column]) {
    this.sketch.route = [];
    this.wish.toggle(row * this.board.grid.cols + column, this.#tool);
    this.on.changed();
  }

  #toggle(cell) {
    const before = this.sketch.route.length;
    this.sketch.toggle(cell);
    this.on.changed();
    const { route } = this.sketch;
    const now = this.on.now();
    if (!route.length) announce("Your route is empty.");
    else if (this.sketch.complete) announce(`${this.sketch.words(now)} ${this.sketch.detour(now)}`);
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
    const { route } = this.sketch;
    this.#past.add({ route, pixels, strokes: new Map(this.strokes), wish: this.wish.copy() });
  }

  undo() {
    if (this.on.resting()) return;
    const before = this.#past.take();
    if (!before) {
      announce("There is nothing to undo.");
      return;
    }
    this.sketch.route = before.route;
    this.wish = before.wish;
    if (before.pixels) {
      this.board.restore(before.pixels);
      this.strokes = before.strokes;
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
    this.#stamp(cell[0] * this.board.grid.cols + cell[1], this.palette.chosen);
    this.on.painted();
  }

  #stamp(cell, terrain) {
    const { cols } = this.board.grid;
    this.board.stamp(this.palette.tile(terrain), [Math.floor(cell / cols), cell % cols]);
    this.strokes.set(cell, terrain);
  }

  async #unpaint() {
    if (this.on.resting() || !this.painted) return;
    this.#remember(true);
    await this.board.show(this.on.original());
    this.strokes = new Map();
    this.on.painted();
  }
}
