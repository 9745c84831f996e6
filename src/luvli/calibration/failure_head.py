"""Trains the failure head: two layers that read, from the bottlenecks of all U-nets, whether an
alignment failed completely.

It is trained on faces that the network was trained on, as they are and corrupted; the rest of the
network stays as it is. That the network knows these faces does no harm: whether an image is upside
down, or shows a cat, is not in their labels. What the failure score is worth is fitted on held-out
faces, with the rest of the failure model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools, Floats
from luvli.calibration.fit_failure_model import FAILURE_FROM
from luvli.calibration.measure import face_errors, is_plain, measure_faces
from luvli.calibration.model_file import ModelFile
from luvli.data.record import FaceRecord
from luvli.errors import require
from luvli.prediction.predictor import Predictor
from luvli.progress import Track

UNITS = 64
"""hidden units; 32 and 128 do as well"""
CORRUPTED_PER_FACE = 4
CORRUPTED_SHARE = 0.2
"""share of corrupted images in what the head learns from, whatever their number"""
MIN_ALIGNMENTS = 500
"""failures, and other alignments, below which no head is trained"""
EPOCHS, BATCH_SIZE, LR, WEIGHT_DECAY, DROPOUT = 30, 256, 2e-3, 1e-2, 0.3


def fit_failure_head(
    model: ModelFile, records: Sequence[FaceRecord], seed: int = 7, progress: Track = iter
) -> ModelFile:
    """The same model with a failure head trained on `records`; without one where too few
    alignments failed, or too few did not."""
    if model.info.config.trunk != "dunet":
        return model
    bottlenecks, error, corrupted = _record_bottlenecks(model, records, seed, progress)
    failed = error >= FAILURE_FROM
    if min(failed.sum(), (~failed).sum()) < MIN_ALIGNMENTS:
        return with_head(model, {})
    weight = np.where(corrupted, CORRUPTED_SHARE / (1 - CORRUPTED_SHARE), 1.0)
    return with_head(model, train_head(bottlenecks, failed, weight))


def with_head(model: ModelFile, head: dict[str, NDArray[np.float32]]) -> ModelFile:
    """The model with the weights of this head, "failure.hidden.weight" and so on; {} for none."""
    units = len(head["failure.hidden.weight"]) if head else 0
    config = model.info.config.model_copy(update={"failure_head": units})
    trunk = {name: w for name, w in model.weights.items() if not name.startswith("failure.")}
    return replace(model, weights=trunk | head).with_info(config=config)


def _record_bottlenecks(
    model: ModelFile, records: Sequence[FaceRecord], seed: int, progress: Track
) -> tuple[NDArray[np.float32], Floats, Bools]:
    """Bottlenecks (n, d), errors (n,) in percent of the box, and whether (n,) the image is
    corrupted. Every crop counts as it is, without box refinement."""
    torch: Any = require("torch", "train")
    from luvli.network.inference import CropPredictor

    inputs = model.info.config.unets * model.info.config.bottleneck_size
    shapes = {"hidden.weight": (1, inputs), "hidden.bias": 1, "linear.weight": (1, 1),
              "linear.bias": 1}  # fmt: skip
    empty = {f"failure.{name}": np.zeros(shape, np.float32) for name, shape in shapes.items()}
    recorded: list[NDArray[np.float32]] = []

    def record(head: Any, arguments: Any) -> None:
        """What the head reads: a tensor (B, C, h, w) of each U-net."""
        (bottlenecks,) = arguments
        recorded.append(torch.cat([each.flatten(1) for each in bottlenecks], dim=1).numpy())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        with_head(model.with_info(trust=None), empty).write(path)
        backend = CropPredictor.load(path)
    assert backend.network.failure is not None
    backend.network.failure.register_forward_pre_hook(record)
    faces = measure_faces(
        Predictor(backend), records, CORRUPTED_PER_FACE, seed, progress, refine_boxes=False
    )
    return np.concatenate(recorded), face_errors(faces), ~is_plain(faces)


def train_head(
    bottlenecks: NDArray[np.float32], failed: Bools, weight: Floats, units: int = UNITS
) -> dict[str, NDArray[np.float32]]:
    """Learn from bottlenecks (n, d) which alignments (n,) failed: cross-entropy, AdamW, dropout.

    Inputs are standardised; the weights that come back take them as they are.
    """
    torch: Any = require("torch", "train")
    from luvli.network.heads import FailureEstimator

    functional = torch.nn.functional
    inputs = torch.from_numpy(bottlenecks)
    centre, spread = inputs.mean(dim=0), inputs.std(dim=0) + 1e-2
    inputs = (inputs - centre) / spread
    targets = torch.from_numpy(failed.astype(np.float32))
    weights = torch.from_numpy(weight.astype(np.float32))
    generator = torch.Generator().manual_seed(0)
    head = FailureEstimator(inputs.shape[1], units)
    with torch.no_grad():
        for layer in (head.hidden, head.linear):
            bound = layer.in_features**-0.5
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.zero_()
    optimizer = torch.optim.AdamW(head.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    batches = max(1, len(inputs) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=EPOCHS * batches + 1)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(inputs), generator=generator).chunk(batches):
            hidden = functional.relu(head.hidden(inputs[rows]))
            dropped = hidden * (torch.rand(hidden.shape, generator=generator) >= DROPOUT)
            logits = head.linear(dropped / (1 - DROPOUT))[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, targets[rows], weights[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        head.hidden.weight.div_(spread)
        head.hidden.bias.sub_(head.hidden.weight @ centre)
    return {f"failure.{name}": t.detach().numpy() for name, t in head.state_dict().items()}
