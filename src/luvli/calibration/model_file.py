"""A model file as weights and information, read and written without PyTorch."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, brief, require
from luvli.files import PathLike, unreadable, whole_file
from luvli.network.config import NetworkConfig
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_graph import STEM, build_graph
from luvli.prediction.predictor import Predictor, load

SAFETENSORS_FORMAT = "luvli-model-1"
"""that of `luvli.network.weights`"""
SUFFIXES = (".onnx", ".safetensors")


@dataclass(frozen=True)
class ModelFile:
    """What a `.onnx` or a `.safetensors` model holds."""

    weights: dict[str, NDArray[Any]]
    """by their names in a safetensors file"""
    info: ModelInfo
    notes: dict[str, Any]
    """what else a safetensors file says: recipe, steps, ..."""

    @classmethod
    def read(cls, path: Path) -> ModelFile:
        """From a file of either kind."""
        return _read_onnx(path) if path.suffix == ".onnx" else _read_safetensors(path)

    def with_info(self, **changes: Any) -> ModelFile:
        """The same model with other fields of its information."""
        return replace(self, info=self.info.model_copy(update=changes))

    def write(self, path: PathLike) -> None:
        """To a file of the kind that its suffix says."""
        target = Path(path)
        if target.suffix == ".safetensors":
            self._write_safetensors(target)
        elif self.info.config.trunk == "dunet":
            self._write_onnx(target)
        else:  # the graph of a trunk of the user's own is traced by PyTorch
            from luvli.prediction.export import export_onnx

            with tempfile.TemporaryDirectory() as folder:
                weights = Path(folder) / f"{self.info.name}.safetensors"
                self._write_safetensors(weights)
                export_onnx(weights, target)

    @contextmanager
    def predictor(self) -> Iterator[Predictor]:
        """The model, ready to predict with ONNX Runtime."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            self.write(path)
            yield load(path)

    def _write_onnx(self, target: Path) -> None:
        onnx = require("onnx", "calibrate")
        try:
            proto = build_graph(self.weights, self.info)
        except KeyError as error:
            raise InputError(
                f"the model {self.info.name} has no weights {error}: fetch or save it again."
            ) from error
        with whole_file(target) as temporary:
            onnx.save(proto, temporary)

    def _write_safetensors(self, target: Path) -> None:
        tensors = require("safetensors.numpy", "calibrate")
        plain = ("name", "version", "licence", "enlarge", "detector")
        fitted = ("calibration", "trust", "measures")
        known = self.info.model_dump(include={*plain, *fitted})
        metadata = {
            "format": SAFETENSORS_FORMAT,
            "config": self.info.config.model_dump_json(),
            "info": json.dumps(self.notes | known, allow_nan=False, separators=(",", ":")),
        }
        with whole_file(target) as temporary:
            temporary.write_bytes(tensors.save(self.weights, metadata))


def _read_onnx(path: Path) -> ModelFile:
    onnx = require("onnx", "calibrate")
    info = load(path).info  # refuses files that are damaged or of another program
    if info.precision != "float32" or info.config.trunk != "dunet":
        raise InputError(
            f"{path} has 8-bit weights or a trunk of your own: calibrate its .safetensors file."
        )
    proto = onnx.load(path)
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    weights = {name: array for name, array in arrays.items() if "." in name and "/" not in name}
    if f"{STEM}/255" in arrays:
        weights[STEM] = arrays[f"{STEM}/255"] * np.float32(255)
    if STEM not in weights:
        raise InputError(
            f"{path} was exported by an older version: export it again, or calibrate its "
            ".safetensors file."
        )
    _complete(weights, info.config)
    return ModelFile(weights, info, {})


def _complete(weights: dict[str, NDArray[Any]], config: NetworkConfig) -> None:
    """Add what an ONNX file lacks because prediction does not need it: the heat-map heads of
    earlier U-nets (those of the last one take their place) and the counters of batches."""
    last = f"trunk.heads.{config.unets - 1}."
    for name in list(weights):
        if name.startswith(last):
            for i in range(config.unets - 1):
                weights[name.replace(last, f"trunk.heads.{i}.")] = weights[name]
        if name.endswith(".running_mean"):
            weights[name.replace("running_mean", "num_batches_tracked")] = np.array(0, np.int64)


def _read_safetensors(path: Path) -> ModelFile:
    safetensors = require("safetensors", "calibrate")
    if not path.is_file():
        raise unreadable(path)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        known = metadata.get("format") == SAFETENSORS_FORMAT
        config = NetworkConfig.model_validate_json(metadata["config"]) if known else None
        notes = dict(json.loads(metadata["info"])) if known else {}
    except (safetensors.SafetensorError, OSError, KeyError, ValueError) as error:
        raise InputError(
            f"{path} is not a whole model file ({brief(error)}): fetch or save it again."
        ) from error
    if config is None:
        raise InputError(f"{path} is not a luvli model: make one with luvli train.")
    return ModelFile(weights, ModelInfo.from_training(path.stem, config, notes), notes)
