"""Tensors on disk: safetensors, written whole or not at all, and read without executing code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.storage.files import write_whole

#: The key of our own entry among a file's metadata.
_ENTRY = "cfopt"


def write(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors by name, and JSON about them; what was there before is replaced at once."""
    path = Path(path)
    # Cloned: safetensors refuses tensors that share memory, such as tied weights.
    packed = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    data = save(packed, metadata={_ENTRY: json.dumps(dict(about))})
    write_whole(path, data)


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file, and what is said about them."""
    path = Path(path)
    if not path.is_file():
        what = "is a folder, not" if path.is_dir() else "does not exist; cfopt needs"
        raise InputError(f"{path} {what} a weights file.")
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get(_ENTRY, "{}"))
            if not isinstance(about, dict):
                raise ValueError("its metadata are not a mapping")
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path} is not a safetensors file, or it is damaged: {error}. cfopt loads no other "
            "format, since others can execute code; convert state dicts with "
            "safetensors.torch.save_file."
        ) from error


def save_module(module: nn.Module, path: str | Path, dtype: torch.dtype | None = None) -> None:
    """Write a module with its `settings()`, which build it; floats as `dtype` if that is given."""
    settings = getattr(module, "settings", None)
    if not callable(settings):
        raise InputError(
            "save_module needs a module with settings(), the arguments that build it; "
            f"{type(module).__name__} has none. Save its state_dict with "
            "safetensors.torch.save_file."
        )
    tensors = {name: _stored(name, value, dtype) for name, value in module.state_dict().items()}
    write(path, tensors, {"class": type(module).__name__, "settings": settings()})


def load_module(path: str | Path, classes: Mapping[str, type[nn.Module]]) -> nn.Module:
    """Build what `save_module` wrote, one of these classes, in the default dtype and eval mode."""
    tensors, about = read(path)
    name = about.get("class")
    if not isinstance(name, str) or name not in classes:
        raise InputError(
            f"{path} holds {f'a {name}' if name else 'tensors of unknown origin'}; cfopt needs one "
            f"of {', '.join(classes)}, saved by cfopt. Load the weights of another model with its "
            "own load_state_dict."
        )
    try:
        # Forked: first weights are drawn at random, and the caller's random numbers stay as is.
        with torch.random.fork_rng(devices=[]):
            module = classes[name](**about["settings"])
        module.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"The weights in {path} do not fit a {name}: {error}") from error
    return module.eval()


def _stored(name: str, value: Tensor, dtype: torch.dtype | None) -> Tensor:
    if dtype is None or not value.is_floating_point():
        return value
    stored = value.to(dtype)
    if not torch.equal(stored.isfinite(), value.isfinite()):
        raise InputError(
            f"{name} has values up to {float(value.abs().max()):g}, more than {dtype} can hold. "
            "Save it in torch.bfloat16 or torch.float32."
        )
    return stored
