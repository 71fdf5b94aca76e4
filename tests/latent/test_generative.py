"""Generative models against the paper's appendix, NumPy and their contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.generative import (
    PCA,
    VAE,
    CompactVAE,
    ConvolutionalVAE,
    Gaussian,
    GenerativeModel,
    TabularVAE,
    check_generative,
    pca,
    reconstruct,
)
from cfopt.testing import GenerativeContract


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """More would only get in each other's way with tensors as small as these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _images(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def _seeded(make: type[VAE], *given: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make(*given).eval()  # type: ignore[arg-type]


class TestConvolutionalVAE(GenerativeContract):
    def model(self) -> GenerativeModel:
        return _seeded(ConvolutionalVAE, 3, 16, 32)

    def contexts(self) -> Tensor:
        return _images(4, 3, 16, 32)


class TestCompactVAE(GenerativeContract):
    def model(self) -> GenerativeModel:
        return _seeded(CompactVAE, 3, 2, 3, 4, 5)

    def contexts(self) -> Tensor:
        return _images(4, 3, 8, 12)


class TestTabularVAE(GenerativeContract):
    def model(self) -> GenerativeModel:
        return _seeded(TabularVAE, 5, 3, 8).standardise(10 + 3 * _normal(30, 5))

    def contexts(self) -> Tensor:
        return 10 + 3 * _normal(4, 5, seed=1)


class TestPCAOfVectors(GenerativeContract):
    def model(self) -> GenerativeModel:
        return PCA.fit(_normal(30, 5), 3)

    def contexts(self) -> Tensor:
        return _normal(4, 5, seed=1)


class TestPCAOfImages(GenerativeContract):
    def model(self) -> GenerativeModel:
        return PCA.fit(_images(20, 3, 4, 6), 3)

    def contexts(self) -> Tensor:
        return _images(4, 3, 4, 6, seed=1)


class _Own(nn.Module):
    """A user's module: `encode` and `decode` are layers, and nothing is inherited."""

    def __init__(self, size: int = 4, latent_dim: int = 2) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.encode = nn.Linear(size, latent_dim)
        self.decode = nn.Linear(latent_dim, size)


class TestAUsersOwnModule(GenerativeContract):
    def model(self) -> GenerativeModel:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return _Own()

    def contexts(self) -> Tensor:
        return _normal(4, 4)


# The paper's network


def test_the_convolutional_vae_is_the_papers_layer_by_layer() -> None:
    """Appendix: every layer with its kernel, stride, padding, channels and activation."""
    vae = ConvolutionalVAE(64)
    layers = [
        (name, layer)
        for name, layer in vae.named_modules()
        if not list(layer.children()) and name.rsplit(".", 1)[-1] not in ("flatten", "unflatten")
    ]
    conv = {"kernel_size": (4, 4), "stride": (2, 2), "padding": (1, 1)}
    flat = 6 * 6 * 256
    expected: list[tuple[str, type[nn.Module], dict[str, Any]]] = []
    for k, (before, after) in enumerate([(3, 32), (32, 64), (64, 128), (128, 256)], 1):
        sizes = {"in_channels": before, "out_channels": after}
        expected += [(f"encoder.conv{k}", nn.Conv2d, conv | sizes), ("", nn.ReLU, {})]
    expected += [
        ("encoder.fc1", nn.Linear, {"in_features": flat, "out_features": 512}),
        ("", nn.ReLU, {}),
        ("encoder.heads.fc21", nn.Linear, {"in_features": 512, "out_features": 64}),
        ("encoder.heads.fc22", nn.Linear, {"in_features": 512, "out_features": 64}),
        ("decoder.fc10", nn.Linear, {"in_features": 64, "out_features": 512}),
        ("", nn.ReLU, {}),
        ("decoder.fc20", nn.Linear, {"in_features": 512, "out_features": flat}),
        ("", nn.ReLU, {}),
    ]
    for k, (before, after) in enumerate([(256, 128), (128, 64), (64, 32), (32, 3)], 1):
        sizes = {"in_channels": before, "out_channels": after, "output_padding": (0, 0)}
        expected += [(f"decoder.deconv{k}", nn.ConvTranspose2d, conv | sizes)]
        expected += [("", nn.ReLU if k < 4 else nn.Sigmoid, {})]
    assert len(layers) == len(expected)
    for (name, layer), (title, kind, values) in zip(layers, expected, strict=True):
        assert type(layer) is kind, name
        assert title in (name, ""), name
        assert {key: getattr(layer, key) for key in values} == values, name
        assert getattr(layer, "bias", 0) is not None, name


