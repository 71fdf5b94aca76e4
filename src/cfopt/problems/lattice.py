"""Places in rows and columns: what they are called, and in which order a path visits them."""

from __future__ import annotations

from collections.abc import Set

Cell = tuple[int, int]
#: Up to this many places of a lattice each has a letter of its own, or its name on it.
LETTERS = 26
#: After how many wrong moves the order of a path's cells is given up: then it is a scribble.
_TRIES = 2_000


def column_letters(column: int) -> str:
    """The letters of a column: A to Z, then AA, AB, as in a spreadsheet."""
    letters, column = "", column + 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def cell_names(rows: int, cols: int) -> tuple[str, ...]:
    """The cells of a map by column and row, as in chess, row by row."""
    letters = [column_letters(column) for column in range(cols)]
    return tuple(f"{letter}{row + 1}" for row in range(rows) for letter in letters)


def node_names(rows: int, cols: int) -> tuple[str, ...]:
    """What the nodes of a grid are called: letters while the alphabet lasts, then as cells."""
    count = rows * cols
    return tuple(map(column_letters, range(count))) if count <= LETTERS else cell_names(rows, cols)


def order_cells(cells: Set[Cell], start: Cell, goal: Cell, neighbours: int) -> list[Cell] | None:
    """The cells in order from start to goal; None if they form no simple path.

    A path that touches itself may have several orders, of which this is one: depth first, with
    cells that have few ways out first, and back as soon as a cell is cut off.

    Arguments:
        neighbours: 8 if moves may be diagonal, else 4.
    """
    if start not in cells or goal not in cells:
        return None
    beside = {cell: _beside(cell, cells, reach=2 if neighbours == 8 else 1) for cell in cells}
    walk, seen = [start], {start}
    ahead = [_onward(beside, start, goal, seen)]
    for _ in range(len(cells) + _TRIES):
        if len(walk) == len(cells):
            return walk
        if not walk:
            return None
        if ahead[-1]:
            cell = ahead[-1].pop()
            walk.append(cell)
            seen.add(cell)
            ahead.append(_onward(beside, cell, goal, seen))
        else:
            seen.remove(walk.pop())
            ahead.pop()
    return None


def _beside(cell: Cell, cells: Set[Cell], reach: int) -> list[Cell]:
    """The cells of a path that can be reached in one move."""
    near = [(cell[0] + i, cell[1] + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return [
        other
        for other in near
        if other in cells and 0 < abs(other[0] - cell[0]) + abs(other[1] - cell[1]) <= reach
    ]


def _onward(beside: dict[Cell, list[Cell]], cell: Cell, goal: Cell, seen: Set[Cell]) -> list[Cell]:
    """Where to go next, the best last: a cell with few ways out must not be left behind."""
    left = beside.keys() - seen
    if left == {goal}:
        return [goal] if goal in beside[cell] else []
    ways = {c: sum(o in left or o == cell for o in beside[c]) for c in left}
    left.discard(goal)
    # Each cell is entered and left again, the goal entered from one of them; none may be cut off.
    stuck = any(ways[c] < 2 for c in left) or not any(c in left for c in beside[goal])
    if stuck or not _reaches(beside, cell, left):
        return []
    return sorted((c for c in beside[cell] if c in left), key=lambda c: (-ways[c], c))


def _reaches(beside: dict[Cell, list[Cell]], cell: Cell, left: Set[Cell]) -> bool:
    """Whether all the cells that are left hang together with this one."""
    found, edge = {cell}, [cell]
    while edge:
        fresh = [other for other in beside[edge.pop()] if other in left and other not in found]
        found.update(fresh)
        edge += fresh
    return len(found) == len(left) + 1
