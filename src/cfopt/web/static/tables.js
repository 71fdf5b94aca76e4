// The page of tables: sliders, the decision that follows them, an alternative, the answer.

import { ofState, paired, push, unpaired } from "./address.js";
import * as api from "./api.js";
import { Ask } from "./ask.js";
import { announce, byId, el, guarded, legendEntry, notice, usable } from "./dom.js";
import { drawingOf, equal } from "./drawings.js";
import { Features } from "./features.js";
import { latest, settled } from "./live.js";
import { fillList } from "./picker.js";
import { showResult, shownVerdict } from "./result.js";
import { failure, underWay } from "./search.js";
import { Session } from "./session.js";
import { Past } from "./undo.js";
import { Wish } from "./wish.js";
import { capital, number, summedUp } from "./words.js";

const ENTRIES = 2000; // of a decision that are listed by name
const TRIED = 12; // rows among which an example looks for another decision
const HELP = {
  uses: "Click or choose what it must take; the rest is left open.",
  avoids: "Click or choose what it must leave out; the rest is left open.",
};
const DRAGGED = 700; // milliseconds: moves of a slider that follow each other so soon are one

export class Tables {
  #now = null;
  #stored = null;
  #source = null; // the context that was opened: {row}, {values}, {image} or {task}
  #wanted = null; // the alternative, if there is one
  #values = []; // of the features, as they were remembered last
  #past = new Past(); // values and alternatives before each change

