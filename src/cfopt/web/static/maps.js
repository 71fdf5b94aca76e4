// The page of maps: pick or upload one, draw a route or paint terrain, ask, watch, read the answer.

import * as api from "./api.js";
import { Ask } from "./ask.js";
import { Board } from "./board.js";
import { announce, byId, el, notice } from "./dom.js";
import { latest, settled } from "./live.js";
import { hideResult, showResult } from "./result.js";
import { complete, cost, find, finished, ledTo, same } from "./routes.js";
import { Searches, failure } from "./search.js";
import { capital, counted, number, place } from "./words.js";

const THUMBNAILS = 48;
const LARGE = 1024; // larger uploads are made smaller before they are sent: the map has 96 pixels
const HEAVY = 1_500_000;

export class Maps {
  #searches = new Searches();
  #route = [];
  #undone = []; // earlier routes and paintings, the newest last
  #now = null; // costs, route and value of the map shown
  #stored = null; // the same before anything was painted
  #row = 0;
  #touched = false; // whether the map is no longer the stored one
  #busy = false;
  #turn = 0; // counts the pages that were opened: what a page that was left had asked for is dropped
  #tiles = new Map();

  constructor() {
    this.ask = new Ask(byId("map-ask"), { ask: () => this.#explain(), cancel: () => this.#cancel(), change: () => this.#refresh() });
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

  /** Another page is shown: what is under way is given up. */
  leave() {
    this.#turn++;
    if (this.#busy) this.#cancel();
  }

  /** Show a pipeline, at a stored map or at the task of a link. */
  async open(pipeline, task) {
    this.pipeline = pipeline;
    const { grid } = pipeline;
    this.start = grid.start;
    this.goal = grid.goal;
    this.board = new Board(byId("board"), grid, {
      press: (cell) => this.#press(cell),
      drag: (cell) => this.#drag(cell),
      release: () => this.#refresh(),
      enter: (cell) => (this.painting ? this.#paint(cell, true) : this.#enter(cell)),
      move: (cell) => this.#moved(cell),
      hover: (cell) => this.#hover(cell),
      key: (name) => this.#key(name),
    });
    this.ask.suit(pipeline);
    this.#pickers();
    await this.#palette();
    if (task) await this.#linked(task);
    else await this.openLive(0);
  }

  // Picking a map

  #pickers() {
    const { contexts, labels, name } = this.pipeline;
    const count = Math.min(contexts, THUMBNAILS);
    const columns = 12;
    const sprite = `url("${api.thumbnails(name)}")`;
    byId("thumbs").replaceChildren(
      ...Array.from({ length: count }, (_, k) =>
        el("label", { class: "thumb", title: labels[k] ?? `map ${k}`, "--x": `${(100 * (k % columns)) / (columns - 1)}%`, "--y": `${(100 * Math.floor(k / columns)) / Math.max(1, Math.ceil(count / columns) - 1)}%`, "--rows": Math.ceil(count / columns) },
          el("input", { type: "radio", name: "map", value: k, "aria-label": labels[k] ?? `map ${k}`, onchange: () => this.openLive(k) }), el("i", {}))),
    );
    byId("thumbs").style.setProperty("--sprite", sprite);
    byId("take").replaceChildren(
      el("option", { value: "" }, "another map"),
      ...Array.from({ length: Math.min(contexts, 200) }, (_, k) => el("option", { value: k }, labels[k] ?? `map ${k}`)),
    );
  }

  async #open(row) {
    const turn = this.#turn;
    await this.#guarded(async () => {
      const map = await api.stored(this.pipeline.name, row);
      if (turn === this.#turn) await this.#begin(map, row, map.label ?? `map ${row}`);
    });
  }

  async #upload(input) {
    const [file] = input.files;
    input.value = ""; // the same file can be chosen again
    if (!file) return;
    await this.#guarded(async () => {
      const image = await encoded(file);
      const map = await api.decide(this.pipeline.name, { image });
      await this.#begin(map, null, file.name);
    });
  }

  async #begin(map, row, label) {
    this.#row = row;
    this.#touched = row === null;
    this.#undone = [];
    this.#route = [];
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
    const row = request.context.row ?? null;
    const map = row !== null ? await api.stored(this.pipeline.name, row)
      : await api.decide(this.pipeline.name, { image: (result?.before.image ?? request.context.image).split(",").at(-1) });
    const address = location.href;
    await this.#begin(map, row, row !== null ? (map.label ?? `map ${row}`) : "map of the link");
    history.replaceState(null, "", address);
    this.ask.kind = request.question.kind;
    const asked = result?.asked_path ?? request.question.alternative?.path;
    if (request.question.kind !== "epsilon" && asked) this.#route = asked;
    this.#refresh();
    if (task.status === "done") {
      const naive = new URLSearchParams(location.hash.slice(1)).get("naive");
      this.#answered([task, ...(naive ? [await api.task(naive)] : [])], request);
    } else if (["queued", "running"].includes(task.status)) {
      await this.#searching([request], (progress) => this.#searches.join(task.id, progress).then((end) => [end]));
    } else notice(failure(task));
  }

  // Drawing a route

  #press(cell) {
    if (this.#busy) return;
    if (this.painting) {
      this.#remember();
      this.#paint(cell);
      return;
    }
    this.#remember();
    const met = find(this.#route, cell);
    if (met >= 0) this.#route = this.#route.slice(0, met + 1);
    else if (!this.#route.length || complete(this.#route, this.goal)) this.#route = this.#led([this.start], cell);
    else this.#route = this.#led(this.#route, cell);
    this.#draw();
  }

  #drag(cell) {
    if (this.#busy) return;
    if (this.painting) this.#paint(cell);
    else this.#route = this.#led(this.#route, cell);
    this.#draw();
  }

  #led(route, cell) {
    return ledTo(route, cell, this.pipeline.grid.neighbours);
  }

  #enter(cell) {
    if (this.#busy) return;
    this.#remember();
    const met = find(this.#route, cell);
    if (met >= 0) {
      this.#route = this.#route.slice(0, Math.max(met, 0));
      this.#refresh();
      announce(this.#route.length ? `Taken back to ${this.#name(this.#route.at(-1))}.` : "Your route is empty.");
      return;
    }
    this.#route = this.#led(this.#route.length ? this.#route : [this.start], cell);
    this.#refresh();
    announce(complete(this.#route, this.goal) ? this.#routeWords() : `Led to ${this.#name(cell)}, ${counted(this.#route.length, "cell")}.`);
  }

  #key(name) {
    if (this.#busy) return false;
    if (name === "Backspace" || name === "Delete") this.#undo();
    else if (name === "f" || name === "F") this.#finish();
    else return false;
    return true;
  }

  #finish() {
    const whole = finished(this.#route.length ? this.#route : [this.start], this.goal, this.#now.costs, this.pipeline.grid);
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
    this.#route = route;
    this.#refresh();
    announce(words ?? this.#routeWords());
  }

  #remember() {
    this.#undone.push({ route: this.#route, pixels: this.painting ? this.board.pixels() : null, touched: this.#touched });
    if (this.#undone.length > 100) this.#undone.shift();
  }

  #undo() {
    const before = this.#undone.pop();
    if (!before) {
      announce("There is nothing to undo.");
      return;
    }
    this.#route = before.route;
    if (before.pixels) {
      this.board.restore(before.pixels);
      this.#touched = before.touched;
      this.decideLive();
    }
    this.#refresh();
    announce(before.pixels ? "The painting was taken back." : this.#routeWords());
  }

  // Painting

  async #palette() {
    const { terrains } = this.pipeline;
    byId("palette").replaceChildren(
      ...terrains.map(({ name, tile, cost: price }, k) =>
        el("label", { class: "terrain" }, el("input", { type: "radio", name: "terrain", value: name, checked: k === 0 }), el("img", { src: tile, alt: "", width: 28, height: 28 }), el("span", {}, capital(name), el("small", {}, `about ${number(price, 2)}`)))),
      el("button", { type: "button", onclick: () => this.#unpaint() }, "Reset"),
    );
    for (const { name, tile } of terrains) {
      const image = new Image();
      image.src = tile;
      this.#tiles.set(name, image);
    }
    await Promise.all([...this.#tiles.values()].map((image) => image.decode()));
  }

  #tooled() {
    byId("palette").hidden = !this.painting;
    byId("board").classList.toggle("painting", this.painting);
    this.#refresh();
  }

  #paint(cell, alone = false) {
    if (this.#busy) return;
    if (alone) this.#remember();
    const terrain = document.querySelector("input[name=terrain]:checked").value;
    this.board.stamp(this.#tiles.get(terrain), cell);
    this.#touched = true;
    this.decideLive();
  }

  async #unpaint() {
    if (this.#busy || this.#now === this.#stored) return;
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
      const moved = JSON.stringify(before.path) !== JSON.stringify(rest.path);
      this.sayDecision(`${moved ? "The route changed" : "The route stays"}, cost ${number(rest.value)}.`);
    });
  }

  // Asking

  #why() {
    if (!this.#now) return "The map is loading.";
    if (this.ask.kind === "epsilon") return "";
    if (!complete(this.#route, this.goal)) return this.#route.length ? "Your route does not reach the goal yet." : "Draw your route first.";
    if (JSON.stringify(this.#route) === JSON.stringify(this.#now.path)) return "Your route is the one that was decided. Draw another one.";
    return "";
  }

  async #explain() {
    if (this.#busy || !this.ask.allowed) {
      announce(this.#why());
      return;
    }
    const question = { ...this.ask.question, ...(this.ask.kind === "epsilon" ? {} : { alternative: { path: this.#route } }) };
    const request = { pipeline: this.pipeline.name, context: this.#context(), question, plausible: this.pipeline.plausible };
    const naive = this.pipeline.plausible && this.ask.naive.checked;
    const requests = naive ? [request, { ...request, plausible: false }] : [request];
    await this.#searching(requests, (progress) => this.#searches.run(requests, progress));
  }

  async #searching(requests, run) {
    this.#busy = true;
    notice("");
    hideResult();
    const before = this.board.pixels();
    byId("board").classList.add("searching");
    this.ask.busy(true);
    this.ask.stop.focus({ preventScroll: true });
    // On a small screen the map lies far above the button: it is what is to be watched.
    if (byId("board").getBoundingClientRect().top < 0) byId("board").scrollIntoView({ block: "start" });
    announce("Searching. Cancel stops it.");
    for (const part of this.#idle) part.inert = true;
    const turn = this.#turn;
    let tasks = null;
    try {
      tasks = await run((report, k) => this.#watch(report, k ? "Naive search" : "Searching"));
    } catch (error) {
      notice(error.message);
    }
    this.#busy = false;
    this.board.restore(before);
    byId("board").classList.remove("searching");
    this.ask.busy(false);
    for (const part of this.#idle) part.inert = false;
    this.#refresh();
    if (turn !== this.#turn) return;
    const bad = tasks?.find(({ status }) => status !== "done");
    if (bad) notice(failure(bad), bad.status === "cancelled");
    const done = tasks?.filter(({ status }) => status === "done") ?? [];
    if (done.length) this.#answered(done, requests[0]);
    else this.ask.button.focus();
  }

  /** What rests while a search runs: the map that it changes is not to be changed by others. */
  get #idle() {
    return document.querySelectorAll("#map-view .pick, #map-view .route, #map-view .stage > .bar, #palette");
  }

  #watch(report, what) {
    this.ask.report(report, what);
    byId("board").dataset.reports = Number(byId("board").dataset.reports ?? 0) + 1;
    if (!report.image) return;
    this.board.show(report.image);
    this.board.showCosts(null);
    this.board.showRoutes([
      { route: report.path, role: "third" },
      { route: this.#route, role: "other", weight: "weak" },
    ]);
    byId("legend").replaceChildren(entry("third", "strong", "best on this map", ""), ...(this.#route.length ? [entry("other", "weak", "yours", "")] : []));
  }

  #answered(tasks, request) {
    showResult(tasks, this.pipeline, {
      again: (side) => this.#goOn(side),
      naive: this.pipeline.plausible && request.plausible !== false ? () => this.#naive(tasks[0], request) : null,
    });
  }

  async #naive(task, request) {
    const again = { ...request, plausible: false };
    await this.#searching([request], async (progress) => [task, ...(await this.#searches.run([again], (report) => progress(report, 1)))]);
  }

  async #goOn(side) {
    const route = this.#route;
    const label = `${byId("map-name").textContent.replace(/, changed$/, "")}, changed`;
    await this.#guarded(async () => {
      const map = await api.decide(this.pipeline.name, { image: side.image.split(",").at(-1) });
      await this.#begin(map, null, label);
      this.#route = route;
      this.#refresh();
      byId("title").focus();
      scrollTo({ top: 0 });
    });
  }

  async #cancel() {
    await this.#guarded(() => this.#searches.cancel());
  }

  // Showing

  #refresh() {
    this.#draw();
    this.ask.allow(this.#why());
  }

  #draw() {
    if (!this.#now || this.#busy) return;
    const changed = JSON.stringify(this.#stored.path) !== JSON.stringify(this.#now.path);
    const alike = JSON.stringify(this.#route) === JSON.stringify(this.#now.path);
    this.board.showCosts(byId("show-costs").checked ? this.#now.costs : null);
    this.board.showRoutes([
      ...(changed ? [{ route: this.#stored.path, role: "third", weight: "weak" }] : []),
      { route: this.#now.path, role: "factual" },
      ...(alike ? [] : [{ route: this.#route, role: "other", weight: "weak" }]),
    ]);
    const { cols } = this.pipeline.grid;
    const reached = complete(this.#route, this.goal);
    byId("legend").replaceChildren(
      entry("factual", "strong", changed ? "decided now" : "decided", `costs ${number(this.#now.value)}`),
      ...(changed ? [entry("third", "weak", "before painting", `cost ${number(this.#stored.value)}`)] : []),
      ...(this.#route.length ? [entry("other", "weak", "yours", reached ? `costs ${number(cost(this.#route, this.#now.costs, cols))}` : "not at the goal yet")] : []),
    );
    byId("route-said").textContent = this.#routeWords();
    byId("undo").disabled = !this.#undone.length;
    byId("clear").disabled = !this.#route.length;
    byId("finish").disabled = reached;
    byId("board").dataset.path = JSON.stringify(this.#now.path);
  }

  #routeWords() {
    if (!this.#route.length) return "Draw on the map from the dot to the square: drag across cells, or click from bend to bend.";
    const { cols } = this.pipeline.grid;
    const end = this.#name(this.#route.at(-1));
    if (!complete(this.#route, this.goal)) return `${counted(this.#route.length, "cell")} so far, to ${end}. Go on to ${this.#name(this.goal)}, or let it be finished the cheapest way.`;
    const more = cost(this.#route, this.#now.costs, cols) / this.#now.value - 1;
    const words = `${counted(this.#route.length, "cell")} to ${end}, complete.`;
    return more > 1e-6 ? `${words} On this map it costs ${number(100 * more, 2)}% more than the one decided.` : `${words} It costs as much as the one decided.`;
  }

  #name([row, column]) {
    return place(row, column, this.pipeline.grid.rows, this.pipeline.grid.cols);
  }

  #cellWords(cell) {
    if (!this.#now) return "";
    const { cols } = this.pipeline.grid;
    const marks = [
      this.#now.path?.some((other) => same(other, cell)) ? "on the decided route" : "",
      find(this.#route, cell) >= 0 ? "on yours" : "",
    ].filter(Boolean);
    return `${this.#name(cell)}: predicted cost ${number(this.#now.costs[cell[0] * cols + cell[1]], 3)}${marks.length ? `, ${marks.join(", ")}` : ""}`;
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

/** A line of the legend. */
const entry = (role, weight, what, value) => el("div", {}, el("dt", {}, el("i", { class: `stroke ${weight} ${role}` }), what), el("dd", {}, value));

/** A file as base64; photographs are made smaller first. */
async function encoded(file) {
  let blob = file;
  if (file.size > HEAVY) {
    try {
      const bitmap = await createImageBitmap(file);
      const scale = Math.min(1, LARGE / Math.max(bitmap.width, bitmap.height));
      const canvas = el("canvas", { width: Math.round(bitmap.width * scale), height: Math.round(bitmap.height * scale) });
      canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
    } catch {
      throw new Error(`${file.name} is no image that this browser can read, and too large to be sent. Choose a PNG or a JPEG.`);
    }
  }
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let k = 0; k < bytes.length; k += 8192) text += String.fromCharCode(...bytes.subarray(k, k + 8192));
  return btoa(text);
}
