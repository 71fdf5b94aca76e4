// The page of maps: pick or upload one, draw a route or paint terrain, ask, watch, read the answer.

import * as api from "./api.js";
import { Ask } from "./ask.js";
import { Board } from "./board.js";
import { announce, byId, legendEntry, notice } from "./dom.js";
import { latest, settled } from "./live.js";
import { Palette } from "./palette.js";
import { fillList, fillThumbnails } from "./picker.js";
import { hideResult, showResult } from "./result.js";
import { same } from "./routes.js";
import { failure } from "./search.js";
import { Session } from "./session.js";
import { Sketch } from "./sketch.js";
import { encoded } from "./uploads.js";
import { counted, number } from "./words.js";

const UNDONE = 100; // steps that can be taken back

const alike = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export class Maps {
  #undone = []; // earlier routes and paintings, the newest last
  #now = null; // costs, route and value of the map shown
  #stored = null; // the same before anything was painted
  #row = 0;
  #touched = false; // whether the map is no longer the stored one

  constructor() {
    this.ask = new Ask(byId("map-ask"), {
      ask: () => this.#explain(),
      cancel: () => this.session.cancel(),
      change: () => this.#refresh(),
    });
    // What could change the map that a search changes.
    this.session = new Session(this.ask, "#map-view .pick, #map-view .route, #map-view .stage > .bar, #palette");
    byId("upload").addEventListener("change", (event) => this.#upload(event.target));
    byId("show-costs").addEventListener("change", () => this.#draw());
    byId("undo").addEventListener("click", () => this.#undo());
    byId("finish").addEventListener("click", () => this.#finish());
    byId("clear").addEventListener("click", () => this.#setRoute([], "Your route is cleared."));
    byId("take").addEventListener("change", (event) => this.#take(event.target));
    for (const tool of document.getElementsByName("tool")) tool.addEventListener("change", () => this.#tooled());
    this.openLive = latest((row) => this.#open(row));
    this.decideLive = latest(() => this.#decide());
    this.sayDecision = settled((words) => announce(words));
  }

  get painting() {
    return document.querySelector("input[name=tool]:checked").value === "paint";
  }

  leave() {
    this.session.leave();
  }

  /** Show a pipeline, at a stored map or at the task of a link. */
  async open(pipeline, task) {
    this.pipeline = pipeline;
    this.sketch = new Sketch(pipeline.grid);
    this.board = new Board(byId("board"), pipeline.grid, {
      press: (cell) => this.#press(cell),
      drag: (cell) => this.#drag(cell),
      release: () => this.#refresh(),
      enter: (cell) => (this.painting ? this.#paint(cell, true) : this.#enter(cell)),
      move: (cell) => this.#moved(cell),
      hover: (cell) => this.#hover(cell),
      key: (name) => this.#key(name),
    });
    this.ask.suit(pipeline);
    fillThumbnails(byId("thumbs"), pipeline, (row) => this.openLive(row));
    fillList(byId("take"), pipeline, "map", "another map");
    this.palette = new Palette(byId("palette"), pipeline.terrains ?? [], () => this.#unpaint());
    await this.palette.ready();
    if (task) await this.#linked(task);
    else await this.openLive(0);
  }

  // Picking a map

  async #open(row) {
    const { turn } = this.session;
    await this.#guarded(async () => {
      const map = await api.stored(this.pipeline.name, row);
      if (this.session.here(turn)) await this.#begin(map, row, map.label ?? `map ${row}`);
    });
  }

  async #upload(input) {
    const [file] = input.files;
    if (!file) return;
    await this.#guarded(async () => {
      const map = await api.decide(this.pipeline.name, { image: await encoded(file) });
      await this.#begin(map, null, file.name);
    });
    input.value = ""; // the same file can be chosen again
  }

  async #begin(map, row, label) {
    this.#row = row;
    this.#touched = row === null;
    this.#undone = [];
    this.sketch.route = [];
    this.#now = this.#stored = map;
    await this.board.show(map.image);
    byId("board").classList.remove("skeleton");
    byId("map-name").textContent = label;
    for (const radio of document.getElementsByName("map")) radio.checked = Number(radio.value) === row;
    notice("");
    hideResult();
    if (location.pathname !== "/") history.replaceState(null, "", `/#${this.pipeline.name}`);
    this.#refresh();
  }

  async #linked(task) {
    const { request, result } = task;
    const address = location.href;
    const row = request.context.row ?? null;
    if (row !== null) {
      const map = await api.stored(this.pipeline.name, row);
      await this.#begin(map, row, map.label ?? `map ${row}`);
    } else {
      const image = (result?.before.image ?? request.context.image).split(",").at(-1);
      await this.#begin(await api.decide(this.pipeline.name, { image }), null, "map of the link");
    }
    history.replaceState(null, "", address);
    this.ask.kind = request.question.kind;
    const asked = result?.asked_path ?? request.question.alternative?.path;
    if (request.question.kind !== "epsilon" && asked) this.sketch.route = asked;
    this.#refresh();
    if (task.status === "done") {
      const naive = new URLSearchParams(location.hash.slice(1)).get("naive");
      this.#answered([task, ...(naive ? [await api.task(naive)] : [])], request);
    } else if (["queued", "running"].includes(task.status)) {
      await this.#searching(request, (progress) => this.session.join(task.id, progress));
    } else notice(failure(task));
  }

  // Drawing a route

  #press(cell) {
    if (this.session.busy) return;
    this.#remember();
    if (this.painting) this.#paint(cell);
    else this.sketch.press(cell);
    this.#draw();
  }

  #drag(cell) {
    if (this.session.busy) return;
    if (this.painting) this.#paint(cell);
    else this.sketch.lead(cell);
    this.#draw();
  }

  #enter(cell) {
    if (this.session.busy) return;
    this.#remember();
    const before = this.sketch.route.length;
    this.sketch.toggle(cell);
    this.#refresh();
    const { route } = this.sketch;
    if (!route.length) announce("Your route is empty.");
    else if (this.sketch.complete) announce(this.sketch.words(this.#now));
    else if (route.length < before) announce(`Taken back to ${this.sketch.name(route.at(-1))}.`);
    else announce(`Led to ${this.sketch.name(cell)}, ${counted(route.length, "cell")}.`);
  }

  #key(name) {
    if (this.session.busy) return false;
    if (name === "Backspace" || name === "Delete") this.#undo();
    else if (name === "f" || name === "F") this.#finish();
    else return false;
    return true;
  }

  #finish() {
    const whole = this.sketch.finished(this.#now.costs);
    if (whole) this.#setRoute(whole);
    else notice("From there the goal cannot be reached without crossing your route. Take a part of it back.");
  }

  async #take(select) {
    const row = select.value;
    select.value = "";
    if (row === "") return;
    await this.#guarded(async () => this.#setRoute((await api.stored(this.pipeline.name, row)).path));
  }

  #setRoute(route, words) {
    this.#remember();
    this.sketch.route = route;
    this.#refresh();
    announce(words ?? this.sketch.words(this.#now));
  }

  #remember() {
    const pixels = this.painting ? this.board.pixels() : null;
    this.#undone.push({ route: this.sketch.route, pixels, touched: this.#touched });
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
      this.#touched = before.touched;
      this.decideLive();
    }
    this.#refresh();
    announce(before.pixels ? "The painting was taken back." : this.sketch.words(this.#now));
  }

  // Painting

  #tooled() {
    byId("palette").hidden = !this.painting;
    byId("board").classList.toggle("painting", this.painting);
    this.#refresh();
  }

  #paint(cell, alone = false) {
    if (this.session.busy) return;
    if (alone) this.#remember();
    this.board.stamp(this.palette.tile, cell);
    this.#touched = true;
    this.decideLive();
  }

  async #unpaint() {
    if (this.session.busy || this.#now === this.#stored) return;
    this.#remember();
    await this.board.show(this.#stored.image);
    this.#touched = this.#row === null;
    this.decideLive();
  }

  #context() {
    return this.#touched ? { image: this.board.encoded() } : { row: this.#row };
  }

  async #decide() {
    await this.#guarded(async () => {
      const [before, stored] = [this.#now, this.#stored];
      const { image: _, ...rest } = await api.decide(this.pipeline.name, this.#context());
      if (stored !== this.#stored) return; // another map was opened meanwhile
      this.#now = { ...before, ...rest };
      this.#refresh();
      const what = alike(before.path, rest.path) ? "The route stays" : "The route changed";
      this.sayDecision(`${what}, cost ${number(rest.value)}.`);
    });
  }

  // Asking

  #why() {
    if (!this.#now) return "The map is loading.";
    if (this.ask.kind === "epsilon") return "";
    if (!this.sketch.route.length) return "Draw your route first.";
    if (!this.sketch.complete) return "Your route does not reach the goal yet.";
    if (alike(this.sketch.route, this.#now.path)) return "Your route is the one that was decided. Draw another one.";
    return "";
  }

  async #explain() {
    if (this.session.busy || !this.ask.allowed) {
      announce(this.#why());
      return;
    }
    const { question } = this.ask;
    if (question.kind !== "epsilon") question.alternative = { path: this.sketch.route };
    const { name, plausible } = this.pipeline;
    const request = { pipeline: name, context: this.#context(), question, plausible };
    const requests = [request];
    if (plausible && this.ask.naive.checked) requests.push({ ...request, plausible: false });
    await this.#searching(request, (progress) => this.session.run(requests, progress));
  }

  /** Show a search on the map while it runs, then its answer; `before` are answers that are there already. */
  async #searching(request, run, before = []) {
    const { board } = this; // another one may be there at the end
    const pixels = board.pixels();
    const host = byId("board");
    host.classList.add("searching");
    // On a small screen the map lies far above the button: it is what is to be watched.
    if (host.getBoundingClientRect().top < 0) host.scrollIntoView({ block: "start" });
    const done = await run((report, k) => this.#watch(report, k + before.length ? "Naive search" : "Searching"));
    host.classList.remove("searching");
    board.restore(pixels);
    this.#refresh();
    if (done) this.#answered([...before, ...done], request);
  }

  #watch(report, what) {
    this.ask.report(report, what);
    byId("board").dataset.reports = Number(byId("board").dataset.reports ?? 0) + 1;
    if (!report.image) return;
    const { route } = this.sketch;
    this.board.show(report.image);
    this.board.showCosts(null);
    this.board.showRoutes([
      { route: report.path, role: "third" },
      { route, role: "other", weight: "weak" },
    ]);
    byId("legend").replaceChildren(
      legendEntry("third", "strong", "best on this map"),
      ...(route.length ? [legendEntry("other", "weak", "yours")] : []),
    );
  }

  #answered(tasks, request) {
    const naive = this.pipeline.plausible && request.plausible !== false;
    showResult(tasks, this.pipeline, {
      again: (side) => this.#goOn(side),
      naive: naive ? () => this.#naive(tasks[0], request) : null,
    });
  }

  async #naive(task, request) {
    const naive = { ...request, plausible: false };
    await this.#searching(request, (progress) => this.session.run([naive], progress), [task]);
  }

  async #goOn(side) {
    const { route } = this.sketch;
    const label = `${byId("map-name").textContent.replace(/, changed$/, "")}, changed`;
    await this.#guarded(async () => {
      const map = await api.decide(this.pipeline.name, { image: side.image.split(",").at(-1) });
      await this.#begin(map, null, label);
      this.sketch.route = route;
      this.#refresh();
      byId("title").focus();
      scrollTo({ top: 0 });
    });
  }

  // Showing

  #refresh() {
    this.#draw();
    this.ask.allow(this.#why());
  }

  #draw() {
    if (!this.#now || this.session.busy) return;
    const { route } = this.sketch;
    const { path, costs, value } = this.#now;
    const changed = !alike(this.#stored.path, path);
    this.board.showCosts(byId("show-costs").checked ? costs : null);
    this.board.showRoutes([
      ...(changed ? [{ route: this.#stored.path, role: "third", weight: "weak" }] : []),
      { route: path, role: "factual" },
      ...(alike(route, path) ? [] : [{ route, role: "other", weight: "weak" }]),
    ]);
    const yours = this.sketch.complete ? `costs ${number(this.sketch.cost(costs))}` : "not at the goal yet";
    byId("legend").replaceChildren(
      legendEntry("factual", "strong", changed ? "decided now" : "decided", `costs ${number(value)}`),
      ...(changed ? [legendEntry("third", "weak", "before painting", `cost ${number(this.#stored.value)}`)] : []),
      ...(route.length ? [legendEntry("other", "weak", "yours", yours)] : []),
    );
    byId("route-said").textContent = this.sketch.words(this.#now);
    byId("undo").disabled = !this.#undone.length;
    byId("clear").disabled = !route.length;
    byId("finish").disabled = this.sketch.complete;
    byId("board").dataset.path = JSON.stringify(path);
  }

  #cellWords(cell) {
    if (!this.#now) return "";
    const price = this.#now.costs[cell[0] * this.pipeline.grid.cols + cell[1]];
    return [
      `${this.sketch.name(cell)}: predicted cost ${number(price, 3)}`,
      ...(this.#now.path?.some((other) => same(other, cell)) ? ["on the decided route"] : []),
      ...(this.sketch.visits(cell) ? ["on yours"] : []),
    ].join(", ");
  }

  #moved(cell) {
    byId("readout").textContent = this.#cellWords(cell);
    announce(this.#cellWords(cell));
  }

  #hover(cell) {
    byId("readout").textContent = cell ? this.#cellWords(cell) : "\u00a0";
  }

  async #guarded(work) {
    try {
      await work();
    } catch (error) {
      notice(error.message);
    }
  }
}
