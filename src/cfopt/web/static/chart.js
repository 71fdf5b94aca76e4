// What is shown on and below a map: routes, costs, a legend, and the cell under the pointer.

import { announce, byId, legendEntry } from "./dom.js";
import { alike, same } from "./routes.js";
import { cellName, number } from "./words.js";

export class Chart {
  #cell = null; // under the pointer or the keys

  /**
   * @param board to draw on
   * @param sketch the route that is being drawn
   */
  constructor(board, sketch) {
    this.board = board;
    this.sketch = sketch;
    this.now = null;
  }

  /** The map as it is now, with what was decided before it was painted: costs, path and value each. */
  show(now, stored) {
    this.now = now;
    const { route } = this.sketch;
    const { path, costs, value } = now;
    const changed = !alike(stored.path, path);
    this.board.showCosts(byId("show-costs").checked ? costs : null);
    this.board.showRoutes([
      ...(changed ? [{ route: stored.path, role: "third", weight: "weak" }] : []),
      { route: path, role: "factual" },
      ...(alike(route, path) ? [] : [{ route, role: "other", weight: "weak" }]),
    ]);
    const yours = this.sketch.complete ? `costs ${number(this.sketch.cost(costs))}` : "not at the goal yet";
    byId("legend").replaceChildren(
      legendEntry("factual", "strong", changed ? "decided now" : "decided", `costs ${number(value)}`),
      ...(changed ? [legendEntry("third", "weak", "before painting", `cost ${number(stored.value)}`)] : []),
      ...(route.length ? [legendEntry("other", "weak", "yours", yours)] : []),
    );
    byId("route-said").textContent = this.sketch.words(now);
    byId("board").dataset.path = JSON.stringify(path);
    this.#read();
  }

  /** Where a search is: {image, path}. */
  watch({ image, path }) {
    const { route } = this.sketch;
    this.board.show(image);
    this.board.showCosts(null);
    this.board.showRoutes([
      { route: path, role: "third" },
      { route, role: "other", weight: "weak" },
    ]);
    byId("legend").replaceChildren(
      legendEntry("third", "strong", "best on this map"),
      ...(route.length ? [legendEntry("other", "weak", "yours")] : []),
    );
  }

  /** Point at a cell, or at none. */
  point(cell) {
    this.#cell = cell;
    this.#read();
  }

  /** Point at a cell by keys, and say what it is. */
  visit(cell) {
    this.point(cell);
    announce(this.#words());
  }

  #read() {
    byId("readout").textContent = this.#words() || "\u00a0";
  }

  #words() {
    const [now, cell] = [this.now, this.#cell];
    if (!now || !cell) return "";
    const price = now.costs[cell[0] * this.board.grid.cols + cell[1]];
    return [
      `${cellName(cell)}: predicted cost ${number(price, 3)}`,
      ...(now.path?.some((other) => same(other, cell)) ? ["on the decided route"] : []),
      ...(this.sketch.visits(cell) ? ["on yours"] : []),
    ].join(", ");
  }
}
