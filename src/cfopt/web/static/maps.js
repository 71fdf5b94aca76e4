// The page of maps: pick or upload one, draw a route or paint terrain, ask, watch, read the answer.

import { ofState, paired, push, unpaired } from "./address.js";
import * as api from "./api.js";
import { Ask } from "./ask.js";
import { Board } from "./board.js";
import { Chart } from "./chart.js";
import { announce, byId, guarded, notice } from "./dom.js";
import { Editor } from "./editor.js";
import { latest, settled } from "./live.js";
import { fillList, fillThumbnails } from "./picker.js";
import { seenOnMaps } from "./pictures.js";
import { showResult, shownVerdict } from "./result.js";
import { alike, straight } from "./routes.js";
import { failure, underWay } from "./search.js";
import { Session } from "./session.js";
import { encoded } from "./uploads.js";
import { cellName, cellOf, number, summedUp } from "./words.js";

/** Seconds that a search may take that has found nothing in the usual time; the server's own limit is a little more. */
const LONGER = 110;

/** The base64 of a data URI. */
const bare = (uri) => uri.split(",").at(-1);

export class Maps {
  #now = null; // costs, route and value of the map shown
  #stored = null; // the same before anything was painted
  #source = null; // the context that was opened: {row}, {image} or {task}
  #label = "";

