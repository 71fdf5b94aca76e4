// Routes over the cells of a map, and the cheapest ways on maps and grids; no document here.

export const same = (a, b) => a[0] === b[0] && a[1] === b[1];
export const alike = (a, b) => a?.length === b?.length && (a ?? []).every((cell, k) => same(cell, b[k]));
export const find = (route, cell) => route.findIndex((other) => same(other, cell));

/** The cells of a walk from one cell to another, the first one left out: diagonally where allowed. */
export function straight(from, to, neighbours = 8) {
  const cells = [];
  let [row, column] = from;
  while (row !== to[0] || column !== to[1]) {
    const [down, right] = [to[0] - row, to[1] - column];
    const diagonal = neighbours === 8;
    if (diagonal || Math.abs(down) > Math.abs(right)) row += Math.sign(down);
    if (diagonal || Math.abs(down) <= Math.abs(right)) column += Math.sign(right);
    cells.push([row, column]);
  }
  return cells;
}

/** A route led on to a cell; where it meets itself, the loop is cut out, so that it stays simple. */
export function ledTo(route, cell, neighbours = 8) {
  const longer = [...route];
  for (const next of straight(longer.at(-1), cell, neighbours)) {
    const met = find(longer, next);
    if (met >= 0) longer.length = met + 1;
    else longer.push(next);
  }
  return longer;
}

/** Whether a route is complete: from the first cell to the goal. */
export const complete = (route, goal) => route.length > 1 && same(route.at(-1), goal);

/** What a route costs, cell by cell. */
export const cost = (route, costs, columns) =>
  route.reduce((sum, [row, column]) => sum + costs[row * columns + column], 0);

/** The cheapest way from the end of a route to the goal that does not cross it; null if it is shut in. */
export function finished(route, goal, costs, { rows, cols: columns, neighbours = 8 }) {
  const index = ([row, column]) => row * columns + column;
  const taken = new Set(route.slice(0, -1).map(index));
  const best = new Array(rows * columns).fill(Infinity);
  const from = new Array(rows * columns).fill(-1);
  const open = new Set([index(route.at(-1))]);
  best[index(route.at(-1))] = 0;
  while (open.size) {
    const here = [...open].reduce((a, b) => (best[b] < best[a] ? b : a));
    open.delete(here);
    if (here === index(goal)) break;
    const row = Math.floor(here / columns);
    const column = here % columns;
    for (let i = Math.max(0, row - 1); i <= Math.min(rows - 1, row + 1); i++) {
      for (let j = Math.max(0, column - 1); j <= Math.min(columns - 1, column + 1); j++) {
        const there = index([i, j]);
        const total = best[here] + Math.max(costs[there], 0);
        const diagonal = i !== row && j !== column;
        if (there === here || (diagonal && neighbours === 4)) continue;
        if (taken.has(there) || total >= best[there]) continue;
        best[there] = total;
        from[there] = here;
        open.add(there);
      }
    }
  }
  if (!Number.isFinite(best[index(goal)])) return null;
  const tail = [];
  for (let here = index(goal); from[here] >= 0; here = from[here]) {
    tail.unshift([Math.floor(here / columns), here % columns]);
  }
  return [...route, ...tail];
}

/** The arcs of a grid, right and down, in the order in which its costs come: [node, node]. */
export function gridArcs(rows, columns) {
  const arcs = [];
  for (let row = 0; row < rows; row++) {
    const first = row * columns;
    for (let j = 0; j < columns - 1; j++) arcs.push([first + j, first + j + 1]);
    if (row < rows - 1) for (let j = 0; j < columns; j++) arcs.push([first + j, first + j + columns]);
  }
  return arcs;
}

/** Nodes that one route right and down can visit, the newest wishes first; others are dropped. */
export function compatible(nodes, columns) {
  const kept = [];
  for (const node of [...nodes].reverse()) {
    const fits = kept.every((other) => {
      const down = Math.floor(node / columns) - Math.floor(other / columns);
      const right = (node % columns) - (other % columns);
      return down * right >= 0;
    });
    if (fits) kept.push(node);
  }
  return kept.reverse();
}

/** The cheapest route on a grid through given nodes, as its nodes. */
export function cheapestThrough(nodes, costs, rows, columns) {
  const order = [...new Set([0, ...nodes, rows * columns - 1])].sort((a, b) => level(a) - level(b));
  const price = new Map(gridArcs(rows, columns).map(([a, b], k) => [`${a}-${b}`, costs[k]]));
  const walk = [0];
  for (let k = 1; k < order.length; k++) walk.push(...between(order[k - 1], order[k], price, columns));
  return walk;

  function level(node) {
    return Math.floor(node / columns) + (node % columns);
  }
}

function between(start, end, price, columns) {
  const best = new Map([[start, [0, null]]]);
  for (let row = Math.floor(start / columns); row <= Math.floor(end / columns); row++) {
    for (let column = start % columns; column <= end % columns; column++) {
      const node = row * columns + column;
      for (const before of [node - 1, node - columns]) {
        const known = best.get(before);
        const step = price.get(`${before}-${node}`);
        if (!known || step === undefined) continue;
        const total = known[0] + step;
        if (!best.has(node) || total < best.get(node)[0]) best.set(node, [total, before]);
      }
    }
  }
  const walk = [];
  for (let node = end; node !== start; node = best.get(node)[1]) walk.unshift(node);
  return walk;
}

/** A walk over the nodes of a grid as a decision, 0 or 1 for each arc. */
export function walkDecision(walk, rows, columns) {
  const taken = new Set(walk.slice(1).map((node, k) => `${walk[k]}-${node}`));
  return gridArcs(rows, columns).map(([a, b]) => (taken.has(`${a}-${b}`) ? 1 : 0));
}

/** The nodes that a decision on a grid visits. */
export function decisionWalk(decision, rows, columns) {
  const next = new Map();
  gridArcs(rows, columns).forEach(([a, b], k) => decision[k] > 0.5 && next.set(a, b));
  const walk = [0];
  while (next.has(walk.at(-1))) walk.push(next.get(walk.at(-1)));
  return walk;
}
