"""Predictions on held-out faces, plain and spoilt, kept in a file that `trust.py` measures on.

    python benchmarks/trust_faces.py luvli-68 --data DATA --out held.npz
    python benchmarks/trust_faces.py luvli-68 --data DATA --out every.npz --all 1500

Held out are the faces that recipes/luvli-68.yaml holds out; `--all N` takes up to N faces of each
of its sources instead, for the audit, whether the model was trained on them or not. The mirror
image of every crop goes through the network too. Covariances are kept as the network gives them,
before any calibration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from luvli.prediction.in_image import FacesInImage  # noqa: E402
from luvli.prediction.second_look import better_box  # noqa: E402

from luvli import load  # noqa: E402
from luvli.data.cache import cache_root  # noqa: E402
from luvli.data.detector_boxes import with_detector_boxes  # noqa: E402
from luvli.data.record import FaceRecord  # noqa: E402
from luvli.faces import FaceLandmarks  # noqa: E402
from luvli.image.box import Box  # noqa: E402
from luvli.image.crop import Crop  # noqa: E402
from luvli.image.read import ImageArray  # noqa: E402
from luvli.markup import get_markup  # noqa: E402
from luvli.network.backend import Backend  # noqa: E402
from luvli.prediction.predictor import Predictor  # noqa: E402
from luvli.progress import track  # noqa: E402
from luvli.training.recipe import Recipe  # noqa: E402
from luvli.training.recipe_files import read_recipe  # noqa: E402
from luvli.training.sources import load_source, model_detector, name_hash  # noqa: E402
from luvli.trust.measure import Measured, measure_faces  # noqa: E402
from measure_model import photograph_sources  # noqa: E402
from release_model import with_root  # noqa: E402

RECIPE = ROOT / "recipes" / "luvli-68.yaml"
Floats = NDArray[np.float64]


class MirrorPredictor(Predictor):
    """A predictor that also looks at the mirror image of everything it looks at."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.flip = get_markup(self.info.config.markup).flip
        self.mirrored: list[Floats] = []
        """(k, 2) for every face so far: image pixels, not mirrored any more"""
        self._looks: list[tuple[Floats, Floats, Floats]] = []

    def _in_image(self, pixels: Sequence[ImageArray], crops: Sequence[Crop]) -> FacesInImage:
        flipped = np.stack(pixels)[:, :, ::-1]
        seen = self.backend(np.ascontiguousarray(flipped)).points[:, self.flip].astype(np.float64)
        seen[..., 0] = flipped.shape[2] - 1 - seen[..., 0]
        there = np.stack([crop.to_image(one) for crop, one in zip(crops, seen, strict=True)])
        found = super()._in_image(pixels, crops)
        self._looks.append((there, found.points.copy(), found.visibility.copy()))
        return found

    def _run_batch(
        self, pixels: Sequence[ImageArray], crops: Sequence[Crop], boxes: Sequence[Box]
    ) -> list[FaceLandmarks]:
        self._looks.clear()
        faces = super()._run_batch(pixels, crops, boxes)
        there, points, visibility = self._looks[0]
        if len(self._looks) == 2:  # some faces were looked at twice: their last look counts
            wider = [len(one) > self.info.config.input_size for one in pixels]
            looks = zip(boxes, points, visibility, wider, strict=True)
            twice = [w and better_box(b, p, v) is not None for b, p, v, w in looks]
            there[twice] = self._looks[1][0]
        self.mirrored += list(there)
        return faces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a shipped model's name, or a file")
    parser.add_argument("--data", type=Path, required=True, help="the recipe's data.root")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--spoilt", type=int, default=3, help="spoilt versions of each face")
    parser.add_argument("--all", type=int, help="faces of each source, plain alone")
    options = parser.parse_args()
    recipe = with_root(read_recipe(RECIPE), str(options.data))
    predictor = load(options.model, threads=1)
    parts: list[dict[str, NDArray[Any]]] = []
    for name in photograph_sources(recipe):
        records = faces_of(recipe, name, options.all)
        parts.append(measured_part(predictor, records, 0 if options.all else options.spoilt, name))
    columns: dict[str, Any] = {
        key: np.concatenate([part[key] for part in parts]) for key in parts[0]
    }
    with options.out.open("wb") as file:
        np.savez_compressed(file, model=np.array(predictor.info.version), **columns)
    print(f"{len(columns['error']):,} faces in {options.out}")


def faces_of(recipe: Recipe, name: str, most: int | None) -> list[FaceRecord]:
    """Faces of a source that the detector finds, in the order of hashed names."""
    source = load_source(name, photograph_sources(recipe)[name], recipe.data, recipe.network)
    records = list(source.held_out)
    if most is not None:
        records += source.train
    records = sorted(records, key=lambda record: name_hash(record.face_id))[:most]
    cache = Path(recipe.data.cache or cache_root())
    return with_detector_boxes(records, cache, model_detector(recipe.data))


def measured_part(
    predictor: Predictor, records: Sequence[FaceRecord], spoilt: int, name: str
) -> dict[str, NDArray[Any]]:
    """The columns of one source, one row for each predicted face."""
    mirrored = MirrorPredictor(predictor.backend)
    shown = lambda items: track(items, name, len(records), unit="faces")  # noqa: E731
    measured = measure_faces(mirrored, records, spoilt, track=shown)
    owner = np.repeat(np.arange(len(records)), 1 + spoilt).tolist()
    calibration = predictor.info.calibration
    covariance = np.stack([face.covariance for face in measured.faces])
    if calibration is not None:
        occlusion = np.stack([face.occlusion for face in measured.faces])
        covariance = calibration.undo(covariance, occlusion)
    return {
        "points": np.stack([face.points for face in measured.faces]),
        "covariance": covariance,
        "visibility": np.stack([face.visibility for face in measured.faces]),
        "occlusion": np.stack([face.occlusion for face in measured.faces]),
        "box": np.stack([face.box for face in measured.faces]),
        "score": np.array([face.score for face in measured.faces]),
        "astray": np.array([np.nan if f.astray is None else f.astray for f in measured.faces]),
        "mirror": np.stack(mirrored.mirrored),
        "classes": np.stack([records[i].visibility for i in owner]),
        "image": np.array([str(records[i].image) for i in owner]),
        "face_id": np.array([records[i].face_id for i in owner]),
        "part": np.full(len(measured), name),
        **{key: getattr(measured, key) for key in _KEYS},
    }


_FIELDS = ("points", "covariance", "visibility", "occlusion", "box", "score", "astray")
_KEYS = ("truth", "error", "kind", "source", "photograph", "pose")


def read_faces(path: Path) -> tuple[Measured, dict[str, NDArray[Any]]]:
    """What `main` wrote: faces as the network gives them, and all columns."""
    with np.load(path) as file:
        columns = {key: file[key] for key in file.files}
    faces = tuple(
        FaceLandmarks(
            points=points,
            covariance=cov,
            visibility=visible,
            occlusion=occlusion,
            box=box,
            score=float(score),
            astray=None if np.isnan(astray) else float(astray),
        )
        for points, cov, visible, occlusion, box, score, astray in zip(
            *(columns[key] for key in _FIELDS),
            strict=True,
        )
    )
    return Measured(faces, *(columns[key] for key in _KEYS)), columns


if __name__ == "__main__":
    main()
