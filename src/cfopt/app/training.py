"""`cfopt train`: the predictor or the VAE of a configuration, from data in files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import save
from torch import Tensor, nn

from cfopt.app.config import Config
from cfopt.app.models import build_module, build_problem
from cfopt.app.question import build_features
from cfopt.app.section import Section
from cfopt.app.tables import read_numbers, read_table, select
from cfopt.app.trust import Trust
from cfopt.errors import CfoptError, InputError
from cfopt.features import Features
from cfopt.files import check_room, write_whole
from cfopt.generative import VAE, TabularVAE, Training, train
from cfopt.images import as_read
from cfopt.predictors import MSE, SPOPlus, fit

_KEYS = ("contexts", "costs", "loss", "epochs", "learning_rate", "batch_size", "seed", "alpha")


@dataclass(frozen=True)
class Trained:
    """What training came to.

    Arguments:
        path: of the weights.
        rows: contexts that were learnt from, the validation part aside.
        loss: the best validation loss.
        warnings: what the training has to say of its own.
    """

    path: Path
    rows: int
    loss: float
    warnings: tuple[str, ...] = ()


def train_model(
    config: Config,
    to: Path,
    *,
    generative: bool,
    trusted: bool,
    on_epoch: Callable[[int, float], None],
) -> Trained:
    """Train what [predictor] or [generative] describes on the data of [training].

    A fifth of the rows is held out, and the weights that are best there are kept.

    Arguments:
        config: class and arguments of the model, and the data.
        to: a safetensors file that is not there yet.
        generative: whether to train the VAE instead of the predictor.
        trusted: whether classes that can execute code may be used.
        on_epoch: called with the number of each epoch and its validation loss.
    """
    section, trust = config.training.only(*_KEYS), Trust(trusted, config.path.parent)
    _check_target(to)
    plan = _plan(section, generative)
    contexts = _contexts(section, build_features(config.features))
    order = torch.randperm(len(contexts), generator=torch.Generator().manual_seed(plan.seed))
    held = max(2, len(order) // 5)
    if len(order) < held + 2:
        raise section.error(f"training needs at least 4 contexts, got {len(order)}.")
    learnt, judged = order[held:], order[:held]
    best: list[float] = []

    def told(number: int, loss: float) -> None:
        best.append(loss)
        on_epoch(number, loss)

    lesson = _Lesson(config, trust, plan, contexts, learnt, judged, told)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model = lesson.vae() if generative else lesson.predictor()
    # What models and optimisers say of numbers and shapes that do not suit them.
    except (RuntimeError, ValueError, IndexError) as error:
        if isinstance(error, CfoptError):
            raise
        raise section.error(
            f"the model cannot be trained: {' '.join(str(error).split())}"
        ) from error
    if not math.isfinite(min(best)):
        raise section.error("the training diverged; pass a smaller learning_rate.")
    _save(model, to)
    return Trained(to, len(learnt), min(best), tuple(str(one.message) for one in heard))


def _check_target(to: Path) -> None:
    if to.suffix != ".safetensors":
        raise InputError(f"--to needs a file that ends with .safetensors, got {to}.")
    if to.exists():
        raise InputError(f"{to} is there already. Pass another file with --to.")
    check_room(to.absolute().parent, 0)


def _plan(section: Section, generative: bool) -> Training:
    """How to train, from the table; checked before anything is read."""
    rate = section.take("learning_rate", float, 1e-3 if generative else 1e-2)
    least = {"epochs": (100, 1), "batch_size": (32, 1), "seed": (0, 0)}
    knobs = {key: section.take(key, int, usual) for key, (usual, _) in least.items()}
    for key, (_, low) in least.items():
        if not low <= knobs[key] < 2**63:
            raise section.error(f"{key} needs to be at least {low}, got {knobs[key]}.")
    if not 0 < rate < math.inf:
        raise section.error(f"learning_rate needs to be a number above 0, got {rate}.")
    try:
        return Training(alpha=section.take("alpha", float, 0.0), learning_rate=rate, **knobs)
    except InputError as error:
        raise section.error(str(error)) from error


@dataclass(frozen=True)
class _Lesson:
    """What is learnt from, and how.

    Arguments:
        config, trust: for the models.
        plan: epochs, learning rate and so on.
        contexts: all of them, `(N, ...)`.
        learnt, judged: which of them are learnt from, and held out.
        told: called with the number of each epoch and its validation loss.
    """

    config: Config
    trust: Trust
    plan: Training
    contexts: Tensor
    learnt: Tensor
    judged: Tensor
    told: Callable[[int, float], None]

    def vae(self) -> nn.Module:
        """Train [generative]."""
        x, plan = self.contexts, self.plan
        vae = _vae(self.config, self.trust, x[self.learnt])
        # In the precision of the contexts, which pass through both.
        phi = build_module(self.config.predictor, self.trust).float() if plan.alpha > 0 else None
        for epoch in train(vae, x[self.learnt], x[self.judged], plan, predictor=phi):
            self.told(epoch.number, epoch.validation)
        return vae

    def predictor(self) -> nn.Module:
        """Train [predictor]."""
        section, x, plan = self.config.training, self.contexts, self.plan
        # What its owner declares of it is no part of its weights.
        source = replace(self.config.predictor, affine=False)
        model = build_module(source, self.trust, with_weights=False)
        problem = build_problem(self.config.problem, self.trust)
        path = section.path("costs")
        costs = torch.as_tensor(read_numbers(path, problem.cost_names), dtype=torch.float32)
        if len(costs) != len(x):
            raise section.error(f"{len(x)} contexts need as many costs, got {len(costs)}.")
        _check_finite(section, path, costs)
        kind = section.pick("loss", section.take("loss", str, "MSE"), ("MSE", "SPO+"))
        fit(
            model,
            x[self.learnt],
            costs[self.learnt],
            MSE() if kind == "MSE" else SPOPlus(problem),
            epochs=plan.epochs,
            learning_rate=plan.learning_rate,
            batch_size=plan.batch_size,
            validation=(x[self.judged], costs[self.judged]),
            generator=torch.Generator().manual_seed(plan.seed),
            on_epoch=self.told,
        )
        return model


def _check_finite(section: Section, path: Path, values: Tensor) -> None:
    broken = (~values.flatten(1).isfinite().all(1)).nonzero().flatten().tolist()
    if broken:
        raise section.error(f"{path}: row {broken[0]} has values that are missing or not finite.")


def _contexts(section: Section, features: Features) -> Tensor:
    path = section.path("contexts")
    names = None if features.names is None else tuple(features.names)
    table = read_table(path)
    if isinstance(table, pd.DataFrame):
        contexts = torch.tensor(select(table, names, path).to_numpy())
    else:
        contexts = torch.tensor(read_numbers(path))
    if contexts.ndim == 4:  # as they will be explained
        contexts = as_read(contexts, None, None, torch.float32)
    _check_finite(section, path, contexts)
    return contexts.float()


def _vae(config: Config, trust: Trust, contexts: Tensor) -> VAE:
    if config.generative is None:
        raise InputError(f"{config.path} has no [generative] to train. Add its class.")
    model = build_module(config.generative, trust, with_weights=False)
    if not isinstance(model, VAE):
        raise config.generative.section.error(
            f"cfopt train trains a VAE of cfopt.generative, got {type(model).__name__}."
        )
    return model.standardise(contexts) if isinstance(model, TabularVAE) else model


def _save(model: nn.Module, path: Path) -> None:
    tensors = {name: value.contiguous().clone() for name, value in model.state_dict().items()}
    write_whole(path, save(tensors))
