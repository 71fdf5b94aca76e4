// The route that is being drawn on a map: how cells change it, and what is said of it.

import { complete, cost, detours, find, finished, ledTo, rounded, straightened } from "./routes.js";
import { cellName, counted, number } from "./words.js";

export const EMPTY =
  "Draw on the map from the dot to the square: drag across cells, or click from bend to bend.";

const CORNERS = 4; // that are named

export class Sketch {
  route = [];

  /** @param grid {rows, cols, start, goal, neighbours} */
  constructor(grid) {
    this.grid = grid;
  }

  get complete() {
    return complete(this.route, this.grid.goal);
  }

  /** A hand comes down: on the route it is taken back to there, elsewhere it is led there. */
  press(cell) {
    const met = find(this.route, cell);
    if (met >= 0) this.route = this.route.slice(0, met + 1);
    else this.lead(cell, this.complete);
  }

  /** Lead the route on to a cell, or start again. */
  lead(cell, anew = false) {
    const from = anew || !this.route.length ? [this.grid.start] : this.route;
    this.route = ledTo(from, cell, this.grid.neighbours);
  }

  /** A hand moves on to a cell: its steps are those of a hand, so corners between them are cut. */
  drag(cell) {
    this.lead(cell);
    this.route = rounded(this.route, this.grid.neighbours);
  }

  /** The same route without detours that no map needs where crossing a cell costs something. */
  get straight() {
    return straightened(this.route, this.grid.neighbours);
  }

  /** What straightening the route would save, in a sentence; "" if there is nothing to straighten. */
  detour({ costs }) {
    const off = detours(this.route, this.grid.neighbours);
    const saved = cost(off, costs, this.grid.cols);
    if (!off.length || saved <= 0) return "";
    const [which, them] = off.length === 1 ? ["Corner", "it"] : ["Corners", "them"];
    const names = off.slice(0, CORNERS).map(cellName);
    const more = off.length > CORNERS ? ` and ${off.length - CORNERS} more` : "";
    return (
      `${which} ${names.join(", ")}${more} can be cut: a step past ${them} saves ${number(saved, 2)} here, ` +
      "so this route cannot be the best."
    );
  }

  /** A key is pressed on a cell: one of the route is taken out with all after it. */
  toggle(cell) {
    const met = find(this.route, cell);
    if (met >= 0) this.route = this.route.slice(0, met);
    else this.lead(cell);
  }

  /** The route led on to the goal the cheapest way; null if it is shut in. */
  finished(costs) {
    const from = this.route.length ? this.route : [this.grid.start];
    return finished(from, this.grid.goal, costs, this.grid);
  }

  visits(cell) {
    return find(this.route, cell) >= 0;
  }

  cost(costs) {
    return cost(this.route, costs, this.grid.cols);
  }

  /** The route in a sentence or two, beside what the decided one costs. */
  words({ costs, value }) {
    if (!this.route.length) return EMPTY;
    const cells = counted(this.route.length, "cell");
    const end = cellName(this.route.at(-1));
    if (!this.complete) {
      const goal = cellName(this.grid.goal);
      return `${cells} so far, to ${end}. Continue to ${goal}, or have it finished the cheapest way.`;
    }
    const more = this.cost(costs) / value - 1;
    return more > 1e-6
      ? `${cells} to ${end}, complete. On this map it costs ${number(100 * more, 2)}% more than the one decided.`
      : `${cells} to ${end}, complete. It costs as much as the one decided.`;
  }
}
