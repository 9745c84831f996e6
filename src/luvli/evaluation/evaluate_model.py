"""From a model and a data set on disk to evaluated faces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from luvli.data.record import FaceRecord
from luvli.data.sets import get_set, load_set, parse_part
from luvli.evaluation.labelled_faces import LabelledFaces, Progress, predict_records
from luvli.files import PathLike
from luvli.models import find_model
from luvli.prediction.predictor import Predictor, load

_WHOLE = {("w300", "split1"): "full", ("w300", "split2"): "test", ("menpo", ""): "frontal"}
"""what the paper calls the whole test set, where it is not simply all of it"""


SPLIT2_TESTS = ("cofw68", "menpo")
"""beside 300-W's own, the test sets of its second split (Table 4 of the paper)"""


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
    crop_by: str = "paper",
    boxes: str = "set",
    refine_boxes: bool = False,
    method: str | None = None,
    given_boxes: bool = False,
    mean_estimator: str | None = None,
    covariance_estimator: str | None = None,
    progress: Progress = iter,
) -> LabelledFaces:
    """Run `model` over one part of a data set, which its name can say: `w300/split2/indoor`.

    `split` defaults to "test" where the set has one, and to "all" for a folder of your own.
    `crop_by` is one of `CropBy`, `boxes` as in `load_set`. `given_boxes` normalises by the data
    set's own boxes, not the tight ones. `mean_estimator` and `covariance_estimator` read a
    `.safetensors` network's heat maps in another way than it was saved with (`argmax`: the paper's
    DU-Net rows). `progress` may wrap the records in a progress bar, `refine_boxes` as of
    `predict_records`.
    """
    info, part = get_set(dataset), parse_part(dataset)
    dataset, subset, protocol = part.name, subset or part.subset, protocol or part.protocol
    split = split or part.split or info.test_split
    if protocol == "split2" and dataset in SPLIT2_TESTS:
        protocol = None  # of the training set: these are test sets of it, and have one protocol
    if protocol is None:
        folder = Path(root)
        known = info.detect is not None and folder.is_dir()
        protocol = info.detect(folder) if known and info.detect else info.protocols[0]
    predictor = _open(model, device, mean_estimator, covariance_estimator)
    faces = load_set(
        dataset, root, split, subset=subset, protocol=protocol, skip_bad=skip_bad,
        boxes=boxes,  # type: ignore[arg-type]  # checked there
    )  # fmt: skip
    records: Sequence[FaceRecord] = faces.records[:limit]
    notes = [f"Faces were cropped by: {crop_by}.", *faces.notes]
    if boxes == "tight":
        notes[0] = f"Faces were cropped by: {crop_by}, tight boxes instead of the data set's."
    if refine_boxes:
        notes.append("Boxes were refined: faces were cropped again by their landmarks.")
    for what, chosen in (("Locations", mean_estimator), ("Covariances", covariance_estimator)):
        if chosen is not None:
            notes.append(f"{what} were read from the network by: {chosen}.")
    if faces.problems:
        notes.append(f"{len(faces.problems)} bad faces of the data set were skipped.")
    if limit is not None and limit < len(faces):
        notes.append(f"Only the first {limit:,} of {len(faces):,} faces were evaluated.")
    labelled = predict_records(
        predictor,
        records,
        crop_by,
        refine_boxes=refine_boxes,
        skip_bad=skip_bad,
        progress=progress,
        method=method or predictor.info.name,
        dataset=dataset,
        subset=subset or whole_name(dataset, protocol),
        notes=tuple(notes),
    )
    return labelled if given_boxes else labelled.with_tight_boxes()


def _open(
    model: PathLike, device: str, mean_estimator: str | None, covariance_estimator: str | None
) -> Predictor:
    """The model, its heat maps read in another way where that is asked for."""
    changes = {"mean_estimator": mean_estimator, "covariance_estimator": covariance_estimator}
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        return load(model, providers=[device])
    from luvli.network.inference import CropPredictor

    opened = CropPredictor.load(find_model(model, "torch"), device=device)  # ONNX is fixed
    return Predictor(opened.with_changes(**changes))


def whole_name(dataset: str, protocol: str = "") -> str:
    """What the whole of a test set is called in tables."""
    return _WHOLE.get((dataset, protocol)) or _WHOLE.get((dataset, "")) or "all"
