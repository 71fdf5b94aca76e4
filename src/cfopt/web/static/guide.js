// A guided first minute: a ready question is played step by step, and each step says what is seen.

import { announce, byId } from "./dom.js";

const READ = 55; // milliseconds for each letter that is to be read
const LEAST = 1800;

class Stopped extends Error {}

export class Guide {
  #turn = 0; // counts what was played: one that was stopped goes no further
  #go = null; // ends a pause early

  constructor() {
    byId("guide-next").addEventListener("click", () => this.#go?.());
    byId("guide-stop").addEventListener("click", () => this.stop());
  }

  /**
   * Play steps, one after the other: {say, at, act}, words or a function that returns them, the id of what they are
   * about, which is scrolled into view, and what follows.
   * Whatever goes wrong in a step ends it; the page says why.
   */
  async play(steps) {
    this.stop();
    const turn = this.#turn;
    try {
      for (const { say, at, act } of steps) {
        const words = typeof say === "function" ? say() : say;
        if (at) byId(at).scrollIntoView({ block: "nearest" });
        if (words) await this.#say(words, turn);
        // A search goes on for as long as it takes; there is nothing to skip.
        byId("guide-next").hidden = true;
        await act?.();
        if (turn !== this.#turn) throw new Stopped();
      }
      byId("guide-stop").textContent = "Close";
    } catch (error) {
      if (turn === this.#turn) this.stop();
      if (!(error instanceof Stopped)) throw error;
    }
  }

  stop() {
    this.#turn += 1;
    this.#go?.();
    byId("guide").hidden = true;
    byId("guide-stop").textContent = "Stop";
  }

  /** Show words until they can have been read, or "Next" is pressed. */
  async #say(words, turn) {
    byId("guide").hidden = byId("guide-next").hidden = false;
    byId("guide-said").textContent = words;
    announce(words);
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, LEAST + READ * words.length);
      this.#go = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#go = null;
    if (turn !== this.#turn) throw new Stopped();
  }
}
