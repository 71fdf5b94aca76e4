"""Weights of the paper's VAE, under the names that its authors published them with."""

from __future__ import annotations

from pathlib import Path

import torch

from cfopt.errors import InputError
from cfopt.generative.vae import ConvolutionalVAE
from cfopt.storage.weights import read

#: What a layer is called in the authors' network, and here; others have the same name.
_RENAMED = {
    "encoder.fc21": "encoder.heads.fc21",
    "encoder.fc22": "encoder.heads.fc22",
    "decoder.fc1": "decoder.fc10",
    "decoder.fc2": "decoder.fc20",
    **{f"decoder.conv{k}": f"decoder.deconv{k}" for k in (1, 2, 3, 4)},
}


def load_published(path: str | Path, height: int = 96, width: int = 96) -> ConvolutionalVAE:
    """The paper's VAE with weights of the authors' own network, in eval mode.

    The authors' file is a PyTorch one. cfopt reads safetensors only; convert it once with

        state = torch.load("vae.pth", weights_only=True)
        safetensors.torch.save_file(state, "vae.safetensors")

    Arguments:
        path: the converted file.
        height, width: the size of the images; the authors' are 96 x 96.
    """
    stored, _ = read(path)
    tensors = {_ours(name): value for name, value in stored.items()}
    mean = tensors.get("encoder.heads.fc21.weight")
    if mean is None or mean.ndim != 2:
        raise InputError(
            f"{path} needs the weights of the paper's VAE, with encoder.fc21.weight among them; "
            f"got {', '.join(sorted(stored)[:6]) or 'nothing'}. Save the state dict of the whole "
            "network."
        )
    # Forked: first weights are drawn at random, and the caller's random numbers stay as they are.
    with torch.random.fork_rng(devices=[]):
        model = ConvolutionalVAE(len(mean), height, width)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(
            f"The weights in {path} do not fit the paper's VAE for images of {height} x {width}: "
            f"{error}"
        ) from error
    return model.eval()


def _ours(name: str) -> str:
    """The name that a weight has here."""
    layer, _, kind = name.rpartition(".")
    return f"{_RENAMED.get(layer, layer)}.{kind}"
