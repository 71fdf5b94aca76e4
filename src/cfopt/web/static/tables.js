// The page of tables: sliders, the decision that follows them, an alternative, the answer.

import { ofPipeline, push, replace } from "./address.js";
import * as api from "./api.js";
import { Ask } from "./ask.js";
import { announce, byId, el, guarded, legendEntry, notice, usable } from "./dom.js";
import { drawingOf, equal } from "./drawings.js";
import { Features } from "./features.js";
import { latest, settled } from "./live.js";
import { fillList } from "./picker.js";
import { hideResult, showResult } from "./result.js";
import { failure, underWay } from "./search.js";
import { Session } from "./session.js";
import { capital, number } from "./words.js";

export class Tables {
  #now = null;
  #stored = null;
  #source = null; // the context that was opened: {row}, {values}, {image} or {task}
  #wanted = null; // the alternative, if there is one

  constructor() {
    this.ask = new Ask(byId("table-ask"), {
      ask: () => this.#explain(),
      cancel: () => this.session.cancel(),
      change: () => this.#refresh(),
    });
    const resting = [".head", ".stage", ".features", ".route"].map((part) => `#table-view ${part}`);
    this.session = new Session(this.ask, resting.join());
    byId("row").addEventListener("change", (event) => this.openLive(Number(event.target.value)));
    byId("take-row").addEventListener("change", (event) => this.#take(event.target));
    byId("clear-wanted").addEventListener("click", () => this.#wanted && this.#want(null));
    byId("reset-values").addEventListener("click", () => this.#reset());
    this.openLive = latest((row) => this.#open(row));
    this.decideLive = latest((values) => this.#decide(values));
    this.sayDecision = settled((words) => announce(words));
  }

  leave() {
    this.session.leave();
  }

  /** Show a pipeline, at a stored context or at the tasks of a link. */
  async open(pipeline, tasks) {
    this.pipeline = pipeline;
    this.#now = this.#stored = this.#wanted = null;
    this.ask.suit(pipeline);
    this.features = new Features(byId("features"), pipeline.features ?? [], {
      changed: (values) => this.decideLive(values),
      limited: () => this.#refresh(),
    });
    for (const id of ["features-hint", "reset-values"]) byId(id).hidden = !pipeline.features;
    byId("decision-title").textContent = capital(pipeline.noun);
    fillList(byId("row"), pipeline, "row");
    fillList(byId("take-row"), pipeline, "row", "another row");
    this.drawing = drawingOf(byId("drawing"), byId("wanted-list"), pipeline, {
      wanted: (decision) => this.#want(decision),
      place: announce,
    });
    if (tasks.length) await this.#linked(tasks);
    else await this.openLive(0);
  }

  async #open(row) {
    const { turn } = this.session;
    await guarded(async () => {
      const one = await api.stored(this.pipeline.name, row);
      if (!this.session.here(turn)) return;
      this.#begin(one, { row });
      if (location.pathname !== "/") replace(ofPipeline(this.pipeline.name));
    });
  }

  #begin(one, source) {
    this.#source = source;
    this.#now = this.#stored = one;
    this.#wanted = null;
    this.#named();
    if (one.values) this.features.set(one.values);
    if (one.image) byId("features").replaceChildren(el("img", { src: one.image, alt: "The context" }));
    notice("");
    hideResult();
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
    this.ask.question = request.question;
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
    this.features.set(this.#stored.values);
    this.decideLive(this.#stored.values);
  }

  #want(wanted) {
    this.#wanted = wanted;
    this.#refresh();
    announce(byId("wanted-said").textContent);
  }

  async #take(select) {
    const row = select.value;
    select.value = "";
    if (row === "") return;
    await guarded(async () => this.#want((await api.stored(this.pipeline.name, row)).decision));
  }

  #why() {
    if (!this.#now) return "The context is loading.";
    const { outside } = this.features;
    if (outside) return `${capital(outside)} is outside the range that you gave it. Move it, or widen the range.`;
    if (!this.ask.contrasts) return "";
    if (!this.#wanted) return "Choose an alternative first.";
    if (equal(this.#wanted, this.#now.decision)) return "Your alternative is what was decided. Choose another one.";
    return "";
  }

  async #explain() {
    if (this.session.busy || !this.ask.allowed) {
      announce(this.#why());
      return;
    }
    const { name, plausible, features } = this.pipeline;
    const { question } = this.ask;
    if (this.ask.contrasts) question.alternative = this.#wanted;
    const touched = this.#stored.values && !equal(this.features.values, this.#stored.values);
    const context = touched ? { values: this.features.values } : this.#source;
    const request = { pipeline: name, context, question, plausible };
    if (features) request.features = this.features.limits;
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
      push(ofPipeline(this.pipeline.name)); // the way back leads to the answer
      hideResult();
      this.features.set(after.values);
      this.decideLive(after.values);
      byId("title").focus();
      scrollTo({ top: 0 });
    };
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
    this.drawing.show(this.#now, wanted);
    host.classList.remove("skeleton");
    host.dataset.decision = JSON.stringify(decision);
    host.dataset.version = Number(host.dataset.version ?? 0) + 1;
    const [noun, would, does] = this.#words;
    byId("decided").replaceChildren(el("b", {}, name), ` ${noun} ${number(value)}`);
    const worth = wanted ? this.#worth(wanted) : "";
    const beside = worth ? `It would ${would} ${worth}, where the one decided ${does} ${number(value)}.` : "";
    const called = wanted && this.drawing.called ? `${capital(this.drawing.called(wanted))}. ` : "";
    byId("wanted-said").textContent = called + beside || (wanted ? "Chosen." : "None yet.");
    byId("wanted-help").textContent = this.drawing.help;
    usable(byId("clear-wanted"), Boolean(wanted));
    const shades = el("div", {}, el("dt", {}, "roads: cheap", el("i", { class: "ramp" }), "expensive"));
    byId("table-legend").replaceChildren(
      legendEntry("factual", "strong", "decided", number(value)),
      ...(wanted ? [legendEntry("other", "weak", "yours", worth)] : []),
      ...(this.pipeline.scene?.kind === "network" ? [shades] : []),
    );
  }
}
