// A search as a page lives through it: what rests meanwhile, what is shown, how it may end.

import { fragment, ofState, ofTasks, replace } from "./address.js";
import { announce, notice } from "./dom.js";
import { settled } from "./live.js";
import { ageResult, hideResult, showAgain } from "./result.js";
import { Searches, failure } from "./search.js";

const SETTLED = 250; // milliseconds without a change before the address follows

export class Session {
  #searches = null; // those that run
  #turn = 0; // counts the pages that were opened: what a page that was left had asked for is dropped

  #answer = null; // the tasks that are shown, and what was open when they were asked: {ids, asked}

  /**
   * @param ask the question's form
   * @param resting a selector of the parts that rest while a search runs
   * @param open what is open: [name of the pipeline, state], as an address holds it
   */
  constructor(ask, resting, open) {
    Object.assign(this, { ask, resting, open });
    this.remember = settled((turn) => this.here(turn) && this.#remember(), SETTLED);
  }

  /** Something has changed: soon the address says what is open, and an answer to something else is marked. */
  changed() {
    this.remember(this.#turn);
  }

  #remember() {
    if (this.busy) return;
    const [name, state] = this.open();
    const asked = this.#answer?.asked === fragment(name, state);
    ageResult(this.#answer !== null && !asked);
    replace(asked ? ofTasks(this.#answer.ids, name, state) : ofState(name, state));
  }

  /** Answers are shown, to what is open now. */
  answered(tasks) {
    const [name, state] = this.open();
    this.#answer = { ids: tasks.map(({ id }) => id), asked: fragment(name, state) };
    this.#remember();
  }

  /** Something else was opened: answers are gone. */
  begin() {
    this.#answer = null;
    hideResult();
  }

  get busy() {
    return this.#searches !== null;
  }

  /** A mark of the page that is shown; `here` says whether it still is. */
  get turn() {
    return this.#turn;
  }

  here(turn) {
    return turn === this.#turn;
  }

  /** Another page is shown: what is under way is left. */
  leave() {
    this.#turn++;
    this.#answer = null;
    if (!this.busy) return;
    this.#searches.leave().catch((error) => notice(error.message));
    this.#rest(null);
  }

  async cancel() {
    try {
      await this.#searches?.cancel();
    } catch (error) {
      notice(error.message);
    }
  }

  /** Ask one request after another; the tasks that were done, or null. `before` are those there already. */
  run(requests, progress, before = []) {
    const ids = before.map(({ id }) => id);
    const turn = this.#turn;
    // A page that is loaded again joins the search of its address.
    const started = (id) => {
      ids.push(id);
      if (this.here(turn)) replace(ofTasks(ids, ...this.open()), id);
    };
    return this.#live((searches, report) => searches.run(requests, report, started), progress);
  }

  /** Follow a search that is under way. */
  join(id, progress) {
    return this.#live((searches, report) => searches.join(id, report), progress);
  }

  async #live(search, progress) {
    const turn = this.#turn;
    const searches = new Searches();
    this.#rest(searches);
    notice("");
    const shown = hideResult();
    this.ask.stop.focus({ preventScroll: true });
    announce("Searching. Cancel stops it.");
    let tasks = [];
    let fault = null;
    try {
      tasks = await search(searches, (...report) => this.here(turn) && progress(...report));
    } catch (error) {
      fault = error;
    }
    if (!this.here(turn)) return null;
    this.#rest(null);
    const bad = tasks.find(({ status }) => status !== "done");
    if (fault) notice(fault.message);
    else if (bad) notice(failure(bad), { calm: bad.status === "cancelled" });
    const done = tasks.filter(({ status }) => status === "done");
    if (done.length) return done;
    // Without a new answer the one before stays, and the address says what is open again.
    if (shown) showAgain();
    this.#remember();
    this.ask.button.focus();
    return null;
  }

  #rest(searches) {
    this.#searches = searches;
    this.ask.busy(this.busy);
    for (const part of document.querySelectorAll(this.resting)) part.inert = this.busy;
  }
}
