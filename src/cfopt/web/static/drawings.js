// Decisions of tables: routes on a grid of nodes, and choices among items. Both can be clicked.

import { shades } from "./board.js";
import { el, svg } from "./dom.js";
import { compatible, cheapestThrough, decisionWalk, gridArcs, walkDecision } from "./routes.js";
import { number, place } from "./words.js";

const STEP = 30;
const CROP = 5; // what is empty around the outer nodes
const box = (rows, cols) => `${CROP} ${CROP} ${STEP * cols - 2 * CROP} ${STEP * rows - 2 * CROP}`;
const equal = (a, b) => Boolean(a && b) && a.every((value, k) => Math.abs(value - b[k]) < 1e-6);

/** A grid with its roads in shades of their costs; lines: {decision, role, weight}, the thick one first. */
function gridPicture({ rows, cols }, costs, lines, label, range, extra = []) {
  const arcs = gridArcs(rows, cols);
  const at = (node) => [STEP * ((node % cols) + 0.5), STEP * (Math.floor(node / cols) + 0.5)];
  const piece = ([a, b]) => `M${at(a).join(" ")}L${at(b).join(" ")}`;
  const shade = shades(costs, ...range);
  const last = rows * cols - 1;
  return svg("svg", { class: "grid", viewBox: box(rows, cols), role: "img", "aria-label": label },
    [0, 1, 2, 3, 4, 5].map((k) => svg("path", { class: `cost c${k}`, d: arcs.filter((_, j) => shade[j] === k).map(piece).join("") })),
    lines.filter(({ decision }) => decision).map(({ decision, role, weight }) =>
      svg("path", { class: `line ${weight ?? "strong"} ${role}`, d: arcs.filter((_, j) => decision[j] > 0.5).map(piece).join("") })),
    Array.from({ length: last + 1 }, (_, node) => {
      const [x, y] = at(node);
      const kind = node === 0 || node === last ? "node end" : "node";
      return [svg("circle", { class: kind, cx: x, cy: y, r: 8 }), svg("text", { class: kind, x, y: y + 3 }, place(Math.floor(node / cols), node % cols, rows, cols))];
    }),
    extra,
  );
}

/** A grid that the server drew, as close to its nodes as those of the page. */
export function cropped(picture, { kind, rows, cols }) {
  if (kind === "grid" && rows * cols <= 26) picture.setAttribute("viewBox", box(rows, cols));
  return picture;
}

/** A grid whose arcs and nodes lead the alternative through them. */
export class GridDrawing {
  /** @param wanted called with the alternative, 0 or 1 for each arc */
  constructor(host, { layout, noun }, wanted) {
    this.layout = layout;
    this.wanted = wanted;
    this.through = [];
    this.cursor = 0;
    this.noun = noun;
    this.host = host;
    host.style.setProperty("--cols", layout.cols);
    this.picture = el("div", { class: "picture" });
    this.surface = el("div", { class: "surface", tabindex: "0", role: "application", "aria-roledescription": "grid", "aria-label": `Grid of ${layout.rows} by ${layout.cols} places`, "aria-describedby": "wanted-help" });
    host.replaceChildren(this.picture, this.surface);
    this.#listen();
  }

  get help() {
    return "Click roads or places that your route should take; the rest of it follows the cheapest way. By keyboard: arrow keys move, Enter chooses, Backspace takes back.";
  }

