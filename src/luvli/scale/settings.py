"""What every worker of a job is told."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import Predictor, load
from luvli.scale.prepare import ReadSettings


@dataclass(frozen=True)
class WorkerSettings:
    """Everything that a worker needs; put into the object store once."""

    target: str
    model: bytes
    """the model file, so that no node needs it"""
    suffix: str
    """its kind: .onnx or .safetensors"""
    read: ReadSettings
    job: JobSettings
    provider: str = "cpu"
    accept_from: float | None = None

    def predictor(self) -> Predictor:
        """The model, on one thread."""
        digest = hashlib.sha256(self.model).hexdigest()[:16]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{digest}{self.suffix}"
            path.write_bytes(self.model)
            predictor = load(path, threads=1, providers=[self.provider])
        return Predictor(
            predictor.backend, self.read.detector, self.read.small_faces, self.accept_from
        )
