"""Weights files: complete or absent, and never a program."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.generative import PCA, CompactVAE, ConvolutionalVAE, TabularVAE, load_published
from cfopt.storage.weights import load_module, read, save_module, write

CLASSES: dict[str, type[nn.Module]] = {
    "TabularVAE": TabularVAE,
    "CompactVAE": CompactVAE,
    "ConvolutionalVAE": ConvolutionalVAE,
    "PCA": PCA,
}


def _tabular(seed: int = 0) -> TabularVAE:
    torch.manual_seed(seed)
    return TabularVAE(3, latent_dim=2, hidden=4).standardise(5 + 2 * torch.randn(20, 3))


def _alike(left: nn.Module, right: nn.Module) -> bool:
    ours, theirs = left.state_dict(), right.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


class _Tied(nn.Module):
    """Two names for one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
        self.second.weight = self.first.weight

    def settings(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    "module",
    [
        _tabular(),
        CompactVAE(2, rows=2, cols=3, cell=2, channels=3),
        ConvolutionalVAE(2, 16, 32),
        PCA.fit(torch.randn(9, 3, 2, 2), 4),
        _Tied(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_a_module_comes_back_as_it_was_saved(module: nn.Module, tmp_path: Path) -> None:
    save_module(module, tmp_path / "m.safetensors")
    state = torch.get_rng_state()
    loaded = load_module(tmp_path / "m.safetensors", CLASSES | {"_Tied": _Tied})
    assert torch.equal(torch.get_rng_state(), state)
    assert type(loaded) is type(module)
    assert not loaded.training
    assert _alike(loaded, module)


def test_the_file_is_readable_by_others_and_holds_exactly_the_tensors(tmp_path: Path) -> None:
    module = _tabular()
    save_module(module, tmp_path / "m.safetensors")
    stored = load_file(tmp_path / "m.safetensors")
    expected = module.state_dict()
    assert stored.keys() == expected.keys()
    assert all(np.array_equal(stored[name], expected[name].numpy()) for name in stored)
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]


def test_half_precision_rounds_floats_once_and_leaves_counts_alone(tmp_path: Path) -> None:
    module = nn.BatchNorm1d(3)
    module.num_batches_tracked.fill_(70_001)
    nn.init.normal_(module.weight)
    module.settings = lambda: {"num_features": 3}  # type: ignore[assignment]
    save_module(module, tmp_path / "m", torch.float16)
    assert load_file(tmp_path / "m")["weight"].dtype == np.float16
    loaded = load_module(tmp_path / "m", {"BatchNorm1d": nn.BatchNorm1d})
    assert isinstance(loaded, nn.BatchNorm1d)
    assert loaded.weight.dtype == torch.float32
    rounded = module.weight.detach().numpy().astype(np.float16).astype(np.float32)
    assert np.array_equal(loaded.weight.detach().numpy(), rounded)
    assert loaded.num_batches_tracked == 70_001
    loaded.settings = module.settings
    save_module(loaded, tmp_path / "again", torch.float16)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_values_beyond_half_precision_are_not_stored_as_infinity(tmp_path: Path) -> None:
    module = _tabular()
    module.scale.fill_(1e6)
    with pytest.raises(InputError, match=r"scale has values up to 1e\+06, more than torch.float16"):
        save_module(module, tmp_path / "m", torch.float16)
    assert not list(tmp_path.iterdir())


def test_views_are_stored_as_what_they_show(tmp_path: Path) -> None:
    base = torch.arange(6.0).reshape(2, 3)
    views = {"turned": base.T, "row": base[1], "spread": base[:1].expand(4, 3)}
    write(tmp_path / "t", views, {"n": 1})
    tensors, about = read(tmp_path / "t")
    assert about == {"n": 1}
    assert all(torch.equal(tensors[name], views[name]) for name in views)


def test_a_module_without_settings_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs a module with settings\(\).*Linear has none"):
        save_module(nn.Linear(2, 2), tmp_path / "m")
    assert not list(tmp_path.iterdir())


class _Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("kind", ["torch", "old torch", "pickle"])
def test_a_pickle_is_refused_and_not_executed(kind: str, tmp_path: Path) -> None:
    sprung, path = tmp_path / "sprung", tmp_path / "m.pt"
    trap = {"weight": torch.ones(2), "trap": _Trap(sprung)}
    if kind == "pickle":
        path.write_bytes(pickle.dumps(trap))
    else:
        torch.save(trap, path, _use_new_zipfile_serialization=kind == "torch")
    with pytest.raises(InputError, match=r"not a safetensors file.*can execute code"):
        load_module(path, CLASSES)
    assert not sprung.exists()
    # The trap is live: it springs for whoever unpickles.
    if kind == "pickle":
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert sprung.exists()


def _truncated(path: Path) -> None:
    save_module(_tabular(), path)
    path.write_bytes(path.read_bytes()[:-7])


def _cut_in_header(path: Path) -> None:
    save_module(_tabular(), path)
    path.write_bytes(path.read_bytes()[:60])


@pytest.mark.parametrize(
    "spoil",
    [
        _truncated,
        _cut_in_header,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: path.write_text("weights"),
        lambda path: save_file({"a": torch.ones(1)}, path, {"cfopt": "{broken"}),
        lambda path: save_file({"a": torch.ones(1)}, path, {"cfopt": "[1]"}),
    ],
)
def test_a_damaged_file_is_named(spoil: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    spoil(path)
    with pytest.raises(
        InputError, match=r"m\.safetensors is not a safetensors file, or it is damaged"
    ):
        load_module(path, CLASSES)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere does not exist; cfopt needs a weights file"):
        read(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a folder, not a weights file"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, "tensors of unknown origin; cfopt needs one of TabularVAE, CompactVAE"),
        ({"class": "Linear", "settings": {}}, "holds a Linear; cfopt needs one of"),
        ({"class": ["TabularVAE"], "settings": {}}, "cfopt needs one of"),
        ({"class": "TabularVAE"}, "do not fit a TabularVAE: 'settings'"),
        ({"class": "TabularVAE", "settings": [3]}, "do not fit a TabularVAE"),
        ({"class": "TabularVAE", "settings": {"size": 3}}, "unexpected keyword argument 'size'"),
        ({"class": "TabularVAE", "settings": {"num_features": 3, "latent_dim": 0}}, "at least 1"),
        ({"class": "CompactVAE", "settings": {"latent_dim": 2}}, "Missing key"),
        ({"class": "TabularVAE", "settings": {"num_features": 4}}, "size mismatch"),
    ],
)
def test_what_does_not_fit_is_named(about: dict[str, Any], words: str, tmp_path: Path) -> None:
    write(tmp_path / "m", _tabular().state_dict(), about)
    with pytest.raises(InputError, match=words):
        load_module(tmp_path / "m", CLASSES)


def test_a_plain_safetensors_file_is_of_unknown_origin(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(2)}, tmp_path / "m")
    with pytest.raises(InputError, match=r"unknown origin.*own load_state_dict"):
        load_module(tmp_path / "m", CLASSES)


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(mask: int, tmp_path: Path) -> None:
    with _umask(mask):
        write(tmp_path / "m", {"a": torch.ones(1)}, {})
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o666 & ~mask


def _raise(*_: object, **__: object) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.open"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    write(path, {"a": torch.ones(1)}, {})
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(where, _raise)
        with pytest.raises(InputError, match=r"could not be written.*No space left"):
            write(path, {"a": torch.zeros(1)}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "m"
    write(path, {"a": torch.ones(1)}, {})
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(path, {"a": torch.zeros(1)}, {})
    assert torch.equal(read(path)[0]["a"], torch.ones(1))
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_sees_the_old_file_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "m", []
    write(path, {"a": torch.ones(1)}, {})
    sync = os.fsync

    def look(file: int) -> None:
        sync(file)
        seen.append(read(path)[0]["a"])

    monkeypatch.setattr(os, "fsync", look)
    write(path, {"a": torch.zeros(1)}, {})
    assert [value.item() for value in seen] == [1.0]
    assert read(path)[0]["a"].item() == 0.0


def test_a_file_is_not_written_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"There is no folder .*nowhere to write to"):
        write(tmp_path / "nowhere" / "m", {"a": torch.ones(1)}, {})
    with pytest.raises(InputError, match="could not be written"):
        write(tmp_path / ("long" * 100), {"a": torch.ones(1)}, {})
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
        with pytest.raises(InputError, match=r"room for 1.0 MB, 4.0 MB are needed"):
            write(tmp_path / "m", {"a": torch.ones(1_000_000)}, {})
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="cannot be written to"):
        write(tmp_path / "m", {"a": torch.ones(1)}, {})
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(InputError, match="could not be written"):
        write(tmp_path / "m", {"a": torch.ones(1)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_tensors_keep_their_dtype_and_shape(tmp_path: Path) -> None:
    tensors: dict[str, Tensor] = {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "bytes": torch.arange(256, dtype=torch.uint8),
        "brain": torch.ones(2, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
    }
    write(tmp_path / "m", tensors, {})
    found, _ = read(tmp_path / "m")
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


class _AuthorsVAE(nn.Module):
    """The layers of the authors' network for images of 16 x 32, under their names."""

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Module(), nn.Module()
        widths = [3, 32, 64, 128, 256]
        for k in range(4):
            down = nn.Conv2d(widths[k], widths[k + 1], 4, 2, 1)
            up = nn.ConvTranspose2d(widths[4 - k], widths[3 - k], 4, 2, 1)
            self.encoder.add_module(f"conv{k + 1}", down)
            self.decoder.add_module(f"conv{k + 1}", up)
        self.encoder.fc1 = nn.Linear(2 * 256, 512)
        self.encoder.fc21 = nn.Linear(512, latent_dim)
        self.encoder.fc22 = nn.Linear(512, latent_dim)
        self.decoder.fc1 = nn.Linear(latent_dim, 512)
        self.decoder.fc2 = nn.Linear(512, 2 * 256)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for k in (1, 2, 3, 4):
            x = torch.relu(self.encoder.get_submodule(f"conv{k}")(x))
        x = torch.relu(self.encoder.fc1(x.flatten(1)))
        return self.encoder.fc21(x), self.encoder.fc22(x)

    def decode(self, z: Tensor) -> Tensor:
        x = torch.relu(self.decoder.fc2(torch.relu(self.decoder.fc1(z)))).view(-1, 256, 1, 2)
        for k in (1, 2, 3):
            x = torch.relu(self.decoder.get_submodule(f"conv{k}")(x))
        return torch.sigmoid(self.decoder.conv4(x))


def test_published_weights_of_the_papers_vae_do_here_what_they_do_there(tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = _AuthorsVAE(5)
    torch.save(theirs.state_dict(), tmp_path / "vae.pth")
    state = torch.load(tmp_path / "vae.pth", weights_only=True)
    assert len(state) == 26
    assert len(state.keys() - ConvolutionalVAE(5, 16, 32).state_dict().keys()) == 16
    save_file(state, tmp_path / "vae.safetensors")
    before = torch.get_rng_state()
    ours = load_published(tmp_path / "vae.safetensors", 16, 32)
    assert torch.equal(torch.get_rng_state(), before)
    assert not ours.training
    x, z = torch.rand(2, 3, 16, 32), torch.randn(2, 5)
    with torch.no_grad():
        mean, log_variance = theirs.encode(x)
        assert torch.allclose(ours.distribution(x).mean, mean, atol=1e-6)
        assert torch.allclose(ours.distribution(x).log_variance, log_variance, atol=1e-6)
        assert torch.allclose(ours.decode(z), theirs.decode(z), atol=1e-6)


def test_other_weights_are_not_taken_for_those_of_the_papers_vae(tmp_path: Path) -> None:
    state = _AuthorsVAE(5).state_dict()
    save_file(state, tmp_path / "v.safetensors")
    with pytest.raises(InputError, match="do not fit the paper's VAE for images of 96 x 96"):
        load_published(tmp_path / "v.safetensors")
    save_file({"weight": torch.ones(2)}, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"encoder\.fc21\.weight among them; got weight"):
        load_published(tmp_path / "w.safetensors")
