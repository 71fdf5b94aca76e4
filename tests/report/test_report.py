"""The report: what it says of each task; it is complete in itself, safe and not too large."""

from __future__ import annotations

import json
import math
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.browsing import browsing, find_browser
from tests.pipelines import another, asking, normal, random_linear
from tests.wording import FOLDER, WORDING, each_status, grid_question

import cfopt
from cfopt.drawing import elements as svg
from cfopt.drawing.svg import common
from cfopt.errors import StorageError
from cfopt.exact.certificate import Clash
from cfopt.problems import MILP, Finite, GridShortestPath, Knapsack, TerrainShortestPath
from cfopt.problems.lattice import column_letters
from cfopt.problems.scene import Bars
from cfopt.report import write_report
from cfopt.report.changes import Change
from cfopt.report.numbers import percent_up, with_enough_digits
from cfopt.report.overview import duration, overview, percent
from cfopt.report.pictures import Gallery, by_worth, galleries
from cfopt.report.plausible import plausibility, rating
from cfopt.report.sentences import PLAIN, effort, facts, names, proof, question, verdict
from cfopt.report.tasks import task_views
from cfopt.result.nearness import measured
from cfopt.result.status import Status
from cfopt.result.typical import Typical
from cfopt.result.wording import rounded_down

VOID = {"meta", "input", "br", "img", "link"}


