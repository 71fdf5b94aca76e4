// A map before and after: side by side, or one above the other with a slider between them.

import { costCells, ends, frame, ground, measured, outlines, routeLines } from "./board.js";
import { el } from "./dom.js";
import { alike } from "./routes.js";

const OTHER = "Another route is the best here already, before any search.";

/**
 * A figure that shows a map before and after, in one of four views: "pictures" side by side, with what the
 * model alone makes of the map between them; "map" and "costs" under a slider; "change".
 * Sliders and changes begin where the answer is measured from: at the map that the model redraws, if it does.
 * @param result of a task on maps
 * @param grid {rows, cols}
 */
export class MapComparison {
  #view = "";

  constructor(result, grid, name) {
    this.result = result;
    this.grid = grid;
    this.name = name;
    this.host = el("div", { class: "compare" });
    measured(this.host, grid);
    this.view = result.redrawn ? "pictures" : "map";
  }

  /** The view that is shown. */
  get view() {
    return this.#view;
  }

  /** What the answer is compared with, and its name. */
  get #origin() {
    const { redrawn, before } = this.result;
    return redrawn ? [redrawn, "redrawn"] : [before, "before"];
  }

  /** Whether a third route, neither decided nor asked for, is shown. */
  get third() {
    return this.#lines("after").some(({ role }) => role === "third");
  }

  set view(view) {
    const { result, grid } = this;
    this.#view = view;
    this.host.classList.toggle("apart", view === "pictures");
    if (view === "pictures") {
      this.host.replaceChildren(...this.#apart());
      return;
    }
    const split = this.slider?.value ?? 50;
    if (view === "change") {
      this.#change();
      return;
    }
    const [origin, called] = this.#origin;
    const all = [...origin.costs, ...result.after.costs];
    const range = [Math.min(...all), Math.max(...all)];
    const layer = (when) => {
      const side = when === "before" ? origin : result.after;
      const floor = view === "costs" ? costCells(side.costs, grid, range) : ground(side.image, grid);
      const picture = frame(grid, `${this.name}, ${when}`, floor, routeLines(this.#lines(when)), ends(grid));
      picture.classList.add(when);
      return picture;
    };
    const tag = (words, where) => el("span", { class: `tag ${where}`, "aria-hidden": "true" }, words);
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 100,
      value: split,
      class: "split",
      "aria-label": `${this.name}: how much of the map ${called} is shown`,
      oninput: () => this.#split(),
    });
    const divider = el("i", { class: "divider", "aria-hidden": "true" });
    const parts = [layer("before"), layer("after"), divider, this.slider];
    this.host.replaceChildren(...parts, tag(called, "left"), tag("after", "right"));
    this.#split();
  }

  /** Yours, as the model redraws it, and the answer with the cells that changed most. */
  #apart() {
    const { result, grid } = this;
    const shown = [
      ["Yours", result.before, "before", []],
      result.redrawn && ["As the model redraws it", result.redrawn, "before", []],
      ["The answer", result.after, "after", result.changes.cells],
    ];
    return shown.filter(Boolean).map(([words, side, when, cells]) => {
      const floor = [ground(side.image, grid), outlines(cells, grid)];
      const picture = frame(grid, `${this.name}: ${words}`, floor, routeLines(this.#lines(when)), ends(grid));
      const other = side === result.redrawn && !alike(side.path, result.before.path);
      return el("figure", {}, el("figcaption", {}, words), picture, other && el("p", { class: "small" }, OTHER));
    });
  }

  #split() {
    this.host.style.setProperty("--split", `${this.slider.value}%`);
    this.slider.setAttribute("aria-valuetext", `${this.slider.value}% before, ${100 - this.slider.value}% after`);
    this.host.classList.toggle("all-after", this.slider.value < 12);
    this.host.classList.toggle("all-before", this.slider.value > 88);
  }

  #lines(side) {
    const { factual_path: factual, asked_path: asked, after } = this.result;
    const contrasts = !alike(asked, factual);
    const decided = { route: factual, role: "factual" };
    const wanted = { route: asked, role: "other" };
    const dashed = (line) => ({ ...line, weight: "weak" });
    if (side === "before") return contrasts ? [decided, dashed(wanted)] : [decided];
    if (!contrasts) return this.#bestThere();
    const elsewhere = !alike(after.path, asked) && !alike(after.path, factual);
    const third = elsewhere ? [dashed({ route: after.path, role: "third" })] : [];
    return [wanted, dashed(decided), ...third];
  }

  /** Nothing was asked for but a change: what is best after it stands beside what was decided. */
  #bestThere() {
    const { factual_path: factual, after } = this.result;
    if (alike(after.path, factual)) return [{ route: factual, role: "factual" }];
    return [{ route: after.path, role: "other" }, { route: factual, role: "factual", weight: "weak" }];
  }

  async #change() {
    const [origin] = this.#origin;
    const image = await difference(origin.image, this.result.after.image);
    if (this.#view !== "change") return; // another view was chosen meanwhile
    const picture = frame(this.grid, `${this.name}: where the map changed, the more purple the more`,
      ground(image, this.grid), routeLines(this.#lines("after")), ends(this.grid));
    this.host.replaceChildren(picture);
  }
}

async function pixels(uri) {
  const image = new Image();
  image.src = uri;
  await image.decode();
  const canvas = el("canvas", { width: image.naturalWidth, height: image.naturalHeight });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.drawImage(image, 0, 0);
  return [canvas, pen, pen.getImageData(0, 0, canvas.width, canvas.height)];
}

/** Where two maps differ: white where they do not, purple where a colour moved by a quarter or more. */
async function difference(one, other) {
  const [canvas, pen, a] = await pixels(one);
  const [, , b] = await pixels(other);
  const hex = getComputedStyle(document.documentElement).getPropertyValue("--change").trim();
  const colour = [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  for (let k = 0; k < a.data.length; k += 4) {
    const moved = Math.max(...[0, 1, 2].map((j) => Math.abs(a.data[k + j] - b.data[k + j]))) / 64;
    const part = Math.min(1, moved);
    [250, 249, 246].forEach((paper, j) => {
      a.data[k + j] = paper - part * (paper - colour[j]);
    });
  }
  pen.putImageData(a, 0, 0);
  return canvas.toDataURL("image/png");
}
