"""Whether images look like real ones: how much of them moved, how sharp they are, how usual."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor, nn
from torch.nn import functional

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.pipeline.eval_mode import eval_mode

#: Contexts that are passed through a network at once.
_AT_ONCE = 256
#: Of the classifier that tells answers from real contexts: how often it sees all of them, how many
#: at a time, and how fast it learns.
_EPOCHS, _BATCH, _RATE = 40, 16, 2e-3


def pixels_moved(x: Tensor, x0: Tensor, threshold: float = 0.05) -> Tensor:
    """The fraction of pixels of which some channel moves by more than a threshold: `(B,)`.

    Arguments:
        x, x0: images after and before, `(B, C, H, W)`.
        threshold: in units of a colour, of which 1 is the whole range.
    """
    _check_images(x, x0)
    moved: Tensor = ((x - x0).abs().amax(1) > threshold).double().mean((1, 2))
    return moved


def sharpness(x: Tensor, real: Tensor) -> tuple[float, float]:
    """Gradient energy and Laplacian energy of images, as multiples of those of real ones.

    Both are means of squares: of differences of neighbours, and of
    `4 x - left - right - above - below`. Below 1 is blurred, above 1 is noise.

    Arguments:
        x, real: images, `(N, C, H, W)` each.
    """
    _check_images(x, real)
    (slope, bend), (usual_slope, usual_bend) = _energies(x), _energies(real)
    if not min(usual_slope, usual_bend) > 0:
        raise InputError("sharpness needs real images that are not each of one colour.")
    return slope / usual_slope, bend / usual_bend


@torch.no_grad()
def predictor_features(predictor: nn.Module, x: Tensor) -> Array:
    """What the last layer of a predictor sees, averaged over positions: `(N, ...) -> (N, d)`."""
    layers = [layer for layer in predictor.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    if not layers:
        raise InputError(
            "predictor_features needs a predictor with a convolution or a linear layer, got "
            f"{type(predictor).__name__}."
        )
    seen: list[Tensor] = []

    def keep(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen.append(given[0].flatten(2).mean(2) if given[0].ndim > 2 else given[0])

    hook = layers[-1].register_forward_pre_hook(keep)
    try:
        with eval_mode(predictor):
            for part in torch.split(x, _AT_ONCE):
                predictor(part)
    finally:
        hook.remove()
    return torch.cat(seen).double().cpu().numpy()


def frechet_distance(features: Array, others: Array) -> float:
    """The Frechet distance of the normal distributions that fit two sets of features best.

        |m - m'|^2 + tr(C + C' - 2 (C C')^(1/2))

    With m and C as means and covariances (Heusel et al., 2017); 0 for the same distribution, and
    a little more for finite samples of it.

    Arguments:
        features, others: `(N, d)` and `(M, d)`, with N and M of at least 2.
    """
    if features.shape[1:] != others.shape[1:] or min(len(features), len(others)) < 2:
        raise InputError(
            "frechet_distance needs two or more rows of features of the same size each, got "
            f"{features.shape} and {others.shape}."
        )
    apart = float(np.square(features.mean(0) - others.mean(0)).sum())
    left, right = (np.atleast_2d(np.cov(part.T)) for part in (features, others))
    # By the square root of one of them, the product becomes symmetric.
    values, vectors = np.linalg.eigh(left)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    middle = np.linalg.eigvalsh(root @ right @ root).clip(min=0)
    return max(0.0, apart + float(np.trace(left) + np.trace(right) - 2 * np.sqrt(middle).sum()))


def two_sample_auc(x: Tensor, real: Tensor, folds: int = 2, seed: int = 0) -> float:
    """How well a small network tells images from real ones that it has not seen.

    The area under the ROC curve, from 0.5, when it cannot, to 1, when it always can; by
    cross-validation, so that every image is judged by a network that was trained on others. The
    network judges each neighbourhood, of 17 x 17 pixels, and an image by the mean: so some dozens
    of images are thousands of examples.

    Arguments:
        x, real: images, `(N, C, H, W)` and `(M, C, H, W)`; at least 4 each. Real ones should not be
            those that x was made of.
        folds: into how many parts both are divided.
        seed: the seed of the networks and their training.
    """
    _check_images(x, real)
    if min(len(x), len(real)) < 2 * folds or folds < 2:
        raise InputError(
            f"two_sample_auc needs folds of at least 2 and {2 * folds} images of each kind, got "
            f"{folds} folds of {len(x)} and {len(real)} images."
        )
    spread, mean = torch.std_mean(real, dim=(0, 2, 3), keepdim=True)
    images = ((torch.cat([x, real]) - mean) / spread.clamp(min=1e-6)).detach().float().cpu()
    labels = torch.cat([torch.ones(len(x)), torch.zeros(len(real))])
    part = torch.cat([torch.arange(len(x)) % folds, torch.arange(len(real)) % folds])
    areas = []
    # Forked, so that the caller's random numbers stay as they are.
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for fold in range(folds):
            train, test = part != fold, part == fold
            judge = _trained(images[train], labels[train])
            with torch.no_grad():
                score = judge(images[test]).mean((1, 2, 3))
            areas.append(_area(score.numpy(), labels[test].numpy()))
    return float(np.mean(areas))


def _trained(images: Tensor, labels: Tensor) -> nn.Module:
    channels = images.shape[1]
    judge = nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 1, 1),
    )
    optimiser = torch.optim.Adam(judge.parameters(), lr=_RATE, weight_decay=1e-4)
    for _ in range(_EPOCHS):
        for rows in torch.split(torch.randperm(len(images)), _BATCH):
            score = judge(images[rows])
            # Each neighbourhood is an example of its own.
            wanted = labels[rows, None, None, None].expand_as(score)
            loss = functional.binary_cross_entropy_with_logits(score, wanted)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
    return judge.eval()


def _area(score: Array, labels: Array) -> float:
    """The area under the ROC curve, by ranks (Mann and Whitney, 1947)."""
    ranks, positive = rankdata(score), labels > 0.5
    count = int(positive.sum())
    above = ranks[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(labels) - count)))


def _energies(x: Tensor) -> tuple[float, float]:
    values = x.double()
    slope = values.diff(dim=2).square().mean() + values.diff(dim=3).square().mean()
    inner = values[..., 1:-1, 1:-1]
    around = (values[..., :-2, 1:-1] + values[..., 2:, 1:-1] + values[..., 1:-1, :-2]) + values[
        ..., 1:-1, 2:
    ]
    return float(slope), float((4 * inner - around).square().mean())


def _check_images(x: Tensor, other: Tensor) -> None:
    if x.ndim != 4 or x.shape[1:] != other.shape[1:]:
        raise InputError(
            "Images need the shape (N, C, H, W), the same as those they are compared with; got "
            f"{tuple(x.shape)} and {tuple(other.shape)}."
        )
