"""Digests of objects: whether a pipeline and a question are still those of a run."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from copy import copy
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.question import Question
from cfopt.result.json_question import NOUNS, features_to_dict, noun_to_dict

#: How many digits of a digest are kept.
_DIGITS = 16


def fingerprint(what: str, one: Any) -> str | None:
    """A digest of an object: of weights, numbers, the source of a function, or what is pickled.

    Arguments:
        what: what it is, for messages.
        one: the object; None has none.
    """
    if one is None:
        return None
    content = hashlib.sha256(f"{type(one).__module__}.{type(one).__qualname__}".encode())
    if isinstance(one, nn.Module):
        content.update(str(one).encode())
        for name, values in one.state_dict().items():
            content.update(name.encode() + _bytes(values))
    elif isinstance(one, Tensor):
        content.update(_bytes(one))
    else:
        content.update(_pickled(what, one))
    return content.hexdigest()[:_DIGITS]


def _bytes(values: Any) -> bytes:
    if not isinstance(values, Tensor):
        return repr(values).encode()
    flat = values.detach().cpu().contiguous()
    return (
        f"{flat.dtype}{tuple(flat.shape)}".encode()
        + flat.reshape(-1).view(torch.uint8).numpy().tobytes()
    )


def _pickled(what: str, one: Any) -> bytes:
    if inspect.isfunction(one):
        try:
            return inspect.getsource(one).encode()
        except (OSError, TypeError):
            return one.__code__.co_code
    try:
        plain = copy(one)
        # What was computed on the way says nothing new.
        for name in list(getattr(plain, "__dict__", {})):
            if isinstance(getattr(type(one), name, None), cached_property):
                del plain.__dict__[name]
        return pickle.dumps(plain, protocol=5)
    # Any: objects have their own ways to refuse.
    except Exception as error:
        raise InputError(
            f"explain_dataset needs a {what} that can be pickled, to recognise its run and to send "
            f"it to other processes; {type(one).__name__} cannot be: {error}"
        ) from error


def question_settings(question: Question) -> dict[str, Any]:
    """What is asked of all rows, as plain values; the criterion apart."""
    return {
        "margin": question.margin,
        "options": question.options,
        "time_limit": question.time_limit,
        "features": features_to_dict(question.features),
        "generative": fingerprint("generative model", question.generative),
        "reference": fingerprint("reference", question.reference),
        "prices": fingerprint("prices", question.prices),
        **{name: noun_to_dict(getattr(question, name)) for name in NOUNS},
    }
