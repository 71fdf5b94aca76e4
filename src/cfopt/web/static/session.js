// A search as a page lives through it: what rests meanwhile, what is shown, how it may end.

import { ofTasks, replace } from "./address.js";
import { announce, notice } from "./dom.js";
import { hideResult, showAgain } from "./result.js";
import { Searches, failure } from "./search.js";

export class Session {
  #searches = null; // those that run
  #turn = 0; // counts the pages that were opened: what a page that was left had asked for is dropped

  /**
   * @param ask the question's form
   * @param resting a selector of the parts that rest while a search runs
   */
  constructor(ask, resting) {
    this.ask = ask;
    this.resting = resting;
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
      if (this.here(turn)) replace(ofTasks(ids), id);
    };
    return this.#live((searches, report) => searches.run(requests, report, started), progress);
  }

  /** Follow a search that is under way. */
  join(id, progress) {
    return this.#live((searches, report) => searches.join(id, report), progress);
  }

  async #live(search, progress) {
    const turn = this.#turn;
    const address = location.href;
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
    // Without a new answer the one before stays, and its address.
    replace(address);
    if (shown) showAgain();
    this.ask.button.focus();
    return null;
  }

  #rest(searches) {
    this.#searches = searches;
    this.ask.busy(this.busy);
    for (const part of document.querySelectorAll(this.resting)) part.inert = this.busy;
  }
}
