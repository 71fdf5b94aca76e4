// Work that follows a hand: only the newest wish counts, and one is under way at a time.

/**
 * A function that runs `work` with the newest arguments as soon as the run before is over.
 * Wishes in between are dropped: a slider that is dragged asks far more often than it is answered.
 */
export function latest(work) {
  let running = false;
  let waiting = null;
  return async function run(...wish) {
    waiting = wish;
    if (running) return;
    running = true;
    try {
      while (waiting) {
        const next = waiting;
        waiting = null;
        await work(...next);
      }
    } finally {
      running = false;
    }
  };
}

/** A function that waits until nothing was wished for a while, then runs once. */
export function settled(work, pause = 500) {
  let timer = 0;
  return (...wish) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...wish), pause);
  };
}
