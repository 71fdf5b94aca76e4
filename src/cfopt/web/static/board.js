// A map with routes on it: the pixels on a canvas, all else as SVG above it. `Board` also follows
// pointer, touch and keyboard, and reports cells; it knows nothing of what is drawn or painted.

import { el, svg } from "./dom.js";
import { letters, number } from "./words.js";

const CELL = 12;
const EDGE = 13; // room for the names of columns and rows
const SHADES = 6;

/** The shade of each cost, 0 (cheap) to 5 (expensive), over a range. */
export function shades(costs, low = Math.min(...costs), high = Math.max(...costs)) {
  const span = high - low || 1;
  const shade = (cost) => Math.floor(((cost - low) / span) * SHADES);
  return costs.map((cost) => Math.max(0, Math.min(SHADES - 1, shade(cost))));
}

const middle = (k) => EDGE + CELL * (k + 0.5);
const spot = ([row, column]) => `${middle(column)} ${middle(row)}`;
const track = (route) => `M${route.map(spot).join("L")}`;

/** Cells in shades of their costs, with the numbers where there is room to read them. */
export function costCells(costs, grid, range) {
  const shade = shades(costs, ...(range ?? []));
  return svg(
    "g",
    { class: "costs" },
    costs.map((cost, k) => {
      const x = EDGE + CELL * (k % grid.cols);
      const y = EDGE + CELL * Math.floor(k / grid.cols);
      return [
        svg("rect", { class: `cell c${shade[k]}`, x, y, width: CELL, height: CELL }),
        svg("text", { class: `price p${shade[k]}`, x: x + CELL / 2, y: y + 7.4 }, number(cost, cost < 10 ? 2 : 3)),
      ];
    }),
  );
}

/** Routes as lines with pale rims, all rims below all lines. Each: {route, role, weight}. */
export function routeLines(lines) {
  const kind = ({ role, weight }) => `line ${weight ?? "strong"} ${role}`;
  const shown = lines.filter(({ route }) => route?.length);
  return [
    ...shown.map((line) => svg("path", { class: `${kind(line)} rim`, d: track(line.route) })),
    ...shown.map((line) => svg("path", { class: kind(line), d: track(line.route) })),
  ];
}

/** Frames in some cells, by their numbers: white and purple, so that they are seen on any land. */
export const outlines = (cells, { cols }) =>
  cells.flatMap((k) => [
    inset("changed", k, cols, 0.5),
    inset("changed inner", k, cols, 1),
  ]);

const inset = (kind, k, cols, by) => {
  const at = { x: EDGE + CELL * (k % cols) + by, y: EDGE + CELL * Math.floor(k / cols) + by };
  return svg("rect", { class: kind, ...at, width: CELL - 2 * by, height: CELL - 2 * by });
};

/** Start and goal. */
export function ends({ start, goal }) {
  const [x, y] = [middle(goal[1]) - 3.2, middle(goal[0]) - 3.2];
  return [
    svg("circle", { class: "node end", cx: middle(start[1]), cy: middle(start[0]), r: 3.6 }),
    svg("rect", { class: "node end", x, y, width: 6.4, height: 6.4 }),
  ];
}

function rulers({ rows, cols }) {
  const every = Math.max(rows, cols) <= 16 ? 1 : 5;
  const named = (count) => Array.from({ length: count }, (_, k) => k).filter((k) => k % every === 0);
  const ruler = (x, y, words) => svg("text", { class: "ruler", x, y }, words);
  return [
    ...named(cols).map((j) => ruler(middle(j), EDGE - 4, letters(j))),
    ...named(rows).map((i) => ruler(EDGE / 2 - 1, middle(i) + 2.2, String(i + 1))),
  ];
}

/** Tell a picture's host where in its frame the map itself lies. */
export function measured(host, { rows, cols }) {
  const [width, height] = [EDGE + CELL * cols + 1, EDGE + CELL * rows + 1];
  const part = (name, length, whole) => host.style.setProperty(name, `${(100 * length) / whole}%`);
  part("--west", EDGE, width);
  part("--north", EDGE, height);
  host.style.setProperty("--wide", (CELL * cols) / width);
  host.style.setProperty("--tall", (CELL * rows) / height);
}

/** The frame of a picture of a map: an SVG whose coordinates are those of the routes. */
export function frame(grid, label, ...parts) {
  const viewBox = `0 0 ${EDGE + CELL * grid.cols + 1} ${EDGE + CELL * grid.rows + 1}`;
  const role = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  return svg("svg", { class: "cells", viewBox, ...role }, parts, rulers(grid));
}

/** The map itself, for use in a frame. */
export function ground(image, { rows, cols }) {
  const size = { x: EDGE, y: EDGE, width: CELL * cols, height: CELL * rows };
  return svg("image", { href: image, ...size, preserveAspectRatio: "none" });
}

const KEYS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  Home: [-1, -1], PageUp: [-1, 1], End: [1, -1], PageDown: [1, 1],
};

export class Board {
  #images = 0; // counts what was shown: an image that is decoded too late is dropped

