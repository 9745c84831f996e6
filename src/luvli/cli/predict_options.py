"""What `luvli predict` was asked for about the model and the cluster, for all of its ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luvli.image.known_boxes import BoxesFromFile
    from luvli.network.model_info import ModelInfo
    from luvli.prediction.predictor import Predictor


@dataclass(frozen=True)
class ModelOptions:
    """Which model, what it runs on, and where its boxes come from."""

    name: str
    """of a shipped model, or a file"""
    backend: str | None
    threads: int | None
    provider: str
    small_faces: bool
    boxes: Path | None
    max_failure_rate: float | None

    def predictor(self) -> Predictor:
        """The model, ready."""
        from luvli.prediction.predictor import Predictor, load

        backend: Any = self.backend
        predictor = load(self.name, backend, self.threads, [self.provider], self.small_faces)
        threshold = self.accept_from(predictor.info)
        return Predictor(predictor.backend, self.known_boxes(), self.small_faces, threshold)

    def known_boxes(self) -> BoxesFromFile | None:
        """The boxes of a file in place of a detector's."""
        from luvli.image.known_boxes import BoxesFromFile

        return None if self.boxes is None else BoxesFromFile(self.boxes)

    def accept_from(self, info: ModelInfo) -> float | None:
        """The confidence from which a face is accepted; None where nobody asked."""
        if self.max_failure_rate is None:
            return None
        from luvli.trust.triage import threshold_of

        return threshold_of(info, self.max_failure_rate).threshold

    def note(self, inputs: Sequence[str], accept_from: float | None) -> str:
        """What results depend on, besides the settings of the job."""
        from luvli.prediction.input_files import run_note

        return run_note(inputs, self.name, self.backend, self.boxes, self.small_faces, accept_from)


@dataclass(frozen=True)
class ClusterOptions:
    """What only a job on a cluster can be asked for."""

    address: str | None
    image_column: str | None
    name_column: str | None
    part_size: int | None
