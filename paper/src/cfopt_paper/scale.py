"""How large a reproduction of the paper is: a smoke test, an afternoon, or the paper's own size."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cfopt.errors import InputError
from cfopt.names import nearest


@dataclass(frozen=True)
class Scale:
    """Sizes of data, models and sweeps. The defaults are the paper's, as its figures show them.

    Arguments:
        name: "quick", "standard" or "paper".
        paper_models: whether to use the paper's CNN and VAE rather than compact ones.
        shipped_models: whether to use the models that come with the package, where there are any.
        training_maps, validation_maps, test_maps: the numbers of maps.
        epochs: the most epochs of every VAE that is trained.
        alphas, betas, latents: the weights and code sizes that are compared.
        map_tasks: the number of explanations at each point of the experiments on maps whose claims
            rest on small differences.
        other_map_tasks: the same of the other experiments on maps.
        map_steps: the most steps K of MDMM on maps.
        gallery: the number of maps that a gallery shows.
        gallery_epsilons: the epsilons of the galleries.
        table_tasks: the number of explanations at each point of grid and knapsack, for each seed.
        table_seeds: the number of seeds of data, predictors and tasks there.
        table_steps: the most steps K of MDMM there.
        table_training: the fraction of the paper's epochs to train predictors of tables for.
        grid_features, grid_sizes, knapsack_features, items, depths: the settings against
            which iterations are counted.
        grid_epsilons, knapsack_epsilons: the epsilons against which distance is measured.
    """

    name: str
    paper_models: bool = True
    shipped_models: bool = False
    training_maps: int = 10_000
    validation_maps: int = 1_000
    test_maps: int = 1_000
    epochs: int = 60
    alphas: tuple[float, ...] = (0, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 3, 5, 10)
    betas: tuple[float, ...] = (0, 0.1, 0.3, 0.5, 1, 3, 5, 10, 30, 50, 100)
    latents: tuple[int, ...] = (16, 32, 64, 128, 256)
    map_tasks: int = 50
    other_map_tasks: int = 50
    map_steps: int = 3000
    gallery: int = 4
    gallery_epsilons: tuple[float, ...] = (0.3, 0.5, 0.7, 1, 2)
    table_tasks: int = 100
    table_seeds: int = 3
    table_steps: int = 6000
    table_training: float = 1.0
    grid_features: tuple[int, ...] = (10, 15, 20, 25, 30, 35, 40, 45, 50, 100)
    grid_sizes: tuple[int, ...] = (2, 3, 4, 5, 7, 10)
    knapsack_features: tuple[int, ...] = (2, 3, 5, 7, 10, 12, 15, 20, 25, 30)
    items: tuple[int, ...] = (5, 6, 7, 8, 9, 10, 15, 20, 25, 30)
    depths: tuple[int, ...] = (1, 2, 3, 4, 5)
    grid_epsilons: tuple[float, ...] = (0.2, 0.5, 0.7, 1, 1.5, 2, 3)
    knapsack_epsilons: tuple[float, ...] = (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3)


PAPER = Scale("paper")
STANDARD = Scale(
    "standard",
    paper_models=False,
    # The shipped VAEs, of alpha 0 and 2, were trained on as many maps for as many epochs.
    shipped_models=True,
    epochs=30,
    alphas=(0, 0.2, 0.5, 2, 10),
    betas=(0, 1, 10, 100),
    latents=(16, 64, 256),
    map_tasks=48,
    other_map_tasks=16,
)
QUICK = Scale(
    "quick",
    paper_models=False,
    shipped_models=True,
    training_maps=256,
    validation_maps=32,
    test_maps=64,
    epochs=2,
    alphas=(0, 2),
    betas=(0, 10),
    latents=(16, 64),
    map_tasks=2,
    other_map_tasks=2,
    map_steps=40,
    gallery=1,
    gallery_epsilons=(0.3, 0.5, 0.7, 1, 2),
    table_tasks=6,
    table_seeds=1,
    table_steps=400,
    table_training=0.1,
    grid_features=(10, 20),
    grid_sizes=(2, 5),
    knapsack_features=(2, 10),
    items=(5, 10),
    depths=(1, 3),
    grid_epsilons=(0.2, 1),
    knapsack_epsilons=(0.1, 1),
)
SCALES = {scale.name: scale for scale in (QUICK, STANDARD, PAPER)}


def scale_named(name: str, tasks: int | None = None) -> Scale:
    """One of the three scales.

    Arguments:
        name: the name of the scale.
        tasks: the number of explanations at each point, in place of the scale's own.
    """
    if name not in SCALES:
        raise InputError(nearest("scale", name, SCALES))
    if tasks is None:
        return SCALES[name]
    scale = SCALES[name]
    most = scale.test_maps // 2
    if not 1 <= tasks <= most:
        raise InputError(
            f"A study of the {name} scale needs 1 to {most} tasks a point, one for each of half of "
            f"the test maps, since paths of the other half are asked for; got {tasks}."
        )
    return replace(scale, map_tasks=tasks, other_map_tasks=tasks, table_tasks=tasks)
