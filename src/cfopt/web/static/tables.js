// The page of tables: sliders, the decision that follows them, an alternative, the answer.

import * as api from "./api.js";
import { Ask } from "./ask.js";
import { announce, byId, el, legendEntry, notice } from "./dom.js";
import { drawingOf, equal } from "./drawings.js";
import { Features } from "./features.js";
import { latest, settled } from "./live.js";
import { fillList } from "./picker.js";
import { hideResult, showResult } from "./result.js";
import { failure } from "./search.js";
import { Session } from "./session.js";
import { capital, number } from "./words.js";

export class Tables {
  #now = null;
  #stored = null;
  #row = 0;
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
    byId("clear-wanted").addEventListener("click", () => this.#want(null));
    byId("reset-values").addEventListener("click", () => this.#reset());
    this.openLive = latest((row) => this.#open(row));
    this.decideLive = latest((values) => this.#decide(values));
    this.sayDecision = settled((words) => announce(words));
  }

  leave() {
    this.session.leave();
  }

  async open(pipeline, task) {
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
    if (task) await this.#linked(task);
    else await this.openLive(0);
  }

  async #open(row) {
    const { turn } = this.session;
    await this.#guarded(async () => {
      const one = await api.stored(this.pipeline.name, row);
      if (this.session.here(turn)) this.#begin(one, row);
    });
  }

  #begin(one, row) {
    this.#row = row;
    this.#now = this.#stored = one;
    this.#wanted = null;
    if (row !== null) byId("row").value = row;
    if (one.values) this.features.set(one.values);
    if (one.image) byId("features").replaceChildren(el("img", { src: one.image, alt: "The context" }));
    notice("");
    hideResult();
    if (location.pathname !== "/") history.replaceState(null, "", `/#${this.pipeline.name}`);
    this.#refresh();
  }

  async #linked(task) {
    const { request, result } = task;
    const address = location.href;
    const row = request.context.row ?? null;
    if (row !== null) this.#begin(await api.stored(this.pipeline.name, row), row);
    else {
      this.#begin(await api.stored(this.pipeline.name, 0), 0);
      const values = request.context.values ?? result?.before.values;
      this.features.set(values);
      await this.#decide(values);
    }
    history.replaceState(null, "", address);
    this.ask.kind = request.question.kind;
    if (request.question.kind !== "epsilon" && result) this.#want(result.asked_decision);
    const naive = new URLSearchParams(location.hash.slice(1)).get("naive");
    if (task.status === "done") this.#answered([task, ...(naive ? [await api.task(naive)] : [])]);
    else if (["queued", "running"].includes(task.status)) {
      await this.#searching((progress) => this.session.join(task.id, progress));
    } else notice(failure(task));
  }

  async #decide(values) {
    if (this.session.busy) return;
    await this.#guarded(async () => {
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
    await this.#guarded(async () => this.#want((await api.stored(this.pipeline.name, row)).decision));
  }

  #why() {
    if (!this.#now) return "The context is loading.";
    const { outside } = this.features;
    if (outside) return `${capital(outside)} is outside the range that you gave it. Move it, or widen the range.`;
    if (this.ask.kind === "epsilon") return "";
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
    if (question.kind !== "epsilon") question.alternative = this.#wanted;
    const touched = this.#stored.values && !equal(this.features.values, this.#stored.values);
    const context = touched ? { values: this.features.values } : { row: this.#row };
    const request = { pipeline: name, context, question, plausible };
    if (features) request.features = this.features.limits;
    const requests = [request];
    if (plausible && this.ask.naive.checked) requests.push({ ...request, plausible: false });
    await this.#searching((progress) => this.session.run(requests, progress));
  }

  async #searching(run) {
    const { features } = this; // others may be there at the end
    const values = [...features.values];
    const done = await run((report) => {
      this.ask.report(report);
      if (report.values) features.set(report.values);
    });
    features.set(values);
    this.#refresh();
    if (done) this.#answered(done);
  }

  #answered(tasks) {
    const again = (side) => {
      this.features.set(side.values);
      this.decideLive(side.values);
      byId("title").focus();
      scrollTo({ top: 0 });
    };
    showResult(tasks, this.pipeline, { again: this.pipeline.features ? again : null, naive: null });
  }

  /** How a decision's value is told: as a noun, of one that would be, of one that is. */
  get #words() {
    return this.pipeline.sense === "max" ? ["worth", "be worth", "is worth"] : ["cost", "cost", "costs"];
  }

  #refresh() {
    this.ask.allow(this.#why());
    if (!this.#now) return;
    const { costs, decision, name, value } = this.#now;
    const wanted = this.#wanted;
    const host = byId("drawing");
    this.drawing.show(this.#now, wanted);
    host.classList.remove("skeleton");
    host.dataset.decision = JSON.stringify(decision);
    host.dataset.version = Number(host.dataset.version ?? 0) + 1;
    const [noun, would, does] = this.#words;
    byId("decided").replaceChildren(el("b", {}, name), ` ${noun} ${number(value)}`);
    // Columns may have fixed costs that only the server knows: then nothing is said of them.
    const known = wanted?.length === costs.length;
    const worth = known ? number(wanted.reduce((sum, amount, k) => sum + amount * costs[k], 0)) : "";
    const beside = `It would ${would} ${worth}, where the one decided ${does} ${number(value)}.`;
    byId("wanted-said").textContent = known ? beside : wanted ? "Chosen." : "None yet.";
    byId("wanted-help").textContent = this.drawing.help;
    byId("clear-wanted").disabled = !wanted;
    const shades = el("div", {}, el("dt", {}, "roads: cheap", el("i", { class: "ramp" }), "dear"));
    byId("table-legend").replaceChildren(
      legendEntry("factual", "strong", "decided", number(value)),
      ...(wanted ? [legendEntry("other", "weak", "yours", worth)] : []),
      ...(this.pipeline.layout?.kind === "grid" ? [shades] : []),
    );
  }

  async #guarded(work) {
    try {
      await work();
    } catch (error) {
      notice(error.message);
    }
  }
}