  constructor() {
    this.ask = new Ask(byId("table-ask"), {
      ask: () => this.#explain(),
      cancel: () => this.session.cancel(),
      change: () => this.#refresh(),
    });
    const resting = [".head", ".stage", ".features", ".route"].map((part) => `#table-view ${part}`);
    this.session = new Session(this.ask, resting.join(), () => [this.pipeline.name, this.#state]);
    byId("row").addEventListener("change", (event) => this.openLive(Number(event.target.value)));
    byId("take-row").addEventListener("change", (event) => this.#take(event.target));
    byId("clear-wanted").addEventListener("click", () => (this.#wanted || !this.wish.empty) && this.#want(null));
    byId("reset-values").addEventListener("click", () => this.#reset());
    byId("wish-entry").addEventListener("change", (event) => this.#wishFor(Number(event.target.value)));
    for (const radio of document.getElementsByName("wish")) radio.addEventListener("change", () => this.#refresh());
    this.openLive = latest((row) => this.#open(row));
    this.decideLive = latest((values) => this.#decide(values));
    this.sayDecision = settled((words) => announce(words));
  }

  leave() {
    this.session.leave();
  }

  /** Take back the last change of a value or of the alternative. */
  undo() {
    if (this.session.busy || !this.#now) return;
    const before = this.#past.take();
    if (!before) {
      announce("There is nothing to undo.");
      return;
    }
    this.#wanted = before.wanted;
    this.wish = before.wish;
    this.drawing.wishes = before.wishes;
    this.#move(before.values);
    this.#refresh();
  }

  #remember(pause = 0) {
    const { wishes } = this.drawing;
    this.#past.add({ values: this.#values, wanted: this.#wanted, wish: this.wish.copy(), wishes }, pause);
    this.#values = [...this.features.values];
  }

  /** Show a pipeline: at the tasks of a link, or at what an address says is open; `asks` as well. */
  async open(pipeline, { tasks, state, asks }) {
    this.pipeline = pipeline;
    this.#now = this.#stored = this.#wanted = null;
    this.wish = new Wish();
    this.ask.suit(pipeline);
    this.features = new Features(byId("features"), pipeline.features ?? [], {
      changed: (values) => {
        this.#remember(DRAGGED);
        this.decideLive(values);
      },
      limited: () => this.#refresh(),
    });
    for (const id of ["features-hint", "reset-values"]) byId(id).hidden = !pipeline.features;
    byId("decision-title").textContent = capital(pipeline.noun);
    fillList(byId("row"), pipeline, "row");
    fillList(byId("take-row"), pipeline, "row", "another row");
    this.drawing = drawingOf(byId("drawing"), byId("wanted-list"), pipeline, {
      wanted: (decision) => this.#want(decision),
      place: announce,
      entry: (k) => (this.#mode === "plan" ? false : this.#wishFor(k)),
    });
    const entries = (pipeline.decision_names ?? []).slice(0, ENTRIES);
    const option = (name, k) => el("option", { value: k }, name);
    byId("wish-entry").replaceChildren(el("option", { value: "" }, "choose"), ...entries.map(option));
    byId("wish-modes").hidden = !entries.length;
    document.querySelector("input[name=wish][value=plan]").checked = true;
    for (const mode of ["uses", "avoids"]) document.querySelector(`input[name=wish][value=${mode}] + span`).textContent = this.drawing[mode];
    if (tasks.length) await this.#linked(tasks);
    else await guarded(() => this.#restore(state, asks));
  }

  /** A ready question, step by step: why not what was decided in another row? */
  async example() {
    if (this.session.busy || !this.#now) return [];
    const { name, noun, contexts, features } = this.pipeline;
    let other = null;
    for (let row = 0; row < Math.min(contexts, TRIED) && !other; row++) {
      const one = await api.stored(name, row);
      if (!equal(one.decision, this.#now.decision)) other = one;
    }
    if (!other) return [{ say: "All the contexts here lead to the same decision. Move a slider to see another one." }];
    const moves = features ? " Move a slider, and the decision follows." : "";
    const [, , does] = this.#words;
    return [
      { say: `Drawn in blue is the ${noun} that was decided: it ${does} ${number(this.#now.value)}.${moves}`, at: "drawing", act: () => this.#want(other.decision) },
      { say: () => `Suppose you had wanted another one, dashed. ${byId("wanted-said").textContent}` },
      { say: `So you ask: ${this.ask.contrast()}`, act: () => this.#explain() },
      { say: () => summedUp(shownVerdict(), "What changed is listed beside the pictures, and below is what is proved.") },
    ];
  }

  // What an address holds

  get #touched() {
    return Boolean(this.#stored?.values) && !equal(this.features.values, this.#stored.values);
  }

  get #state() {
    const { row } = this.#source ?? {};
    const values = this.#touched || row === undefined ? this.features.values.join() : "";
    const take = this.#wanted ? paired([...this.#wanted.entries()].filter(([, amount]) => amount)) : "";
    return { row, values, take, ...this.wish.state, ...this.features.state, ...this.ask.state };
  }

  async #restore(state, asks) {
    const { turn } = this.session;
    const { name, contexts, features, columns } = this.pipeline;
    const row = Number(state.row ?? 0);
    const one = await api.stored(name, Number.isInteger(row) && row >= 0 && row < contexts ? row : 0);
    const values = state.values?.split(",").map(Number);
    const fits = values?.length === features?.length && values.every(Number.isFinite);
    const now = fits ? await api.decide(name, { values }) : one;
    if (!this.session.here(turn)) return;
    this.#begin(one, { row: one.row });
    this.features.state = state;
    this.ask.state = state;
    this.wish.state = state;
    const amounts = unpaired(state.take);
    if (state.take && columns) this.#wanted = columns.map((_, k) => amounts.get(k) ?? 0);
    if (fits) this.features.set(values);
    this.#values = [...this.features.values];
    this.#now = now;
    this.#refresh();
    if (asks) await this.#explain();
  }

  async #open(row) {
    const { turn } = this.session;
    await guarded(async () => {
      const one = await api.stored(this.pipeline.name, row);
      if (!this.session.here(turn)) return;
      this.#begin(one, { row });
    });
  }

  #begin(one, source) {
    this.#source = source;
    this.#now = this.#stored = one;
    this.#wanted = null;
    this.wish = new Wish();
    this.#named();
    this.#past.clear();
    if (one.values) this.features.set(one.values);
    this.#values = [...this.features.values];
    if (one.image) byId("features").replaceChildren(el("img", { src: one.image, alt: "The context" }));
    notice("");
    this.session.begin();
    this.#refresh();
  }

  /** Which context is open: a row of the list, or one that came with a link. */
  #named() {
    const { row = "" } = this.#source;
    byId("row").querySelector("option[value='']")?.remove();
    if (row === "") byId("row").prepend(el("option", { value: "" }, "the link"));
    byId("row").value = row;
    byId("reset-values").textContent = row === "" ? "Back to that of the link" : "Back to the stored one";
  }

  async #linked(tasks) {
    const { turn } = this.session;
    const { request, result } = tasks[0];
    const { name } = this.pipeline;
    const { row } = request.context;
    const one = row === undefined ? await api.decide(name, request.context) : await api.stored(name, row);
    const wanted = await this.#asked(request.question, result);
    if (!this.session.here(turn)) return;
    this.#begin(one, request.context);
    this.features.limits = request.features ?? {};
    const { max_changes } = request.features ?? {};
    this.ask.terms.asked = { ...request, max_changes, options: request.question.options };
    this.ask.question = request.question;
    this.wish.read(request.question, this.pipeline.decision_names ?? []);
    this.#wanted = wanted;
    this.#refresh();
    const done = tasks.filter(({ status }) => status === "done");
    const running = tasks.find(underWay);
    this.ask.naive.checked = tasks.length > 1;
    if (running) await this.#searching((progress) => this.session.join(running.id, progress), done);
    else if (done.length) this.#answered(done);
    else notice(failure(tasks[0]));
  }

  /** The alternative of a question, if it is known before the answer is there. */
  async #asked({ alternative }, result) {
    if (!alternative) return null;
    if (result) return result.asked_decision;
    if (Array.isArray(alternative)) return alternative;
    return alternative.row === undefined ? null : (await api.stored(this.pipeline.name, alternative.row)).decision;
  }

  async #decide(values) {
    if (this.session.busy) return;
    await guarded(async () => {
      const [before, stored] = [this.#now, this.#stored];
      const now = await api.decide(this.pipeline.name, { values });
      if (stored !== this.#stored) return; // another row was opened meanwhile
      this.#now = now;
      this.#refresh();
      notice("");
      const what = equal(before?.decision, now.decision) ? "The decision stays" : `Now ${now.name}`;
      this.sayDecision(`${what}, ${this.#words[0]} ${number(now.value)}.`);
    });
  }

  #reset() {
    this.#remember();
    this.#move(this.#stored.values);
  }

  /** Set all values, and decide. */
  #move(values) {
    this.features.set(values);
    this.#values = [...values];
    if (this.pipeline.features) this.decideLive(values);
  }

  #want(wanted) {
    this.#remember();
    this.wish.clear();
    this.#wanted = wanted;
    this.#refresh();
    announce(byId("wanted-said").textContent);
  }

  /** What a click on an entry means: "plan", "uses" or "avoids". */
  get #mode() {
    return document.querySelector("input[name=wish]:checked").value;
  }

  /** Ask for an entry, or for none of it; whether that was meant. */
  #wishFor(entry) {
    byId("wish-entry").value = "";
    this.#remember();
    this.#wanted = null;
    this.wish.toggle(entry, this.#mode);
    this.#refresh();
    announce(byId("wanted-said").textContent);
    return true;
  }

  async #take(select) {
    const row = select.value;
    select.value = "";
    if (row === "") return;
    await guarded(async () => this.#want((await api.stored(this.pipeline.name, row)).decision));
  }

  #why() {
    if (!this.#now) return "The context is loading.";
    const { fault } = this.features;
    if (fault) return fault;
    if (!this.ask.contrasts) return "";
    if (!this.wish.empty) return "";
    if (!this.#wanted) return "Choose an alternative first.";
    if (equal(this.#wanted, this.#now.decision)) return "Your alternative is what was decided. Choose another one.";
    return this.drawing.fault?.(this.#wanted) ?? "";
  }

  async #explain() {
    if (this.session.busy || !this.ask.allowed) {
      announce(this.#why());
      return;
    }
    const { name, plausible, features } = this.pipeline;
    const { question } = this.ask;
    if (this.ask.contrasts) Object.assign(question, this.wish.empty ? { alternative: this.#wanted } : this.wish.asked);
    const context = this.#touched ? { values: this.features.values } : this.#source;
    const request = { pipeline: name, context, question, plausible };
    const { max_changes, robust, options, prices } = this.ask.terms.asked;
    if (options) question.options = options;
    if (features) request.features = { ...this.features.limits, max_changes };
    if (robust) request.robust = robust;
    if (prices) request.prices = prices;
    const requests = [request];
    if (plausible && this.ask.naive.checked) requests.push({ ...request, plausible: false });
    await this.#searching((progress) => this.session.run(requests, progress));
  }

  /** Show a search while it runs, then its answer; `before` are answers that are there already. */
  async #searching(run, before = []) {
    const { features, session } = this;
    const { turn } = session;
    const values = [...features.values];
    const done = await run((report) => {
      this.ask.report(report);
      if (report.values) features.set(report.values);
    });
    if (!session.here(turn)) return;
    features.set(values);
    this.#refresh();
    if (done) this.#answered([...before, ...done]);
  }

  #answered(tasks) {
    const again = ({ result: { after } }) => {
      push(ofState(this.pipeline.name)); // the way back leads to the answer
      this.session.begin();
      this.#remember();
      this.#move(after.values);
      byId("title").focus();
      scrollTo({ top: 0 });
    };
    this.session.answered(tasks);
    showResult(tasks, this.pipeline, { again: this.pipeline.features ? again : null, naive: null });
  }

  /** How a decision's value is worded: as a noun, of one that would be, of one that is. */
  get #words() {
    return this.pipeline.sense === "max" ? ["worth", "be worth", "is worth"] : ["cost", "cost", "costs"];
  }

  /** What a decision is worth here; columns may have fixed prices that only the server knows. */
  #worth(decision) {
    const { costs, prices = costs } = this.#now;
    if (decision.length !== prices.length) return "";
    return number(decision.reduce((sum, amount, k) => sum + amount * prices[k], 0));
  }

  #refresh() {
    this.ask.allow(this.#why());
    if (!this.#now) return;
    const { decision, name, value } = this.#now;
    const wanted = this.#wanted;
    const host = byId("drawing");
    const { wish } = this;
    const part = (entries) => decision.map((_, k) => Number(entries.has(k)));
    this.drawing.show(this.#now, wish.empty ? wanted : part(wish.uses), wish.avoids.size ? part(wish.avoids) : null);
    byId("wish-pick").hidden = this.#mode === "plan";
    host.classList.remove("skeleton");
    host.dataset.decision = JSON.stringify(decision);
    host.dataset.version = Number(host.dataset.version ?? 0) + 1;
    const [noun, would, does] = this.#words;
    byId("decided").replaceChildren(el("b", {}, name), ` ${noun} ${number(value)}`);
    const worth = wanted ? this.#worth(wanted) : "";
    const beside = worth ? `It would ${would} ${worth}, where the one decided ${does} ${number(value)}.` : "";
    const called = wanted && this.drawing.called ? `${capital(this.drawing.called(wanted))}. ` : "";
    const open = wish.empty ? "" : wish.words(this.pipeline.noun, this.pipeline.decision_names ?? []);
    byId("wanted-said").textContent = open || called + beside || (wanted ? "Chosen." : "None yet.");
    byId("wanted-help").textContent = HELP[this.#mode] ?? this.drawing.help;
    usable(byId("clear-wanted"), Boolean(wanted) || !wish.empty);
    const shades = el("div", {}, el("dt", {}, "roads: cheap", el("i", { class: "ramp" }), "expensive"));
    byId("table-legend").replaceChildren(
      legendEntry("factual", "strong", "decided", number(value)),
      ...(wanted ? [legendEntry("other", "weak", "yours", worth)] : []),
      ...(this.pipeline.scene?.kind === "network" ? [shades] : []),
    );
    this.session.changed();
  }
}
