"""`cfopt train`: the predictor or the VAE of a configuration, from data in files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import save
from torch import Tensor, nn

from cfopt.app.config import Config
from cfopt.app.models import build_module, build_problem, pick
from cfopt.app.question import build_features, cost_names
from cfopt.app.tables import read_numbers, read_table, select
from cfopt.app.trust import Trust
from cfopt.errors import InputError
from cfopt.features import Features
from cfopt.files import write_whole
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
    if to.exists():
        raise InputError(f"{to} is there already. Pass another file with --to.")
    features = build_features(config.features)
    contexts = _contexts(section.path("contexts"), features)
    epochs, seed = section.take("epochs", int, 100), section.take("seed", int, 0)
    rate = section.take("learning_rate", float, 1e-2 if not generative else 1e-3)
    size = section.take("batch_size", int, 32)
    order = torch.randperm(len(contexts), generator=torch.Generator().manual_seed(seed))
    held = max(2, len(order) // 5)
    if len(order) < held + 2:
        raise section.error(f"training needs at least 4 contexts, got {len(order)}.")
    learnt, judged = order[held:], order[:held]
    best: list[float] = []
    said: list[str] = []

    def told(number: int, loss: float) -> None:
        best.append(loss)
        on_epoch(number, loss)

    model: nn.Module
    if generative:
        model = vae = _vae(config, trust, contexts[learnt])
        alpha = section.take("alpha", float, 0.0)
        plan = Training(alpha=alpha, epochs=epochs, learning_rate=rate, batch_size=size, seed=seed)
        phi = build_module(config.predictor, trust) if alpha > 0 else None
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            history = train(vae, contexts[learnt], contexts[judged], plan, predictor=phi)
        said = [str(warning.message) for warning in heard]
        for epoch in history:
            told(epoch.number, epoch.validation)
    else:
        # What its owner declares of it is no part of its weights.
        source = replace(config.predictor, affine=False)
        model = build_module(source, trust, with_weights=False)
        problem = build_problem(config.problem, trust)
        named = read_numbers(section.path("costs"), cost_names(problem))
        costs = torch.as_tensor(named, dtype=torch.float32)
        if len(costs) != len(contexts):
            raise section.error(f"{len(contexts)} contexts need as many costs, got {len(costs)}.")
        kind = pick(section, "loss", section.take("loss", str, "MSE"), ("MSE", "SPO+"))
        loss = MSE() if kind == "MSE" else SPOPlus(problem)
        fit(
            model,
            contexts[learnt],
            costs[learnt],
            loss,
            epochs=epochs,
            learning_rate=rate,
            batch_size=size,
            validation=(contexts[judged], costs[judged]),
            generator=torch.Generator().manual_seed(seed),
            on_epoch=told,
        )
    _save(model, to)
    return Trained(to, len(learnt), min(best), tuple(said))


def _contexts(path: Path, features: Features) -> Tensor:
    names = None if features.names is None else tuple(features.names)
    table = read_table(path)
    if isinstance(table, pd.DataFrame):
        return torch.tensor(select(table, names, path).to_numpy(), dtype=torch.float32)
    contexts = torch.tensor(read_numbers(path))
    if contexts.ndim == 4:  # as they will be explained
        contexts = as_read(contexts, None, None, torch.float32)
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
