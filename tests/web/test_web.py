"""The explorer's server: what it tells, decides, explains, streams and hands out."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.explorer import fault_of
from PIL import Image
from safetensors.torch import load_file
from tests.datasets.test_flights import all_plans
from tests.serving import Client, serving

import cfopt
from cfopt.app.config import read_config
from cfopt.app.example import write_example
from cfopt.app.job import load
from cfopt.datasets import flights
from cfopt.datasets.terrain import LAND
from cfopt.models.terrain import FOLDER, PREDICTOR, VAES, load_terrain
from cfopt.problems import MILP, Finite, GridShortestPath, Knapsack, Scene, TerrainShortestPath
from cfopt.question.features import Features
from cfopt.web import build
from cfopt.web.columns import columns
from cfopt.web.process import Source
from cfopt.web.views import TableView

GRID: dict[str, Any] = {"pipeline": "grid", "context": {"row": 0}}
MAP: dict[str, Any] = {"pipeline": "terrain", "context": {"row": 0}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own")
    write_example(path)
    return path


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with serving(Source(folder / "CONFIG.toml")) as client:
        yield client


def test_pipelines_are_listed_and_described(client: Client) -> None:
    listed = {one["name"]: one for one in client.get("/api/pipelines").json()}
    assert list(listed) == ["own", "terrain", "flights", "grid", "knapsack"]
    assert all(one["ready"] for one in listed.values())
    for name, one in listed.items():
        told = client.get(f"/api/pipelines/{name}").json()
        assert (told["title"], told["kind"]) == (one["title"], one["kind"])
        assert len(told["labels"]) == told["contexts"] == one["contexts"]
    terrain = client.get("/api/pipelines/terrain").json()
    assert terrain["grid"]["rows"] == terrain["grid"]["cols"] == 12
    assert terrain["plausible"]
    assert [one["name"] for one in terrain["terrains"]] == [
        "water",
        "earth",
        "grass",
        "forest",
        "rock",
    ]
    own = client.get("/api/pipelines/own").json()
    rain, traffic, _, weekend = own["features"]
    assert (own["title"], own["labels"][0]) == ("Deliveries across town", "Mon")
    assert (rain["lower"], rain["upper"], traffic["upper"]) == (0, None, 10)
    assert rain["min"] == 0 < rain["max"]
    assert own["columns"][0] == {
        "name": own["decision_names"][0],
        "integer": True,
        "binary": True,
        "lower": 0,
        "upper": 1,
    }
    assert (len(own["columns"]), len(terrain["columns"])) == (len(own["decision_names"]), 144)
    assert weekend["immutable"]
    for name, problem in (
        ("grid", GridShortestPath(5, 5)),
        ("terrain", TerrainShortestPath(12, 12, land=LAND)),
    ):
        told = client.get(f"/api/pipelines/{name}").json()
        assert Scene.from_dict(told["scene"]) == problem.scene()
    assert not own["plausible"]


def test_what_columns_may_be_is_told_where_it_is_known() -> None:
    """So that a decision of any kind can be entered by hand."""
    upper, whole = [3, np.inf, 1], [True, False, True]
    model = MILP(np.ones((1, 3)), 0, 9, lower=[-1, 0, 0], upper=upper, integer=whole)
    listed = Finite([[0, 2.5, 1], [4, 1, 0]])
    told = [
        [
            (c["integer"], c["binary"], c["lower"], c["upper"])
            for c in columns(problem.scene()) or []
        ]
        for problem in (model, listed, Knapsack(np.ones((1, 2)), [1.0]))
    ]
    assert told[0] == [(True, False, -1, 3), (False, False, 0, None), (True, True, 0, 1)]
    assert told[1] == [(True, False, 0, 4), (False, False, 1, 2.5), (True, True, 0, 1)]
    assert told[2] == [(True, True, 0, 1)] * 2
    assert columns(Finite(np.eye(2001)[:2]).scene()) is None


def test_which_way_features_may_move_is_told() -> None:
    features = Features(["age", "debt", "sex"], only_increase=["age"], only_decrease=["debt"])
    described = TableView(features, 3, torch.float64).describe(torch.zeros(2, 3))["features"]
    assert [one["only"] for one in described] == ["increase", "decrease", None]
    features = Features(["age"], only_increase=["age"], only_decrease=["age"])
    fixed = TableView(features, 1, torch.float64).describe(torch.zeros(2, 1))["features"]
    assert fixed[0]["immutable"]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (GRID, GridShortestPath(5, 5)),
        pytest.param(
            MAP | {"plausible": False}, TerrainShortestPath(12, 12), marks=pytest.mark.long
        ),
    ],
)
def test_an_answer_can_be_gone_on_from_exactly(
    client: Client, asked: dict[str, Any], problem: Any
) -> None:
    def document(task: dict[str, Any]) -> cfopt.Explanation:
        text = client.get(f"/api/tasks/{task['id']}/result.json").text
        return cfopt.Explanation.from_json(text, problem)

    question = {"kind": "relative", "alternative": {"row": 21}}
    first = client.explain(**asked, question=question)
    there = {"pipeline": asked["pipeline"], "context": {"task": first["id"]}}
    after = document(first)
    decided = client.post("/api/decide", json=there).json()
    assert torch.tensor(decided["costs"], dtype=torch.float64).allclose(
        after.costs[0].double(), rtol=1e-5
    )
    assert decided["decision"] == first["result"]["after"]["decision"]
    second = client.explain(**(asked | there), question=question)
    assert second["request"]["context"] == {"task": first["id"]}
    assert torch.equal(document(second).x0, after.x)
    third = client.explain(**(asked | {"context": {"task": second["id"]}}), question=question)
    assert torch.equal(document(third).x0, document(second).x)


def test_only_answers_that_are_there_can_be_gone_on_from(client: Client) -> None:
    task = client.explain(**GRID, question={"kind": "epsilon", "epsilon": 0.05})
    for path in ("/api/decide", "/api/explain"):
        for name, context, status in (
            ("grid", {"task": "none"}, 404),
            ("knapsack", {"task": task["id"]}, 422),
            ("grid", {"task": task["id"], "row": 1}, 422),
        ):
            asked: dict[str, Any] = {"pipeline": name, "context": context}
            if path == "/api/explain":
                asked["question"] = {"kind": "epsilon", "epsilon": 0.05}
            assert client.post(path, json=asked).status_code == status


def test_the_description_names_all_that_is_answered(client: Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for name in ("own", "terrain", "flights", "grid", "knapsack"):
        for model, path in (("Described", ""), ("Decided", "/contexts/0")):
            answer = client.get(f"/api/pipelines/{name}{path}").json()
            assert set(answer) <= set(schemas[model]["properties"])


def test_decisions_are_those_of_the_pipeline(client: Client, folder: Path) -> None:
    models = load_terrain(4)
    shown = client.get("/api/pipelines/terrain/contexts/3").json()
    decision = models.pipeline.decide(models.maps[3:4])[0]
    assert shown["decision"] == decision.tolist()
    assert np.allclose(shown["costs"], models.pipeline.costs(models.maps[3:4])[0].tolist())
    visited = {tuple(cell) for cell in shown["path"]}
    assert visited == {divmod(int(j), 12) for j in decision.nonzero().flatten()}
    assert shown["label"] == "Map 4"
    # The image that was shown, sent back, is the same map.
    sent = client.post(
        "/api/decide", json={"pipeline": "terrain", "context": {"image": shown["image"]}}
    )
    assert sent.json()["costs"] == shown["costs"]
    work = load(read_config(folder / "CONFIG.toml"))
    expected = work.pipeline.decide(work.contexts.x)
    for row, values in enumerate(work.contexts.x.tolist()):
        asked = {"pipeline": "own", "context": {"values": values}}
        answer = client.post("/api/decide", json=asked).json()
        assert answer["decision"] == expected[row].tolist()
        assert answer["value"] == pytest.approx(float(np.dot(answer["prices"], answer["decision"])))
        assert answer["prices"] == pytest.approx(answer["costs"])  # nothing has a fixed price here
        assert answer["drawing"].startswith("<svg")
        assert "<use" not in answer["drawing"]
        assert "style=" not in answer["drawing"]


def test_a_day_of_flights_is_decided_and_another_plan_explained(client: Client) -> None:
    known, new = flights.load().split()
    forest = flights.forest().fit(known.contexts.to_numpy(), known.delays.to_numpy())
    described = client.get("/api/pipelines/flights").json()
    row = new.contexts.index.get_loc("2013-06-12")
    assert described["labels"][row] == "2013-06-12"
    assert described["noun"] == "plan"
    sliders = {one["name"]: one for one in described["features"]}
    assert sliders["humidity at JFK (%)"]["upper"] == 100
    assert sliders["wind at LGA (mph)"]["lower"] == 0
    assert sliders["month"]["immutable"]
    shown = client.get(f"/api/pipelines/flights/contexts/{row}").json()
    plans = all_plans()
    values = forest.predict(new.contexts.to_numpy()[[row]]) @ plans.T
    assert shown["decision"] == plans[values.argmin()].tolist()
    wanted = plans[values[0].argsort()[2]]
    question = {"kind": "absolute", "alternative": wanted.tolist()}
    task = client.explain(pipeline="flights", context={"row": row}, question=question)
    assert task["status"] == "done", task
    x = np.array(task["result"]["after"]["values"])
    after = forest.predict(x[None]) @ plans.T
    assert after[0, (plans == wanted).all(axis=1)][0] <= after.min() * (1 + 1e-6)


def test_an_uploaded_image_is_made_to_fit(client: Client) -> None:
    models = load_terrain(1)
    pixels = (models.maps[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    large = Image.fromarray(pixels).resize((480, 480), Image.Resampling.NEAREST).convert("RGBA")
    data = base64.b64encode(_encoded(large, "PNG")).decode()
    asked = {"pipeline": "terrain", "context": {"image": data}}
    exact = client.get("/api/pipelines/terrain/contexts/0").json()
    assert client.post("/api/decide", json=asked).json()["costs"] == pytest.approx(exact["costs"])
    jpeg = base64.b64encode(_encoded(Image.fromarray(pixels), "JPEG")).decode()
    asked = {"pipeline": "terrain", "context": {"image": f"data:image/jpeg;base64,{jpeg}"}}
    assert client.post("/api/decide", json=asked).status_code == 200
    started = client.start(
        pipeline="terrain", context={"image": data}, question={"kind": "epsilon", "epsilon": 0.1}
    )
    kept = client.task(started)["request"]["context"]["image"]
    assert Image.open(io.BytesIO(base64.b64decode(kept))).size == (96, 96)
    client.delete(started["url"])


def _encoded(image: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def test_thumbnails_are_one_picture(client: Client) -> None:
    answer = client.get("/api/pipelines/terrain/thumbnails")
    image = Image.open(io.BytesIO(answer.content))
    assert (image.format, image.size) == ("PNG", (576, 192))


@pytest.mark.parametrize(
    "asked",
    [
        GRID | {"question": {"kind": "absolute", "alternative": {"row": 5}}},
        GRID | {"question": {"kind": "relative", "alternative": {"row": 5}, "margin": 0.02}},
        GRID | {"question": {"kind": "epsilon", "epsilon": 0.05}},
        {
            "pipeline": "knapsack",
            "context": {"row": 1},
            "question": {"kind": "epsilon", "epsilon": 0.1},
        },
        {
            "pipeline": "knapsack",
            "context": {"values": [0.5] * 8},
            "question": {"kind": "absolute", "alternative": {"row": 2}},
            "features": {"locked": ["season"], "upper": {"weather": 0.6}},
        },
    ],
)
def test_tables_are_explained_and_each_answer_holds(client: Client, asked: dict[str, Any]) -> None:
    task = client.explain(**asked)
    result = task["result"]
    assert task["status"] == "done"
    assert result["valid"]
    assert fault_of(asked, task) == ""
    assert result["optimal"]
    assert result["verdict"] == task["message"]
    assert result["changes"]["rows"]
    assert result["before"]["drawing"] != result["after"]["drawing"]
    if "features" in asked:
        assert result["after"]["values"][0] == 0.5
        assert result["after"]["values"][3] <= 0.6 + 1e-9


def test_an_impossible_wish_is_proved_to_be_so(client: Client) -> None:
    names = [one["name"] for one in client.get("/api/pipelines/grid").json()["features"]]
    question = {"kind": "absolute", "alternative": {"row": 5}}
    task = client.explain(**GRID, question=question, features={"locked": names})
    assert task["result"]["status"] == "proved infeasible"
    assert not task["result"]["valid"]
    assert "Unlocking" in " ".join(task["result"]["proof"])


def test_maps_are_explained_naively_and_plausibly(client: Client) -> None:
    path = [[k, k] for k in range(12)]  # nearly as good as the best
    question = {"kind": "relative", "alternative": {"path": path}}
    started = client.start(**MAP, question=question, plausible=True)
    events = list(client.events(started))
    assert [name for name, _ in events] == ["progress"] * (len(events) - 1) + ["end"]
    steps = [data["step"] for _, data in events]
    assert steps == sorted(steps)
    plausible = events[-1][1]
    assert plausible["result"]["rating"] in ("typical", "plausible")
    naive = client.explain(**MAP, question=question, plausible=False)
    models = load_terrain(1)
    for task in (plausible, naive):
        result = task["result"]
        assert result["valid"]
        assert result["asked_path"] == path
        document = client.get(f"/api/tasks/{task['id']}/result.json")
        assert "attachment" in document.headers["content-disposition"]
        assert document.json()["request"] == task["request"]
        e = cfopt.Explanation.from_json(document.text, models.pipeline.problem)
        assert torch.equal(e.x0, models.maps)
        assert e.x.min() >= 0
        assert e.x.max() <= 1
        costs = models.pipeline.costs(e.x)[0].double()
        mine, theirs = (
            torch.tensor(result[f"{who}_decision"]).double() for who in ("asked", "factual")
        )
        assert costs @ mine <= costs @ theirs + 1e-5 * costs.sum()
    assert naive["result"]["distance"] < plausible["result"]["distance"]
    picture = client.get(f"/api/tasks/{naive['id']}/result.png")
    assert Image.open(io.BytesIO(picture.content)).format == "PNG"


def test_the_own_pipeline_is_explained(client: Client, folder: Path) -> None:
    work = load(read_config(folder / "CONFIG.toml"))
    known = work.explain(range(len(work)))
    for row in (1, 4):
        question = {"kind": "absolute", "alternative": {"row": 0}}
        task = client.explain(pipeline="own", context={"row": row}, question=question)
        assert task["result"]["status"] == str(known.status[row])
        assert task["result"]["distance"] == pytest.approx(float(known.distance[row]), rel=1e-6)


def test_a_stream_opened_late_tells_the_end(client: Client) -> None:
    task = client.explain(**GRID, question={"kind": "epsilon", "epsilon": 0.05})
    started = {"events": f"/api/tasks/{task['id']}/events"}
    assert list(client.events(started)) == [("end", task)]


def test_the_page_and_its_reference_are_served(client: Client) -> None:
    for path in ("/", "/t/some-task"):
        page = client.get(path)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
    reference = client.get("/docs").text
    described = client.get("/openapi.json").json()
    for path in described["paths"]:
        assert path in reference
    assert "http://" not in reference.replace("http://127.0.0.1", "")
    assert "https://" not in reference
    assert client.get("/docs.css").headers["content-type"].startswith("text/css")
    examples = described["components"]["schemas"]["Explain"]["examples"]
    for example in examples[1:]:
        assert client.explain(**example)["status"] == "done"
    decide = described["components"]["schemas"]["Decide"]["examples"][0]
    assert client.post("/api/decide", json=decide).status_code == 200


def test_documents_are_json_without_infinities(client: Client) -> None:
    for name in ("own", "terrain", "flights", "grid", "knapsack"):
        text = client.get(f"/api/pipelines/{name}/contexts/0").text
        json.loads(text, parse_constant=lambda name: pytest.fail(name))


def test_a_map_pipeline_of_the_user_is_served_like_the_shipped_one(tmp_path: Path) -> None:
    models = load_terrain(3)
    np.save(tmp_path / "maps.npy", models.maps.numpy())
    (tmp_path / "CONFIG.toml").write_text(
        f"""
        title = "Our hills"
        [predictor]
        class = "cfopt.predictors.CompactCNN"
        weights = "{FOLDER / PREDICTOR}"
        [problem]
        kind = "TerrainShortestPath"
        arguments = {{ rows = 12, cols = 12 }}
        [contexts]
        file = "maps.npy"
        [generative]
        class = "cfopt.generative.CompactVAE"
        weights = "{FOLDER / VAES[2.0]}"
        [plausibility]
        kind = "Sphere"
        beta = 10.0
        [criterion]
        kind = "Epsilon"
        epsilon = 0.05
        """
    )
    with serving(Source(tmp_path / "CONFIG.toml")) as client:
        told = client.get("/api/pipelines/own").json()
        assert (told["kind"], told["title"], told["plausible"]) == ("map", "Our hills", True)
        assert told["grid"]["pixels"] == 8
        for row in range(3):
            own, shipped = (
                client.get(f"/api/pipelines/{name}/contexts/{row}").json()
                for name in ("own", "terrain")
            )
            assert own["decision"] == shipped["decision"]
            assert own["image"] == shipped["image"]
        epsilon = {"kind": "epsilon", "epsilon": 0.05}
        plausible = client.explain(pipeline="own", context={"row": 0}, question=epsilon)["result"]
        assert plausible["valid"]
        assert plausible["regret_before"] == 0
        assert plausible["regret_after"] >= 0.05 - 1e-6
        assert plausible["rating"]
        relative = {"kind": "relative", "alternative": {"row": 1}}
        asked = {"pipeline": "own", "context": {"row": 0}, "question": relative}
        naive = client.explain(**asked, plausible=False)["result"]
        assert naive["valid"]
        assert not naive["rating"]


def test_the_server_process_loads_no_model() -> None:
    code = "import sys, cfopt.web.serve; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_help_is_answered_at_once() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from cfopt.cli import app\n"
        "print(CliRunner().invoke(app, ['serve', '--help']).output)\n"
        "sys.exit('fastapi' in sys.modules or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Example: cfopt serve --config CONFIG.toml" in done.stdout


def test_shipped_tables_are_those_that_their_builder_makes() -> None:
    pytest.importorskip("pyepo")
    built, shipped = build.build(), load_file(build.FILE)
    assert built.keys() == shipped.keys()
    for name, tensor in built.items():
        assert torch.allclose(tensor, shipped[name], atol=2e-3), name


def test_no_cost_of_the_shipped_tables_is_negative_whatever_the_context() -> None:
    shipped = load_file(build.FILE)
    for name in ("grid", "knapsack"):
        reach = build.REACH * shipped[f"{name}.weight"].abs().sum(1)
        assert (shipped[f"{name}.bias"] - reach).min() > 0
        assert shipped[f"{name}.contexts"].abs().max() <= build.REACH
