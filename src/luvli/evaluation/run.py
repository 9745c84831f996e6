"""From a model and a data set on disk to evaluated faces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set
from luvli.errors import InputError
from luvli.evaluation.faces import EvaluatedFaces, from_records
from luvli.faces import FaceLandmarks
from luvli.files import PathLike

Track = Callable[[Iterable[FaceRecord]], Iterable[FaceRecord]]

_WHOLE = {("w300", "split1"): "full", ("w300", "split2"): "test", ("menpo", ""): "frontal"}
"""what the paper calls the whole test set, where it is not simply all of it"""


class Answer(NamedTuple):
    """What a model says of one labelled face."""

    face: FaceLandmarks
    """in image pixels; `FaceLandmarks.empty` where the model found nothing"""
    heatmap_pixel: float | None = None
    """side of one heat-map pixel in image pixels (crop side / 64), where the model has them"""


def run_model(model: PathLike, records: Iterable[FaceRecord], device: str) -> Iterator[Answer]:
    """The model's answer for each record, in order, cropped by the record's own box.

    The one place where the evaluation touches a model.
    """
    raise InputError(f"{model} cannot be run: this version of luvli has no predictor yet.")


def evaluate_set(
    model: PathLike,
    dataset: str,
    root: PathLike,
    *,
    subset: str | None = None,
    split: str | None = None,
    protocol: str | None = None,
    skip_bad: bool = False,
    limit: int | None = None,
    device: str = "cpu",
    method: str | None = None,
    given_boxes: bool = False,
    track: Track = iter,
) -> EvaluatedFaces:
    """Run `model` over one part of a data set.

    `split` defaults to "test" where the set has one, and to "all" for a folder of your own.
    `given_boxes` normalises by the data set's own boxes, not the tight ones. `track` may wrap
    the records in a progress bar.
    """
    info = get_set(dataset)
    if split is None:
        split = "all" if "all" in info.splits else "test"
        split = split if split in info.splits else info.splits[0]
    if protocol is None:
        folder = Path(root)
        known = info.detect is not None and folder.is_dir()
        protocol = info.detect(folder) if known and info.detect else info.protocols[0]
    faces = load_set(dataset, root, split, subset=subset, protocol=protocol, skip_bad=skip_bad)
    records: Sequence[FaceRecord] = faces.records[:limit]
    answers = list(run_model(model, track(records), device))
    pixels = [answer.heatmap_pixel for answer in answers if answer.heatmap_pixel is not None]
    notes = []
    if faces.problems:
        notes.append(f"{len(faces.problems)} bad faces of the data set were skipped.")
    if limit is not None and limit < len(faces):
        notes.append(f"Only the first {limit:,} of {len(faces):,} faces were evaluated.")
    evaluated = from_records(
        records,
        [answer.face for answer in answers],
        pixels if len(pixels) == len(answers) else None,
        method=method or Path(model).name,
        dataset=dataset,
        subset=subset or whole_name(dataset, protocol),
        notes=tuple(notes),
    )
    return evaluated if given_boxes else evaluated.with_tight_boxes()


def whole_name(dataset: str, protocol: str = "") -> str:
    """What the whole of a test set is called in tables."""
    return _WHOLE.get((dataset, protocol)) or _WHOLE.get((dataset, "")) or "all"
