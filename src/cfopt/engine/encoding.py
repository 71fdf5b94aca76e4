"""From a task among contexts to one among the codes of a generative model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from cfopt.engine.latent import Codes, LatentSpace, unkept_limits
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.generative.anchored import Anchored
from cfopt.generative.protocol import (
    GenerativeModel,
    ambiguity,
    check_attributes,
    check_generative,
)
from cfopt.question import Question
from cfopt.question.plausibility import CodePenalty, Plausibility
from cfopt.question.proximity import Latent

if TYPE_CHECKING:
    from cfopt.result.outcomes import RowOutcomes


def check_latent(question: Question) -> None:
    """Raise InputError if something is asked of codes, and there are none."""
    proximity, plausibility = question.proximity, question.plausibility
    if plausibility is not None and not isinstance(plausibility, Plausibility):
        raise InputError(
            "explain needs a plausibility such as Sphere(10) or LocalOutlier(), got "
            f"{plausibility!r:.80}."
        )
    needing = [
        name
        for name, given in (
            (f"proximity={proximity!r}", isinstance(proximity, Latent)),
            (f"plausibility={plausibility!r}", isinstance(plausibility, CodePenalty)),
        )
        if given
    ]
    if question.generative is None and needing:
        raise InputError(
            f"{needing[0]} is about codes, and needs a model that has them: pass generative=..."
        )


def encode(
    outcomes: RowOutcomes, task: Task, model: GenerativeModel, plausibility: CodePenalty | None
) -> Task:
    """The task in the latent space of a model that fits its contexts."""
    features = outcomes.contexts.features
    unkept = unkept_limits(features, task.space.origin[0].numel())
    if unkept:
        raise InputError(
            f"A latent search cannot keep {unkept}: all of a decoded context may differ from what "
            "it was. Leave these limits out, or search among contexts, without generative=..."
        )
    check_attributes(model)
    usable = outcomes.open_rows()
    codes = task.space.origin.new_full((len(task), model.latent_dim), torch.nan)
    decoded = torch.full_like(task.space.origin, torch.nan)
    decision = torch.full_like(task.rules.factual, torch.nan)
    predicted = decoded.new_full((len(task), task.rules.problem.num_costs), torch.nan)
    anchor = undecided = None
    if len(usable):
        check_generative(model, task.space.origin[usable])
        with torch.no_grad():
            found = model.encode(task.space.origin[usable])
            remade = model.decode(found)
            codes = found.new_full((len(task), model.latent_dim), torch.nan)
            codes[usable], decoded[usable] = found, remade
            if plausibility is not None and (known := ambiguity(model, found)) is not None:
                undecided = known.new_full((len(task), known.shape[1]), torch.nan)
                undecided[usable] = known
            if isinstance(model, Anchored):
                anchor = model.anchor(task.space.origin, decoded)
                decoded = anchor.restore(decoded)
                remade = decoded[usable]
            costs = task.pipeline.predict(remade)
        predicted = costs.new_full((len(task), costs.shape[1]), torch.nan)
        predicted[usable] = costs
        prices = task.rules.problem.prices(costs).to("cpu", torch.float64)
        decision[usable] = task.rules.problem.attempt(prices).decisions.to(decision)
        parts = (codes[usable], remade.flatten(1), costs)
        lost = ~torch.stack([values.isfinite().all(1) for values in parts]).all(0)
        reason = (
            "the generative model's code or reconstruction of this context, or its costs, are not "
            "finite"
        )
        outcomes.reject_each(dict.fromkeys(usable[lost].tolist(), reason))
    outcomes.begin(Codes(codes, codes.clone(), decoded, decision, predicted))
    proximity = task.space.proximity
    if isinstance(proximity, Latent):
        proximity = proximity.bind(codes)
    latent = LatentSpace(model, codes, plausibility, anchor, undecided=undecided)
    return replace(task, space=replace(task.space, proximity=proximity, latent=latent))
