"""Pictures of maps: paths are lines through their cells, and differences are what they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from tests.pipelines import asking, normal

import cfopt
from cfopt.datasets import Terrain
from cfopt.drawing.palette import CHANGE, LIGHT
from cfopt.drawing.pixels import magnification
from cfopt.engine.latent import Codes
from cfopt.errors import InputError
from cfopt.exact.certificate import Clash
from cfopt.plots import plot_gallery, plot_naive_and_plausible
from cfopt.plots.style import ALTERNATIVE, FACTUAL, OBSTACLES
from cfopt.problems import TerrainShortestPath
from cfopt.result.status import Status

ROWS, COLS, CELL = 4, 5, 4
SEARCH = cfopt.MDMM(step=0.02, max_steps=200)


def _explanations(count: int, cols: int = COLS) -> cfopt.Explanation:
    """Maps whose cells cost the more the redder they are; the alternative runs along the edge."""
    weight = torch.nn.Conv2d(3, 1, 1).double()
    with torch.no_grad():
        weight.weight.copy_(torch.tensor([6.0, -3.0, 2.0]).reshape(1, 3, 1, 1))
        weight.bias.fill_(3.0)
    predictor = torch.nn.Sequential(torch.nn.AvgPool2d(CELL), weight, torch.nn.Flatten())
    pipeline = cfopt.Pipeline(predictor, TerrainShortestPath(ROWS, cols))
    x0 = Terrain(ROWS, cols, CELL).generate(count, seed=3).contexts().double()
    edge = torch.zeros(ROWS, cols, dtype=torch.float64)
    edge[:, 0] = edge[-1, :] = 1.0
    edge[-1, 0] = 0.0  # the corner is cut
    return cfopt.explain(x0, pipeline, cfopt.Absolute(edge.flatten()), search=SEARCH)


@pytest.fixture(scope="module")
def e() -> cfopt.Explanation:
    """Three rows, all of them answered."""
    found = _explanations(3)
    assert all(status == "valid" for status in found.status)
    return found


def _with_codes(e: cfopt.Explanation, norm: float, decision: torch.Tensor) -> cfopt.Explanation:
    z = torch.zeros(len(e), 64, dtype=torch.float64)
    z[:, 0] = norm
    return replace(e, latent=Codes(z, z, e.x0, decision, e.costs_before))


def _ended(e: cfopt.Explanation, status: Status) -> cfopt.Explanation:
    """The first row as if it had ended in another way."""
    one = e[0]
    if status.is_found:
        return replace(one, status=(status,))
    if status is Status.BEST_EFFORT:
        return replace(one, status=(status,), message=("no valid context found in 9 steps",))
    same = replace(one, x=one.x0, costs=one.costs_before, decision=one.factual, status=(status,))
    if status is Status.ALREADY_VALID:
        return same
    clash = Clash(e.factual.numpy()[1:], ("pixel 3",) * 40, ("pixel 4",), np.inf)
    return replace(same, clash=(clash,), message=("whenever it beats A, B beats it; " * 40,))


def _texts(figure: Figure) -> str:
    parts = [text.get_text() for text in figure.texts]
    parts += [text for axes in figure.axes for text in (axes.get_title(), axes.get_xlabel())]
    return "\n".join(parts)


def _lines(axes: Axes, color: str) -> list[np.ndarray]:
    """The lines of one colour as cells, `(length, 2)` each; signs of start and goal left out."""
    found = [line for line in axes.lines if line.get_linestyle() != "None"]
    return [
        line.get_xydata()[:, ::-1] for line in found if to_hex(line.get_color()) == color.lower()
    ]


def _assert_connects(
    walk: np.ndarray, problem: TerrainShortestPath, decision: torch.Tensor
) -> None:
    """The walk visits exactly the decision's cells, once each, by moves that the map allows."""
    visits = np.zeros((problem.rows, problem.cols))
    np.add.at(visits, tuple(np.asarray(walk, dtype=int).T), 1)
    assert np.array_equal(visits.flatten(), decision.double().numpy())
    moves = np.abs(np.diff(walk, axis=0))
    assert (moves.sum(axis=1) >= 1).all()
    assert (moves.max(axis=1) <= 1).all()
    assert problem.neighbours == 8 or (moves.sum(axis=1) == 1).all()
    assert tuple(walk[0]) == problem.start
    assert tuple(walk[-1]) == problem.goal


