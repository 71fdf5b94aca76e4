// What was there before each change, so that it can be taken back.

const MOST = 100; // steps that can be taken back

export class Past {
  #states = [];
  #last = -Infinity; // when the newest was added

  /**
   * Remember a state before it is changed.
   * @param pause of changes that follow each other within so many milliseconds, the first alone counts
   */
  add(state, pause = 0) {
    const now = performance.now();
    const goesOn = now - this.#last < pause;
    this.#last = now;
    if (goesOn) return;
    this.#states.push(state);
    if (this.#states.length > MOST) this.#states.shift();
  }

  /** The newest state, which is then forgotten; undefined if there is none. */
  take() {
    this.#last = -Infinity;
    return this.#states.pop();
  }

  clear() {
    this.#states = [];
    this.#last = -Infinity;
  }

  get length() {
    return this.#states.length;
  }
}
