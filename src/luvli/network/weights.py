"""Model files: safetensors with the configuration inside; and weights to start training from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from luvli.errors import InputError
from luvli.files import PathLike, unreadable, whole_file
from luvli.network.config import NetworkConfig
from luvli.network.model import LUVLi, build

FORMAT = "luvli-model-1"
"""changes when old readers could no longer read a file"""


def save_model(path: PathLike, network: LUVLi, info: Mapping[str, Any] | None = None) -> None:
    """Write weights, configuration and `info` (anything JSON holds) to one file.

    `info` is for people and reports: data, metrics, licence. It does not change the network.
    """
    try:
        info_text = json.dumps(dict(info or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the info for {path} must hold plain finite values only: {error}."
        ) from error
    metadata = {
        "format": FORMAT,
        "config": network.config.model_dump_json(),
        "info": info_text,
    }
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    with whole_file(path) as temporary:
        temporary.write_bytes(save(tensors, metadata))  # save_file has a temporary file of its own


def network_weights(network: LUVLi) -> dict[str, NDArray[Any]]:
    """The weights as arrays, by name: what `luvli.network.onnx_graph` writes a graph from."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def load_model(path: PathLike) -> tuple[LUVLi, dict[str, Any]]:
    """Read a file of `save_model`: the network, ready to predict (eval mode, CPU), and its info."""
    config, info, tensors = _read(Path(path))
    bad = next((name for name, t in tensors.items() if not torch.isfinite(t).all()), None)
    if bad is not None:
        raise InputError(f"{path} holds weights that are not numbers ({bad}): fetch it again.")
    network = build(config)
    network.load_state_dict(tensors)
    return network.eval(), info


def _read(path: Path) -> tuple[NetworkConfig, dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        raise unreadable(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise InputError(
                    f"{path} is not a luvli model of format {FORMAT}: "
                    "make one with luvli train or luvli models import."
                )
            config = NetworkConfig.model_validate_json(metadata["config"])
            info = json.loads(metadata["info"])
            if not isinstance(info, dict):
                raise ValueError("info is not an object")
            names = list(file.keys())
            _compare_shapes(path, config, {n: file.get_slice(n).get_shape() for n in names})
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} is not a whole model file ({error}): "
            "published checkpoints are converted with luvli models import; "
            "otherwise fetch or save it again."
        ) from error
    except (ValidationError, KeyError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} has a configuration that this version cannot read: update luvli, "
            "or save the model again."
        ) from error
    return config, info, tensors


def _compare_shapes(path: Path, config: NetworkConfig, shapes: Mapping[str, list[int]]) -> None:
    """Refuse a file whose configuration asks for another network than its weights are of.

    Before anything of that size is made: the network is drawn up without memory first.
    """
    with torch.device("meta"):
        wanted = {name: list(t.shape) for name, t in build(config).state_dict().items()}
    if wanted != dict(shapes):
        raise InputError(
            f"{path} holds weights that do not fit its own configuration: fetch or save it again."
        )


def load_weights_into(network: LUVLi, path: PathLike) -> list[str]:
    """Start from the weights of another model: ours, or a published checkpoint.

    Whatever fits is taken (`fitting_weights`); the trunk must fit. Parts that the file lacks
    (CEN and VEN of a plain DU-Net) or that have another size (heads for another number of
    landmarks) keep their fresh values; their names come back, for the caller to say aloud. A
    network with fewer U-nets takes the first ones: no U-net depends on later ones.
    """
    from luvli.network.official import is_model_file, read_official

    source = Path(path)
    given = _read(source)[2] if is_model_file(source) else read_official(source).tensors
    fitting = fitting_weights(given, network)
    fresh: set[str] = set()
    for name in network.state_dict().keys() - fitting.keys():
        if name.endswith("_tracked"):  # a counter of batches
            continue
        part = next((part for prefix, part in _HEADS.items() if name.startswith(prefix)), None)
        if part is None:
            raise InputError(
                f"{source} belongs to another architecture ({name} does not fit): "
                "use the same order, channels, bn_size and growth, and no more U-nets unless the "
                "file has more than `order` of them."
            )
        fresh.add(part)
    network.load_state_dict(fitting, strict=False)
    return sorted(fresh)


_HEADS = {
    "cholesky.": "CEN",
    "visibility.": "VEN",
    "occlusion.": "occlusion head",
    "failure.": "failure head",
    "trunk.heads.": "heat-map heads",
}
_PLACE = re.compile(r"^(trunk\.(?:unets|between|heads)\.)(\d+)(\..+)$")


def fitting_weights(given: Mapping[str, Tensor], network: LUVLi) -> dict[str, Tensor]:
    """Those of `given` weights that `network` can start from, by its own names and shapes.

    U-nets after the last one of `given` begin as copies of that one, as far as its shapes allow.
    CEN and VEN of another crop size are resized: they read the bottleneck as a map of C channels,
    so their weights are a map, too; its sum stays.
    """
    channels = network.config.channels
    found = {}
    for name, wanted in network.state_dict().items():
        tensor = given.get(name)
        if tensor is None:
            tensor = _of_last_unet(name, given)
        if tensor is not None and tensor.ndim == 2 and wanted.ndim == 2:
            tensor = _resized(tensor, channels, wanted.shape[1])
        if tensor is not None and tensor.shape == wanted.shape:
            found[name] = tensor
    return found


def _of_last_unet(name: str, given: Mapping[str, Tensor]) -> Tensor | None:
    place = _PLACE.match(name)
    if place is None:
        return None
    before, number, after = place[1], int(place[2]), place[3]
    candidates = (given.get(f"{before}{i}{after}") for i in reversed(range(number)))
    return next((tensor for tensor in candidates if tensor is not None), None)


def _resized(weight: Tensor, channels: int, inputs: int) -> Tensor:
    """A linear layer's weight (out, C h h) for a bottleneck of `inputs` = C h' h' numbers."""
    old, new = (round((n / channels) ** 0.5) for n in (weight.shape[1], inputs))
    if old == new or channels * old * old != weight.shape[1] or channels * new * new != inputs:
        return weight
    maps = weight.reshape(len(weight), channels, old, old)
    resized = F.interpolate(maps, size=(new, new), mode="bilinear", align_corners=False)
    share: float = (old / new) ** 2
    return resized.flatten(1) * share
