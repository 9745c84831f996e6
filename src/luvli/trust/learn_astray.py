"""Teach a network to know when it went astray, on the faces that it was trained on.

Each face is predicted as it is and in spoilt versions (`luvli.trust.spoil`), and what the trunk
saw, the bottlenecks of all U-nets, is kept beside the error. On these two linear layers learn which
alignments went astray altogether; the rest of the network stays as it is. That it has learnt these
faces by heart does no harm: whether a picture is upside down, or shows a cat, is not in their
labels. How far its word is to be believed is found out on held-out faces, with the rest of the
confidence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from luvli.arrays import Bools, Floats
from luvli.data.record import FaceRecord
from luvli.errors import require
from luvli.faces import Faces
from luvli.image.read import ImageArray
from luvli.network.backend import INPUT, faces_in_crops
from luvli.network.heads import AstrayEstimator
from luvli.network.model import LUVLi, build
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_graph import BOTTLENECKS
from luvli.prediction.export import export_network
from luvli.prediction.onnx_backend import OnnxBackend
from luvli.prediction.predictor import Predictor
from luvli.progress import Track
from luvli.trust.confidence import ASTRAY_FROM, SPOILT_SHARE
from luvli.trust.measure import measure_faces

UNITS = 64
"""hidden units; 32 and 128 do as well"""
SPOILT_PER_FACE = 4
LEAST = 500
"""alignments that went astray, and such that did not, below which nothing is learnt"""
EPOCHS, BATCH_SIZE, LR, WEIGHT_DECAY, DROPOUT = 30, 256, 2e-3, 1e-2, 0.3


def learn_astray(
    network: LUVLi,
    info: ModelInfo,
    records: Sequence[FaceRecord],
    seed: int = 7,
    track: Track = iter,
) -> LUVLi:
    """The same network with an estimator of alignments that went astray, taught on `records`.

    Where too few went astray, or too few did not, the network comes back without one.
    """
    bare = without_astray(network)
    backend = _Recorder(bare, info)
    measured = measure_faces(Predictor(backend), records, SPOILT_PER_FACE, seed, track)
    known = ~np.isnan(measured.error)
    astray = measured.error[known] >= ASTRAY_FROM
    if min(astray.sum(), (~astray).sum()) < LEAST:
        return bare
    number = np.array([face.failure_logit for face in measured.faces], dtype=np.float64)[known]
    spoilt = ~measured.plain[known]
    weight = np.where(spoilt, SPOILT_SHARE / (1 - SPOILT_SHARE), 1.0)
    estimator = fit_estimator(backend.bottlenecks()[number.astype(np.intp)], astray, weight)
    return with_estimator(bare, estimator)


class _Recorder(OnnxBackend):
    """Runs a network and keeps the bottlenecks of every crop. It answers with the crop's number
    where log-odds of having gone astray would stand: so a face tells from which crop it came."""

    def __init__(self, network: LUVLi, info: ModelInfo) -> None:
        onnx = require("onnx", "train")
        inputs = network.config.unets * network.config.bottleneck_size
        probe = with_estimator(network, AstrayEstimator(inputs, 1))  # its graph has all bottlenecks
        about = info.model_copy(update={"config": probe.config, "trust": None})
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "probe.onnx"
            export_network(probe, about, path)
            super().__init__(path, threads=1)
            proto = onnx.load(path)
        shape = onnx.helper.make_tensor_value_info(BOTTLENECKS, 1, ["faces", inputs])
        proto.graph.output.append(shape)
        self.session = self.session_of(proto.SerializeToString())
        self._kept: list[NDArray[np.float32]] = []
        self._count = 0

    def __call__(self, crops: ImageArray) -> Faces:
        names = [*self._outputs, BOTTLENECKS]
        told = dict(zip(names, self.session.run(names, {INPUT: crops}), strict=True))
        seen = told.pop(BOTTLENECKS)
        self._kept.append(seen)
        numbers = np.arange(self._count, self._count + len(seen), dtype=np.float64)
        self._count += len(seen)
        return replace(faces_in_crops(told, self.info), failure_logit=numbers)

    def bottlenecks(self) -> NDArray[np.float32]:
        """(crops so far, U C h w)"""
        return np.concatenate(self._kept)


def fit_estimator(
    bottlenecks: NDArray[np.float32], astray: Bools, weight: Floats, units: int = UNITS
) -> AstrayEstimator:
    """Learn from bottlenecks (n, d) which alignments (n,) went astray: cross-entropy, AdamW.

    Inputs are standardised; the two layers that come back take them as they are.
    """
    seen = torch.from_numpy(bottlenecks)
    centre, spread = seen.mean(dim=0), seen.std(dim=0) + 1e-2
    seen = (seen - centre) / spread
    wanted = torch.from_numpy(astray.astype(np.float32))
    counts = torch.from_numpy(weight.astype(np.float32))
    draw = torch.Generator().manual_seed(0)
    estimator = AstrayEstimator(seen.shape[1], units)
    with torch.no_grad():
        for layer in (estimator.hidden, estimator.linear):
            bound = layer.in_features**-0.5
            layer.weight.uniform_(-bound, bound, generator=draw)
            layer.bias.zero_()
    optimizer = torch.optim.AdamW(estimator.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    batches = max(1, len(seen) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=EPOCHS * batches + 1)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(seen), generator=draw).chunk(batches):
            hidden = F.relu(estimator.hidden(seen[rows]))
            kept = torch.rand(hidden.shape, generator=draw) >= DROPOUT
            logits = estimator.linear(hidden * kept / (1 - DROPOUT))[:, 0]
            loss = F.binary_cross_entropy_with_logits(logits, wanted[rows], counts[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    _take_raw_inputs(estimator.hidden, centre, spread)
    return estimator.eval()


def _take_raw_inputs(layer: nn.Linear, centre: Tensor, spread: Tensor) -> None:
    """Change a layer of standardised inputs into the same of inputs as they are."""
    with torch.no_grad():
        layer.weight.div_(spread)
        layer.bias.sub_(layer.weight @ centre)


def without_astray(network: LUVLi) -> LUVLi:
    """A copy of a network that does not tell whether it went astray."""
    bare = build(network.config.model_copy(update={"astray": 0}))
    weights = {n: t for n, t in network.state_dict().items() if not n.startswith("astray.")}
    bare.load_state_dict(weights)
    return bare.eval()


def with_estimator(network: LUVLi, estimator: AstrayEstimator) -> LUVLi:
    """A copy of a network, which has none, with this estimator."""
    units = estimator.hidden.out_features
    made = build(network.config.model_copy(update={"astray": units}))
    told = {f"astray.{name}": tensor for name, tensor in estimator.state_dict().items()}
    made.load_state_dict(network.state_dict() | told)
    return made.eval()
