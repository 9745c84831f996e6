"""Small networks for the tests of files, and checkpoints as the authors' script saves them."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luvli.network import LUVLi, NetworkConfig, to_official

SMALL = {"channels": 8, "bn_size": 2, "growth": 4, "landmarks": 5, "markup": "points5"}


def small(**changes: Any) -> NetworkConfig:
    return NetworkConfig.model_validate({"unets": 2, "input_size": 64, **SMALL, **changes})


def write_official(path: Path, network: LUVLi, *, zipped: bool = True, **extra: Any) -> Path:
    """What the authors' training script would have saved."""
    history = OrderedDict(epoch=[OrderedDict(epoch=49)], loss=[OrderedDict(val=np.float64(0.5))])
    content = {"train_history": history, "state_dict": OrderedDict(to_official(network)), **extra}
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    return path


def same_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[n], theirs[n]) for n in ours if not n.endswith("_tracked")
    )
