"""What is asked of an answer beside the question: few changes, robustness; checked by sampling."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from tests.browsing import BROWSER, Visit

from cfopt.errors import InputError
from cfopt.result.explanation import Explanation
from cfopt.web.served import ServedPipeline, load_served
from cfopt.web.work import Work

#: The page goes on after a text when it is told to, however long that was to be read.
_UNHURRIED = """
const usual = window.setTimeout;
window.setTimeout = (act, pause, ...rest) => (pause < 1800 ? usual(act, pause, ...rest) : 0);
"""
ASKED: dict[str, Any] = {
    "pipeline": "grid",
    "context": {"row": 0},
    "question": {"kind": "absolute", "alternative": {"row": 5}},
}


@pytest.fixture(scope="module")
def work() -> tuple[Work, ServedPipeline]:
    pipelines = load_served(None, trusted=False, pixels=10**6)[0]
    return Work(pipelines, lambda: False), pipelines["grid"]


def _result(work: Work, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = work.do("explain", ASKED | more, lambda news: None)["result"]
    return result


def test_an_answer_with_few_changes_says_how_many(work: tuple[Work, ServedPipeline]) -> None:
    result = _result(work[0], features={"max_changes": 2})
    before, after = (torch.tensor(result[side]["values"]) for side in ("before", "after"))
    assert result["status"] == "valid"
    assert int(((after - before).abs() > 1e-9).sum()) == 2
    assert "No more than 2 features may change, and 2 of them do." in result["proof"]
    one = _result(work[0], features={"max_changes": 1})
    assert one["status"] == "proved infeasible"
    with pytest.raises(InputError, match="images"):
        work[0].do("check", ASKED | {"pipeline": "terrain", "features": {"max_changes": 1}}, print)


def test_a_robust_answer_holds_wherever_it_is_a_little_off(
    work: tuple[Work, ServedPipeline],
) -> None:
    result = _result(work[0], robust=0.2)
    assert result["status"] == "valid"
    assert any("in every context within 0.2 of it" in said for said in result["proof"])
    pipeline, around = work[1].pipeline, torch.tensor([result["after"]["values"]]).double()
    off = torch.randn(300, around.shape[1], generator=torch.Generator().manual_seed(1)).double()
    near = around + 0.2 * off / off.norm(dim=1, keepdim=True)
    wanted = torch.tensor(result["asked_decision"]).double()
    costs = pipeline.costs(near).double()
    best = (costs * pipeline.decide(near)).sum(1)
    assert bool(((costs * wanted).sum(1) <= best + 1e-6 * best.abs()).all())
    # Without it, some of them are not.
    plain = _result(work[0])
    near = near - around + torch.tensor([plain["after"]["values"]]).double()
    costs = pipeline.costs(near).double()
    best = (costs * pipeline.decide(near)).sum(1)
    assert not bool(((costs * wanted).sum(1) <= best + 1e-6 * best.abs()).all())


def _best(prices: torch.Tensor, problem: Any, wanted: torch.Tensor) -> bool:
    """Whether a decision is as cheap as any of all decisions, by listing them."""
    values = torch.as_tensor(problem.decisions()).double() @ prices
    return bool(prices @ wanted <= values.min() + 1e-6 * values.min().abs())


def test_options_differ_in_kind_and_prices_are_said_beside_them(
    work: tuple[Work, ServedPipeline],
) -> None:
    question = ASKED["question"] | {"options": 3}
    asked = ASKED | {"question": question, "prices": True, "features": {"max_changes": 3}}
    found = work[0].do("explain", asked, lambda news: None)
    result, e = found["result"], Explanation.from_json(found["explanation"])
    assert e.options is not None
    assert e.prices is not None
    pipeline = work[1].pipeline
    wanted, kinds = torch.tensor(result["asked_decision"]).double(), set()
    for x in e.options[0].x:
        moved = (x - e.x0[0]).abs() > 1e-9
        kinds.add(tuple(moved.nonzero().flatten().tolist()))
        assert _best(pipeline.costs(x[None])[0].double(), pipeline.problem, wanted)
    assert len(kinds) == 3
    assert [way["name"] for way in result["options"]] == ["Option 2", "Option 3"]
    for way, option in zip(result["options"], e.options[0].x[1:], strict=True):
        assert way["said"].startswith("It would also do if rain went from")
        assert way["distance"] == pytest.approx(float((option - e.x0[0]).norm()))
        assert way["proof"][0].startswith("Proved to be the nearest one that leaves")
    assert _best(e.prices.x[0].double(), pipeline.problem, wanted)
    assert result["prices"]["said"].startswith("It would come true if the following were to cost:")
    assert " less (" in result["prices"]["said"]


@pytest.mark.browser
@pytest.mark.skipif(BROWSER[1].args[0], reason="no chromium was found")
def test_a_ready_question_is_played_and_terms_are_asked_for_and_kept(visit: Any) -> None:
    here: Visit = visit()
    here.page.add_init_script(_UNHURRIED)
    page = here.open("/#grid")
    page.get_by_role("button", name="Show me an example").click()
    for words in ("Drawn in blue is the route", "Suppose you had wanted", "So you ask"):
        page.locator("#guide-said", has_text=words).wait_for()
        page.get_by_role("button", name="Next").click()
    page.locator("#guide-said", has_text="The answer: Valid.").wait_for()
    assert ". What changed is listed" in page.locator("#guide-said").inner_text()
    page.get_by_role("button", name="Stop").click()
    form = page.locator("#table-ask")
    form.get_by_text("What the answer has to be like").click()
    few = form.get_by_label("How many features may change")
    few.focus()
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    assert form.locator(".terms output").first.inner_text() == "at most 2 features may change"
    form.get_by_label("How far off the context may be").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#result .old").wait_for()
    here.explain()
    page.locator("#result:not(:has(.old)) .notes", has_text="2 of them do").wait_for()
    assert "within 0.05 of it" in page.locator("#result .notes").inner_text()
    assert page.locator("#result .changes").first.locator("tbody tr").count() == 2
    form.get_by_label("How many answers").focus()
    page.keyboard.press("ArrowRight")
    form.get_by_text("Also in prices").click()
    here.explain()
    page.locator("#result").get_by_role("radiogroup", name="What would have had to be").wait_for()
    prices, conditions = page.locator(".way", has_text="In prices"), page.locator(".statement")
    assert (prices.is_visible(), conditions.is_visible()) == (False, True)
    here.choose("level", "prices")
    assert (prices.is_visible(), conditions.is_visible()) == (True, False)
    assert "were to cost" in prices.inner_text()
    here.choose("level", "conditions")
    assert (prices.is_visible(), conditions.is_visible()) == (False, True)
    here.until("location.hash.includes('few=2') && location.hash.includes('safe=0.05')")
    held: list[Any] = []
    page.route("**/api/explain", lambda route: held.append(route))
    page = here.open("/?map#terrain")
    assert page.locator("#map-ask .terms").is_hidden()
    page.get_by_role("button", name="Show me an example").click()
    page.locator("#guide-said", has_text="The blue line is the route").wait_for()
    page.get_by_role("button", name="Next").click()
    page.locator("#guide-said", has_text="the dashed one").wait_for()
    assert "12 cells to L12, complete" in page.locator("#route-said").inner_text()
    # What is said covers nothing that it is about, and a search cannot be skipped.
    ends = "document.querySelector('#guide').getBoundingClientRect().bottom"
    assert page.evaluate(ends) <= page.locator("#board").bounding_box()["y"]
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    page.locator("#map-ask .progress").wait_for()
    assert page.locator("#guide").is_visible()
    assert page.locator("#guide-next").is_hidden()
    # How long the search takes is not what this is about; in the end it says what is seen.
    here.server.until(lambda: page.wait_for_timeout(10) or held)
    asked = held[0].request.post_data_json | {"time_limit": 0.2}
    held[0].continue_(post_data=json.dumps(asked))
    page.locator("#guide-said", has_text="The answer: ").wait_for()
    assert "Drag the slider across the map" in page.locator("#guide-said").inner_text()
    page.locator("#result .compare .split").wait_for()
