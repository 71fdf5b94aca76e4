// The page of tables: sliders, the decision that follows them, an alternative, the answer.

import * as api from "./api.js";
import { Ask } from "./ask.js";
import { announce, byId, drawn, el, notice } from "./dom.js";
import { GridDrawing, ItemsDrawing } from "./drawings.js";
import { Features } from "./features.js";
import { latest, settled } from "./live.js";
import { fillList } from "./picker.js";
import { hideResult, showResult } from "./result.js";
import { failure } from "./search.js";
import { Session } from "./session.js";
import { capital, number } from "./words.js";

const equal = (a, b) => Boolean(a && b) && a.every((value, k) => Math.abs(value - b[k]) < 1e-6);
const LISTED = 60; // columns that can be ticked one by one

export class Tables {
  #now = null;
  #stored = null;
  #row = 0;
  #wanted = null; // {decision}

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
    document.querySelector(".features").hidden = !pipeline.features;
    byId("decision-title").textContent = capital(pipeline.noun);
    fillList(byId("row"), pipeline, "row");
    fillList(byId("take-row"), pipeline, "row", "another row");
    this.#drawer();
    if (task) await this.#linked(task);
    else await this.openLive(0);
  }

  #drawer() {
    const host = byId("drawing");
    const kind = this.pipeline.layout?.kind;
    host.className = `drawing ${kind ?? "plain"}`;
    host.replaceChildren();
    byId("wanted-list").replaceChildren();
    const want = (decision) => this.#want(decision && { decision });
    if (kind === "grid") {
      this.drawing = new GridDrawing(host, this.pipeline, want);
      this.drawing.surface.addEventListener("place", (event) => announce(event.detail));
    } else if (kind === "items") this.drawing = new ItemsDrawing(host, this.pipeline, want);
    else this.drawing = new PlainDrawing(host, byId("wanted-list"), this.pipeline, want);
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
    if (request.question.kind !== "epsilon" && result) this.#want({ decision: result.asked_decision });
    if (task.status === "done") this.#answered(task);
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
      this.sayDecision(`${equal(before?.decision, this.#now.decision) ? "The decision stays" : `Now ${this.#now.name}`}, ${this.#value()} ${number(this.#now.value)}.`);
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
    await this.#guarded(async () => this.#want({ decision: (await api.stored(this.pipeline.name, row)).decision }));
  }

  #why() {
    if (!this.#now) return "The context is loading.";
    const { outside } = this.features;
    if (outside) return `${capital(outside)} is outside the range that you gave it. Move it, or widen the range.`;
    if (this.ask.kind === "epsilon") return "";
    if (!this.#wanted) return "Choose an alternative first.";
    if (equal(this.#wanted.decision, this.#now.decision)) return "Your alternative is what was decided. Choose another one.";
    return "";
  }

  async #explain() {
    if (this.session.busy || !this.ask.allowed) {
      announce(this.#why());
      return;
    }
    const question = { ...this.ask.question, ...(this.ask.kind === "epsilon" ? {} : { alternative: this.#wanted.decision }) };
    const touched = this.#stored.values && !equal(this.features.values, this.#stored.values);
    const context = touched ? { values: this.features.values } : { row: this.#row };
    const request = { pipeline: this.pipeline.name, context, question, plausible: this.pipeline.plausible, ...(this.pipeline.features ? { features: this.features.limits } : {}) };
    await this.#searching((progress) => this.session.run([request], progress));
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
    if (done) this.#answered(done[0]);
  }

  #answered(task) {
    showResult([task], this.pipeline, {
      again: !this.pipeline.features ? null : (side) => {
        this.features.set(side.values);
        this.decideLive(side.values);
        byId("title").focus();
        scrollTo({ top: 0 });
      },
      naive: null,
    });
  }

  #value() {
    return this.pipeline.sense === "max" ? "worth" : "cost";
  }

  #refresh() {
    this.ask.allow(this.#why());
    if (!this.#now) return;
    const decision = this.#wanted?.decision;
    this.drawing.show(this.#now, decision);
    byId("drawing").classList.remove("skeleton");
    byId("drawing").dataset.decision = JSON.stringify(this.#now.decision);
    byId("drawing").dataset.version = Number(byId("drawing").dataset.version ?? 0) + 1;
    byId("decided").replaceChildren(el("b", {}, this.#now.name), ` ${this.#value()} ${number(this.#now.value)}`);
    const worth = decision && decision.reduce((sum, value, k) => sum + value * this.#now.costs[k], 0);
    byId("wanted-said").textContent = decision
      ? `It would ${this.pipeline.sense === "max" ? "be worth" : "cost"} ${number(worth)}, where the one decided ${this.pipeline.sense === "max" ? "is worth" : "costs"} ${number(this.#now.value)}.`
      : "None yet.";
    byId("wanted-help").textContent = this.drawing.help;
    byId("clear-wanted").disabled = !decision;
    const entry = (role, weight, what, value) => el("div", {}, el("dt", {}, el("i", { class: `stroke ${weight} ${role}` }), what), el("dd", {}, value));
    byId("table-legend").replaceChildren(
      entry("factual", "strong", "decided", number(this.#now.value)),
      ...(decision ? [entry("other", "weak", "yours", number(worth))] : []),
      ...(this.pipeline.layout?.kind === "grid" ? [el("div", {}, el("dt", {}, "roads: cheap", el("i", { class: "ramp" }), "dear"))] : []),
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

/** Any other problem: the server's drawing, and columns to tick where they are few. */
class PlainDrawing {
  constructor(host, list, { decision_names: names }, wanted) {
    this.host = host;
    this.names = names ?? [];
    this.list = list;
    this.wanted = wanted;
    this.few = this.names.length > 0 && this.names.length <= LISTED;
  }

  get help() {
    return this.few ? "Tick what your alternative takes." : "Take the decision of another row.";
  }

  show({ decision, drawing, image }, alternative) {
    const picture = drawn(drawing);
    this.host.replaceChildren(...(image ? [el("img", { src: image, alt: "The context" })] : []), ...(picture ? [picture] : []));
    if (!this.few) return;
    const shown = alternative ?? decision;
    const focused = document.activeElement?.dataset?.column;
    this.list.replaceChildren(el("div", { class: "ticks" }, this.names.map((name, k) =>
      el("label", { class: "check" },
        el("input", { type: "checkbox", checked: shown[k] > 0.5, "data-column": k, onchange: (event) => this.wanted(shown.map((value, j) => (j === k ? Number(event.target.checked) : value))) }),
        el("span", {}, name)))));
    if (focused !== undefined) this.list.querySelector(`[data-column="${focused}"]`)?.focus();
  }
}
