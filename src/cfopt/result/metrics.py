"""How good explanations are: plain functions of an Explanation, or of decisions and costs."""

from __future__ import annotations

import torch
from torch import Tensor

from cfopt.engine.latent import norms
from cfopt.errors import InputError
from cfopt.generative.protocol import GenerativeModel, reconstruct
from cfopt.pipeline import Pipeline
from cfopt.pipeline import relative_regret as relative_regret
from cfopt.pipeline.eval_mode import eval_mode
from cfopt.question.plausibility import mean_norm
from cfopt.question.proximity import L2
from cfopt.result.explanation import Explanation
from cfopt.result.measures import Stopwatch as Stopwatch
from cfopt.result.measures import evaluate as evaluate
from cfopt.result.measures import evaluate_rows as evaluate_rows
from cfopt.result.measures.realism import frechet_distance as frechet_distance
from cfopt.result.measures.realism import pixels_moved as pixels_moved
from cfopt.result.measures.realism import predictor_features as predictor_features
from cfopt.result.measures.realism import sharpness as sharpness
from cfopt.result.measures.realism import two_sample_auc as two_sample_auc

#: Contexts that are reconstructed at once.
_AT_ONCE = 256


def validity(explanation: Explanation) -> float:
    """The share of rows that were verified to explain, rejected rows counted as failures."""
    return float(explanation.valid.double().mean())


def proximity_l2(explanation: Explanation) -> Tensor:
    """The Euclidean norm of each row's change, every feature in its own unit, `(B,)`."""
    return L2().length(L2()(explanation.x, explanation.x0))


def proximity_l1(explanation: Explanation) -> Tensor:
    """The sum of each row's absolute changes, every feature in its own unit, `(B,)`."""
    return (explanation.x - explanation.x0).flatten(1).abs().sum(1)


def sparsity(explanation: Explanation, threshold: float = 1e-6) -> Tensor:
    """How many features each row changes by more than `threshold`, `(B,)`."""
    return ((explanation.x - explanation.x0).flatten(1).abs() > threshold).sum(1)


def explanation_loss(explanation: Explanation) -> Tensor:
    """What was minimised, proximity and plausibility: of each row, `(B,)`."""
    return explanation.loss


def latent_norm_deviation(explanation: Explanation) -> Tensor:
    """How far each code is from the sphere of typical codes, `| |z| - C_n |`: `(B,)`."""
    if explanation.z is None:
        raise InputError("The norm of codes needs an explanation with codes: use generative=...")
    return (norms(explanation.z) - mean_norm(explanation.z.shape[1])).abs()


def reconstruction_error(x: Tensor, model: GenerativeModel) -> Tensor:
    """`|x - d(e(x))|^2`, an outlier score of contexts: `(B, ...) -> (B,)`."""
    return (x - _remade(x, model)).square().flatten(1).sum(1)


def decision_focused_error(x: Tensor, pipeline: Pipeline, model: GenerativeModel) -> Tensor:
    """How little of a context's decision is left after reconstruction (Section 5.3): `(B,)`.

        reg(y*(phi(x)), phi(d(e(x))))

    Adversarial changes vanish when they are reconstructed, and their decisions with them.

    Arguments:
        model: a generative model, best a cost-aware one other than that of the search.
    """
    return pipeline.regret(_remade(x, model), pipeline.decide(x))


@torch.no_grad()
def _remade(x: Tensor, model: GenerativeModel) -> Tensor:
    with eval_mode(model):
        return torch.cat([reconstruct(model, part) for part in torch.split(x, _AT_ONCE)])
