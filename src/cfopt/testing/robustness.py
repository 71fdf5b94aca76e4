"""The contract of a robustness."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.explaining.explain import explain
from cfopt.pipeline import Pipeline, Predictor
from cfopt.problems import GridShortestPath
from cfopt.question import Absolute
from cfopt.question.robustness import Robustness
from cfopt.result.explanation import Explanation
from cfopt.testing.draws import normal


class RobustnessContract(ABC):
    """What every robustness must do: say what it means, and keep answers to it."""

    @abstractmethod
    def robustness(self, predictor: nn.Module) -> Robustness:
        """The robustness, for contexts of 4 features and a linear predictor of 12 costs."""

    @abstractmethod
    def exceptions(self, x: Tensor, predictor: Predictor) -> list[tuple[Tensor, Predictor]]:
        """What answers `(B, 4)` have to stand up to: pairs of contexts `(B, 4)` and a predictor."""

    def answers(self) -> tuple[Explanation, Pipeline]:
        """Absolute explanations on a grid of 3 by 3, and the pipeline."""
        predictor = nn.Linear(4, 12).double()
        with torch.no_grad():
            predictor.weight.copy_(normal(12, 4, seed=1))
            predictor.bias.fill_(5.0)
        pipeline = Pipeline(predictor, GridShortestPath(3, 3))
        x0 = normal(8, 4, seed=2)
        wanted = pipeline.decide(normal(8, 4, seed=3))
        robust = self.robustness(predictor)
        return explain(x0, pipeline, Absolute(wanted), robust=robust), pipeline

    def test_answers_stand_up_to_it(self) -> None:
        e, pipeline = self.answers()
        assert e.valid.any()
        found = e.x[e.valid]
        wanted = e.alternative[e.valid]
        cases = self.exceptions(found, pipeline.predictor)
        assert cases
        for x, predictor in cases:
            regret = Pipeline(predictor, pipeline.problem).regret(x, wanted)
            assert (regret <= 1e-5).all()

    def test_what_was_asked_survives_json_and_the_message_says_it(self) -> None:
        e, _ = self.answers()
        asked = e.asked.robust
        assert asked is not None
        again = Explanation.from_json(e.to_json()).asked.robust
        assert again == asked
        assert again.words == asked.words
        assert all(asked.words in e.message[row] for row in e.valid.nonzero().flatten().tolist())

    def test_it_is_registered_and_frozen(self) -> None:
        made = self.robustness(nn.Linear(4, 12).double())
        assert registry.robustness.name_of(type(made)) is not None
        assert replace(made) == made
        assert made.ball is not None or made.predictors
