"""The published checkpoints (`.pth.tar`): read, recognised from the tensors alone, written back.

Nothing in the file is trusted: it is opened with PyTorch's restricted unpickler, which
builds tensors and plain containers and runs no code, and every tensor must have the name
and shape that the architecture found would give it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from luvli.errors import InputError
from luvli.files import PathLike, unreadable
from luvli.markup import markup_by_size
from luvli.network.config import POOLINGS, NetworkConfig
from luvli.network.model import LUVLi, build


class OfficialCheckpoint(NamedTuple):
    """A published checkpoint in our names."""

    config: NetworkConfig
    tensors: dict[str, Tensor]
    info: dict[str, Any]


def load_official(
    path: PathLike, *, visibility_trained: bool = False
) -> tuple[LUVLi, dict[str, Any]]:
    """Read a published checkpoint: the network with `reference=True`, in eval mode, and its info.

    Checkpoints do not say whether visibility labels were used: those of 300-W were not
    (every landmark counts as visible), those of MERL-RAV were; pass `visibility_trained`
    accordingly. A plain DU-Net heat-map checkpoint loads too; `info["missing"]` then lists
    the parts that it does not have and that were initialised afresh.
    """
    checkpoint = read_official(path)
    trained = visibility_trained and "VEN" not in checkpoint.info["missing"]
    network = build(checkpoint.config.model_copy(update={"visibility_trained": trained}))
    network.load_state_dict(checkpoint.tensors, strict=False)  # names and shapes are checked
    return network.eval(), checkpoint.info


def read_official(path: PathLike) -> OfficialCheckpoint:
    """Read and check a published checkpoint without building the network."""
    source = Path(path)
    outer = _unpickle(source)
    state = _state_dict(source, outer)
    config = _recognise(source, state)
    names = {official: ours for ours, official in official_names(config).items()}
    with torch.device("meta"):
        expected = {name: t.shape for name, t in build(config).state_dict().items()}
    heads = {official for official in names if official.startswith(("cholesky.", "probability."))}
    plain = not heads & set(state)
    for name in [*names, *state]:
        if name not in names:
            raise _not_official(source, f"it has the unknown entry {name}")
        if name not in state:
            if not (plain and name in heads):
                raise _not_official(source, f"it lacks {name}")
        elif state[name].shape != expected[names[name]]:
            raise _not_official(source, f"it has the wrong shape at {name}")
    tensors = {names[name]: tensor.float() for name, tensor in state.items()}
    info = {
        "source": source.name,
        "kind": "DU-Net heat maps" if plain else "LUVLi",
        "missing": ["CEN", "VEN"] if plain else [],
        "entries": len(state),
        "parameters": sum(t.numel() for n, t in state.items() if "running_" not in n),
        "epoch": _last_epoch(outer),
        # how the published code enlarged face boxes before cropping
        "enlarge": 1.25 if config.landmarks in (19, 98) else 1.1,
    }
    return OfficialCheckpoint(config, tensors, info)


def to_official(network: LUVLi) -> dict[str, Tensor]:
    """The state dict that the published code would have saved for this network."""
    state = network.state_dict()
    names = official_names(network.config)
    return {f"module.{official}": state[ours] for ours, official in names.items()}


def official_names(config: NetworkConfig) -> dict[str, str]:
    """Our name of each tensor -> its name in the published code (without `module.`)."""
    names = {"trunk.stem.0.weight": "features.conv0.weight"}
    names |= _norm("trunk.stem.1", "features.norm0.")
    for i in range(config.unets):
        ours, theirs = f"trunk.unets.{i}", "hg"
        blocks = {f"{ours}.neck": f"{theirs}.neck_block"}
        for j in range(POOLINGS):
            blocks[f"{ours}.down.{j}"] = f"{theirs}.down_blocks.{j}"
            blocks[f"{ours}.up.{j}"] = f"{theirs}.up_blocks.{j}"
        for block, official in blocks.items():
            names |= _fused(f"{block}.layer.squeeze", f"{official}.layers.{i}.bottleneck")
            names |= _norm(f"{block}.layer.grow.norm", f"{official}.layers.{i}.norm.2.")
            names[f"{block}.layer.grow.conv.weight"] = f"{official}.layers.{i}.conv.2.weight"
            names |= _fused(f"{block}.ahead", f"{official}.adapters_ahead.{i}")
            if ".down." in block:
                names |= _fused(f"{block}.skip", f"{official}.adapters_skip.{i}")
        names |= _norm(f"trunk.heads.{i}.norm", f"linears.{i}.norm.")
        names[f"trunk.heads.{i}.conv.weight"] = f"linears.{i}.conv.weight"
        if i:
            names |= _fused(f"trunk.between.{i - 1}", f"intermedia.adapters.{i - 1}")
    for kind in ("weight", "bias"):
        names[f"cholesky.linear.{kind}"] = f"cholesky.fc_1.{kind}"
        names[f"visibility.linear.{kind}"] = f"probability.{kind}"
    return names


def _norm(ours: str, official: str) -> dict[str, str]:
    kinds = ("weight", "bias", "running_mean", "running_var")
    return {f"{ours}.{kind}": f"{official}{kind}" for kind in kinds}


def _fused(ours: str, official: str) -> dict[str, str]:
    """The published code keeps normalisation and 1x1 convolution in one module."""
    return {
        **_norm(f"{ours}.norm", f"{official}.norm_"),
        f"{ours}.conv.weight": f"{official}.conv_weight",
    }


def is_model_file(path: Path) -> bool:
    """True for safetensors (ours), False for what may be a published checkpoint."""
    if not path.is_file():
        raise unreadable(path)
    with path.open("rb") as stream:
        start = stream.read(9)
    return len(start) == 9 and start[8:] == b"{"


def _unpickle(path: Path) -> Any:
    if not path.is_file():
        raise unreadable(path)
    # Training histories of that time hold numpy numbers; these build values and nothing else.
    scalar: Any = np.float64(0).__reduce__()[0]
    allowed: list[Any] = [np.dtype, scalar, (scalar, "numpy.core.multiarray.scalar")]
    allowed += [type(np.dtype(kind)) for kind in ("f4", "f8", "i4", "i8", "?")]
    try:
        with torch.serialization.safe_globals(allowed):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a hostile or broken file can make the unpickler raise anything
        raise InputError(
            f"{path} is not a PyTorch checkpoint that can be read without running code from it: "
            "give one of the published .pth.tar files, fetched again if it is damaged."
        ) from error


def _state_dict(path: Path, outer: Any) -> dict[str, Tensor]:
    state = outer.get("state_dict", outer) if isinstance(outer, Mapping) else None
    if not isinstance(state, Mapping) or not state:
        raise _not_official(path, "it holds no state dict")
    if not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()):
        raise _not_official(path, "its state dict holds something other than named tensors")
    return {
        name.removeprefix("module."): tensor
        for name, tensor in state.items()
        if not name.endswith("num_batches_tracked")  # written by newer PyTorch, of no use
    }


def _recognise(path: Path, state: Mapping[str, Tensor]) -> NetworkConfig:
    """U-nets, order, widths and landmarks from the shapes of a few tensors."""
    found = (re.fullmatch(r"linears\.(\d+)\.conv\.weight", name) for name in state)
    unets = 1 + max((int(match[1]) for match in found if match), default=-1)
    last = f"hg.down_blocks.0.layers.{unets - 1}"
    try:
        channels = state["features.conv0.weight"].shape[0]
        growth, width = state[f"{last}.conv.2.weight"].shape[:2]
        seen = state[f"{last}.bottleneck.conv_weight"].shape[1]
        landmarks = state["linears.0.conv.weight"].shape[0]
        cen = state.get("cholesky.fc_1.weight")
        rows, inputs = cen.shape if cen is not None else (3 * landmarks, 16 * channels)
        side = round((inputs / channels) ** 0.5)
        known = markup_by_size(landmarks)
        return NetworkConfig(
            unets=unets,
            order=(seen - channels) // growth,
            channels=channels,
            bn_size=width // growth,
            growth=growth,
            landmarks=landmarks,
            input_size=4 * 2**POOLINGS * side,
            mean_estimator="direct" if rows == 5 * landmarks else "relu",
            markup=known.name if known else f"points{landmarks}",
            visibility_trained=False,
            reference=True,
        )
    except (KeyError, ValueError, IndexError, ZeroDivisionError) as error:
        raise _not_official(path, "its tensors are not those of a DU-Net") from error


def _last_epoch(outer: Mapping[str, Any]) -> int | None:
    with contextlib.suppress(KeyError, IndexError, TypeError, ValueError):
        return int(outer["train_history"]["epoch"][-1]["epoch"])
    return None


def _not_official(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is not a published LUVLi or DU-Net checkpoint ({why}): "
        "give one of the .pth.tar files of the authors' release."
    )
