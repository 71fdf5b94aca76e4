// Routes on a grid of nodes: pictures, and one that can be clicked to ask for another route.

import { shades } from "./board.js";
import { el, svg } from "./dom.js";
import { cheapestThrough, compatible, decisionWalk, gridArcs, walkDecision } from "./routes.js";
import { place } from "./words.js";

const STEP = 30;
const CROP = 5; // what is empty around the outer nodes
const CLOSE = 0.28; // up to so many steps from a place a click means the place, else the road
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

const middle = (k) => STEP * (k + 0.5);
const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
const box = (rows, cols) => `${CROP} ${CROP} ${STEP * cols - 2 * CROP} ${STEP * rows - 2 * CROP}`;

/** A grid with its roads in shades of their costs; lines: {decision, role, weight}, the thick one first. */
export function gridPicture({ rows, cols }, costs, lines, label, range, extra = []) {
  const at = (node) => `${middle(node % cols)} ${middle(Math.floor(node / cols))}`;
  const pieces = gridArcs(rows, cols).map(([a, b]) => `M${at(a)}L${at(b)}`);
  const where = (chosen) => pieces.filter((_, k) => chosen(k)).join("");
  const shade = shades(costs, ...range);
  const road = (tone) => svg("path", { class: `cost c${tone}`, d: where((k) => shade[k] === tone) });
  const roads = [0, 1, 2, 3, 4, 5].map(road);
  const routes = lines
    .filter(({ decision }) => decision)
    .map(({ decision, role, weight = "strong" }) =>
      svg("path", { class: `line ${weight} ${role}`, d: where((k) => decision[k] > 0.5) }),
    );
  const nodes = Array.from({ length: rows * cols }, (_, node) => {
    const [row, column] = [Math.floor(node / cols), node % cols];
    const kind = node === 0 || node === rows * cols - 1 ? "node end" : "node";
    const name = place(row, column, rows, cols);
    return [
      svg("circle", { class: kind, cx: middle(column), cy: middle(row), r: 8 }),
      svg("text", { class: kind, x: middle(column), y: middle(row) + 3 }, name),
    ];
  });
  const frame = { class: "grid", viewBox: box(rows, cols), role: "img", "aria-label": label };
  return svg("svg", frame, roads, routes, nodes, extra);
}

/** A grid that the server drew, as close to its nodes as those of the page. */
export function cropped(picture, { kind, rows, cols }) {
  if (kind === "grid" && rows * cols <= 26) picture.setAttribute("viewBox", box(rows, cols));
  return picture;
}

/** A grid whose roads and places lead the alternative through them. */
export class GridDrawing {
  help =
    "Click roads or places that your route should take; the rest of it follows the cheapest way. " +
    "By keyboard: arrow keys move, Enter chooses, Backspace takes back.";

  /**
   * @param host the element to fill
   * @param layout {rows, cols}
   * @param on {wanted(decision or null), place(name) under the cursor}
   */
  constructor(host, layout, on) {
    this.layout = layout;
    this.on = on;
    this.through = []; // nodes that the alternative must visit, the newest last
    this.cursor = 0;
    this.picture = el("div", { class: "picture" });
    this.surface = el("div", {
      class: "surface",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "grid",
      "aria-label": `Grid of ${layout.rows} by ${layout.cols} places`,
      "aria-describedby": "wanted-help",
    });
    host.style.setProperty("--cols", layout.cols);
    host.replaceChildren(this.picture, this.surface);
    this.#listen();
  }

  show({ costs, decision }, alternative) {
    this.costs = costs;
    if (!alternative) this.through = [];
    const lines = [
      { decision, role: "factual" },
      { decision: alternative, role: "other", weight: "weak" },
    ];
    const label = `Route ${this.#walk(decision)}${alternative ? `; asked for ${this.#walk(alternative)}` : ""}`;
    this.ring = svg("circle", { class: "ring", r: 10.5 });
    this.#moveRing();
    const range = [Math.min(...costs), Math.max(...costs)];
    this.picture.replaceChildren(gridPicture(this.layout, costs, lines, label, range, [this.ring]));
  }

  #name(node) {
    const { rows, cols } = this.layout;
    return place(Math.floor(node / cols), node % cols, rows, cols);
  }

  #walk(decision) {
    const { rows, cols } = this.layout;
    return decisionWalk(decision, rows, cols).map((node) => this.#name(node)).join("-");
  }

  #moveRing() {
    const { cols } = this.layout;
    this.ring.setAttribute("cx", middle(this.cursor % cols));
    this.ring.setAttribute("cy", middle(Math.floor(this.cursor / cols)));
  }

  /** Lead the alternative through more nodes; older wishes that do not fit are dropped. */
  #lead(nodes) {
    const { rows, cols } = this.layout;
    this.through = compatible([...this.through.filter((node) => !nodes.includes(node)), ...nodes], cols);
    this.on.wanted(walkDecision(cheapestThrough(this.through, this.costs, rows, cols), rows, cols));
  }

  #takeBack() {
    this.through = this.through.slice(0, -1);
    if (this.through.length) this.#lead([]);
    else this.on.wanted(null);
  }

  #listen() {
    const { surface } = this;
    surface.addEventListener("click", (event) => this.#click(event));
    surface.addEventListener("focus", () => surface.classList.toggle("keyed", surface.matches(":focus-visible")));
    surface.addEventListener("keydown", (event) => {
      surface.classList.add("keyed");
      if (MOVES[event.key]) this.#move(MOVES[event.key]);
      else if (event.key === "Enter" || event.key === " ") this.#lead([this.cursor]);
      else if (event.key === "Backspace") this.#takeBack();
      else return;
      event.preventDefault();
    });
  }

  #move([down, right]) {
    const { rows, cols } = this.layout;
    const row = clamp(Math.floor(this.cursor / cols) + down, rows);
    const column = clamp((this.cursor % cols) + right, cols);
    this.cursor = row * cols + column;
    this.#moveRing();
    this.on.place(this.#name(this.cursor));
  }

  #click(event) {
    const { rows, cols } = this.layout;
    const area = this.surface.getBoundingClientRect();
    const along = (part, count) => (part * (STEP * count - 2 * CROP) + CROP) / STEP - 0.5;
    const x = along((event.clientX - area.left) / area.width, cols);
    const y = along((event.clientY - area.top) / area.height, rows);
    const [row, column] = [clamp(Math.round(y), rows), clamp(Math.round(x), cols)];
    const [right, down] = [x - column, y - row];
    this.cursor = row * cols + column;
    // The place at the other end of the road that was clicked, if there is one.
    const sideways = Math.abs(right) > Math.abs(down);
    const there = sideways
      ? [row, clamp(column + Math.sign(right), cols)]
      : [clamp(row + Math.sign(down), rows), column];
    const other = there[0] * cols + there[1];
    const road = Math.hypot(right, down) >= CLOSE && other !== this.cursor;
    this.#lead(road ? [this.cursor, other].sort((a, b) => a - b) : [this.cursor]);
  }
}
