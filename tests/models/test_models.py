"""The shipped terrain models, and the metrics of plausibility."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

import cfopt
from cfopt import metrics
from cfopt.datasets import Terrain
from cfopt.errors import InputError
from cfopt.models import plans, terrain
from cfopt.models.build import build
from cfopt.models.terrain import FOLDER, TEST_SEED, load_terrain


@pytest.fixture(scope="module")
def models() -> cfopt.TerrainModels:
    return load_terrain(40)


def test_the_shipped_models_are_trained_as_make_models_does() -> None:
    trained = json.loads((FOLDER / terrain.TRAINING).read_text(encoding="utf-8"))
    assert trained == {"maps": plans.MAPS, "epochs": plans.EPOCHS}


def test_the_shipped_files_fit_into_12_megabytes() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert sum(sizes) < 12_000_000
    assert {path.name for path in FOLDER.glob("*.safetensors")} == {
        terrain.PREDICTOR,
        *terrain.VAES.values(),
        terrain.SHARP,
        terrain.ELLIPTICAL,
        terrain.FLOW,
        terrain.JUDGE,
    }


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The posterior collapsed")
def test_make_models_trains_all_that_is_loaded_and_writes_the_card(tmp_path: Path) -> None:
    """With few maps; the flow needs more codes than these have entries."""
    folder, scratch = tmp_path / "models", tmp_path / "scratch"
    build(folder, scratch, maps=320, epochs=1, console=Console(quiet=True))
    assert {path.name for path in folder.iterdir()} == {path.name for path in FOLDER.iterdir()}
    assert not list(scratch.iterdir())
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert all(path.name in card for path in folder.glob("*.safetensors"))
    assert "generate(320, seed=0)" in card
    with pytest.raises(InputError, match=r"trained with \{'maps': 320, 'epochs': 1\}"):
        build(folder, scratch, maps=640, epochs=1, console=Console(quiet=True))
    made = load_terrain(8, folder)
    error = metrics.reconstruction_error(made.maps, made.sharp).mean()
    plain = (made.maps - made.maps.mean((0, 2, 3), keepdim=True)).square().flatten(1).sum(1)
    assert error < 0.5 * plain.mean()
    e = cfopt.explain(made.maps[:1], made.pipeline, cfopt.Epsilon(0.05), generative=made.generative)
    assert e.valid.all()


def test_what_is_loaded_fits_together(models: cfopt.TerrainModels) -> None:
    assert models.maps.shape == (40, 3, 96, 96)
    assert 0 <= models.maps.min() < models.maps.max() <= 1
    assert models.costs.shape == (40, 144)
    fresh = Terrain().generate(40, seed=TEST_SEED)
    assert torch.equal(models.maps, fresh.contexts())
    assert torch.equal(models.costs, fresh.costs)
    paper = (models.cost_aware_vae, models.plain_vae)
    for model in (*paper, models.sharp, models.prior, models.judge):
        assert model.latent_dim == (64 if model in paper else 288)
        assert not model.training
        assert model.decode(model.encode(models.maps)).shape == models.maps.shape


def test_the_predictor_knows_the_costs_and_the_aware_vae_keeps_the_paths(
    models: cfopt.TerrainModels,
) -> None:
    pipeline = models.pipeline
    error = (pipeline.costs(models.maps) - models.costs).abs().mean()
    assert error < 0.3
    best = pipeline.problem.solve(models.costs)
    regret = metrics.relative_regret(pipeline.problem, pipeline.decide(models.maps), models.costs)
    assert regret.mean() < 0.02
    assert pipeline.regret(models.maps, best).mean() < 0.02
    plain, aware = (
        metrics.decision_focused_error(models.maps, pipeline, vae).mean()
        for vae in (models.plain_vae, models.cost_aware_vae)
    )
    assert aware < 0.75 * plain


def test_metrics_are_what_their_formulas_say(models: cfopt.TerrainModels) -> None:
    x, pipeline, vae = models.maps[:5], models.pipeline, models.cost_aware_vae
    remade = vae.decode(vae.encode(x)).detach()
    error = metrics.reconstruction_error(x, vae)
    assert torch.allclose(error, ((x - remade) ** 2).sum(dim=(1, 2, 3)), rtol=1e-4)
    costs = pipeline.costs(remade).double()
    decided, best = pipeline.decide(x).double(), pipeline.decide(remade).double()
    value = (costs * best).sum(1)
    expected = ((costs * decided).sum(1) - value) / value.abs()
    found = metrics.decision_focused_error(x, pipeline, vae)
    assert torch.allclose(found, expected.detach(), atol=1e-6)


@pytest.mark.long
def test_a_map_is_explained_plausibly(models: cfopt.TerrainModels) -> None:
    x0, donors = models.maps[:3], models.maps[20:23]
    criterion = cfopt.Absolute(models.pipeline.decide(donors))
    e = cfopt.explain(
        x0,
        models.pipeline,
        criterion,
        generative=models.generative,
        plausibility=cfopt.Sphere(10.0),
        reference=donors,
    )
    assert e.valid.all()
    model = models.generative
    with torch.no_grad():
        anchor = model.anchor(x0, model.decode(model.encode(x0)))
        assert torch.allclose(anchor.restore(model.decode(e.z)), e.x, atol=1e-5)
    assert not e.reconstruction_moved.any()
    deviation = metrics.latent_norm_deviation(e)
    radius = math.sqrt(2) * math.exp(math.lgamma(144.5) - math.lgamma(144))
    assert torch.allclose(deviation, (e.z.norm(dim=1) - radius).abs(), atol=1e-5)
    assert torch.equal(metrics.explanation_loss(e), e.loss)
    naive = cfopt.explain(x0, models.pipeline, criterion, search=cfopt.MDMM())
    assert naive.valid.all()
    assert naive.distance.max() < e.distance.min()
    judged = [
        metrics.decision_focused_error(x.x, models.pipeline, models.judge).mean()
        for x in (e, naive)
    ]
    assert judged[0] < judged[1] / 5


@torch.no_grad()
def test_the_sharp_vaes_keep_maps_and_paths_better_than_the_others(
    models: cfopt.TerrainModels,
) -> None:
    x, pipeline = models.maps, models.pipeline
    for other in (models.plain_vae, models.cost_aware_vae):
        for measure in (
            lambda model: metrics.reconstruction_error(x, model).mean(),
            lambda model: metrics.decision_focused_error(x, pipeline, model).mean(),
        ):
            assert measure(models.sharp) < 0.5 * measure(other)
            assert measure(models.judge) < 0.5 * measure(other)
    remade = models.sharp(x)
    assert 0.9 < metrics.sharpness(remade, x)[0] < 1.1
    assert metrics.sharpness(models.cost_aware_vae(x), x)[0] < 0.9


@torch.no_grad()
def test_samples_of_the_prior_are_like_maps_and_those_of_the_vae_alone_are_not(
    models: cfopt.TerrainModels,
) -> None:
    codes = torch.randn((200, 288), generator=torch.Generator().manual_seed(0))
    real = Terrain().generate(200, seed=TEST_SEED).contexts()
    predictor = models.pipeline.predictor
    seen = metrics.predictor_features(predictor, real)
    by_prior, by_vae = (
        metrics.frechet_distance(metrics.predictor_features(predictor, model.decode(codes)), seen)
        for model in (models.prior, models.sharp)
    )
    assert by_prior < 0.2
    assert by_vae > 1


def test_a_map_of_another_kind_is_called_unlike_those_that_the_model_knows(
    models: cfopt.TerrainModels,
) -> None:
    strange = models.maps[:1].flip(1)  # red and blue exchanged
    x = torch.cat([models.maps[:1], strange])
    search = cfopt.MDMM(max_steps=2)
    e = cfopt.explain(
        x, models.pipeline, cfopt.Epsilon(0.1), generative=models.generative, search=search
    )
    assert e.typical is not None
    assert e.typical.before[0] < 99
    assert e.typical.before[1] == 100
    assert "unlike those that the generative model knows" in e.message[1]
    assert "unlike" not in e.message[0]
    again = cfopt.Explanation.from_json(e.to_json())
    assert torch.equal(again.typical.before, e.typical.before)  # type: ignore[union-attr]
    assert bool((e.typical.after.isfinite() == e.valid).all())
    # Where nothing can be used, there is nothing to reconstruct.
    e = cfopt.explain(
        x * torch.nan, models.pipeline, cfopt.Epsilon(0.1), generative=models.generative
    )
    assert e.status == ("rejected", "rejected")
    assert bool(e.typical.before.isnan().all())  # type: ignore[union-attr]


def test_bytes_with_channels_last_are_read_as_the_same_maps(models: cfopt.TerrainModels) -> None:
    maps = Terrain().generate(2, seed=TEST_SEED)
    search = cfopt.MDMM(max_steps=2)
    options = {"search": search, "generative": models.generative}
    epsilon = cfopt.Epsilon(0.1)
    given = maps.images.permute(0, 2, 3, 1).numpy()
    e = cfopt.explain(given, models.pipeline, epsilon, **options)
    expected = cfopt.explain(maps.contexts(), models.pipeline, epsilon, **options)
    assert torch.equal(e.x0, expected.x0)
    assert torch.allclose(e.x, expected.x)


def test_images_that_do_not_fit_are_refused_with_a_remedy(models: cfopt.TerrainModels) -> None:
    options = {"generative": models.generative}
    for x, message in (
        (255 * models.maps[:1], "255"),
        (models.maps[:1, :, :80, :80], "144"),
        (models.maps[:1, :, :90, :90], "11 x 11 = 121 cells"),
    ):
        with pytest.raises(InputError, match=message):
            cfopt.explain(x, models.pipeline, cfopt.Epsilon(0.1), **options)


def test_a_vae_of_another_latent_size_or_image_size_is_refused(
    models: cfopt.TerrainModels,
) -> None:
    from cfopt.generative import CompactVAE

    other = CompactVAE(latent_dim=16, rows=6, cols=6)
    with pytest.raises(InputError, match=r"\(3, 48, 48\)"):
        cfopt.explain(models.maps[:1], models.pipeline, cfopt.Epsilon(0.1), generative=other)
    mistaken = CompactVAE(latent_dim=16)
    mistaken.latent_dim = 64
    with pytest.raises(InputError, match="latent_dim"):
        cfopt.explain(models.maps[:1], models.pipeline, cfopt.Epsilon(0.1), generative=mistaken)


def test_damaged_or_foreign_weights_are_named(tmp_path: Path) -> None:
    for path in FOLDER.iterdir():
        shutil.copy(path, tmp_path)
    broken = tmp_path / terrain.PREDICTOR
    broken.write_bytes(broken.read_bytes()[:1000])
    with pytest.raises(InputError, match=terrain.PREDICTOR):
        load_terrain(1, tmp_path)
    shutil.copy(FOLDER / terrain.VAES[0.0], broken)  # whole, but a VAE
    with pytest.raises(InputError, match=r"cnn.safetensors.*CompactVAE"):
        load_terrain(1, tmp_path)
    save_file(load_file(FOLDER / terrain.PREDICTOR), broken)  # without a word about its origin
    with pytest.raises(InputError, match="unknown origin"):
        load_terrain(1, tmp_path)