  constructor() {
    this.ask = new Ask(byId("map-ask"), {
      ask: () => this.#explain(),
      cancel: () => this.session.cancel(),
      change: () => this.#refresh(),
    });
    // What could change the map that a search changes.
    const resting = "#map-view .pick, #map-view .route, #map-view .stage > .bar, #palette";
    this.session = new Session(this.ask, resting, () => [this.pipeline.name, this.#state]);
    this.editor = new Editor({
      now: () => this.#now,
      changed: () => this.#refresh(),
      painted: () => this.decideLive(),
      original: () => this.#stored.image,
      resting: () => this.session.busy || !this.#now,
    });
    byId("upload").addEventListener("change", (event) => this.#upload(event.target));
    byId("show-costs").addEventListener("change", () => this.#refresh());
    byId("take").addEventListener("change", (event) => this.#take(event.target));
    this.openLive = latest((row) => this.#open(row));
    this.decideLive = latest(() => this.#decide());
    this.sayDecision = settled((words) => announce(words));
  }

  leave() {
    this.session.leave();
    byId("board").classList.remove("searching");
  }

  /** Take back the last change of the route or the map. */
  undo() {
    this.editor.undo();
  }

  /** Show a pipeline: at the tasks of a link, or at what an address says is open; `asks` as well. */
  async open(pipeline, { tasks, state, asks }) {
    const { turn } = this.session;
    this.pipeline = pipeline;
    this.#now = this.#stored = null;
    const { editor } = this;
    this.board = new Board(byId("board"), pipeline.grid, pipeline.size, {
      press: (cell) => editor.press(cell),
      drag: (cell) => editor.drag(cell),
      release: () => this.#refresh(),
      enter: (cell) => editor.enter(cell),
      move: (cell) => this.chart.visit(cell),
      hover: (cell) => this.chart.point(cell),
      key: (name) => editor.key(name),
    });
    await editor.suit(pipeline, this.board);
    if (!this.session.here(turn)) return;
    this.chart = new Chart(this.board, editor.sketch);
    this.ask.suit(pipeline);
    fillThumbnails(byId("thumbs"), pipeline, (row) => this.openLive(row));
    fillList(byId("take"), pipeline, "map", "another map");
    if (tasks.length) await this.#linked(tasks);
    else await guarded(() => this.#restore(state, asks));
  }

  /** A ready question, step by step: the straight way from start to goal. */
  async example() {
    if (this.session.busy || !this.#now) return [];
    const { start, goal, neighbours } = this.pipeline.grid;
    const straightWay = [start, ...straight(start, goal, neighbours)];
    const better = this.pipeline.noun;
    return [
      {
        say: `The blue line is the ${better} that was decided: from the dot to the square, for ${number(this.#now.value)} in all. The network predicts what each cell costs.`,
        at: "board",
        act: () => this.editor.lead(straightWay),
      },
      { say: () => `Suppose you had wanted the dashed one, straight ahead. ${this.editor.sketch.words(this.#now)}` },
      { say: `So you ask: ${this.ask.contrast()} Watch the map while it is searched.`, act: () => this.#explain() },
      { say: () => summedUp(shownVerdict(), seenOnMaps()) },
    ];
  }

  // What an address holds

  get #state() {
    const { row, task, image } = this.#source ?? {};
    const { sketch, strokes } = this.editor;
    const route = sketch.route.map(cellName).join("-");
    const { wish } = this.editor;
    return { row, from: task, image, paint: paired(strokes), route, ...wish.state, ...this.ask.state };
  }

  async #restore(state, asks) {
    const { turn } = this.session;
    const { name, contexts, grid } = this.pipeline;
    const row = Number(state.row ?? 0);
    const context = state.image ? { image: state.image } : state.from ? { task: state.from } : { row };
    const known = context.row === undefined || (Number.isInteger(row) && row >= 0 && row < contexts);
    const [map, source] = await this.#known(known ? context : { row: 0 });
    if (!this.session.here(turn)) return;
    const cells = (state.route ?? "").split("-").map(cellOf);
    const fits = cells.every((cell) => cell && cell[0] < grid.rows && cell[1] < grid.cols);
    const label = map.label ?? (state.from ? "answer of a search" : "uploaded image");
    await this.#begin(map, source, label, fits ? cells : []);
    this.ask.state = state;
    this.editor.wish.state = state;
    this.#refresh();
    if (!this.session.here(turn)) return;
    this.editor.repaint(unpaired(state.paint));
    if (this.editor.painted) await this.decideLive();
    if (asks) await this.#explain();
  }

  // Picking a map

  async #open(row) {
    const { turn } = this.session;
    await guarded(async () => {
      const map = await api.stored(this.pipeline.name, row);
      if (this.session.here(turn)) await this.#begin(map, { row }, map.label ?? `map ${row}`);
    });
  }

  async #upload(input) {
    const [file] = input.files;
    if (!file) return;
    await guarded(async () => {
      const image = await encoded(file, this.pipeline.size);
      if (!image) return;
      const map = await api.judge(this.pipeline.name, { image });
      await this.#begin(map, { image: bare(map.image) }, file.name);
      if (map.unlike) notice(map.unlike, { calm: true });
    });
    input.value = ""; // the same file can be chosen again
  }

  async #begin(map, source, label, route = []) {
    this.#source = source;
    this.#label = label;
    this.#now = this.#stored = map;
    this.editor.begin(route);
    await this.board.show(map.image);
    byId("board").classList.remove("skeleton");
    notice("");
    this.session.begin();
    this.#refresh();
  }

  /** What is decided in a context that was asked about, and that context; its picture if it is forgotten. */
  async #known(context, image) {
    const { name } = this.pipeline;
    if (context.row !== undefined) return [await api.stored(name, context.row), context];
    try {
      return [await api.decide(name, context), context];
    } catch (error) {
      if (error.passing || !image) throw error;
      const seen = { image: bare(image) };
      return [await api.decide(name, seen), seen];
    }
  }

  async #linked(tasks) {
    const { turn } = this.session;
    const { request, result } = tasks[0];
    const { alternative } = request.question;
    const [map, source] = await this.#known(request.context, result?.before.image);
    let route = alternative ? (result?.asked_path ?? alternative.path ?? []) : [];
    if (alternative?.row !== undefined) route = (await api.stored(this.pipeline.name, alternative.row)).path;
    if (!this.session.here(turn)) return;
    await this.#begin(map, source, map.label ?? "map of the link", route);
    this.ask.question = request.question;
    this.editor.wish.read(request.question, this.pipeline.decision_names ?? []);
    this.#refresh();
    const done = tasks.filter(({ status }) => status === "done");
    const running = tasks.find(underWay);
    this.ask.naive.checked = tasks.length > 1;
    if (running) await this.#searching(request, (progress) => this.session.join(running.id, progress), done);
    else if (done.length) this.#answered(done, request);
    else notice(failure(tasks[0]));
  }

  async #take(select) {
    const row = select.value;
    select.value = "";
    if (row === "") return;
    await guarded(async () => this.editor.lead((await api.stored(this.pipeline.name, row)).path));
  }

  #context() {
    return this.editor.painted ? { image: this.board.encoded() } : this.#source;
  }

  async #decide() {
    if (this.session.busy) return; // the map shows the search
    await guarded(async () => {
      const [before, stored] = [this.#now, this.#stored];
      const now = this.editor.painted ? await api.decide(this.pipeline.name, this.#context()) : stored;
      if (stored !== this.#stored) return; // another map was opened meanwhile
      this.#now = now;
      this.#refresh();
      const what = alike(before.path, now.path) ? "The route stays" : "The route changed";
      this.sayDecision(`${what}, cost ${number(now.value)}.`);
    });
  }

  // Asking

  #why() {
    if (!this.#now) return "The map is loading.";
    const { sketch } = this.editor;
    if (!this.ask.contrasts) return "";
    if (!this.editor.wish.empty) return "";
    if (!sketch.route.length) return "Draw your route first, or say what it should go through.";
    if (!sketch.complete) return "Your route does not reach the goal yet.";
    if (alike(sketch.route, this.#now.path)) return "Your route is the one that was decided. Draw another one.";
    return "";
  }

  /** Ask what is open; `limit` are the seconds that the search may take, if they are not the usual ones. */
  async #explain(limit) {
    if (this.session.busy || !this.ask.allowed) {
      announce(this.#why());
      return;
    }
    const { question } = this.ask;
    const { sketch, wish } = this.editor;
    if (this.ask.contrasts) Object.assign(question, wish.empty ? { alternative: { path: sketch.route } } : wish.asked);
    const { name, plausible } = this.pipeline;
    const request = { pipeline: name, context: this.#context(), question, plausible, time_limit: limit };
    const requests = [request];
    if (plausible && this.ask.naive.checked) requests.push({ ...request, plausible: false });
    await this.#searching(request, (progress) => this.session.run(requests, progress));
  }

  /** Show a search on the map while it runs, then its answer; `before` are answers that are there already. */
  async #searching(request, run, before = []) {
    const { board, session } = this;
    const { turn } = session;
    const pixels = board.pixels();
    const host = byId("board");
    host.classList.add("searching");
    // On a small screen the map lies far above the button: it is what is to be watched.
    if (host.getBoundingClientRect().top < 0) host.scrollIntoView({ block: "start" });
    const done = await run((report, k) => this.#watch(report, k + before.length ? "Naive search" : "Searching"));
    if (!session.here(turn)) return;
    host.classList.remove("searching");
    board.restore(pixels);
    this.#refresh();
    if (done) this.#answered([...before, ...done], request);
  }

  #watch(report, what) {
    this.ask.report(report, what);
    byId("board").dataset.reports = Number(byId("board").dataset.reports ?? 0) + 1;
    if (report.image) this.chart.watch(report);
  }

  #answered(tasks, request) {
    const naive = this.pipeline.plausible && request.plausible !== false;
    this.session.answered(tasks);
    showResult(tasks, this.pipeline, {
      again: (task) => this.#goOn(task),
      naive: naive ? () => this.#naive(tasks[0], request) : null,
      offer: this.#offer(tasks[0].result, request),
    });
  }

  /** What can be done about an answer that is none. */
  #offer({ status, seconds }, request) {
    if (status === "proved infeasible") return this.#straighter();
    const { time_limit: usual } = this.pipeline;
    if (status !== "best effort" || !usual || request.time_limit || seconds < usual) return null;
    const said = `Nothing was found in ${number(usual)} seconds. A ${this.pipeline.noun} that costs only a little more than the one decided is easier to explain.`;
    return { said, words: `Search for up to ${LONGER} seconds`, act: () => this.#explain(LONGER) };
  }

  /** A route with corners that can be cut can be straightened, and asked about again. */
  #straighter() {
    const said = this.ask.contrasts ? this.editor.sketch.detour(this.#now) : "";
    const act = () => {
      this.editor.lead(this.editor.sketch.straight);
      return this.#explain();
    };
    return said ? { said, words: "Straighten it, and ask again", act } : null;
  }

  async #naive(task, request) {
    const naive = { ...request, plausible: false };
    await this.#searching(request, (progress) => this.session.run([naive], progress, [task]), [task]);
  }

  async #goOn({ id, result }) {
    const { route } = this.editor.sketch;
    await guarded(async () => {
      const [map, source] = await this.#known({ task: id }, result.after.image);
      push(ofState(this.pipeline.name)); // the way back leads to the answer
      await this.#begin(map, source, `${this.#label.replace(/, changed$/, "")}, changed`, route);
      byId("title").focus();
      scrollTo({ top: 0 });
    });
  }

  // Showing

  #refresh() {
    this.ask.allow(this.#why());
    if (!this.#now || this.session.busy) return;
    const { painted } = this.editor;
    const name = painted ? `${this.#label}, painted` : this.#label;
    if (byId("map-name").textContent !== name) byId("map-name").textContent = name;
    // A map that was painted is none of the stored ones; its own can be chosen again.
    const row = painted ? null : this.#source.row;
    for (const radio of document.getElementsByName("map")) radio.checked = Number(radio.value) === row;
    this.chart.show(this.#now, this.#stored);
    this.editor.tell();
    const { wish } = this.editor;
    if (!wish.empty) byId("route-said").textContent = wish.words(this.pipeline.noun, this.pipeline.decision_names ?? []);
    this.session.changed();
  }
}
