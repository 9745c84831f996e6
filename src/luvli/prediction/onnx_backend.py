"""The default backend: ONNX Runtime, without PyTorch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, brief, check_range, unknown_choice
from luvli.faces import Faces
from luvli.files import PathLike
from luvli.image.read import ImageArray
from luvli.network.backend import CROPS, Windows, faces_in_crops, input_types, output_shapes
from luvli.network.model_info import ModelInfo
from luvli.onnx_runtime import onnx_runtime
from luvli.prediction.places import read_bytes

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}

CHUNK = 4
"""Faces in one call of the runtime: as many as keep the network's tensors in the cache."""


_EXTERNAL = re.compile(rb"(\x0a|\x8a\x80*\x00)(\x08|\x88\x80*\x00)location")
"""the key "location", as any protocol buffer may write it"""


def refuse_external_data(content: bytes, where: str) -> None:
    """Raise `InputError` where a tensor of the model lies in another file.

    Such a tensor names a file under the key "location", by any path, and the runtime reads it
    without asking. A model of ours is one file.
    """
    if _EXTERNAL.search(content):
        raise InputError(
            f"{where} keeps weights in another file, which is not read: export it again, or save "
            "it with all its weights inside."
        )


class OnnxBackend:
    """Runs an exported model. Safe to call from several threads at once.

    Each face is computed by one thread; several faces are spread over `threads` of them,
    which is faster than sharing out the small layers of one face.
    """

    def __init__(
        self, path: PathLike, threads: int | None = None, providers: Sequence[str] | None = None
    ) -> None:
        source = os.fspath(path)
        content, chosen = read_bytes(source), _providers(providers)
        refuse_external_data(content, source)
        try:
            session = self.session_of(content, chosen)
            described = session.get_modelmeta().custom_metadata_map
        except Exception as error:  # the runtime has an exception for each kind of damage
            raise InputError(
                f"{source} is not a whole ONNX model ({str(error).splitlines()[0][:80]}): "
                "fetch or export it again."
            ) from error
        self.info = ModelInfo.from_metadata(described, source)
        _compare(self.info, session, source)
        self._outputs = list(output_shapes(self.info))
        self.threads = thread_count(threads)
        self.session = session

    @staticmethod
    def session_of(content: bytes, providers: Sequence[str] = (PROVIDERS["cpu"],)) -> Any:
        """A session of the runtime that computes in the thread that calls it."""
        onnxruntime: Any = onnx_runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only; they are raised too
        return onnxruntime.InferenceSession(content, options, providers=list(providers))

    def __call__(self, crops: ImageArray, windows: Windows | None = None) -> Faces:
        """uint8 RGB crops (B, S, S, 3) -> faces in crop pixels."""
        inputs = (windows or Windows.of_crops(len(crops), self.info)).inputs(crops)
        size = max(min(CHUNK, -(-len(crops) // self.threads)), 1)
        starts = range(0, max(len(crops), 1), size)
        chunks = [{name: array[i : i + size] for name, array in inputs.items()} for i in starts]
        if self.threads == 1 or len(chunks) == 1:
            parts = [self._run(chunk) for chunk in chunks]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                parts = list(pool.map(self._run, chunks))
        columns = zip(*parts, strict=True)
        outputs = parts[0] if len(parts) == 1 else [np.concatenate(column) for column in columns]
        return faces_in_crops(dict(zip(self._outputs, outputs, strict=True)), self.info)

    def _run(self, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """The graph's outputs for a few crops."""
        try:
            outputs: list[NDArray[np.float32]] = self.session.run(self._outputs, inputs)
        except Exception as error:  # a graph that can be loaded may still not run
            raise InputError(
                f"the model {self.info.name} cannot be run ({brief(error)}): fetch or export it "
                "again."
            ) from error
        count = len(inputs[CROPS])
        if outputs[0].shape != (count, self.info.config.landmarks, 2):
            raise InputError(
                f"{self.info.name} gives {outputs[0].shape} for {count} faces, not what it "
                "describes: export it again."
            )
        return outputs


def _compare(info: ModelInfo, session: Any, path: str) -> None:
    """Refuse a file whose description contradicts its graph."""
    wanted = {
        name: (f"tensor({kind})", list(shape))
        for name, (kind, shape) in input_types(info.config).items()
    }
    wanted |= {name: ("tensor(float)", list(shape)) for name, shape in output_shapes(info).items()}
    nodes = (*session.get_inputs(), *session.get_outputs())
    present = {node.name: (node.type, list(node.shape[1:])) for node in nodes}
    if present != wanted:
        names = wanted.keys() | present.keys()
        wrong = sorted(name for name in names if present.get(name) != wanted.get(name))
        raise InputError(
            f"{path} describes another model than it holds (compare its {', '.join(wrong)}): "
            "export it again."
        )


def thread_count(threads: int | None) -> int:
    """The number asked for, or that of the cores this process may use."""
    if threads is None:
        asked = hasattr(os, "sched_getaffinity")  # Linux alone tells what a process may use
        return len(os.sched_getaffinity(0)) if asked else os.cpu_count() or 1
    check_range("threads", threads, 1)
    return threads


def _providers(wanted: Sequence[str] | None) -> list[str]:
    """The runtime's names of the providers, the processor last: it does what the others cannot."""
    names = [PROVIDERS.get(name, name) for name in (*(wanted or ()), "cpu")]
    for name in names:
        if name not in PROVIDERS.values():
            raise unknown_choice("provider", name, PROVIDERS)
        if name not in onnx_runtime().get_available_providers():
            raise InputError(
                f"this ONNX Runtime has no {name}: install onnxruntime-gpu, or use provider 'cpu'."
            )
    return list(dict.fromkeys(names))
