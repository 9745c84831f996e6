"""Model files: safetensors with the configuration inside; and weights to start training from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
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
    landmarks) keep their fresh values. Their names come back, for the caller to say aloud. A
    network with fewer U-nets takes the first ones: no U-net depends on later ones. One with more
    begins the others as copies of the last.
    """
    from luvli.network.grow import fitting_weights
    from luvli.network.official import is_model_file, read_official

    source = Path(path)
    given = _read(source)[2] if is_model_file(source) else read_official(source).tensors
    fitting = fitting_weights(given, network)
    fresh = [
        name
        for name in network.state_dict()
        if name not in fitting and not name.endswith("_tracked")
    ]
    misfit = [name for name in fresh if not name.startswith(("trunk.heads.", *_HEADS))]
    if misfit:
        raise InputError(
            f"{source} belongs to another architecture ({misfit[0]} does not fit): "
            "use the same order, channels, bn_size and growth, and no more U-nets unless the "
            "file has more than `order` of them."
        )
    network.load_state_dict(fitting, strict=False)
    return sorted({_part(name) for name in fresh})


_HEADS = {
    "cholesky.": "CEN",
    "visibility.": "VEN",
    "occlusion.": "occlusion head",
    "failure.": "failure head",
    "trunk.heads.": "heat-map heads",
}


def _part(name: str) -> str:
    return next(part for prefix, part in _HEADS.items() if name.startswith(prefix))
