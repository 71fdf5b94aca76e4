"""`cfopt train`: the predictor or the VAE of a configuration, from data in files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import torch
from safetensors.torch import save
from torch import Tensor, nn

from cfopt.app.config import Config
from cfopt.app.models import build_generative, build_predictor, build_problem
from cfopt.app.sources import Loss, TrainingSource
from cfopt.errors import CfoptError, InputError
from cfopt.generative import VAE, TabularVAE, Training, train
from cfopt.pipeline.images import as_read
from cfopt.predictors import MSE, SPOPlus, fit
from cfopt.question.features import Features
from cfopt.storage.files import check_room, write_whole
from cfopt.storage.tables import read_numbers, read_table, select

#: Called with the number of each epoch and its validation loss.
_OnEpoch: TypeAlias = Callable[[int, float], None]
#: The rows to learn from, and those held out.
_Split: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Trained:
    """The outcome of training.

    Arguments:
        path: the file of weights.
        rows: the number of contexts learnt from, not counting those held out.
        loss: the best validation loss.
        warnings: warnings of the training.
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
    on_epoch: _OnEpoch,
) -> Trained:
    """Train what [predictor] or [generative] describes on the data of [training].

    A fifth of the rows is held out, and the weights that are best there are kept.

    Arguments:
        config: class and arguments of the model, and the data.
        to: a safetensors file that does not exist yet.
        generative: whether to train the VAE instead of the predictor.
        on_epoch: called with the number of each epoch and its validation loss.
    """
    _check_target(to)
    with config.at("training"):
        return _train(config, to, generative, on_epoch)


def _train(config: Config, to: Path, generative: bool, on_epoch: _OnEpoch) -> Trained:
    plan = _plan(config.tables.training, generative)
    contexts = _contexts(config.tables.training.contexts, config.tables.features)
    order = torch.randperm(len(contexts), generator=torch.Generator().manual_seed(plan.seed))
    held = max(2, len(order) // 5)
    if len(order) < held + 2:
        raise InputError(f"training needs at least 4 contexts, got {len(order)}.")
    learnt, judged = order[held:], order[:held]
    best: list[float] = []

    def noted(number: int, loss: float) -> None:
        best.append(loss)
        on_epoch(number, loss)

    how = _train_vae if generative else _train_predictor
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model = how(config, plan, contexts, (learnt, judged), noted)
    # What models and optimisers say of numbers and shapes that do not suit them.
    except (RuntimeError, ValueError, IndexError) as error:
        if isinstance(error, CfoptError):
            raise
        reason = " ".join(str(error).split())
        raise InputError(f"the model cannot be trained: {reason}") from error
    if not math.isfinite(min(best)):
        raise InputError("the training diverged; pass a smaller learning_rate.")
    _save(model, to)
    return Trained(to, len(learnt), min(best), tuple(str(one.message) for one in heard))


def _check_target(to: Path) -> None:
    if to.suffix != ".safetensors":
        raise InputError(f"--to needs a file name that ends with .safetensors, got {to}.")
    if to.exists():
        raise InputError(f"{to} already exists. Pass another file with --to.")
    check_room(to.absolute().parent, 0)


def _plan(source: TrainingSource, generative: bool) -> Training:
    """How to train."""
    rate = source.learning_rate or (1e-3 if generative else 1e-2)
    settings = source.model_dump(include={"epochs", "batch_size", "seed", "alpha"})
    return Training(learning_rate=rate, **settings)


def _train_vae(
    config: Config, plan: Training, x: Tensor, rows: _Split, on_epoch: _OnEpoch
) -> nn.Module:
    """What [generative] describes, trained on contexts `(N, ...)`."""
    learnt, judged = (x[part] for part in rows)
    vae = _vae(config, learnt)
    # In the precision of the contexts, which pass through both.
    phi = _module(config).float() if plan.alpha > 0 else None
    for epoch in train(vae, learnt, judged, plan, predictor=phi):
        on_epoch(epoch.number, epoch.validation)
    return vae


def _train_predictor(
    config: Config, plan: Training, x: Tensor, rows: _Split, on_epoch: _OnEpoch
) -> nn.Module:
    """What [predictor] describes, trained on contexts `(N, ...)` and their costs."""
    source, (learnt, judged) = config.tables.training, rows
    model = _module(config, with_weights=False)
    with config.at("problem"):
        problem = build_problem(config.tables.problem, config.trust)
    if source.costs is None:
        raise InputError("costs is missing.")
    costs = torch.as_tensor(read_numbers(source.costs, problem.cost_names), dtype=torch.float32)
    if len(costs) != len(x):
        raise InputError(f"{len(x)} contexts need as many costs, got {len(costs)}.")
    _check_finite(source.costs, costs)
    fit(
        model,
        x[learnt],
        costs[learnt],
        MSE() if source.loss is Loss.MSE else SPOPlus(problem),
        epochs=plan.epochs,
        learning_rate=plan.learning_rate,
        batch_size=plan.batch_size,
        validation=(x[judged], costs[judged]),
        generator=torch.Generator().manual_seed(plan.seed),
        on_epoch=on_epoch,
    )
    return model


def _check_finite(path: Path, values: Tensor) -> None:
    broken = (~values.flatten(1).isfinite().all(1)).nonzero().flatten().tolist()
    if broken:
        raise InputError(f"{path}: row {broken[0]} has values that are missing or not finite.")


def _contexts(path: Path | None, features: Features) -> Tensor:
    if path is None:
        raise InputError("contexts is missing.")
    names = None if features.names is None else tuple(features.names)
    table = read_table(path)
    if isinstance(table, pd.DataFrame):
        contexts = torch.tensor(select(table, names, path).to_numpy())
    else:
        contexts = torch.tensor(read_numbers(path))
    if contexts.ndim == 4:  # as they will be explained
        contexts = as_read(contexts, None, None, torch.float32)
    _check_finite(path, contexts)
    return contexts.float()


def _module(config: Config, *, with_weights: bool = True) -> nn.Module:
    """The predictor as a module; what its owner declares about it does not affect weights."""
    source = config.tables.predictor.model_copy(update={"affine": False})
    with config.at("predictor"):
        model = build_predictor(source, config.trust, with_weights=with_weights)
        if not isinstance(model, nn.Module):
            raise InputError(f"training needs a torch.nn.Module, got {type(model).__name__}.")
    return model


def _vae(config: Config, contexts: Tensor) -> VAE:
    source = config.tables.generative
    if source is None:
        raise InputError(f"{config.path} has no [generative] to train. Add its class.")
    with config.at("generative"):
        model = build_generative(source, config.trust, with_weights=False)
        if not isinstance(model, VAE):
            raise InputError(
                f"cfopt train trains a VAE of cfopt.generative, got {type(model).__name__}."
            )
    return model.standardise(contexts) if isinstance(model, TabularVAE) else model


def _save(model: nn.Module, path: Path) -> None:
    tensors = {name: value.contiguous().clone() for name, value in model.state_dict().items()}
    write_whole(path, save(tensors))