class _Page(HTMLParser):
    """Every element with its attributes, and the nesting checked."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def tasks(self) -> list[dict[str, str | None]]:
        return [a for tag, a in self.elements if tag == "details" and "data-number" in a]


def _report(e: cfopt.Explanation, folder: Path, **options: object) -> str:
    given = {"title": "Routes", "seconds": 2.5, "settings": {"search": "auto"}} | options
    path = write_report(e, folder / "report.html", **given)  # type: ignore[arg-type]
    html = path.read_text(encoding="utf-8")
    _Page(html)
    return html


@pytest.fixture(scope="module")
def mixed() -> cfopt.Explanation:
    return each_status()


@pytest.mark.parametrize("name", WORDING)
def test_the_words_are_those_of_the_pinned_files(name: str) -> None:
    # `python -m tests.wording` writes them again, once a better sentence has been found.
    assert WORDING[name]() == (FOLDER / name).read_text(encoding="utf-8")


def test_each_status_is_shown_with_its_question_verdict_and_proof(
    mixed: cfopt.Explanation, tmp_path: Path
) -> None:
    assert mixed.status == tuple(Status)
    html = _report(mixed, tmp_path)
    lines = re.findall("<summary>.*</summary>", html)
    for one, line in zip(mixed, lines, strict=True):
        said = PLAIN[one.status[0]]
        assert f'<b><i class="mark"></i>{said}.</b>' in html
        for sentence in (question(one), verdict(one), *proof(one), effort(one)):
            assert sentence in html
        # The line of a closed task says as much, and so does what filters tasks.
        assert f'<span class="decided">{names(one)[0]}</span>' in line
        assert f'<i class="mark"></i>{said}' in line
        assert f'<i class="mark"></i>{said} <b>1</b></button>' in html


def test_a_proof_names_the_rivals_the_limits_and_what_to_unlock(mixed: cfopt.Explanation) -> None:
    one = mixed[4]
    rivals = np.asarray(one.problem.decisions())[:2]
    clash = Clash(rivals, ("rain", "wind"), ("night",), 40.0)
    text = " ".join(proof(replace(one, clash=(clash,))))
    rival_names = [one.problem.cached_scene.name_of(rival) for rival in rivals]
    for words in (*rival_names, "rain and wind", "night", "4e+01"):
        assert words in text
    # Rounded to the nearest, more would be claimed than is proved.
    near = replace(one, clash=(replace(clash, radius=0.96),))
    assert "within 0.9 units" in " ".join(proof(near))


def test_a_bound_that_is_not_met_is_told_with_the_room_it_leaves(mixed: cfopt.Explanation) -> None:
    one = mixed[0]
    assert "at most 100% more" in proof(replace(one, bound=one.loss / 4))[0]
    assert "there may be a smaller change" in proof(replace(one, bound=one.loss * torch.nan))[0]
    missed = replace(mixed[3], bound=torch.tensor([0.5], dtype=torch.float64))
    assert proof(missed) == ["Any context that would do is at least 0.7071 away."]
    assert "at most 101% more" in proof(replace(one, bound=one.loss / 2.004**2))[0]
    missed = replace(missed, bound=torch.tensor([0.12349**2], dtype=torch.float64))
    assert "at least 0.1234 away." in proof(missed)[0]
    # In the unit of the distance that is shown, or else with its name.
    scaled = asking(one, features=replace(one.features, scale=[2.0, 1.0, 1.0, 1.0]))
    words = proof(replace(scaled, bound=one.loss / 4))[0]
    assert f"this one is {float(one.distance[0]):.4g} away" in words
    assert "measured in units of the features' scales" in words


def test_questions_name_decisions_in_the_words_of_the_problem(
    mixed: cfopt.Explanation, knapsack: cfopt.Pipeline
) -> None:
    # As if the solver had returned the alternative, with which the decision is level there.
    one = replace(mixed[0], decision=mixed[0].alternative, tie=torch.tensor([False]))
    decided, wanted = (
        one.problem.cached_scene.name_of(y[0].numpy()) for y in (one.factual, one.alternative)
    )
    assert re.fullmatch(r"A-[A-I](-[A-I]){2}-I", wanted)
    relative = asking(one, criterion=cfopt.Relative(one.alternative), margin=0.05)
    expected = f"Why not {wanted}? When would it have beaten {decided} by a margin of 5%?"
    assert question(relative) == expected
    epsilon = asking(one, criterion=cfopt.Epsilon(0.1))
    assert question(epsilon) == f"What would have put {decided} at least 10% off the best?"
    assert "at least 10% off the best" in verdict(epsilon)
    x0 = normal(1, 3)
    e = cfopt.explain(x0, knapsack, cfopt.Absolute(another(knapsack, x0)))
    asked = r"Why not items? [\d, and]+\? What would have made this the best selection\?"
    assert re.fullmatch(asked, question(e))


def test_decisions_have_names_for_every_kind_of_problem() -> None:
    grid = GridShortestPath(6, 6)
    down, right = (np.zeros(grid.num_costs) for _ in range(2))
    for k, (source, target) in enumerate(grid.arcs):
        falls = target == source + 6
        down[k] = source % 6 == 0 if falls else source >= 30
        right[k] = source % 6 == 5 if falls else source < 6
    assert grid.cached_scene.name_of(down).startswith("A1-A2-A3")
    assert grid.cached_scene.name_of(right) == "A1-B1-C1-D1-E1-F1-F2-F3-F4-F5-F6"
    assert grid.cached_scene.name_of(0 * down) == "the given visits, which are not a simple route"
    assert grid.cached_scene.name_of(down * np.nan) == "an unknown decision"
    assert grid.scene().names[0] == "A1-B1"
    terrain = TerrainShortestPath(14, 14)
    edge, diagonal = np.eye(14), np.zeros((14, 14))
    diagonal[:, 0] = diagonal[-1, :] = 1
    name = terrain.cached_scene.name_of(diagonal.flatten(), edge.flatten())
    assert name == "the route A1-A14-N14"
    small = TerrainShortestPath(4, 4)
    assert small.cached_scene.name_of(np.eye(4).flatten()) == "A1-B2-C3-D4"
    assert [small.scene().names[j] for j in (0, 4, 15)] == ["A1", "A2", "D4"]
    assert ">D4</text>" in common(small.scene())
    items = Knapsack(np.ones((1, 20)), [20.0])
    assert items.cached_scene.name_of(np.zeros(20)) == "no item"
    assert (
        items.cached_scene.name_of(np.ones(20), np.arange(20) % 19 > 0) == "items 0 and 19 among 20"
    )
    model = MILP([[1.0, 1.0]], 0, 5, names=["north", "south"])
    assert model.cached_scene.name_of(np.array([1.0, 2.5])) == "north and south = 2.5"
    assert Bars.unnamed(2).name_of(np.zeros(2)) == "nothing"
    assert [column_letters(k) for k in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_what_changed_is_listed_with_the_largest_first(
    mixed: cfopt.Explanation, tmp_path: Path
) -> None:
    html = _report(mixed[0], tmp_path)
    table = html.split('<table class="changes">')[1].split("</table>")[0]
    expected = mixed[0].table()
    assert re.findall(r'<th scope="row">(.*?)</th>', table) == expected["feature"].tolist()
    found = re.findall(r'--part.*">(.*)</td>', table)
    assert len(found) == len(expected)
    shown = [float(change.replace("\N{MINUS SIGN}", "-")) for change in found]
    assert shown == pytest.approx(expected["change"].tolist(), rel=0.01)


def test_changes_that_count_come_first_and_a_solvers_noise_is_left_out() -> None:
    pipeline = cfopt.Pipeline(random_linear(12, 12, bias=5.0), GridShortestPath(3, 3))
    x0 = 0.1 * normal(1, 12)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.2))
    moved = torch.full((1, 12), 0.03, dtype=x0.dtype)
    moved[0, 3], moved[0, 7], moved[0, 8] = -20.0, 2e-16, 1e-9
    moved[0, 9] = 1e-5  # much for a solver, but nothing beside the largest
    changes = task_views(replace(e, x=x0 + moved), [Gallery()])[0].changes
    assert [change.name for change in changes.rows] == ["x3"]
    assert len(changes.folded) == 8
    assert changes.more == 0
    assert {change.name for change in changes.folded}.isdisjoint({"x7", "x8", "x9"})


def _linear(weight: list[list[float]], bias: list[float]) -> torch.nn.Linear:
    layer = torch.nn.Linear(len(weight[0]), len(bias), dtype=torch.float64)
    state = {"weight": torch.tensor(weight), "bias": torch.tensor(bias)}
    layer.load_state_dict({name: value.double() for name, value in state.items()})
    return layer


def test_the_top_says_what_was_asked_and_what_most_answers_share(tmp_path: Path) -> None:
    # Each of seven days the first of two plans is taken until traffic falls below 1.
    problem = Finite([[1.0, 0.0], [0.0, 1.0]])
    predictor = _linear([[-1.0, 0.0], [0.0, 0.0]], [2.0, 1.0])
    x0 = torch.cat([torch.linspace(1.5, 4, 7)[:, None], torch.zeros(7, 1)], 1).double()
    features = cfopt.Features(names=["traffic", "rain"])
    e = cfopt.explain(
        x0, cfopt.Pipeline(predictor, problem), cfopt.Absolute([0.0, 1.0]), features=features
    )
    html = _report(e, tmp_path)
    assert (
        "When would the alternative have been the best of all? Asked of traffic and rain." in html
    )
    assert "Over all rows: traffic would have to fall in 7 of 7 answers." in html


def test_a_relative_answer_says_what_would_be_taken_instead() -> None:
    problem = Finite([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    pipeline = cfopt.Pipeline(_linear([[1.0], [-1.0], [-20.0]], [10.0, 12.0, 25.0]), problem)
    x0 = torch.zeros(1, 1, dtype=torch.float64)
    e = cfopt.explain(x0, pipeline, cfopt.Relative([0.0, 1.0, 0.0]))
    assert bool(e.valid[0])
    # At x = 1 the two cost 11, which is 120% more than the 5 of the third.
    said = verdict(e)
    assert "Neither would be taken, though:" in said
    assert said.endswith("is cheaper than both by 120%.")


def test_text_from_the_data_cannot_run(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>'
    model = MILP([[1.0, 1.0, 1.0]], 2, 2, upper=1, names=[evil, "'><b>", "plain"])
    pipeline = cfopt.Pipeline(random_linear(2, 3), model)
    features = cfopt.Features(names=[evil + "0", "</style>"])
    e = cfopt.explain(normal(2, 2), pipeline, cfopt.Absolute([1.0, 1.0, 0.0]), features=features)
    e = replace(e, labels=(evil, "</details>"), message=(evil, "\ud800<i>"))
    e = replace(e, status=(Status.BEST_EFFORT, Status.REJECTED))
    html = _report(e, tmp_path, title=evil, settings={evil: evil})
    assert html.count("<script") == 1
    assert evil not in html
    assert "<b>'" not in html
    assert html.count("</style>") == 1
    assert "&lt;script&gt;" in html


def _partly_priced() -> MILP:
    fixed = [0.0, 0.0, 1.0]
    return MILP([[1.0, 1.0, 1.0]], 2, 2, upper=1, fixed_costs=fixed, cost_columns=[0, 1])


@pytest.mark.parametrize("kind", ["grid", "knapsack", "finite", "milp", "unknown", "none"])
def test_the_report_needs_no_other_file_whatever_the_problem(kind: str, tmp_path: Path) -> None:
    problem = {
        "grid": GridShortestPath(3, 3),
        "knapsack": Knapsack([[3.0, 5.0, 4.0, 7.0]], [9.0]),
        "milp": _partly_priced(),
    }.get(kind, Finite([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0], [2.0, 0.0, 0.0]]))
    pipeline = cfopt.Pipeline(random_linear(3, problem.num_costs, bias=3.0), problem)
    e = cfopt.explain(normal(3, 3), pipeline, cfopt.Epsilon(0.2))
    if kind == "unknown":
        e = replace(e, problem=None)
    e = e[:0] if kind == "none" else e
    html = _report(e, tmp_path)
    page = _Page(html)
    assert len(page.tasks()) == len(e)
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "srcset", "poster"):
            link = attributes.get(name)
            assert link is None or link.startswith(("#", "data:image/")), (tag, link)
    assert not re.search(r"https?:|url\(|@import", html)
    assert "Content-Security-Policy" in html
    if kind != "none":
        assert html.count('role="img"') >= 1 + 2 * int(e.valid.sum())


def test_fixed_costs_without_their_problem_leave_out_the_picture(tmp_path: Path) -> None:
    pipeline = cfopt.Pipeline(random_linear(3, 2, bias=3.0), _partly_priced())
    e = cfopt.explain(normal(1, 3), pipeline, cfopt.Epsilon(0.2))
    html = _report(replace(e, problem=None), tmp_path)
    assert "<td>?</td>" in html
    assert 'class="pictures' not in html


def test_rows_can_be_sorted_and_filtered(mixed: cfopt.Explanation, tmp_path: Path) -> None:
    page = _Page(_report(mixed, tmp_path))
    sorts = [a["data-sort"] for tag, a in page.elements if "data-sort" in a]
    assert sorts == ["number", "decided", "asked", "rank", "distance", "largest"]
    chips = {a["data-status"] for tag, a in page.elements if tag == "button" and "data-status" in a}
    assert chips == {task["data-status"] for task in page.tasks()}
    distances = [task["data-distance"] for task in page.tasks()]
    nowhere = [one in (Status.PROVED_INFEASIBLE, Status.REJECTED) for one in mixed.status]
    assert [distance == "" for distance in distances] == nowhere
    assert float(distances[0] or 0) == pytest.approx(float(mixed.distance[0]))
    labelled = [a for tag, a in page.elements if tag == "svg" and a.get("role") == "img"]
    assert all(a["aria-label"] for a in labelled)


@pytest.mark.long
def test_a_thousand_tasks_are_small_and_pictures_are_thinned_when_room_is_short(
    mixed: cfopt.Explanation, tmp_path: Path
) -> None:
    many = cfopt.Explanation.concat([mixed] * 200)
    html = _report(many, tmp_path)
    assert len(_Page(html).tasks()) == len(many) >= 1000
    assert len(html) < 7_000_000
    assert "full picture" not in html
    few = galleries(many[:200], room=100_000)
    full = [g for g in few if g.pictures and not g.thinned]
    assert 0 < len(full) < 100
    assert sum(len(p.drawing) for g in full for p in g.pictures) <= 100_000
    sketches = [p for g in few if g.thinned for p in g.pictures]
    assert sketches
    assert all("cost c" not in sketch.drawing for sketch in sketches)
    # The first tasks come before all others, then those without an answer.
    order = by_worth(many)
    assert order[:60] == list(range(60))
    assert not any(many.status[row].is_valid for row in order[60:300])
    html = _report(many[:200], tmp_path, room=100_000)
    assert "Only a sketch" in html
    assert "tasks have no full picture" in html


def test_maps_are_small_images_with_routes_and_plausibility_in_words(tmp_path: Path) -> None:
    models = cfopt.load_terrain(2)
    wanted = models.pipeline.problem.solve(models.costs.roll(1, 0))
    e = cfopt.explain(
        models.maps,
        models.pipeline,
        cfopt.Relative(wanted),
        generative=models.generative,
        plausibility=cfopt.Sphere(1.0),
        search=cfopt.MDMM(step=0.05, max_steps=20),
    )
    html = _report(e, tmp_path)
    assert html.count("data:image/jpeg") >= 4
    assert len(html) < 40_000 + 2 * 30_000
    assert "Why not the route A1-" in html
    assert "Predicted costs that changed most" in html
    assert "of what the generative model makes" in html
    assert 'data-sort="rating"' in html
    assert e.latent is not None
    far = replace(e, latent=replace(e.latent, z=0 * e.latent.z + 2.0))[0]
    assert ": less than 0.1%" in plausibility(far)[0]
    near = replace(e, latent=replace(e.latent, z=0 * e.latent.z + 0.99))[0]
    assert plausibility(near)[0].startswith("Typical.")
    thin = _report(e, tmp_path, room=0)
    assert "data:image" not in thin
    assert "Only a sketch" in thin


def test_numbers_are_said_as_one_would() -> None:
    times = [0.0004, 0.2051, 2.54, 12.3, 59.96, 61, 120, 7500]
    said = ["0.4 ms", "205 ms", "2.5 s", "12 s", "1 min", "1 min 1 s", "2 min", "2 h 5 min"]
    assert [duration(time) for time in times] == said
    assert [percent(part, 1000) for part in (0, 500, 999, 1000)] == ["0%", "50%", "99.9%", "100%"]
    assert percent(99_999, 100_000) == "99.9%"


def test_numbers_are_rounded_against_the_claim_and_without_noise() -> None:
    assert [rounded_down(v, 1) for v in (0.96, 0.3, 19.9, 1e-7)] == ["0.9", "0.3", "1e+01", "1e-07"]
    assert rounded_down(0.5, 4) == "0.5"
    assert [percent_up(part) for part in (1.0, 0.0001, 0.501, 2 / 3)] == [
        "100%",
        "1%",
        "51%",
        "67%",
    ]
    assert with_enough_digits([3.331e-15, 0.5]) == ["0", "0.5"]
    assert with_enough_digits([16.88, 16.880234], equal=0) == ["16.88", "16.8802"]
    assert with_enough_digits([28.35, 28.35 + 1e-9, math.nan]) == ["28.35", "28.35", "?"]
    assert with_enough_digits([0.0, 0.0]) == ["0", "0"]


def test_a_folder_that_does_not_exist_is_told(mixed: cfopt.Explanation, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no folder"):
        write_report(mixed, tmp_path / "no" / "r.html", title="t", seconds=1.0, settings={})


def _rows(e: cfopt.Explanation, status: Status = Status.VALID) -> list[cfopt.Explanation]:
    found = [e[row] for row in range(len(e)) if e.status[row] is status]
    assert found
    return found


def test_a_decision_that_wins_by_its_margin_is_not_called_level() -> None:
    free = grid_question()
    own = grid_question(criterion=cfopt.Absolute(free.factual), margin=0.3)
    other = grid_question(criterion=cfopt.Absolute(free.alternative), margin=0.3)
    for one in _rows(own) + _rows(other):
        assert verdict(one).endswith("would have been the best route by a margin of 30%.")
        assert "level" not in " ".join(proof(one))
    relative = grid_question(criterion=cfopt.Relative(free.alternative), margin=0.3)
    assert verdict(_rows(relative)[0]).endswith(" by a margin of 30%.")
    epsilon = grid_question(criterion=cfopt.Epsilon(0.2), margin=0.1)
    assert verdict(_rows(epsilon)[0]).endswith("20% off the best by a margin of 10%.")


def test_a_decision_asked_for_itself_is_asked_about_in_other_words() -> None:
    free = grid_question()
    own = grid_question(criterion=cfopt.Absolute(free.factual))[0]
    decided = own.problem.cached_scene.name_of(own.factual[0].numpy())
    assert question(own) == f"The decision was {decided}: is it the best route?"
    clear = grid_question(criterion=cfopt.Absolute(free.factual), margin=0.3)
    asked = question(_rows(clear)[0])
    assert asked.startswith("The decision was A-")
    assert asked.endswith(": what would have made it the best route by a margin of 30%?")
    relative = grid_question(criterion=cfopt.Relative(free.factual))[0]
    assert question(relative) == f"Why not {decided}? It is what was decided."


@pytest.mark.parametrize(
    ("margin", "settled", "asked"),
    [
        (0.0, False, "is it the best route?"),
        (0.0, True, "is it the best route?"),
        (0.2, True, "is it the best route by a margin of 20%?"),
        (0.2, False, "what would have made it the best route by a margin of 20%?"),
    ],
)
def test_what_is_asked_of_a_decision_itself_heeds_margin_and_answer(
    margin: float, settled: bool, asked: str
) -> None:
    known = replace(facts(grid_question()[0]), wanted="A-B", same=True)
    said = cfopt.Absolute([1.0]).ask_about(replace(known, margin=margin, settled=settled))
    assert said == f"The decision was A-B: {asked}"


def test_an_answer_by_equality_says_what_the_solver_returns() -> None:
    told = {}
    for one in _rows(grid_question()):
        assert bool(one.tie[0]) is bool(one.valid[0])  # the nearest answers are all on a boundary
        for sentence in proof(one)[1:]:
            told[torch.equal(one.decision, one.wanted)] = sentence
            assert "level there" in sentence
    assert told[True].endswith("the solver returns the one asked for.")
    assert "the one that was decided before" in told[False] or "another route" in told[False]


def test_an_answer_to_epsilon_is_not_called_level() -> None:
    one = _rows(grid_question(criterion=cfopt.Epsilon(0.25)))[0]
    assert bool(one.tie[0])
    factual, best = (float((one.costs * y).sum()) for y in (one.factual, one.decision))
    assert factual == pytest.approx(1.25 * best)
    assert proof(one)[1] == "There the decision is exactly 25% off the best."
    # Of a best value of 0 nothing can be a part.
    assert len(proof(replace(one, costs=0 * one.costs))) == 1


@pytest.mark.parametrize(
    ("proximity", "scale", "words"),
    [
        (cfopt.L2(), None, ""),
        (cfopt.L2(), [1.0, 2.0, 5.0, 0.1], "in units of the features' scales"),
        (cfopt.L1(), None, "by L1, the sum of all changes"),
        (
            cfopt.L1(),
            [1.0, 2.0, 5.0, 0.1],
            "by L1, the sum of all changes, in units of the features' scales",
        ),
        (cfopt.L2([3.0, 1.0, 1.0, 1.0]), None, "in units of the proximity's scales"),
    ],
)
def test_the_closest_answer_is_the_closest_in_the_measure_that_is_named(
    proximity: Any, scale: list[float] | None, words: str, tmp_path: Path
) -> None:
    e = grid_question(proximity=proximity, features=cfopt.Features(scale=scale))
    assert measured(e) == words
    assert bool(e.optimal.any())
    html = _report(e, tmp_path).replace("&#39;", "'")
    if words:
        assert f"No nearer context would do, measured {words}: by that, this is the closest" in html
        assert f"between the context and its explanation, measured {words}." in html
        assert f"found, measured {words}" in html
    else:
        assert "No nearer context would do: this is the closest possible explanation." in html
        assert "measured" not in html


def test_a_code_that_is_hardly_ever_made_is_unusual_however_small_the_sphere() -> None:
    models = cfopt.load_terrain(1)
    e = cfopt.explain(
        models.maps,
        models.pipeline,
        cfopt.Epsilon(0.01),
        generative=models.generative,
        search=cfopt.MDMM(max_steps=1),
    )
    assert e.latent is not None

    def coded(*code: float) -> cfopt.Explanation:
        z = torch.tensor([code])
        return replace(e, status=(Status.VALID,), latent=replace(e.latent, z=z, z0=z))

    tiny = coded(0.033, 0.033, 0.033, 0.033)
    assert bool(tiny.in_sphere()[0])  # 0.066 beside a typical 1.88
    assert rating(tiny) == "unusual"
    assert plausibility(tiny)[0].startswith("Unusual. Its code has the norm 0.066, where 1.88")
    assert (
        "less than 0.1% of what the generative model makes has a smaller one"
        in plausibility(tiny)[0]
    )
    for after, ends in ((40.0, "this one, and 40% than the answer."), (math.nan, "this one.")):
        percentiles = Typical(torch.tensor([12.5]), torch.tensor([after]))
        said = plausibility(replace(tiny, typical=percentiles))[-1]
        assert said == f"Of known contexts, 12.5% are more usual to the model than {ends}"
    assert rating(coded(3.87, 0.0, 0.0, 0.0)) == "unusual"
    assert rating(coded(1.0, 1.0, 1.0, 0.0)) == "typical"
    assert rating(coded(3.0, 0.0, 0.0, 0.0)) == "plausible"
    plausible = [fact for fact in overview(tiny, 1.0).facts if fact.name == "Plausible"]
    assert plausible[0].value == "0%"


def test_order_bars_and_sorting_of_changes_are_in_the_same_units(tmp_path: Path) -> None:
    features = cfopt.Features(scale=[100.0, 1.0, 10.0, 0.01])
    e = grid_question(features=features)
    views = task_views(e, galleries(e))
    for view, one in zip(views, (e[row] for row in range(len(e))), strict=True):
        scaled = ((one.x - one.x0)[0] / torch.tensor(features.scale)).abs()
        parts = [abs(change.part) for change in view.changes.rows]
        assert parts == sorted(parts, reverse=True)
        assert parts[0] == 1
        assert view.largest is not None
        assert view.largest.size == pytest.approx(float(scaled.max()))
    assert any(view.changes.title.endswith("in units of its scale first") for view in views)
    tasks = _Page(_report(e, tmp_path)).tasks()
    for task, view in zip(tasks, views, strict=True):
        assert float(task["data-largest"] or 0) == view.changes.rows[0].size


def test_before_and_after_look_different_where_a_change_is_shown(tmp_path: Path) -> None:
    one = grid_question()[0]
    x0 = torch.tensor([[16.88, 3.331e-15, -2.0, 1.0]], dtype=torch.float64)
    x = torch.tensor([[16.880234, 0.5, -2.00004, 1.0]], dtype=torch.float64)
    html = _report(replace(one, x0=x0, x=x), tmp_path)
    tables = html.split('<table class="changes">', 1)[1]  # the second is of smaller changes
    rows = re.findall(r"<td>(.*?)</td><td>(.*?)</td>", tables)
    assert rows == [("0", "0.5"), ("16.88", "16.8802"), (svg.signed("-2"), svg.signed("-2.00004"))]


def test_a_rival_that_is_the_decision_itself_is_listed_once(mixed: cfopt.Explanation) -> None:
    one = mixed[4]
    rivals = np.asarray(one.problem.decisions())
    factual = one.factual[0].double().numpy()
    known = np.array([factual, one.alternative[0].double().numpy()])
    rival = next(y for y in rivals if np.abs(y - known).max(axis=1).min() > 0.5)
    one = replace(one, clash=(Clash(np.array([factual, rival]), (), (), math.inf),))
    shown = galleries(one)
    compared = task_views(one, shown)[0].compared
    assert [row.role for row in compared] == ["factual", "other", "rival1"]
    assert compared[0].what == "Decided, and in its way"
    assert len({row.name for row in compared}) == 3
    assert shown[0].pictures[1].caption == "Thick: decided; dashed: one in its way."


def _plants(names: list[str], features: list[str], unit: float) -> cfopt.Explanation:
    """A knapsack with named items and features; values of about `unit`."""
    problem = Knapsack([[3.0, 5.0, 4.0, 7.0]], [9.0]).named(names)
    predictor = random_linear(3, 4)
    with torch.no_grad():
        predictor.weight.mul_(unit)
        predictor.bias.copy_(unit * torch.tensor([2.0, 2.2, 1.9, 1e-12]))
        predictor.weight[3] = 0
    pipeline = cfopt.Pipeline(predictor, problem)
    x0 = 0.1 * normal(3, 3)
    return cfopt.explain(
        x0,
        pipeline,
        cfopt.Absolute(another(pipeline, x0)),
        features=cfopt.Features(names=features),
    )


def test_names_and_prices_of_bars_have_room() -> None:
    long = "Power plant north of the river, second block"
    e = _plants(["Power plant north", long, "WWWWWWWWWWWW WWWW", "x"], ["a", "b", "c"], 1.31e7)
    drawing = str(galleries(e)[0].pictures[0].drawing)
    assert ">Power plant north</text>" in drawing
    assert f"<title>{long}</title>Power plant" in drawing
    assert "…</text>" in drawing
    prices = re.findall(r'class="price"[^>]*>(.*?)<', drawing)
    assert prices[3] == "0"  # 1e-12 of the others
    assert svg.fitted("Power plant", 11, 500) == "Power plant"
    assert svg.breadth(svg.fitted(long, 11, 80), 11) <= 80


@pytest.fixture(scope="module")
def browser() -> Any:
    with browsing(str(find_browser())) as opened:
        yield opened


_LONG = "average_temperature_in_the_northern_districts_of_the_city_at_noon"


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no chromium was found")
def test_nothing_is_cut_off_on_a_phone(browser: Any, tmp_path: Path) -> None:
    """Neither a cell of a table nor a text of a picture, with long names and large numbers."""
    names = [
        "Power plant north",
        "Wasserkraftwerk_an_der_unteren_Donau",
        "WWWWWWWWWWWWWWW",
        "発電所",
    ]
    features = [_LONG, f"{_LONG}_again", "price $"]
    e = _plants(names, features, -1.31e7)
    path = tmp_path / "report.html"
    write_report(e, path, title="Plants", seconds=1.0, settings={})
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(path.as_uri())
    page.locator("#open-all").click()
    cells = page.evaluate(
        """() => [...document.querySelectorAll(".task td, .task th:not(.unseen)")].map((cell) => {
             const task = cell.closest(".task").getBoundingClientRect();
             const box = cell.getBoundingClientRect();
             return [cell.textContent, box.left - task.left, task.right - box.right];
           })"""
    )
    assert len(cells) > 20
    for words, left, right in cells:
        assert left >= 0, words
        assert right >= 0, words
    texts = page.evaluate(
        """() => [...document.querySelectorAll(".bars text")].map((text) => {
             const box = text.getBBox(), {width} = text.ownerSVGElement.viewBox.baseVal;
             const shown = text.lastChild.textContent;
             return [shown, box.x, box.x + box.width, width];
           })"""
    )
    assert any("e+0" in shown for shown, *_ in texts)
    for shown, left, right, width in texts:
        assert left >= 0, shown
        assert right <= width, shown
    page.close()
    # Without scripts columns keep their headings, and tasks their words.
    still = browser.new_context(java_script_enabled=False)
    page = still.new_page()
    page.goto(path.as_uri())
    assert page.locator(".heads", has_text="Largest change").is_visible()
    page.locator(".task > summary").first.click()
    assert page.locator(".task .question").first.is_visible()
    still.close()


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no chromium was found")
def test_a_long_name_leaves_its_number_to_be_seen_and_tasks_are_sorted_by_it(
    browser: Any, tmp_path: Path
) -> None:
    e = _plants(["a", "b", "c", "d"], [_LONG, f"{_LONG}_again", "price"], 1.0)
    e = replace(e, x=e.x0 + torch.diag(torch.tensor([3.0, 1.0, -2.0])).to(e.x0))
    path = tmp_path / "report.html"
    write_report(e, path, title="Plants", seconds=1.0, settings={})
    page = browser.new_page(viewport={"width": 900, "height": 740})
    page.goto(path.as_uri())
    page.locator('[data-sort="largest"]').click()
    sizes = page.evaluate(
        "() => [...document.querySelectorAll('.task')].map((t) => t.dataset.largest)"
    )
    assert [round(float(size)) for size in sizes] == [1, 2, 3]
    seen = page.evaluate(
        """() => [...document.querySelectorAll(".largest b")].map((number) => {
             const room = number.closest("span").getBoundingClientRect();
             return room.right - number.getBoundingClientRect().right;
           })"""
    )
    assert seen
    assert min(seen) >= 0
    page.close()


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no chromium was found")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_on_a_map_are_dark_on_a_pale_halo(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    problem = TerrainShortestPath(4, 4)
    pipeline = cfopt.Pipeline(random_linear(3, problem.num_costs, bias=3.0), problem)
    e = cfopt.explain(normal(1, 3), pipeline, cfopt.Epsilon(0.1), search=cfopt.MDMM(max_steps=2))
    path = tmp_path / "report.html"
    write_report(e, path, title="Map", seconds=1.0, settings={})
    page = browser.new_page(color_scheme=scheme)
    page.goto(path.as_uri())
    style = page.evaluate(
        """() => {
             const {fill, stroke, paintOrder} = getComputedStyle(document.querySelector(".tag"));
             return [fill, stroke, paintOrder];
           }"""
    )
    assert style == ["rgb(35, 34, 31)", "rgb(255, 255, 255)", "stroke"]
    page.close()


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no chromium was found")
def test_the_page_works_in_a_browser(mixed: cfopt.Explanation, tmp_path: Path) -> None:
    """A frame that uses the page as a reader would, and writes down what it sees."""
    html = _report(mixed, tmp_path)
    steps = """
      const seen = {errors: window.failed ?? []};
      const tasks = () => [...document.querySelectorAll(".task")];
      seen.count = tasks().length;
      document.querySelector('[data-sort="distance"]').click();
      document.querySelector('[data-sort="distance"]').click();
      seen.order = tasks().map((task) => task.dataset.distance);
      document.querySelector('.chip.proved-infeasible').click();
      seen.shown = tasks().filter((task) => !task.hidden).map((task) => task.dataset.status);
      seen.told = document.getElementById("count").textContent;
      document.getElementById("open-all").click();
      seen.open = tasks().filter((task) => task.open).length;
      seen.made = document.querySelectorAll(".task .body").length;
      document.querySelector(".zoom").click();
      seen.large = document.querySelectorAll("dialog[open] svg").length;
      document.getElementById("large").close();
      document.querySelector('.chip.proved-infeasible').click();
      document.getElementById("words").value = "not finite";
      document.getElementById("words").dispatchEvent(new Event("input"));
      seen.found = tasks().filter((task) => !task.hidden).map((task) => task.dataset.status);
      dispatchEvent(new Event("beforeprint"));
      const printed = tasks().filter((task) => getComputedStyle(task).display !== "none");
      seen.printed = printed.map((task) => [task.dataset.status, task.open]);
      seen.wide = document.documentElement.scrollWidth <= innerWidth;
      document.body.textContent = JSON.stringify(seen);
    """
    watch = "window.failed=[];addEventListener('error',e=>window.failed.push(String(e.message)))"
    # The page allows its own script only: for the test two more may run.
    page = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", html)
    page = page.replace("</title>", f"</title><script>{watch}</script>")
    page = page.replace("</body>", f"<script>{steps}</script></body>")
    path = tmp_path / "used.html"
    path.write_text(page, encoding="utf-8")
    seen = _dump(path, tmp_path)
    state = json.loads(re.sub(r"<[^>]*>", "", seen.split("<body>")[1].split("</body>")[0]))
    assert state["errors"] == []
    assert state["count"] == 6
    known = [float(d) for d in state["order"] if d]
    assert known == sorted(known, reverse=True)
    assert state["order"][-2:] == ["", ""]
    assert state["shown"] == ["proved-infeasible"]
    assert state["told"] == "1 of 6 tasks"
    assert state["open"] == 1
    assert state["made"] == 1  # of six: the others are text until they are opened
    assert state["large"] == 1
    assert state["found"] == ["rejected"]  # found in words that were never shown
    assert state["printed"] == [["rejected", True]]  # what is filtered, in full
    assert state["wide"]
    # As it is written, the policy lets the page's own script run.
    untouched = _dump(tmp_path / "report.html", tmp_path)
    assert '<html lang="en" class="scripted">' in untouched


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no chromium was found")
def test_of_many_tasks_lines_are_printed_and_of_few_all(
    browser: Any, mixed: cfopt.Explanation, tmp_path: Path
) -> None:
    _report(cfopt.Explanation.concat([mixed] * 6), tmp_path)
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    printed = """() => {
      dispatchEvent(new Event("beforeprint"));
      const open = document.querySelectorAll(".task[open]").length;
      dispatchEvent(new Event("afterprint"));
      return open;
    }"""
    assert page.evaluate(printed) == 0
    page.locator(".chip.rejected").click()
    assert page.evaluate(printed) == 6
    assert page.locator(".task[open]").count() == 0
    page.close()


def _dump(path: Path, folder: Path) -> str:
    """The document after its scripts have run; a script error or a blocked load fails the test."""
    done = subprocess.run(
        [
            str(find_browser()),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--window-size=390,900",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    return done.stdout


def test_measures_are_a_table_at_the_end(mixed: cfopt.Explanation, tmp_path: Path) -> None:
    assert "Measures" not in _report(mixed, tmp_path)
    measures = cfopt.metrics.evaluate(mixed)
    html = _report(mixed, tmp_path, measures=measures)
    table = html.split('id="measures-title"')[1].split("</table>")[0]
    lines = [line for line in table.split("<tr") if 'scope="row"' in line]
    taken = measures.drop(index="outcome", level="group")
    taken = taken[taken["rows"] > 0]
    assert len(lines) == len(taken) < len(measures)
    for line, (label, values) in zip(lines, taken.iterrows(), strict=True):
        assert f'<th scope="row">{label[1]}</th><td>{values["rows"]:.0f}</td>' in line
        assert f"<td>{values['median']:.3g}</td>" in line
    assert [line.count('class="first"') for line in lines].count(1) == taken.index.unique(
        level="group"
    ).size


def test_a_line_of_changes_is_on_the_side_of_its_sign_and_as_long_as_its_part() -> None:
    fell, rose = (
        Change("load", 2.0, 1.5, -0.5, -0.25, 0.5),
        Change("<i>", "a&b", "c", 1.0, 1.0, 1.0),
    )
    assert fell.line == (
        '<tr><th scope="row">load</th><td>2</td><td>1.5</td>'
        '<td class="less" style="--part:0.25">\N{MINUS SIGN}0.5</td></tr>'
    )
    assert rose.line == (
        '<tr><th scope="row">&lt;i&gt;</th><td>a&amp;b</td><td>c</td>'
        '<td class="more" style="--part:1.00">→ c</td></tr>'
    )
