"""Checkpoints: whole or absent, the last few kept, corrupt ones passed over with a warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luvli.errors import InputError
from luvli.files import whole_file

FORMAT = "luvli-checkpoint-2"
_NAME = re.compile(r"step-(\d+)\.ckpt")


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be used was passed over."""


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = [path for path in folder.glob("step-*.ckpt") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(_NAME.fullmatch(path.name)[1]))  # type: ignore[index]


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Any], keep: int) -> Path:
    """Write the state after `step` steps, then remove all but the last `keep` checkpoints."""
    path = folder / f"step-{step:08d}.ckpt"
    with whole_file(path) as temporary:
        torch.save({"format": FORMAT, **state}, temporary)
    for old in list_checkpoints(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read one checkpoint. Only plain values and tensors are accepted, never code."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a different kind for every way to be broken
        raise InputError(f"{path} is not a whole checkpoint: {_first_line(error)}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InputError(f"{path} is not a checkpoint of this format ({FORMAT}).")
    return state


def latest_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest checkpoint that can be read, or None; broken ones are named in a warning."""
    for path in reversed(list_checkpoints(folder)):
        try:
            return load_checkpoint(path)
        except InputError as error:
            warnings.warn(f"{error} The one before it is used.", CheckpointWarning, stacklevel=2)
    return None


def result_weights(checkpoint: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The weights that a run would end with now: the average where there is one."""
    return dict(checkpoint["network"] if checkpoint["average"] is None else checkpoint["average"])


def random_states() -> dict[str, Any]:
    """The state of the global random generators, as plain values and tensors.

    Data order and augmentation do not need them: these are functions of seed and step.
    """
    kind, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    words = torch.from_numpy(np.asarray(keys, dtype=np.int64))
    states: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(kind), words, int(position), int(has_gauss), float(cached)],
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random_states(states: Mapping[str, Any]) -> None:
    """The inverse of `random_states`; GPU generators only where there are as many GPUs."""
    torch.set_rng_state(states["torch"])
    kind, keys, position, has_gauss, cached = states["numpy"]
    words = keys.numpy().astype(np.uint32)
    np.random.set_state((kind, words, position, has_gauss, cached))  # noqa: NPY002
    if torch.cuda.is_available() and len(states.get("cuda", ())) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(states["cuda"])


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[0] if lines else ''}."
