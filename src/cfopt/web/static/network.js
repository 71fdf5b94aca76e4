// Networks of places and arcs, as the scene of a pipeline describes them: a picture, and one that can
// be clicked to ask for another route.

import { shades } from "./board.js";
import { el, svg } from "./dom.js";
import { Ways } from "./ways.js";

const STEP = 30; // the length of an arc
const LONG = 60; // of one between places with their names beside them
const MOST = 340; // how wide or high a network is at most, so that names can be read,
const CROWDED = 18; // and times the root of the number of places, where they are many
const MARGIN = 10;
const FONT = 9;
const SHORT = 3; // letters of a name that is written into its place
const CLOSE = 0.28; // up to so many steps from a place a click means the place, else the road
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Where the parts of a network are drawn. */
class Plan {
  constructor(scene) {
    this.scene = scene;
    const { places, positions } = scene;
    this.inside = places.every((name) => name.length <= SHORT);
    const far = (axis) => positions.reduce((most, at) => Math.max(most, at[axis]), 0);
    const most = Math.max(MOST, CROWDED * Math.sqrt(places.length)) / Math.max(far(0), far(1), 1);
    this.step = Math.min(this.inside ? STEP : LONG, scene.lattice ? Infinity : most);
    this.radius = this.inside ? 8 : scene.crowded ? 2.2 : 3.5;
    this.labelled = this.inside ? new Set() : this.#fitting();
    const halves = [...this.labelled].map((k) => this.#half(k));
    this.left = Math.max(MARGIN, Math.min(60, Math.max(0, ...halves)));
    this.top = this.inside ? MARGIN : MARGIN + FONT;
    this.width = this.step * far(0) + 2 * this.left;
    this.height = this.step * far(1) + this.top + MARGIN;
  }

  #half(k) {
    return 0.32 * FONT * this.scene.places[k].length;
  }

  /** The places whose names can be read: start and goal, then those that cover no other. */
  #fitting() {
    const { places, positions, start, goal, crowded } = this.scene;
    const kept = new Set();
    const apart = (k, other) => [0, 1].map((axis) => Math.abs(positions[k][axis] - positions[other][axis]) * this.step);
    const free = (k) =>
      [...kept].every((other) => apart(k, other)[0] > this.#half(k) + this.#half(other) || apart(k, other)[1] > FONT);
    for (const k of [start, goal, ...(crowded ? [] : places.keys())]) if (free(k)) kept.add(k);
    return kept;
  }

  at(place) {
    const [x, y] = this.scene.positions[place];
    return [this.left + this.step * x, this.top + this.step * y];
  }

  /** The middle of an arc, moved aside by so many times its bend, and the direction of the arc. */
  aside(arc, times) {
    const [[x, y], [u, v]] = this.scene.arcs[arc].map((place) => this.at(place));
    const length = Math.hypot(u - x, v - y) || 1;
    const [right, down] = [(u - x) / length, (v - y) / length];
    const off = times * this.step * this.scene.bends[arc];
    return { middle: [(x + u) / 2 - down * off, (y + v) / 2 + right * off], right, down };
  }

  line(arc) {
    const [from, to] = this.scene.arcs[arc].map((place) => this.at(place).join(" "));
    return this.scene.bends[arc] ? `M${from}Q${this.aside(arc, 2).middle.join(" ")} ${to}` : `M${from}L${to}`;
  }

  arrow(arc) {
    const { middle: [x, y], right, down } = this.aside(arc, 1);
    const corner = ([i, j]) => `${x + i * right - j * down} ${y + i * down + j * right}`;
    return `M${[[3.2, 0], [-2.2, 2.4], [-2.2, -2.4]].map(corner).join("L")}z`;
  }
}

/** A network with its arcs in shades of their prices; lines: {decision, role, weight}, the thick one first. */
function picture(plan, prices, lines, label, extra) {
  const { arcs, has_broad_arcs: broad, places, arrows, start, goal } = plan.scene;
  const pieces = arcs.map((_, k) => plan.line(k));
  const where = (chosen) => pieces.filter((_, k) => chosen(k)).join("");
  const shade = shades(prices);
  const kind = broad ? "cost" : "cost slim";
  const roads = [0, 1, 2, 3, 4, 5].map((tone) =>
    svg("path", { class: `${kind} c${tone}`, d: where((k) => shade[k] === tone) }),
  );
  const heads = arrows ? [svg("path", { class: "arrow", d: arcs.map((_, k) => plan.arrow(k)).join("") })] : [];
  const routes = lines
    .filter(({ decision }) => decision)
    .map(({ decision, role, weight = "strong" }) =>
      svg("path", { class: `line ${weight} ${role}`, d: where((k) => decision[k] > 0.5) }),
    );
  const nodes = places.map((name, k) => {
    const [x, y] = plan.at(k);
    const end = k === start || k === goal ? "node end" : "node";
    return [
      svg("circle", { class: end, cx: x, cy: y, r: plan.radius }),
      plan.inside && svg("text", { class: end, x, y: y + 3 }, name),
      plan.labelled.has(k) && svg("text", { class: "label", x, y: y - 6 }, name),
    ];
  });
  const frame = { class: "network", viewBox: `0 0 ${plan.width} ${plan.height}`, role: "img", "aria-label": label };
  return svg("svg", frame, roads, routes, heads, nodes, extra);
}

/** A network whose roads and places lead the alternative through them. */
export class NetworkDrawing {
  uses = "Through here";
  avoids = "Not here";
  help =
    "Click roads or places that your route should take; the rest follows the cheapest way. " +
    "By keyboard: arrow keys move, Enter chooses, Backspace undoes.";

