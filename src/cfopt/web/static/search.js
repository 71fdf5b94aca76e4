// One search on the server: started, followed event by event, cancelled, left.

import { began } from "./address.js";
import * as api from "./api.js";

const POLL = 1000;
const PATIENCE = 5; // polls in a row that may fail

/** Whether a task has not ended yet. */
export const underWay = ({ status }) => status === "queued" || status === "running";

/**
 * Follow a task to its end; `progress` gets each report.
 * The answer is the task as it ended, or null if `left` is aborted before.
 */
export function follow(id, progress, left) {
  return new Promise((resolve, reject) => {
    let stream = null;
    let timer = 0;
    let failed = 0;
    let over = false;
    const finish = (settle, value) => {
      over = true;
      stream.close();
      clearTimeout(timer);
      settle(value);
    };
    const look = () => {
      clearTimeout(timer);
      timer = setTimeout(poll, POLL);
    };
    const connect = () => {
      stream = api.events(id);
      stream.addEventListener("progress", (event) => {
        clearTimeout(timer);
        progress(JSON.parse(event.data));
      });
      stream.addEventListener("end", (event) => finish(resolve, JSON.parse(event.data)));
      stream.addEventListener("error", look);
    };
    // The browser reconnects a stream that broke, but not one that was refused: that is reopened here.
    // The task is asked for as well, lest it ended meanwhile.
    const poll = async () => {
      let task = null;
      try {
        task = await api.task(id);
        failed = 0;
      } catch (error) {
        failed += 1;
        if (failed === PATIENCE && !over) finish(reject, error);
      }
      if (over) return;
      if (task && !underWay(task)) {
        finish(resolve, task);
        return;
      }
      if (task) progress(task);
      if (stream.readyState === EventSource.CLOSED) connect();
      else if (stream.readyState === EventSource.CONNECTING) look();
    };
    connect();
    left.addEventListener("abort", () => over || finish(resolve, null));
  });
}

/** Questions asked one after another (plausible, then naive), or a search that is joined. */
export class Searches {
  #current = null;
  #stopped = false;
  #own = true;
  #left = new AbortController();

  /** Ask and follow each; stops at the first that did not end well. `started` gets each id. */
  async run(requests, progress, started) {
    const tasks = [];
    for (const request of requests) {
      const { id } = await api.explain(request);
      this.#current = id;
      if (this.#stopped) await api.cancel(id);
      else started(id);
      const task = await follow(id, (report) => progress(report, tasks.length), this.#left.signal);
      this.#current = null;
      if (task) tasks.push(task);
      if (task?.status !== "done") break;
    }
    return tasks;
  }

  /** Follow a search that is under way. */
  async join(id, progress) {
    this.#own = began(id);
    this.#current = id;
    const task = await follow(id, (report) => progress(report, 0), this.#left.signal);
    return task ? [task] : [];
  }

  async cancel() {
    this.#stopped = true;
    if (this.#current) await api.cancel(this.#current);
  }

  /** Look away; only what this window began is given up. */
  async leave() {
    const given = this.#own ? this.cancel() : null;
    this.#left.abort();
    await given;
  }
}

/** What to say of a task that ended without an answer. */
export function failure({ status, message }) {
  if (status === "cancelled") return `${message} Nothing was changed.`;
  return message || "The search failed.";
}
