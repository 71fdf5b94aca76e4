// A search as a page lives through it: what rests meanwhile, what is shown, how it may end.

import { announce, notice } from "./dom.js";
import { hideResult } from "./result.js";
import { Searches, failure } from "./search.js";

export class Session {
  #searches = new Searches();
  #turn = 0; // counts the pages that were opened: what a page that was left had asked for is dropped

  /**
   * @param ask the question's form
   * @param resting a selector of the parts that rest while a search runs
   */
  constructor(ask, resting) {
    this.ask = ask;
    this.resting = resting;
    this.busy = false;
  }

  /** A mark of the page that is shown; `here` tells whether it still is. */
  get turn() {
    return this.#turn;
  }

  here(turn) {
    return turn === this.#turn;
  }

  /** Another page is shown: what is under way is given up. */
  leave() {
    this.#turn++;
    if (this.busy) this.cancel();
  }

  async cancel() {
    try {
      await this.#searches.cancel();
    } catch (error) {
      notice(error.message);
    }
  }

  /** Ask one request after another; the tasks that were done, or null. */
  run(requests, progress) {
    return this.#live((report) => this.#searches.run(requests, report), progress);
  }

  /** Follow a search that another page started. */
  join(id, progress) {
    return this.#live(async (report) => [await this.#searches.join(id, report)], progress);
  }

  async #live(search, progress) {
    const turn = this.#turn;
    this.#rest(true);
    notice("");
    hideResult();
    this.ask.stop.focus({ preventScroll: true });
    announce("Searching. Cancel stops it.");
    let tasks = [];
    try {
      tasks = await search(progress);
    } catch (error) {
      if (this.here(turn)) notice(error.message);
    }
    this.#rest(false);
    if (!this.here(turn)) return null;
    const bad = tasks.find(({ status }) => status !== "done");
    if (bad) notice(failure(bad), bad.status === "cancelled");
    const done = tasks.filter(({ status }) => status === "done");
    if (!done.length) this.ask.button.focus();
    return done.length ? done : null;
  }

  #rest(yes) {
    this.busy = yes;
    this.ask.busy(yes);
    for (const part of document.querySelectorAll(this.resting)) part.inert = yes;
  }
}