  /**
   * @param host the element to fill
   * @param scene as the server describes it
   * @param on {wanted(decision or null), place(name) under the cursor}
   */
  constructor(host, scene, on) {
    Object.assign(this, { scene, on, plan: new Plan(scene), ways: new Ways(scene) });
    this.wishes = []; // places and arcs that the alternative must take, the newest last
    this.cursor = scene.start;
    this.picture = el("div", { class: "picture" });
    this.surface = el("div", {
      class: "surface",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "network",
      "aria-label": `Network of ${scene.places.length} places`,
      "aria-describedby": "wanted-help",
    });
    host.style.setProperty("--steps", this.plan.width / STEP);
    host.replaceChildren(this.picture, this.surface);
    this.#listen();
  }

  show({ costs, prices = costs, decision, name }, alternative, avoided = null) {
    this.prices = prices;
    if (!alternative) this.wishes = [];
    const lines = [
      { decision, role: "factual" },
      { decision: alternative, role: "other", weight: "weak" },
      { decision: avoided, role: "rival2", weight: "weak" },
    ];
    this.ring = svg("circle", { class: "ring", r: this.plan.radius + 2.5 });
    this.sign = svg("text", { class: "label" });
    this.#moveTo(this.cursor);
    const label = `Route ${name}${alternative ? "; yours is dashed" : ""}`;
    this.picture.replaceChildren(picture(this.plan, prices, lines, label, [this.ring, this.sign]));
  }

  #moveTo(place) {
    this.cursor = place;
    const [x, y] = this.plan.at(place);
    this.ring.setAttribute("cx", x);
    this.ring.setAttribute("cy", y);
  }

  /** Name a place that has no room for its name. */
  #point(place) {
    const named = this.plan.inside || this.plan.labelled.has(place);
    const [x, y] = this.plan.at(place);
    this.sign.setAttribute("x", x);
    this.sign.setAttribute("y", y - 6);
    this.sign.textContent = named ? "" : this.scene.places[place];
  }

  /** Lead the alternative through one more place or arc; older wishes that do not fit are dropped. */
  #lead(wish) {
    const same = (other) => other.place === wish.place && other.arc === wish.arc;
    this.#follow([...this.wishes.filter((other) => !same(other)), wish]);
  }

  #follow(wishes) {
    const found = this.ways.through(wishes, this.prices);
    if (!found) return;
    this.wishes = found.kept;
    this.on.wanted(this.scene.arcs.map((_, k) => Number(found.arcs.includes(k))));
  }

  #takeBack() {
    this.wishes = this.wishes.slice(0, -1);
    if (this.wishes.length) this.#follow(this.wishes);
    else this.on.wanted(null);
  }

  #listen() {
    const { surface } = this;
    surface.addEventListener("click", (event) => this.#click(event));
    surface.addEventListener("pointermove", (event) => this.#point(this.#nearest(this.#spot(event)).place));
    surface.addEventListener("focus", () => surface.classList.toggle("keyed", surface.matches(":focus-visible")));
    surface.addEventListener("keydown", (event) => {
      surface.classList.add("keyed");
      if (KEYS[event.key]) this.#move(KEYS[event.key]);
      else if (event.key === "Enter" || event.key === " ") this.#lead({ place: this.cursor });
      else if (event.key === "Backspace") this.#takeBack();
      else return;
      event.preventDefault();
    });
  }

  /** To the nearest place in a direction, if there is one. */
  #move([right, down]) {
    const [x, y] = this.plan.at(this.cursor);
    const ahead = this.scene.places
      .map((_, place) => ({ place, off: this.plan.at(place).map((at, k) => at - [x, y][k]) }))
      .filter(({ off: [i, j] }) => i * right + j * down > Math.abs(i * down - j * right) - 1e-9)
      .filter(({ place }) => place !== this.cursor)
      .sort((a, b) => Math.hypot(...a.off) - Math.hypot(...b.off));
    if (ahead.length) this.#moveTo(ahead[0].place);
    this.#point(this.cursor);
    this.on.place(this.scene.places[this.cursor]);
  }

  #spot(event) {
    const area = this.surface.getBoundingClientRect();
    return [
      ((event.clientX - area.left) / area.width) * this.plan.width,
      ((event.clientY - area.top) / area.height) * this.plan.height,
    ];
  }

  #nearest(spot) {
    const far = (place) => Math.hypot(...this.plan.at(place).map((at, k) => at - spot[k]));
    return this.scene.places
      .map((_, place) => ({ place, far: far(place) }))
      .reduce((a, b) => (b.far < a.far ? b : a));
  }

  #click(event) {
    const spot = this.#spot(event);
    const { place, far } = this.#nearest(spot);
    this.#moveTo(place);
    const nearest = this.scene.arcs
      .map((_, arc) => ({ arc, far: this.#away(arc, spot) }))
      .reduce((a, b) => (b.far < a.far ? b : a));
    if (this.on.entry(nearest.arc)) return;
    if (far < CLOSE * this.plan.step) {
      this.#lead({ place });
      return;
    }
    this.#lead(nearest.far < far ? { arc: nearest.arc } : { place });
  }

  /** How far a spot is from an arc: from the two halves of it, by its middle. */
  #away(arc, spot) {
    const [from, to] = this.scene.arcs[arc].map((place) => this.plan.at(place));
    const { middle } = this.plan.aside(arc, 1);
    const half = ([x, y], [u, v]) => {
      const [i, j] = [u - x, v - y];
      const along = ((spot[0] - x) * i + (spot[1] - y) * j) / (i * i + j * j || 1);
      const part = Math.max(0, Math.min(1, along));
      return Math.hypot(spot[0] - x - part * i, spot[1] - y - part * j);
    };
    return Math.min(half(from, middle), half(middle, to));
  }
}