@pytest.mark.parametrize("neighbours", [4, 8])
def test_a_path_is_ordered_from_start_to_goal(neighbours: int) -> None:
    problem = TerrainShortestPath(9, 12, neighbours, start=(4, 1), goal=(0, 11))
    for decision in problem.solve(normal(40, 108).exp()):
        walk = problem.scene().path_of(decision.numpy())
        assert walk is not None
        _assert_connects(np.array(walk), problem, decision)


def test_a_path_that_passes_by_itself_is_ordered_too() -> None:
    """Its cells have more neighbours than the path has moves: an order must be looked for."""
    problem = TerrainShortestPath(5, 6)
    snake = torch.ones(5, 6)
    snake[1, :5] = snake[3, 1:] = 0.0
    full = torch.ones(5, 6)
    random = np.random.default_rng(0)
    decisions = [snake, full]
    for _ in range(100):  # random walks that reach the goal without meeting themselves
        cell, seen = (0, 0), [(0, 0)]
        while cell != (4, 5):
            near = [(cell[0] + i, cell[1] + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            free = [c for c in near if 0 <= c[0] < 5 and 0 <= c[1] < 6 and c not in seen]
            if not free:
                break
            cell = free[random.integers(len(free))]
            seen.append(cell)
        if cell == (4, 5):
            visited = torch.zeros(5, 6)
            visited[tuple(np.array(seen).T)] = 1.0
            decisions.append(visited)
    assert len(decisions) > 10
    for decision in decisions:
        walk = problem.scene().path_of(decision.flatten().double().numpy())
        assert walk is not None
        _assert_connects(np.array(walk), problem, decision.flatten())


@pytest.mark.parametrize("fault", ["twice", "branch", "island", "start", "half", "nan"])
def test_what_is_no_simple_path_is_drawn_as_marks(fault: str, e: cfopt.Explanation) -> None:
    decision = torch.zeros(ROWS, COLS, dtype=torch.float64)
    decision[0, :] = decision[:, -1] = 1.0
    match fault:
        case "twice":
            decision[0, 2] = 2.0
        case "branch":
            decision[1:, 0] = 1.0
        case "island":
            decision[3, 0] = 1.0
        case "start":
            decision[0, 0] = 0.0
        case "half":
            decision[1] += 0.5
        case "nan":
            decision[:] = torch.nan
    problem = e.problem
    assert isinstance(problem, TerrainShortestPath)
    assert problem.scene().path_of(decision.flatten().numpy()) is None
    figure = asking(e[0], criterion=cfopt.Relative(decision.reshape(1, -1))).plot()
    figure.canvas.draw()
    before = figure.axes[0]
    assert not _lines(before, ALTERNATIVE)
    (marks,) = before.collections
    visited = {tuple(cell) for cell in np.argwhere(np.nan_to_num(decision.numpy()) > 0)}
    assert {(int(y), int(x)) for x, y in marks.get_offsets()} == visited


def test_both_paths_run_through_their_cells_with_a_halo_below(e: cfopt.Explanation) -> None:
    figure = e[1].plot()
    problem = e.problem
    assert isinstance(problem, TerrainShortestPath)
    for panel in (0, 1, 2, 3, 4):
        axes = figure.axes[panel]
        for color, decision in ((FACTUAL, e.factual[1]), (ALTERNATIVE, e.alternative[1])):
            (walk,) = _lines(axes, color)
            _assert_connects(walk, problem, decision)
            (line,) = [li for li in axes.lines if to_hex(li.get_color()) == color.lower()]
            halos = [li for li in axes.lines if to_hex(li.get_color()) == "#ffffff"]
            halos = [li for li in halos if np.array_equal(li.get_xydata()[:, ::-1], walk)]
            assert halos[0].get_linewidth() > line.get_linewidth()
            assert halos[0].get_zorder() < line.get_zorder()
    width = {
        panel: {to_hex(li.get_color()): li.get_linewidth() for li in figure.axes[panel].lines}
        for panel in (0, 1)
    }
    assert width[0][FACTUAL.lower()] > width[0][ALTERNATIVE.lower()]
    assert width[1][FACTUAL.lower()] < width[1][ALTERNATIVE.lower()]


def test_an_explanation_shows_maps_costs_and_changes(e: cfopt.Explanation, tmp_path: Path) -> None:
    figure = e[2].plot(tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    before, after, change, cost_before, cost_after = (axes.images[0] for axes in figure.axes[:5])
    assert np.allclose(before.get_array(), e.x0[2].permute(1, 2, 0))
    assert np.allclose(after.get_array(), e.x[2].permute(1, 2, 0).clamp(0, 1))
    assert before.get_interpolation() == after.get_interpolation() == "nearest"
    assert np.allclose(cost_before.get_array(), e.costs_before[2].reshape(ROWS, COLS))
    assert np.allclose(cost_after.get_array(), e.costs[2].reshape(ROWS, COLS))
    both = torch.stack([e.costs_before[2], e.costs[2]])
    for image in (cost_before, cost_after):
        assert np.allclose(image.get_clim(), (both.min(), both.max()))
    moved = (e.x[2] - e.x0[2]).abs().amax(0).numpy()
    most = np.unravel_index(moved.argmax(), moved.shape)
    assert np.allclose(change.get_array()[most], to_rgb(CHANGE))
    shown = np.asarray(change.get_array())
    grey = np.ptp(shown, axis=2) < 1e-9
    assert np.array_equal(grey, moved < 1e-9)
    text = _texts(figure)
    assert f"by up to {100 * moved.max():.2g}%" in text
    value = float(e.costs[2] @ e.alternative[2])
    assert f"the alternative costs {value:.4g}"[:-1] in text
    assert f"Distance {e.distance[2]:.3g}." in text


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.REJECTED])
def test_every_outcome_has_a_picture_in_which_no_text_is_hidden(
    status: Status, e: cfopt.Explanation
) -> None:
    one = _ended(e, status)
    figures = [one.plot(), plot_naive_and_plausible(one, one), plot_gallery(one)]
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        texts = [*figure.texts, *(axes.title for axes in figure.axes)]
        texts += [axes.xaxis.label for axes in figure.axes]
        texts += [text for legend in figure.legends for text in legend.get_texts()]
        boxes = [text.get_window_extent() for text in texts if text.get_text()]
        for k, box in enumerate(boxes):
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= figure.bbox.x1
            assert box.y1 <= figure.bbox.y1
            assert not any(box.overlaps(other) for other in boxes[k + 1 :])
    text = _texts(figures[0])
    assert str(status).capitalize() in text
    expected = {
        Status.VALID: "After: the decision costs",
        Status.ALREADY_VALID: "Nothing changed",
        Status.SAMPLED: "After: the decision costs",
        Status.BEST_EFFORT: "At the nearest miss",
        Status.PROVED_INFEASIBLE: "In its way",
    }
    assert expected[status] in text


def test_maps_of_any_proportion_keep_their_texts_apart() -> None:
    for cols in (4, 12):
        figure = _explanations(1, cols).plot()
        FigureCanvasAgg(figure).draw()
        sizes = [axes.get_window_extent() for axes in figure.axes[:5]]
        assert np.ptp([box.width for box in sizes]) < 1
        assert np.allclose([box.height / box.width for box in sizes], ROWS / cols, atol=0.01)


def test_a_proof_of_infeasibility_shows_the_paths_in_the_way(e: cfopt.Explanation) -> None:
    figure = _ended(e, Status.PROVED_INFEASIBLE).plot()
    problem = e.problem
    assert isinstance(problem, TerrainShortestPath)
    for color, decision in zip(OBSTACLES, e.factual[1:], strict=True):
        (walk,) = _lines(figure.axes[1], color)
        _assert_connects(walk, problem, decision)
    (reasons,) = figure.axes[2].texts
    assert "... and 28 more" in reasons.get_text()
    assert "Locked, and involved:\n  pixel 4" in reasons.get_text()


def test_a_third_path_that_wins_is_shown_as_such(e: cfopt.Explanation) -> None:
    problem = e.problem
    assert isinstance(problem, TerrainShortestPath)
    third = torch.zeros(ROWS, COLS, dtype=torch.float64)
    third[0, :] = third[:, -1] = 1.0
    third = third.reshape(1, -1)
    one = replace(_ended(e, Status.BEST_EFFORT), decision=third)
    axes = one.plot().axes[1]
    (walk,) = _lines(axes, LIGHT["third"])
    _assert_connects(walk, problem, third[0])
    widths = {to_hex(line.get_color()): line.get_linewidth() for line in axes.lines}
    assert widths[LIGHT["third"].lower()] > widths[ALTERNATIVE.lower()]
    assert not _lines(e[0].plot().axes[1], LIGHT["third"])


def test_without_an_alternative_the_picture_shows_what_is_best_then(e: cfopt.Explanation) -> None:
    one = asking(e[0], criterion=cfopt.Epsilon(0.2))
    figure = one.plot()
    assert "what is best then costs" in _texts(figure)
    pair = plot_naive_and_plausible(one, one)
    assert not _lines(pair.axes[0], ALTERNATIVE)
    assert len(_lines(pair.axes[1], ALTERNATIVE)) == 1


@pytest.mark.parametrize(("norm", "where"), [(8.0, "lies in the"), (3.0, "lies outside the")])
def test_a_latent_explanation_says_whether_its_code_is_typical(
    norm: float, where: str, e: cfopt.Explanation
) -> None:
    text = _texts(_with_codes(e[0], norm, e.factual[:1]).plot())
    assert f"the code, of norm {norm:g}, {where} typical sphere." in text


def test_differences_are_magnified_around_mid_grey(e: cfopt.Explanation, tmp_path: Path) -> None:
    naive = e[0]
    far = naive.x0.flip(-1)
    plausible = replace(naive, x=far)
    figure = plot_naive_and_plausible(naive, plausible, tmp_path / "pair.png")
    assert (tmp_path / "pair.png").stat().st_size > 10_000
    assert len(figure.axes) == 5
    images = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    for panel, x in ((2, naive.x), (4, far)):
        factor = float(figure.axes[panel].get_title().split(" times ")[1])
        difference = (x - naive.x0)[0].permute(1, 2, 0).numpy()
        assert np.allclose(images[panel], np.clip(0.5 + factor * difference, 0, 1))
        assert 0.3 < np.abs(images[panel] - 0.5).max() <= 0.5
    assert np.allclose(images[0], naive.x0[0].permute(1, 2, 0))
    assert np.allclose(images[1], naive.x[0].permute(1, 2, 0).clamp(0, 1))
    assert np.allclose(images[3], far[0].permute(1, 2, 0))
    assert f"distance {naive.distance[0]:.3g}\n" in figure.axes[1].get_xlabel()
    assert f"distance {plausible.distance[0]:.3g}\n" in figure.axes[3].get_xlabel()


@pytest.mark.parametrize(
    ("largest", "factor"),
    [(0.5, 1), (0.05, 10), (0.1, 5), (0.026, 15), (0.0007, 600), (0.9, 0.5), (0.0, 1)],
)
def test_a_magnification_is_a_nice_number_that_cuts_nothing_off(
    largest: float, factor: float
) -> None:
    before = torch.full((3, 2, 2), 0.5, dtype=torch.float64)
    after = before.clone()
    after[1, 0, 1] -= largest
    assert magnification(before, after) == pytest.approx(factor)


def test_a_comparison_needs_one_question_about_one_map(e: cfopt.Explanation) -> None:
    with pytest.raises(InputError, match="of one row, plausible has 3"):
        plot_naive_and_plausible(e[0], e)
    with pytest.raises(InputError, match="same map"):
        plot_naive_and_plausible(e[0], e[1])
    epsilon = asking(e[0], criterion=cfopt.Epsilon(0.1))
    with pytest.raises(InputError, match="same question"):
        plot_naive_and_plausible(e[0], epsilon)
    with pytest.raises(InputError, match="same question"):
        plot_naive_and_plausible(epsilon, asking(e[0], criterion=cfopt.Epsilon(0.2)))
    with pytest.raises(InputError, match="different alternatives"):
        plot_naive_and_plausible(e[0], asking(e[0], criterion=cfopt.Absolute(e.factual[:1])))
    with pytest.raises(InputError, match="margin"):
        plot_naive_and_plausible(e[0], asking(e[0], margin=0.1))


@pytest.mark.parametrize("rows", [1, 3, 4, 7])
def test_a_gallery_has_two_maps_for_each_row(rows: int, tmp_path: Path) -> None:
    e = replace(_explanations(rows), labels=tuple("abcdefg"[:rows]))
    figure = plot_gallery(e, tmp_path / "gallery.png")
    assert (tmp_path / "gallery.png").is_file()
    assert len(figure.axes) == 2 * rows
    for row in range(rows):
        before, after = figure.axes[2 * row : 2 * row + 2]
        assert np.allclose(before.images[0].get_array(), e.x0[row].permute(1, 2, 0))
        assert np.allclose(after.images[0].get_array(), e.x[row].permute(1, 2, 0).clamp(0, 1))
        assert before.get_title() == f"Row {'abcdefg'[row]}, before"
        assert str(e.status[row]) in after.get_title()
        left, right = before.get_position(), after.get_position()
        assert left.y0 == pytest.approx(right.y0)
        assert left.x1 <= right.x0


def test_a_gallery_says_what_it_cannot_draw(e: cfopt.Explanation) -> None:
    with pytest.raises(InputError, match="1 to 24 rows, got 0"):
        plot_gallery(e[:0])
    with pytest.raises(InputError, match="1 to 24 rows, got 30"):
        plot_gallery(e[[0] * 30])
    rejected = replace(e, status=(*e.status[:2], Status.REJECTED), message=("", "", "not finite"))
    with pytest.raises(InputError, match="row 2, which was rejected: not finite"):
        plot_gallery(rejected)


def test_pictures_of_maps_need_images_and_the_problem(
    e: cfopt.Explanation, grid: cfopt.Pipeline
) -> None:
    vectors = cfopt.explain(normal(1, 4), grid, cfopt.Epsilon(0.1), search=SEARCH)
    with pytest.raises(InputError, match=r"map images.*GridShortestPath"):
        plot_gallery(vectors)
    with pytest.raises(InputError, match=r"no problem.*problem="):
        plot_naive_and_plausible(replace(e[0], problem=None), e[0])
    again = cfopt.Explanation.from_json(e[0].to_json(), problem=e.problem)
    assert len(again.plot().axes) == len(e[0].plot().axes)


def test_grey_maps_are_drawn_too(e: cfopt.Explanation) -> None:
    grey = replace(e[0], x0=e.x0[:1].mean(1, keepdim=True), x=e.x[:1].mean(1, keepdim=True))
    figure = grey.plot()
    image = np.asarray(figure.axes[0].images[0].get_array())
    assert image.shape == (ROWS * CELL, COLS * CELL, 3)
    assert np.allclose(image, grey.x0[0].permute(1, 2, 0))
