// One search on the server: started, followed event by event, cancelled.

import * as api from "./api.js";

const POLL = 1000;

/** Follow a task to its end; `progress` gets each report. The answer is the task as it ended. */
export function follow(id, progress) {
  return new Promise((resolve, reject) => {
    const stream = api.events(id);
    let timer = 0;
    const finish = (settle, value) => {
      stream.close();
      clearTimeout(timer);
      settle(value);
    };
    const ended = (task) => !["queued", "running"].includes(task.status);
    // The stream mends itself after a break; the task is asked for as well, lest it ended meanwhile.
    const poll = async () => {
      try {
        const task = await api.task(id);
        if (ended(task)) finish(resolve, task);
        else progress(task);
      } catch (error) {
        finish(reject, error);
      }
    };
    stream.addEventListener("progress", (event) => {
      clearTimeout(timer);
      progress(JSON.parse(event.data));
    });
    stream.addEventListener("end", (event) => finish(resolve, JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      clearTimeout(timer);
      timer = setTimeout(poll, POLL);
    });
  });
}

/**
 * Ask one question after another (plausible, then naive), each followed to its end.
 * Stops at the first that did not end well.
 */
export class Searches {
  #current = null;
  #stopped = false;

  async run(requests, progress, started = () => {}) {
    this.#stopped = false;
    const tasks = [];
    for (const request of requests) {
      const { id } = await api.explain(request);
      this.#current = id;
      if (this.#stopped) await api.cancel(id);
      started(id);
      tasks.push(await follow(id, (report) => progress(report, tasks.length)));
      this.#current = null;
      if (tasks.at(-1).status !== "done") break;
    }
    return tasks;
  }

  /** Follow a search that another page started. */
  async join(id, progress) {
    this.#current = id;
    const task = await follow(id, (report) => progress(report, 0));
    this.#current = null;
    return task;
  }

  async cancel() {
    this.#stopped = true;
    if (this.#current) await api.cancel(this.#current);
  }
}

/** What to say of a task that ended without an answer. */
export function failure({ status, message }) {
  if (status === "cancelled") return "The search was cancelled. Nothing was changed.";
  return message || "The search failed.";
}
