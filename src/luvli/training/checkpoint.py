"""Checkpoints: written whole or not at all; the last few stay, damaged ones are skipped.

A checkpoint begins with a line that names the format and the digest of everything after it:
a single changed bit would otherwise load as other weights.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from luvli.errors import InputError, LuvliWarning, brief
from luvli.files import unreadable, whole_file

FORMAT = "luvli-checkpoint-3"


class CheckpointWarning(LuvliWarning):
    """A checkpoint that could not be used was passed over."""


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(folder.glob("step-" + 8 * "[0-9]" + ".ckpt"))


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Any], keep: int) -> Path:
    """Write the state after `step` steps, then remove all but the last `keep` checkpoints.

    Checkpoints of later steps go too: the run would have gone on from them if they were whole.
    """
    path = folder / f"step-{step:08d}.ckpt"
    content = io.BytesIO()
    torch.save(dict(state), content)
    with whole_file(path) as temporary, temporary.open("wb") as stream:
        stream.write(_header(content.getbuffer()))
        stream.write(content.getbuffer())
    ours = [old for old in list_checkpoints(folder) if old.name <= path.name]
    for old in set(list_checkpoints(folder)) - set(ours[-keep:]):
        old.unlink(missing_ok=True)
    return path


def _header(content: bytes | memoryview) -> bytes:
    return f"{FORMAT} {hashlib.sha256(content).hexdigest()}\n".encode()


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read one checkpoint. Only plain values and tensors are accepted, never code."""
    try:
        header, _, content = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise unreadable(path, error) from error
    if not header.startswith(FORMAT.encode()):
        raise InputError(f"{path} is not a checkpoint of this format ({FORMAT}).")
    if header + b"\n" != _header(content):
        raise InputError(f"{path} is damaged: its content does not match its digest.")
    try:
        state = dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    except Exception as error:  # torch raises a different kind for every way to be broken
        raise InputError(f"{path} is not a whole checkpoint ({brief(error)}).") from error
    return state


def latest_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest checkpoint that can be read, or None where there is none at all.

    Broken ones are named in a warning; if all are broken, that is an error, because to begin
    anew in silence would throw away what people believe to be safe.
    """
    paths = list_checkpoints(folder)
    for path in reversed(paths):
        try:
            return load_checkpoint(path)
        except InputError as error:
            then = "" if path == paths[0] else " The one before it is tried."
            warnings.warn(f"{error}{then}", CheckpointWarning, stacklevel=2)
    if paths:
        raise InputError(
            f"none of the {len(paths)} checkpoints in {folder} can be read: move that folder away "
            "to begin anew, or choose another --out."
        )
    return None


def result_weights(checkpoint: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The weights that a run would end with now: the average where there is one."""
    return dict(checkpoint["network"] if checkpoint["average"] is None else checkpoint["average"])