  /**
   * @param host the element to fill
   * @param grid {rows, cols, pixels}
   * @param size {width, height} of the image
   * @param on {press(cell), drag(cell), release(), enter(cell), move(cell), hover(cell or null),
   *   key(name) -> whether it was for the map}
   */
  constructor(host, grid, size, on) {
    this.grid = grid;
    this.cursor = grid.start;
    this.canvas = el("canvas", { ...size, "aria-hidden": "true" });
    this.pen = this.canvas.getContext("2d", { willReadFrequently: true });
    this.costs = svg("g", {});
    this.lines = svg("g", {});
    this.marks = svg("g", {});
    this.mark = svg("rect", { class: "cursor", width: CELL, height: CELL, rx: 1 });
    const picture = frame(grid, "", this.costs, this.lines, this.marks, svg("g", {}, ends(grid)), this.mark);
    // Names of columns and rows lie outside the surface: there a finger still scrolls the page.
    this.surface = el("div", {
      class: "surface",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map",
      "aria-label": `Map of ${grid.rows} by ${grid.cols} cells`,
      "aria-describedby": "route-said readout",
    });
    measured(host, grid);
    host.replaceChildren(this.canvas, picture, this.surface);
    this.#listen(on);
    this.moveTo(this.cursor);
  }

  /** Show an image: any source that an <img> takes. */
  async show(uri) {
    const turn = ++this.#images;
    const image = new Image();
    image.src = uri;
    await image.decode();
    if (turn !== this.#images) return;
    this.pen.drawImage(image, 0, 0, this.canvas.width, this.canvas.height);
  }

  /** Put a tile on a cell. */
  stamp(tile, [row, column]) {
    const { pixels } = this.grid;
    this.pen.drawImage(tile, column * pixels, row * pixels, pixels, pixels);
  }

  pixels() {
    return this.pen.getImageData(0, 0, this.canvas.width, this.canvas.height);
  }

  restore(pixels) {
    this.#images++;
    this.pen.putImageData(pixels, 0, 0);
  }

  /** The map as base64 of a PNG, exactly the pixels shown. */
  encoded() {
    return this.canvas.toDataURL("image/png").split(",")[1];
  }

  showCosts(costs) {
    this.costs.replaceChildren(...(costs ? [costCells(costs, this.grid)] : []));
  }

  showRoutes(lines) {
    this.lines.replaceChildren(...routeLines(lines));
  }

  /** Cells that a route should visit, in frames, and those that it should not, crossed out. */
  showMarks(uses, avoids) {
    const at = (cell) => [EDGE + CELL * (cell % this.grid.cols), EDGE + CELL * Math.floor(cell / this.grid.cols)];
    const square = ([x, y]) => `M${x + 1.5} ${y + 1.5}h9v9h-9z`;
    const cross = ([x, y]) => `M${x + 2} ${y + 2}l8 8m0 -8l-8 8`;
    const drawn = [["uses", [...uses].map(at).map(square)], ["avoids", [...avoids].map(at).map(cross)]];
    this.marks.replaceChildren(
      ...drawn.flatMap(([kind, parts]) =>
        [" rim", ""].map((rim) => svg("path", { class: `mark-${kind}${rim}`, d: parts.join("") })),
      ),
    );
  }

  moveTo(cell) {
    this.cursor = cell;
    this.mark.setAttribute("x", EDGE + CELL * cell[1]);
    this.mark.setAttribute("y", EDGE + CELL * cell[0]);
  }

  #cell(event) {
    const box = this.surface.getBoundingClientRect();
    const at = (part, count) => Math.max(0, Math.min(count - 1, Math.floor(part * count)));
    return [
      at((event.clientY - box.top) / box.height, this.grid.rows),
      at((event.clientX - box.left) / box.width, this.grid.cols),
    ];
  }

  #listen(on) {
    const { surface } = this;
    let pressed = false;
    surface.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      surface.classList.remove("keyed");
      surface.focus({ preventScroll: true, focusVisible: false });
      // A finger that leaves the map keeps drawing along its edge.
      surface.setPointerCapture(event.pointerId);
      pressed = true;
      const cell = this.#cell(event);
      this.moveTo(cell);
      on.press(cell);
    });
    surface.addEventListener("pointermove", (event) => {
      const cell = this.#cell(event);
      on.hover(cell);
      if (!pressed || (cell[0] === this.cursor[0] && cell[1] === this.cursor[1])) return;
      this.moveTo(cell);
      on.drag(cell);
    });
    const end = () => {
      if (pressed) on.release();
      pressed = false;
    };
    surface.addEventListener("pointerup", end);
    surface.addEventListener("pointercancel", end);
    surface.addEventListener("pointerleave", () => on.hover(null));
    surface.addEventListener("focus", () => {
      surface.classList.toggle("keyed", surface.matches(":focus-visible"));
    });
    surface.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      // The cursor is shown to whoever uses keys, also after a click.
      surface.classList.add("keyed");
      const step = KEYS[event.key];
      if (step) {
        const { rows, cols } = this.grid;
        this.moveTo([
          Math.max(0, Math.min(rows - 1, this.cursor[0] + step[0])),
          Math.max(0, Math.min(cols - 1, this.cursor[1] + step[1])),
        ]);
        on.move(this.cursor);
      } else if (event.key === "Enter" || event.key === " ") {
        on.enter(this.cursor);
      } else if (!on.key(event.key)) {
        return;
      }
      event.preventDefault();
    });
  }
}
