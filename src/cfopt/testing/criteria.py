"""The contract of a criterion."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from cfopt import registry
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.exact.verify import verify
from cfopt.explaining.explain import explain
from cfopt.problems.finite import Finite
from cfopt.problems.sense import Sense
from cfopt.question import Absolute, Criterion, Epsilon, Relative
from cfopt.question.proximity import L2
from cfopt.question.quantifier import Quantifier
from cfopt.result.explanation import Explanation
from cfopt.search.mdmm import MDMM
from cfopt.testing.draws import slopes

_ROWS = 60
_DECISIONS = (
    *((1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 1.0, 0.0), (1.0, 1.0, 0.0, 0.0)),
    *((0.0, 0.0, 1.0, 1.0), (2.0, 0.0, 1.0, 1.0)),
)


class CriterionContract(ABC):
    """What every criterion must do: hold where it is defined to, and keep what it was given."""

    @abstractmethod
    def criterion(self, alternative: Tensor) -> Criterion:
        """The criterion for decisions to argue for, `(B, m)`, not with its default settings."""

    @abstractmethod
    def holds(self, best: Tensor, factual: Tensor, alternative: Tensor) -> Tensor:
        """Its definition, independent of its code, in terms of values of which less is better.

        Arguments:
            best, factual, alternative: what these decisions cost, `(B,)`; should hold in some rows
                of random costs, and not in others.
        """

    def task(self, sense: str = "min") -> Task:
        """Random costs that are contexts themselves, random factual decisions and alternatives."""
        generator = torch.Generator().manual_seed(8)
        listed = torch.tensor(_DECISIONS, dtype=torch.float64)
        costs = torch.randn((_ROWS, 4), generator=generator, dtype=torch.float64)
        factual, alternative = (
            listed[torch.randint(0, len(listed), (_ROWS,), generator=generator)] for _ in "fa"
        )
        bound = self.criterion(alternative).bind(_ROWS, factual)
        rules = Rules(Finite(listed, sense), factual, bound)
        return Task(rules, Space(costs, L2()), _identity)

    def values(self, task: Task) -> tuple[Tensor, Tensor, Tensor]:
        """What the best, the factual and the alternative decision cost, by brute force."""
        listed = torch.tensor(_DECISIONS, dtype=torch.float64)
        prices = task.rules.problem.sense.sign * task.space.origin
        pivot = task.rules.pivot
        every = (prices @ listed.T).min(1).values
        return every, (prices * task.rules.factual).sum(1), (prices * pivot).sum(1)

    def test_it_holds_exactly_where_it_is_defined_to(self) -> None:
        for sense in ("min", "max"):
            task = self.task(sense)
            expected = self.holds(*self.values(task))
            assert torch.equal(verify(task, task.space.origin).valid, expected)
            assert expected.any()
            assert not expected.all()

    def test_its_inequalities_hold_exactly_where_it_does(self) -> None:
        task = self.task()
        if not task.rules.criterion.multiples:
            return
        listed = torch.tensor(_DECISIONS, dtype=torch.float64)
        anchor = (task.space.origin * task.rules.criterion.anchor(task.rules.factual)).sum(1)
        values = {
            Quantifier.GIVEN: (task.space.origin * task.rules.factual).sum(1, keepdim=True),
            Quantifier.SOME: task.space.origin @ listed.T,
            Quantifier.EVERY: task.space.origin @ listed.T,
        }
        expected = torch.ones(_ROWS, dtype=torch.bool)
        for quantifier, multiples in task.rules.criterion.multiples.items():
            for multiple in multiples:
                met = multiple * values[quantifier] + anchor[:, None] <= 1e-9
                expected &= met.any(1) if quantifier is Quantifier.SOME else met.all(1)
        assert torch.equal(self.holds(*self.values(task)), expected)

    def test_the_direction_is_the_gradient_of_h(self) -> None:
        task = self.task()

        def h(prices: Tensor) -> Tensor:
            rival = task.rules.rival(prices).decisions
            return (prices * task.rules.direction(prices, rival)).sum(1)

        prices = task.space.origin
        direction = task.rules.direction(prices, task.rules.rival(prices).decisions)
        assert torch.allclose(slopes(h, prices), direction, atol=1e-6)

    def test_its_fields_survive_binding_and_row_selection(self) -> None:
        task = self.task()
        made = self.criterion(task.rules.pivot)
        rows = torch.tensor([3, 0, 7])
        picked_and_bound = task.rules.criterion[rows].bind(3, task.rules.factual[rows])
        for kept in (task.rules.criterion, task.rules.criterion[rows], picked_and_bound):
            assert type(kept) is type(made)
            for name in made.settings():
                assert getattr(kept, name) == getattr(made, name), name
        for name in made.row_fields():
            picked = getattr(task.rules.criterion[rows], name)
            assert torch.equal(picked, getattr(task.rules.criterion, name)[rows]), name

    def test_json_and_joining_return_it(self) -> None:
        task = self.task()
        question = task.rules.criterion
        e = explain(task.space.origin, task.pipeline, question, search=MDMM(max_steps=2))
        joined = Explanation.concat([e[:5], e[5:]])
        for back in (Explanation.from_json(e.to_json()), joined):
            assert type(back.criterion) is type(question)
            assert back.summary() == e.summary()
            for name in question.settings():
                assert getattr(back.criterion, name) == getattr(question, name), name
            for name in question.row_fields():
                assert torch.equal(getattr(back.criterion, name), getattr(e.criterion, name)), name

    def test_it_is_registered_and_can_be_built_from_plain_values(self) -> None:
        made = self.criterion(torch.tensor(_DECISIONS[:1], dtype=torch.float64))
        kind = registry.criteria.find(made.kind())
        assert kind is type(made)
        settings = {name: getattr(made, name) for name in made.settings()}
        wanted = torch.tensor(_DECISIONS[:1], dtype=torch.float64) if made.contrasts else None
        assert kind.of(settings, wanted).to_dict() == made.to_dict()
        assert {slider.name for slider in made.sliders} <= set(made.settings())

    def test_its_words_are_not_those_of_another_criterion(self) -> None:
        alternative = torch.tensor(_DECISIONS[:1], dtype=torch.float64)
        made = self.criterion(alternative)
        own = self._words(made)
        assert all(own)
        for other in (Relative(alternative), Absolute(alternative), Epsilon(0.123)):
            if type(other) is not type(made):
                assert not set(own) & set(self._words(other))

    @staticmethod
    def _words(criterion: Criterion) -> list[str]:
        return [
            criterion.ask(),
            criterion.answer(tie=False, unbeaten=False),
            criterion.miss(0.5, Sense.MIN),
            criterion.conflict("no context", ["one"], 0.0),
            criterion.choice("route")[0],
        ]


def _identity(x: Tensor) -> Tensor:
    return 1.0 * x