def test_the_convolutional_vae_computes_what_the_appendix_says() -> None:
    vae = ConvolutionalVAE(5)
    weights = vae.state_dict()
    x, f = _images(2, 3, 96, 96), nn.functional

    def of(name: str) -> tuple[Tensor, Tensor]:
        return weights[f"{name}.weight"], weights[f"{name}.bias"]

    with torch.no_grad():
        h = x
        for k in range(1, 5):
            h = f.relu(f.conv2d(h, *of(f"encoder.conv{k}"), stride=2, padding=1))
        assert h.shape == (2, 256, 6, 6)
        h = f.relu(f.linear(h.reshape(2, -1), *of("encoder.fc1")))
        codes = vae.distribution(x)
        assert torch.allclose(codes.mean, f.linear(h, *of("encoder.heads.fc21")), atol=1e-6)
        assert torch.allclose(codes.log_variance, f.linear(h, *of("encoder.heads.fc22")), atol=1e-6)
        h = f.relu(f.linear(codes.mean, *of("decoder.fc10")))
        h = f.relu(f.linear(h, *of("decoder.fc20"))).reshape(2, 256, 6, 6)
        for k in range(1, 4):
            h = f.relu(f.conv_transpose2d(h, *of(f"decoder.deconv{k}"), stride=2, padding=1))
        h = f.conv_transpose2d(h, *of("decoder.deconv4"), stride=2, padding=1).sigmoid()
        assert h.shape == (2, 3, 96, 96)
        assert torch.allclose(vae(x), h, atol=1e-6)
        assert torch.equal(reconstruct(vae, x), vae(x))


@pytest.mark.parametrize(("n", "height", "width"), [(64, 96, 96), (8, 96, 96), (3, 16, 48)])
def test_the_convolutional_vae_has_as_many_weights_as_it_should(
    n: int, height: int, width: int
) -> None:
    flat = 256 * (height // 16) * (width // 16)
    pairs = [(3, 32), (32, 64), (64, 128), (128, 256)]
    encoder = sum(16 * a * b + b for a, b in pairs) + (flat + 1) * 512 + 2 * 513 * n
    decoder = (n + 1) * 512 + 513 * flat + sum(16 * a * b + a for a, b in pairs)
    vae = ConvolutionalVAE(n, height, width)
    assert sum(p.numel() for p in vae.parameters()) == encoder + decoder
    assert vae.settings() == {"latent_dim": n, "height": height, "width": width}


def test_the_compact_vae_has_as_many_weights_as_it_should() -> None:
    n, rows, cols, cell, c = 7, 3, 4, 5, 6
    pixels, flat = 3 * cell**2, rows * cols * c
    encoder = (pixels + 1) * c + 2 * (9 * c + 1) * c + (flat + 1) * 2 * n
    decoder = (n + 1) * flat + (9 * c + 1) * 2 * c + (18 * c + 1) * 2 * c + (2 * c + 1) * pixels
    vae = CompactVAE(n, rows, cols, cell, c)
    assert sum(p.numel() for p in vae.parameters()) == encoder + decoder
    assert vae.context_shape == (3, 15, 20)


def test_the_compact_vae_first_sees_each_cell_alone() -> None:
    """Pixels of a cell become the channels of its position."""
    vae = _seeded(CompactVAE, 2, 5, 5, 2, 3)
    x = _images(1, 3, 10, 10).requires_grad_()
    (gradient,) = torch.autograd.grad(vae.encoder[:2](x)[0, :, 1, 3].sum(), x)
    seen = gradient.abs().sum((0, 1)) > 0
    assert seen.nonzero().tolist() == [[2, 6], [2, 7], [3, 6], [3, 7]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConvolutionalVAE(8, 96, 100), "multiples of 16, got 96 x 100"),
        (lambda: ConvolutionalVAE(8, 0, 96), "multiples of 16, got 0 x 96"),
        (lambda: ConvolutionalVAE(0), "latent_dim of at least 1, got 0"),
        (lambda: CompactVAE(2.5), "whole latent_dim"),
        (lambda: CompactVAE(2, rows=0), "of at least 1, got 0, 12, 8 and 48"),
        (lambda: TabularVAE(0), "at least one feature"),
        (lambda: TabularVAE(3).standardise(_normal(5, 2)), r"shape \(N, 3\) with N >= 1, got"),
    ],
)
def test_sizes_that_cannot_be_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


