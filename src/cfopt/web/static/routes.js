// Routes over the cells of a map, and the cheapest ways on it; no document here.

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

/** Whether one step leads from a cell to another. */
function adjacent(a, b, neighbours) {
  const [down, right] = [Math.abs(a[0] - b[0]), Math.abs(a[1] - b[1])];
  return neighbours === 8 ? Math.max(down, right) === 1 : down + right === 1;
}

/** The route without detours: from each cell to the last one that a single step leads to. */
export function straightened(route, neighbours = 8) {
  const shorter = route.slice(0, 1);
  for (let k = 0; k < route.length - 1; ) {
    let next = k + 1;
    for (let j = route.length - 1; j > next; j--) if (adjacent(route[k], route[j], neighbours)) next = j;
    shorter.push(route[next]);
    k = next;
  }
  return shorter;
}

/** The cells that a route visits and its straight form does not. */
export const detours = (route, neighbours = 8) => {
  const kept = straightened(route, neighbours);
  return route.filter((cell) => find(kept, cell) < 0);
};

/** A route that is drawn on: where its newest step makes a corner that can be cut, it is cut. */
export function rounded(route, neighbours = 8) {
  const [before, , now] = route.slice(-3);
  const cuts = route.length > 2 && adjacent(before, now, neighbours);
  return cuts ? [...route.slice(0, -2), now] : route;
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
