// The cheapest ways through a network; no document here.

const range = (count) => Array.from({ length: count }, (_, k) => k);

export class Ways {
  #out; // of each place the arcs that leave it, with where they lead: [arc, place]

  /** @param scene {places, arcs, directed, start, goal} */
  constructor({ places, arcs, directed, start, goal }) {
    Object.assign(this, { arcs, directed, start, goal });
    this.#out = places.map(() => []);
    arcs.forEach(([a, b], k) => {
      this.#out[a].push([k, b]);
      if (!directed && a !== b) this.#out[b].push([k, a]);
    });
  }

  /**
   * The cheapest route that takes what was wished for, newer wishes first; those that do not fit are dropped.
   * @param wishes {place} or {arc} each, the newest last
   * @returns {arcs, kept} the arcs of the route and the wishes it fulfils, or null if there is no route
   */
  through(wishes, costs) {
    let best = this.#by([], costs);
    let order = [];
    const kept = [];
    for (const wish of [...wishes].reverse()) {
      const tried = this.#stops(wish)
        .flatMap((stop) => range(order.length + 1).map((k) => [...order.slice(0, k), stop, ...order.slice(k)]))
        .map((stops) => ({ stops, way: this.#by(stops, costs) }))
        .filter(({ way }) => way)
        .sort((a, b) => a.way.cost - b.way.cost);
      if (!tried.length) continue;
      [best, order] = [tried[0].way, tried[0].stops];
      kept.unshift(wish);
    }
    return best && { arcs: best.arcs, kept };
  }

  /** How a wish can be fulfilled: an arc without a direction in two ways. */
  #stops({ place, arc }) {
    if (arc === undefined) return [{ enter: place, leave: place }];
    const [a, b] = this.arcs[arc];
    const forth = { enter: a, leave: b, arc };
    return this.directed ? [forth] : [forth, { enter: b, leave: a, arc }];
  }

  /** The cheapest route by stops in this order, which visits no place twice; null if there is none. */
  #by(stops, costs) {
    const all = [...stops, { enter: this.goal, leave: this.goal }];
    const visited = new Set([this.start]);
    const arcs = [];
    let [here, cost] = [this.start, 0];
    for (const [k, { enter, leave, arc }] of all.entries()) {
      if (here !== enter) {
        if (here === this.goal || visited.has(enter)) return null;
        const ahead = all.slice(k).flatMap((stop) => [stop.enter, stop.leave]);
        const shut = new Set([...visited, ...ahead]);
        shut.delete(enter);
        const leg = this.#between(here, enter, costs, shut);
        if (!leg) return null;
        arcs.push(...leg.arcs);
        for (const place of leg.places) visited.add(place);
        cost += leg.cost;
      }
      if (arc !== undefined) {
        if (visited.has(leave)) return null;
        arcs.push(arc);
        visited.add(leave);
        cost += costs[arc];
      }
      here = leave;
    }
    return { arcs, cost };
  }

  /** The cheapest way from one place to another past none that is shut; null if there is none. */
  #between(from, to, costs, shut) {
    const found = this.#search(from, to, costs, shut);
    // Where going in circles pays, nothing is cheapest: then no arc is less than free.
    return found === undefined ? this.#search(from, to, costs.map((cost) => Math.max(cost, 0)), shut) : found;
  }

  /** Bellman and Ford's recursion; undefined where a circle pays. */
  #search(from, to, costs, shut) {
    const best = new Map([[from, 0]]);
    const via = new Map();
    let open = [from];
    for (let round = 0; open.length; round++) {
      if (round > this.#out.length) return undefined;
      const next = new Set();
      for (const here of open) {
        for (const [arc, there] of here === to ? [] : this.#out[here]) {
          const total = best.get(here) + costs[arc];
          if (shut.has(there) || total >= (best.get(there) ?? Infinity)) continue;
          best.set(there, total);
          via.set(there, [arc, here]);
          next.add(there);
        }
      }
      open = [...next];
    }
    if (!best.has(to)) return null;
    const [arcs, places] = [[], []];
    for (let here = to; here !== from; ) {
      const [arc, before] = via.get(here);
      arcs.unshift(arc);
      places.unshift(here);
      here = before;
    }
    return { arcs, places, cost: best.get(to) };
  }
}