# What may be encoded and decoded


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (255 * _images(2, 3, 16, 32), r"from 0 to 1, got .* to 25.*divide by 255"),
        (_images(2, 3, 16, 32) - 0.5, r"from 0 to 1, got -0.49.*clamp"),
        ((255 * _images(2, 3, 16, 32)).byte(), r"in torch.float32, got torch.uint8. Divide.* 255"),
        (_images(2, 3, 16, 32).double(), r"got torch.float64. Pass x.to\(torch.float32\)"),
        (_images(2, 16, 32, 3), r"got \(16, 32, 3\). Channels come first: pass x.permute\(0, 3"),
        (_images(3, 16, 32), r"The first axis counts contexts: pass x\[None\]"),
        (_images(2, 3, 32, 32), r"shape \(3, 16, 32\), got \(3, 32, 32\)\.$"),
    ],
)
@pytest.mark.parametrize(
    "vae", [_seeded(ConvolutionalVAE, 2, 16, 32), _seeded(CompactVAE, 2, 2, 4, 8, 3)]
)
def test_images_of_another_form_are_refused_with_a_remedy(vae: VAE, x: Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        vae.encode(x)
    with pytest.raises(InputError, match=words):
        check_generative(vae, x)


def test_images_may_overshoot_a_little_and_vectors_at_will() -> None:
    vae = _seeded(CompactVAE, 2, 2, 4, 8, 3)
    edge = torch.full((1, 3, 16, 32), 1.009)
    edge[0, 0] = -0.009
    assert vae.encode(edge).isfinite().all()
    assert TabularVAE.value_range is None
    assert _seeded(TabularVAE, 2, 1, 4).encode(torch.tensor([[1e3, -1e3]])).isfinite().all()


def test_a_vector_of_one_feature_is_not_spread_over_all() -> None:
    with pytest.raises(InputError, match=r"shape \(5,\), got \(1,\)"):
        _seeded(TabularVAE, 5, 2, 4).encode(torch.ones(3, 1))


@pytest.mark.parametrize("model", [_seeded(TabularVAE, 5, 2, 4), PCA.fit(_normal(9, 5), 2)])
def test_codes_of_another_size_are_refused(model: GenerativeModel) -> None:
    for z in (torch.ones(2), torch.ones(3, 1), torch.ones(3, 3)):
        with pytest.raises(InputError, match=r"decodes codes of shape \(B, 2\), got shape"):
            model.decode(z)


def test_features_are_standardised_but_for_constant_ones() -> None:
    x = 5 + _normal(200, 3) * torch.tensor([1.0, 100.0, 0.0]) + torch.tensor([0.0, 0.0, 0.1])
    vae = TabularVAE(3, 2).standardise(x)
    assert np.allclose(vae.offset, x.double().mean(0), rtol=1e-6)
    assert np.allclose(vae.scale[:2], np.std(x[:, :2].numpy(), axis=0, ddof=1), rtol=1e-5)
    assert vae.scale[2] == 1
    assert TabularVAE(3).standardise(x[:1]).scale.tolist() == [1, 1, 1]
    seen = []
    vae.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    vae.encode(x)
    assert torch.allclose(seen[0][:, :2].std(0), torch.ones(2), atol=1e-4)


def test_samples_have_the_mean_and_variance_that_they_should() -> None:
    mean, log_variance = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.0, 2.0]])
    codes = Gaussian(mean.expand(20_000, 2), log_variance.expand(20_000, 2))
    sample = codes.sample(torch.Generator().manual_seed(0))
    assert torch.allclose(sample.mean(0), mean[0], atol=0.1)
    assert torch.allclose(sample.var(0), log_variance[0].exp(), rtol=0.05)
    assert torch.equal(sample, codes.sample(torch.Generator().manual_seed(0)))


# Any user's module


class _Broken:
    """A linear model of two latents, spoilt in one way."""

    latent_dim: Any = 2

    def __init__(self, **spoilt: Any) -> None:
        self.matrix = _normal(4, 2)
        for name, value in spoilt.items():
            setattr(self, name, value)

    def encode(self, x: Tensor) -> Any:
        return x @ self.matrix

    def decode(self, z: Tensor) -> Any:
        return z @ self.matrix.T