  show({ costs, decision }, alternative) {
    this.costs = costs;
    if (!alternative) this.through = [];
    const lines = [{ decision, role: "factual" }, { decision: equal(alternative, decision) ? null : alternative, role: "other", weight: "weak" }];
    const { cols } = this.layout;
    const ring = svg("circle", { class: "ring", r: 10.5, cx: STEP * ((this.cursor % cols) + 0.5), cy: STEP * (Math.floor(this.cursor / cols) + 0.5) });
    this.ring = ring;
    this.picture.replaceChildren(gridPicture(this.layout, costs, lines, `Route ${this.#name(decision)}${alternative ? `; asked for ${this.#name(alternative)}` : ""}`, [Math.min(...costs), Math.max(...costs)], [ring]));
  }

  #name(decision) {
    const { rows, cols } = this.layout;
    return decisionWalk(decision, rows, cols).map((node) => place(Math.floor(node / cols), node % cols, rows, cols)).join("-");
  }

  #lead(nodes) {
    const { rows, cols } = this.layout;
    this.through = compatible([...this.through.filter((node) => !nodes.includes(node)), ...nodes], cols);
    this.wanted(walkDecision(cheapestThrough(this.through, this.costs, rows, cols), rows, cols));
  }

  #listen() {
    const { rows, cols } = this.layout;
    this.surface.addEventListener("click", (event) => {
      const area = this.surface.getBoundingClientRect();
      const along = (part, count) => (part * (STEP * count - 2 * CROP) + CROP) / STEP - 0.5;
      const x = along((event.clientX - area.left) / area.width, cols);
      const y = along((event.clientY - area.top) / area.height, rows);
      const clamp = (value, top) => Math.max(0, Math.min(top - 1, value));
      const near = clamp(Math.round(y), rows) * cols + clamp(Math.round(x), cols);
      const [dx, dy] = [x - (near % cols), y - Math.floor(near / cols)];
      this.cursor = near;
      // A click close to a place means the place, one between two the road.
      if (Math.hypot(dx, dy) < 0.28) return this.#lead([near]);
      const there = Math.abs(dx) > Math.abs(dy) ? near + Math.sign(dx) : near + cols * Math.sign(dy);
      const inside = there >= 0 && there < rows * cols && (Math.abs(dx) <= Math.abs(dy) || Math.floor(there / cols) === Math.floor(near / cols));
      return this.#lead(inside ? [near, there].sort((a, b) => a - b) : [near]);
    });
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    this.surface.addEventListener("focus", () => this.surface.classList.toggle("keyed", this.surface.matches(":focus-visible")));
    this.surface.addEventListener("keydown", (event) => {
      this.surface.classList.add("keyed");
      const step = steps[event.key];
      if (step) {
        const row = Math.max(0, Math.min(rows - 1, Math.floor(this.cursor / cols) + step[0]));
        const column = Math.max(0, Math.min(cols - 1, (this.cursor % cols) + step[1]));
        this.cursor = row * cols + column;
        this.ring.setAttribute("cx", STEP * (column + 0.5));
        this.ring.setAttribute("cy", STEP * (row + 0.5));
        this.surface.dispatchEvent(new CustomEvent("place", { detail: place(row, column, rows, cols) }));
      } else if (event.key === "Enter" || event.key === " ") {
        this.#lead([this.cursor]);
      } else if (event.key === "Backspace") {
        this.through = this.through.slice(0, -1);
        if (this.through.length) this.#lead([]);
        else this.wanted(null);
      } else return;
      event.preventDefault();
    });
  }
}

/** Bars of items: filled if taken, dashed if asked for. */
function itemRows(names, costs, strong, weak, click) {
  const reach = Math.max(...costs.map(Math.abs), 1e-9);
  const negative = Math.max(0, ...costs.map((cost) => -cost));
  const zero = negative / (negative + Math.max(0, ...costs)) || 0;
  const scale = 1 / (negative + Math.max(0, ...costs, 1e-9)) || 1 / reach;
  return names.map((name, k) => {
    const width = Math.abs(costs[k]) * scale;
    const bar = el("span", { class: "lane", "--zero": `${100 * zero}%` }, el("i", {
      class: `bar${strong?.decision?.[k] > 0.5 ? ` taken-${strong.role}` : ""}${weak?.decision?.[k] > 0.5 ? ` dashed-${weak.role}` : ""}`,
      "--left": `${100 * (costs[k] < 0 ? zero - width : zero)}%`, "--width": `${100 * width}%`,
    }));
    const parts = [el("span", { class: "name" }, name), bar, el("span", { class: "price" }, number(costs[k], 3))];
    if (!click) return el("li", {}, ...parts);
    const taken = (weak?.decision ?? strong.decision)[k] > 0.5;
    return el("li", {}, el("button", { type: "button", role: "checkbox", "aria-checked": String(taken), "data-item": k, onclick: () => click(k) }, ...parts));
  });
}

