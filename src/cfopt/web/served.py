"""The pipelines of the explorer, as a worker holds them: loaded once, then asked many times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from cfopt.generative.protocol import GenerativeModel
from cfopt.pipeline import Pipeline
from cfopt.problems import GridShortestPath, Knapsack
from cfopt.problems.base import Problem
from cfopt.question import Question
from cfopt.question.features import Features
from cfopt.question.plausibility import Sphere
from cfopt.question.proximity import Latent
from cfopt.search import MDMM
from cfopt.web.catalogue import OWN, SHIPPED, Title
from cfopt.web.columns import columns, drawable, names
from cfopt.web.pictures import Canvas, tile_uri
from cfopt.web.questions import questions
from cfopt.web.views import ImageView, TableView, View

Ask: TypeAlias = Callable[..., Question]
FILE = Path(__file__).parent / "tables.safetensors"
#: How many maps there are to choose from, and which of them a search may start from.
_MAPS, _REFERENCES = 96, slice(20, 26)
#: Of a search among pixels: what is found at all is found within these.
_STEPS = 1000
#: Seconds after which a search on a map ends with what it has: few that take longer find something.
_SECONDS = 60.0
#: How strongly codes are drawn to the sphere of typical ones: the paper's choice.
_BETA = 10.0
#: How many labels a description has at most.
_LABELS = 200
#: Standard deviations from an ordinary day within which features of the shipped tables lie.
REACH = 3.0
_STREETS = (
    *("rain", "traffic", "roadworks", "school runs", "market stalls"),
    *("frost", "fog", "events", "deliveries", "detours"),
)
_ORDERS = (
    *("season", "advertising", "price level", "weather"),
    *("tourism", "holidays", "stock rumours", "online reviews"),
)


@dataclass(frozen=True, eq=False)
class ServedPipeline:
    """A pipeline with contexts to ask about.

    Arguments:
        title: what it is called, and what it is, in a sentence.
        pipeline: predictor and problem.
        contexts: stored ones, `(N, ...)`.
        labels: what they are called.
        view: how contexts are read and shown.
        naive: makes the question that asks a criterion of all contexts.
        plausible: the same among plausible ones; None without a generative model.
        generative: the generative model.
        time_limit: seconds after which a search ends with what it has, unless a question says; None
            for as long as it takes.
    """

    title: Title
    pipeline: Pipeline
    contexts: Tensor
    labels: tuple[str, ...]
    view: View
    naive: Ask = Question
    plausible: Ask | None = None
    generative: GenerativeModel | None = None
    time_limit: float | None = None

    def describe(self) -> dict[str, Any]:
        """What the page needs to know before anything is asked."""
        problem = self.pipeline.problem
        scene = problem.cached_scene
        return {
            **asdict(self.title),
            "contexts": len(self.contexts),
            "labels": list(self.labels[:_LABELS]),
            "sense": str(problem.sense),
            "noun": scene.noun,
            "questions": questions(scene.noun),
            "plausible": self.plausible is not None,
            "time_limit": self.time_limit,
            "decision_names": names(scene),
            "columns": columns(scene),
            "scene": drawable(scene),
            **self.view.describe(self.contexts),
        }


def shipped(pixels: int) -> Iterator[tuple[str, Callable[[], ServedPipeline]]]:
    """The names of the pipelines that come with the package, and how each is loaded.

    Arguments:
        pixels: the most that an image may have.
    """
    yield "terrain", lambda: _terrain(pixels)
    yield "flights", _flights
    yield "grid", _grid
    yield "knapsack", _knapsack


@cache
def _terrain(pixels: int) -> ServedPipeline:
    from cfopt.models.terrain import load_terrain

    models = load_terrain(_MAPS)
    height, width = models.maps.shape[2:]
    canvas = Canvas(3, height, width, 0.0, 1.0, models.maps.dtype, pixels)
    return ServedPipeline(
        SHIPPED["terrain"],
        models.pipeline,
        models.maps,
        tuple(f"Map {k + 1}" for k in range(len(models.maps))),
        ImageView(
            canvas,
            models.pipeline.problem.cached_scene,
            Features(lower=0.0, upper=1.0),
            _terrains(),
        ),
        # Where no pixels are found, as for most epsilons, a mixture with another map will do.
        naive=partial(Question, search=MDMM(max_steps=_STEPS), reference=models.maps[_REFERENCES]),
        plausible=partial(
            Question,
            generative=models.generative,
            plausibility=Sphere(_BETA),
            reference=models.maps[_REFERENCES],
        ),
        generative=models.generative,
        time_limit=_SECONDS,
    )


def _terrains() -> list[dict[str, Any]]:
    """What can be painted: a tile of each terrain, and about what it costs."""
    from cfopt.datasets.terrain import COSTS, Terrain

    return [
        {"name": name, "tile": tile_uri(tile), "cost": round(sum(COSTS[name]) / 2, 2)}
        for name, tile in Terrain().tiles().items()
    ]


@cache
def _flights() -> ServedPipeline:
    from cfopt.datasets import flights

    data = flights.load()
    known, new = data.split()
    # The days as plain numbers, as the page sends them.
    past, contexts = (torch.from_numpy(part.contexts.to_numpy()) for part in (known, new))
    forest = flights.forest().fit(past.numpy(), known.delays.to_numpy())
    return ServedPipeline(
        SHIPPED["flights"],
        Pipeline(forest, data.problem),
        contexts,
        tuple(map(str, new.contexts.index)),
        TableView(data.features, contexts.shape[1], contexts.dtype),
        naive=partial(Question, reference=past),
    )


@cache
def _grid() -> ServedPipeline:
    return _table("grid", lambda tensors: GridShortestPath(5, 5), _STREETS, "Day")


@cache
def _knapsack() -> ServedPipeline:
    def problem(tensors: dict[str, Tensor]) -> Problem:
        weights, capacities = tensors["knapsack.weights"], tensors["knapsack.capacities"]
        return Knapsack(weights.numpy(), capacities.numpy())

    return _table("knapsack", problem, _ORDERS, "Week")


def _table(
    name: str,
    problem: Callable[[dict[str, Tensor]], Problem],
    called: tuple[str, ...],
    row: str,
) -> ServedPipeline:
    tensors = load_file(FILE)
    weight, contexts = tensors[f"{name}.weight"], tensors[f"{name}.contexts"]
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.load_state_dict({"weight": weight, "bias": tensors[f"{name}.bias"]})
    features = Features(called, lower=-REACH, upper=REACH)
    return ServedPipeline(
        SHIPPED[name],
        Pipeline(layer, problem(tensors)),
        contexts,
        tuple(f"{row} {k + 1}" for k in range(len(contexts))),
        TableView(features, len(called), contexts.dtype),
    )


def own(config: Path, trusted: bool, pixels: int) -> ServedPipeline:
    """The pipeline of a configuration.

    Arguments:
        config: the file, from the command line.
        trusted: whether what it names may execute code.
        pixels: the most that an image may have.
    """
    from cfopt.app.config import read_config
    from cfopt.app.job import load

    work = load(read_config(config, trusted))
    contexts, features, problem = work.contexts.x, work.contexts.features, work.pipeline.problem
    asked, plausible = work.question, None
    ask = partial(Question, search=asked.search, reference=asked.reference)
    if asked.generative is not None:
        plausible = partial(
            ask,
            proximity=asked.proximity,
            generative=asked.generative,
            plausibility=asked.plausibility,
        )
    codes_only = isinstance(asked.proximity, Latent)
    view: View = (
        TableView(features, contexts.shape[1], contexts.dtype)
        if contexts.ndim == 2
        else ImageView(_canvas(work.pipeline, contexts, pixels), problem.cached_scene, features)
    )
    labels = work.contexts.labels or tuple(range(len(contexts)))
    return ServedPipeline(
        Title(OWN, work.config.title, view.kind, f"Your own, from {config.name}."),
        work.pipeline,
        contexts,
        tuple(map(str, labels)),
        view,
        naive=partial(
            ask,
            proximity=None if codes_only else asked.proximity,
            plausibility=None if asked.generative is not None else asked.plausibility,
        ),
        plausible=plausible,
        generative=asked.generative,
        time_limit=asked.time_limit,
    )


def _canvas(pipeline: Pipeline, contexts: Tensor, pixels: int) -> Canvas:
    """Images of a pipeline: black and white are its range, where it declares one."""
    declared = getattr(pipeline.predictor, "value_range", None)
    low, high = declared or (float(contexts.nan_to_num().min()), float(contexts.nan_to_num().max()))
    if declared is None and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    _, channels, height, width = contexts.shape
    return Canvas(
        channels, height, width, float(low), max(float(high), low + 1e-6), contexts.dtype, pixels
    )


def load_served(
    config: Path | None, trusted: bool, pixels: int
) -> tuple[dict[str, ServedPipeline], list[dict[str, Any]], dict[str, str]]:
    """All pipelines by name, their descriptions, and of those that cannot be loaded the reasons.

    Arguments:
        config: the configuration of the user's own pipeline, if any.
        trusted: whether what it names may execute code.
        pixels: the most that an image may have.
    """
    makers = dict(shipped(pixels))
    if config is not None:
        makers = {OWN: lambda: own(config, trusted, pixels)} | makers
    loaded: dict[str, ServedPipeline] = {}
    described, faults = [], {}
    for name, make in makers.items():
        try:
            served = make()
            described.append(served.describe())
            loaded[name] = served
        # Any: the user's own code is among it, and the others must still work.
        except Exception as error:
            faults[name] = str(error) or type(error).__name__
    return loaded, described, faults