def _fail(_: Tensor) -> Tensor:
    raise KeyError("lost")


M = _normal(4, 2)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (object(), r"object lacks encode and decode and latent_dim"),
        (nn.Linear(4, 2), r"needs encode\(x\), decode\(z\) and latent_dim; Linear lacks encode"),
        (_Broken(latent_dim="2"), "latent_dim needs to be a whole number >= 1, got '2'"),
        (_Broken(latent_dim=True), "whole number >= 1, got True"),
        (_Broken(latent_dim=0), "whole number >= 1, got 0"),
        (_Broken(encode=3), "_Broken.encode needs to be a method, got int"),
        (
            _Broken(latent_dim=3),
            r"encode must return codes as latent_dim says, \(5, 3\) .* got \(5, 2\)",
        ),
        (_Broken(encode=lambda x: (x, x)), "encode must return codes .* got tuple"),
        (_Broken(encode=lambda x: (x @ M).long()), "in real numbers; got .* in torch.int64"),
        (_Broken(encode=_fail), r"encode fails on a batch of shape \(5, 4\).*KeyError: 'lost'"),
        (_Broken(decode=_fail), r"decode fails on a batch of shape \(5, 2\).*KeyError: 'lost'"),
        (
            _Broken(decode=lambda z: z),
            r"decode must return contexts as they were given, \(5, 4\) .*; got \(5, 2\)",
        ),
        (
            _Broken(decode=lambda z: (z @ M.T).double()),
            r"\(5, 4\) in torch.float32; got \(5, 4\) in torch.float64",
        ),
        (_Broken(decode=lambda z: (z @ M.T).detach()), "decode needs a gradient.*Remove"),
        (
            _Broken(decode=lambda z: M.T[:1].expand(5, 4).clone().requires_grad_()),
            "decode needs a gradient",
        ),
        (
            _Broken(decode=lambda z: torch.from_numpy(z.detach().numpy() @ M.T.numpy())),
            "decode needs a gradient.*NumPy",
        ),
        (
            _Broken(decode=lambda z: z @ M.T + torch.randn(5, 4)),
            "decode must return the same each time; it does not. Return the mean",
        ),
        (
            _Broken(encode=lambda x: x @ M + torch.randn(5, 2)),
            "encode must return the same each time",
        ),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_in_words(model: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_generative(model, _normal(5, 4))


def test_any_object_with_the_three_names_is_a_generative_model() -> None:
    x = _normal(5, 4)
    with torch.no_grad():  # a caller's own mode is no obstacle
        check_generative(_Broken(), x)
        check_generative(_Broken(latent_dim=np.int64(2)), x)
        check_generative(_Own(), x)
    x[2, 0] = torch.nan  # rows that are not finite are rejected one by one elsewhere
    check_generative(_Broken(), x)


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_small_codes_may_be_rounded_as_large_ones_are(size: float) -> None:
    """Deep networks round a row alone otherwise than in a batch, by a fraction of what is large."""
    x, flat = _normal(5, 4), size * torch.tensor([[3.0, 0.0], [0, 0], [0, 0], [0, 0]])

    def off_by(fraction: float) -> _Broken:
        alone = torch.tensor([0.0, fraction * size])
        return _Broken(encode=lambda x: x @ flat + (alone if len(x) == 1 else 0.0))

    check_generative(off_by(2e-5), x)
    with pytest.raises(InputError, match="the same for a row alone as in a batch"):
        check_generative(off_by(2e-2), x)


# Principal components


def _spectrum(rows: int, size: int, seed: int = 0) -> Tensor:
    """Data whose directions differ clearly in variance."""
    scales = 2.0 ** -torch.arange(size).clamp(max=20)
    turn = torch.linalg.qr(_normal(size, size, seed=seed + 1)).Q
    return _normal(rows, size, seed=seed) * scales @ turn + 3


@pytest.mark.parametrize(("rows", "size"), [(40, 6), (6, 40), (20, 20), (2, 3)])
@pytest.mark.parametrize("iterated", [False, True])
def test_components_are_those_of_the_singular_value_decomposition(
    rows: int, size: int, iterated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if iterated:
        monkeypatch.setattr(pca, "_EXACT", 0)
        monkeypatch.setattr(pca, "_AT_ONCE", 7)
    n = min(4, rows - 1, size)
    x = _spectrum(rows, size)
    model = PCA.fit(x, n)
    centred = x.double().numpy() - x.double().numpy().mean(0)
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign((model.components.numpy() * right[:n]).sum(1))
    assert np.allclose(model.components.numpy() * signs[:, None], right[:n], atol=1e-4)
    assert np.allclose(model.spread, values[:n] / np.sqrt(rows - 1), rtol=1e-4)
    codes = model.encode(x).numpy()
    assert np.allclose(codes, left[:, :n] * np.sqrt(rows - 1) * signs, atol=1e-3)
    truncated = (left[:, :n] * values[:n]) @ right[:n] + x.double().numpy().mean(0)
    assert np.allclose(model(x), truncated, atol=1e-4)


def test_codes_have_the_mean_and_variance_of_the_prior() -> None:
    x = _spectrum(500, 6).reshape(500, 1, 2, 3)
    codes = PCA.fit(x, 4).encode(x)
    assert torch.allclose(codes.mean(0), torch.zeros(4), atol=1e-3)
    assert torch.allclose(codes.T.cov(), torch.eye(4), atol=1e-3)


def test_all_components_keep_everything() -> None:
    x = _normal(30, 5).double()
    model = PCA.fit(x, 5)
    assert model.mean.dtype == torch.float64
    assert torch.allclose(reconstruct(model, x), x, atol=1e-10)
    z = _normal(3, 5).double()
    assert torch.allclose(model.encode(model.decode(z)), z, atol=1e-10)


def test_the_components_are_the_same_each_time() -> None:
    x, state = _images(30, 3, 4, 4), torch.get_rng_state()
    first, second = PCA.fit(x, 5), PCA.fit(x, 5)
    assert torch.equal(first.components, second.components)
    assert (first.components.max(1).values == first.components.abs().max(1).values).all()
    assert torch.equal(torch.get_rng_state(), state)


def test_components_of_bytes_are_those_of_their_floats() -> None:
    images = (255 * _images(12, 3, 2, 2)).byte()
    ours, theirs = PCA.fit(images, 3), PCA.fit(images.float() / 255, 3)
    assert torch.equal(ours.components, theirs.components)
    assert torch.equal(ours.mean, theirs.mean)
    with pytest.raises(InputError, match=r"got torch.uint8. Divide bytes by 255"):
        ours.encode(images)


def test_iterated_components_keep_almost_all_of_the_variance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where variances fall slowly, and single components are hard to tell apart."""
    x = _normal(300, 200) * torch.linspace(1, 0.5, 200)
    exact = PCA.fit(x, 10).spread.square().sum()
    monkeypatch.setattr(pca, "_EXACT", 100)
    assert 0.98 * exact < PCA.fit(x, 10).spread.square().sum() <= exact * (1 + 1e-6)


LOW = _normal(30, 2) @ _normal(2, 6, seed=1) + 1


@pytest.mark.parametrize(
    ("x", "n", "words"),
    [
        (LOW, 3, "these 30 contexts vary in 2. Use latent_dim=2 or less"),
        (_normal(3, 6), 3, "these 3 contexts vary in 2"),
        (torch.full((30, 6), 0.1), 1, "these are all the same"),
        (torch.zeros(30, 6), 1, "these are all the same"),
        (_normal(1, 6), 1, r"with N >= 2, got shape \(1, 6\)"),
        (_normal(6), 1, r"shape \(N, ...\) with N >= 2, got shape \(6,\)"),
        (_normal(30, 6), 7, r"latent_dim from 1 to 6, got 7"),
        (_normal(30, 6), 0, r"latent_dim from 1 to 6, got 0"),
        (_normal(30, 6).log(), 2, "needs finite contexts"),
    ],
)
@pytest.mark.parametrize("iterated", [False, True])
def test_what_has_no_such_components_is_refused(
    x: Tensor, n: int, words: str, iterated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if iterated:
        monkeypatch.setattr(pca, "_EXACT", 0)
    with pytest.raises(InputError, match=words):
        PCA.fit(x, n)


def test_as_many_components_as_the_data_vary_in_are_found() -> None:
    assert torch.allclose(reconstruct(PCA.fit(LOW, 2), LOW), LOW, atol=1e-5)