/** Items that are put in or left out of the alternative with a click. */
export class ItemsDrawing {
  constructor(host, { decision_names: names, layout: { weights, capacities } }, wanted) {
    Object.assign(this, { host, names, weights, capacities, wanted });
    this.list = el("ul", { class: "items", "aria-label": "Items of your alternative" });
    this.room = el("p", { class: "small room" });
    host.replaceChildren(this.list, this.room);
  }

  get help() {
    return "Click items to put them into your alternative or to leave them out.";
  }

  show({ costs, decision }, alternative) {
    const focused = document.activeElement?.dataset?.item;
    const click = (k) => this.wanted((alternative ?? decision).map((value, j) => (j === k ? (value > 0.5 ? 0 : 1) : value)));
    this.list.replaceChildren(...itemRows(this.names, costs, { decision, role: "factual" }, alternative && { decision: alternative, role: "other" }, click));
    if (focused !== undefined) this.list.querySelector(`[data-item="${focused}"]`)?.focus();
    this.room.textContent = this.#filled(alternative ?? decision);
  }

  #filled(decision) {
    if (!this.weights?.length) return "";
    const parts = this.weights.map((row, k) => Math.round((100 * row.reduce((sum, weight, j) => sum + weight * decision[j], 0)) / this.capacities[k]));
    const over = parts.some((part) => part > 100);
    return `It takes ${parts.map((part) => `${part}%`).join(" and ")} of the ${parts.length > 1 ? "capacities" : "capacity"}${over ? ": too much" : ""}.`;
  }
}

const role = (result, name) => result.compared.find((one) => one.role === name)?.what.toLowerCase() ?? "chosen there";

/** Pictures of an answer: [title, picture, caption] before and after. */
export function bothDrawings(result, pipeline) {
  const { before, factual_decision: factual, asked_decision: asked } = result;
  const after = result.status === "proved infeasible" ? null : result.after;
  const contrasts = !equal(asked, factual);
  // Where nothing was asked for but a change, what is best after it is shown in its place.
  const other = contrasts ? asked : after && !equal(after.decision, factual) ? after.decision : null;
  const wanted = contrasts ? "asked for" : "best there";
  const third = contrasts && after && !equal(after.decision, asked) && !equal(after.decision, factual) ? after.decision : null;
  const sides = [["Before", before, { decision: factual, role: "factual" }, { decision: contrasts ? other : null, role: "other", weight: "weak" }, "decided", contrasts && other ? wanted : ""]];
  if (after) {
    sides.push(["After", after, other ? { decision: other, role: "other" } : { decision: factual, role: "factual" },
      other ? { decision: factual, role: "factual", weight: "weak" } : { decision: null }, other ? wanted : "decided", other ? "decided" : ""]);
  }
  if (pipeline.layout.kind === "grid") {
    const all = sides.flatMap(([, side]) => side.costs);
    const range = [Math.min(...all), Math.max(...all)];
    return sides.map(([title, side, strong, weak, thick, dashed]) => {
      const extra = title === "After" && third ? [{ decision: third, role: "third", weight: "weak" }] : [];
      const caption = `Thick: ${thick}${dashed ? `; dashed: ${dashed}` : ""}${extra.length ? `, and ${role(result, "third")}` : ""}.`;
      return [title, gridPicture(pipeline.layout, side.costs, [strong, weak, ...extra], `${title}. ${caption}`, range), caption];
    });
  }
  return sides.map(([title, side, strong, weak, thick, dashed]) => [title,
    el("ul", { class: "items" }, itemRows(pipeline.decision_names, side.costs, strong, weak.decision ? weak : null)),
    `Filled: ${thick}${dashed ? `; dashed: ${dashed}` : ""}. Bars and numbers: what each item is worth.`]);
}
