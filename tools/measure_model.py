"""What a card reports: accuracy, calibration, visibility, occlusion, speed, on held-out faces.

Held out are a tenth of each source's photographs, by hashed names, as the model's recipe says;
labels are as published, whatever the recipe does to them in training, and faces that the
detector does not find count as lost. Every second of them, in the order of hashed names, is for
choosing between models; figures are of the others. All of them set the calibration; coverage
is measured crosswise, each half with the factors of the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli import load
from luvli.calibration.covariance import LEVELS, fit_covariance, in_one_convention
from luvli.calibration.measure import label_radii, with_calibration
from luvli.data.boxes import crop_box
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets import subsets_of
from luvli.evaluation import LabelledFaces, bootstrap, failure_rate, nme
from luvli.evaluation.evaluate_model import CropBy, predict_records
from luvli.evaluation.selective import auroc
from luvli.faces import Faces
from luvli.image.box import Box
from luvli.image.read import ImageArray
from luvli.likelihood import family
from luvli.markup import get_markup
from luvli.models import CardTable, Headline
from luvli.network.calibration import Calibration
from luvli.prediction.export import export_onnx
from luvli.prediction.predictor import Predictor
from luvli.progress import track
from luvli.training.recipe import Recipe
from luvli.training.sources import SourceFaces, load_source, name_hash

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
COMMAND = "python tools/release_model.py RUN"
LOST = {"interocular": 100.0, "box": 60.0}
"""NME (%) of a face that was not found"""
PUBLISHED = {"offset": (0.0, 0.0), "boxes": "labels", "relabel": None}
"""a recipe's source with its labels as they were published"""
MAX_GROUPS = 8
"""subsets of a source that get rows of their own"""
REPEATS = 300
"""times that a face is timed; other work on the machine only ever adds"""
POSES = {
    "frontal": ("frontal",),
    "half-profile": ("lefthalf", "righthalf"),
    "profile": ("left", "right"),
}


@dataclass(frozen=True)
class HeldOut:
    """Faces that the run did not train on, in the order of hashed names within a source."""

    records: list[FaceRecord]
    source: NDArray[np.str_]
    """(n,) the recipe's name of each face's source"""
    pose: NDArray[np.str_]
    """(n,) MERL-RAV's pose class, "" elsewhere"""
    chosen_by: Bools
    """(n,) whether a face is for choosing between models, and so not reported on"""

    def parts(self) -> dict[str, Bools]:
        """The rows of a table: each source, and the poses or groups of those that label them."""
        rows: dict[str, Bools] = {}
        group = np.array(["/".join(subsets_of(record)) for record in self.records])
        for name in dict.fromkeys(self.source.tolist()):
            there = self.source == name
            rows[name] = there
            for pose, names in POSES.items():
                of_pose = there & np.isin(self.pose, names)
                if of_pose.any():
                    rows[f"{name}, {pose}"] = of_pose
            groups = sorted(set(group[there].tolist()))
            if 1 < len(groups) <= MAX_GROUPS and not (self.pose[there] != "").any():
                rows |= {
                    f"{name}, {each.replace('_', ' ')}": there & (group == each) for each in groups
                }
        return rows

    def normalizer(self, part: Bools) -> str:
        """`interocular` for frontal faces with both eyes labelled; `box` for all other faces."""
        chosen = [self.records[i] for i in np.flatnonzero(part)]
        eyes = all(record.visible[[36, 45]].all() for record in chosen)
        return "interocular" if eyes and not (self.pose[part] != "").any() else "box"


def published_faces(recipe: Recipe) -> dict[str, SourceFaces]:
    """The faces of every source of photographs, labels as published, whether the detector finds
    them or not; of a recipe without photographs, its rendered faces."""
    sources = recipe.data.sources
    photographs = {name: source for name, source in sources.items() if source.set is not None}
    return {
        name: load_source(name, source.model_copy(update=PUBLISHED), recipe.data, recipe.network)
        for name, source in (photographs or sources).items()
    }


def held_out(sources: dict[str, SourceFaces]) -> HeldOut:
    """The held-out, labelled faces of every source."""
    records: list[FaceRecord] = []
    names: list[str] = []
    for name, source in sources.items():
        records += sorted(source.held_out, key=lambda record: name_hash(record.face_id))
        names += [name] * len(source.held_out)
    place = np.concatenate([np.arange(names.count(name)) for name in dict.fromkeys(names)])
    return HeldOut(
        records,
        np.array(names),
        np.array([str(record.attributes.get("pose", "")) for record in records]),
        place % 2 == 0,
    )


def predict_alone(predictor: Predictor, records: Sequence[FaceRecord], cache: Path) -> Faces:
    """One prediction for each face, from its image alone; NaN where the detector does not find it.
    Images are searched once: the detector's boxes are kept in the folder `cache`."""
    known: dict[str, list[Box]] = {}
    for record in with_detector_boxes(records, cache, predictor.info.detector):
        known.setdefault(str(record.image), []).append(crop_box(record))

    def detector(image: ImageArray, name: str = "") -> list[Box]:
        return known.get(name, [])

    return predict(Predictor(predictor.backend, detector), records, "detector")


def predict(predictor: Predictor, records: Sequence[FaceRecord], crop_by: CropBy) -> Faces:
    """One prediction for each face; NaN where it was not found."""
    return predict_records(
        predictor, records, crop_by, refine_boxes=True,
        progress=lambda faces: track(faces, f"held-out faces, {crop_by} boxes", unit="faces"),
    ).faces  # fmt: skip


def crossed_coverage(held: HeldOut, faces: LabelledFaces, calibration: Calibration) -> Floats:
    """(n, k) the share of its distribution that lies nearer to a landmark than the label, each
    half's by a calibration fitted on the other half, with the variances of the label convention of
    the model's own `calibration`; NaN where nothing can be measured."""
    assert faces.covariance is not None
    found, occlusion = ~faces.failed, faces.faces.occlusion
    covariance = calibration.undo(faces.covariance, occlusion, faces.points)
    uncalibrated = replace(
        faces.with_predictions(covariance=covariance, likelihood="laplace"),
        groups={"source": held.source},
    )
    convention = {"convention_variance": calibration.convention_variance}
    shares = np.full(faces.labels.shape[:2], np.nan)
    for half in (held.chosen_by, ~held.chosen_by):
        there, others = found & half, found & ~half
        within = fit_covariance(in_one_convention(uncalibrated[others]))
        fitted = within.model_copy(update=convention)
        calibrated = with_calibration(uncalibrated[there], fitted)
        shares[there] = family(calibrated.likelihood).radius_probability(label_radii(calibrated))
    return shares


def accuracy_table(held: HeldOut, by_detector: LabelledFaces, by_box: LabelledFaces) -> CardTable:
    """NME from the image alone and by given boxes, source by source."""
    rows = []
    for name, part in held.parts().items():
        chosen = part & ~held.chosen_by
        kind = held.normalizer(part)
        errors = per_face(by_detector, kind)[chosen]
        given = per_face(by_box, kind)[chosen]
        interval = bootstrap(errors)
        rows.append(
            [
                name,
                f"{chosen.sum():,}",
                kind,
                f"{interval.value:.2f}",
                f"{interval.low:.2f} to {interval.high:.2f}",
                f"{int(by_detector.failed[chosen].sum())}",
                f"{failure_rate(errors, 10.0):.1f}",
                f"{given.mean():.2f}",
            ]
        )
    return CardTable(
        title="Accuracy: NME of visible landmarks",
        headings=["faces", "n", "% of", "image alone", "95 % interval", "lost", "above 10 %",
                  "given boxes"],
        rows=rows,
        note="Labels as published. A face that was not found counts as 100 % (inter-ocular) or "
        "60 % (box). No face was trained on or used for choosing.",
    )  # fmt: skip


def per_face(faces: LabelledFaces, normalizer: str) -> Floats:
    """(n,) NME in percent, lost faces at their fixed price."""
    errors = nme(
        faces.points,
        faces.labels,
        normalizer,
        faces.visible,
        "visible",
        markup="ibug68",
    )
    return np.where(np.isfinite(errors), errors, LOST[normalizer])


def own_coverage(faces: LabelledFaces, likelihood: str) -> Floats:
    """(n, k) the same by the model's own, calibrated covariances and their density."""
    shares = np.full(faces.labels.shape[:2], np.nan)
    there = ~faces.failed
    assert faces.covariance is not None
    shares[there] = family(likelihood).radius_probability(label_radii(faces[there]))
    return shares


def convention_table(held: HeldOut, faces: LabelledFaces) -> CardTable:
    """How far labels lie from predictions on average, by part of the face: the convention."""
    frontal = (np.isin(held.pose, ("", "frontal"))) & ~held.chosen_by & ~faces.failed
    box = np.stack([record.tight_box for record in held.records])[frontal]
    size = np.sqrt((box[:, 2:] - box[:, :2]).prod(axis=1))[:, None, None]
    offset = 100 * (faces.labels[frontal] - faces.points[frontal]) / size
    offset = np.where(faces.visible[frontal][..., None], offset, np.nan)
    rows = []
    for group, members in get_markup("ibug68").groups.items():
        x, y = np.nanmean(offset[:, list(members)], axis=(0, 1))
        each = np.linalg.norm(np.nanmean(offset[:, list(members)], axis=0), axis=1)
        rows.append([group.replace("_", " "), f"{x:+.2f}", f"{y:+.2f}", f"{each.mean():.2f}"])
    return CardTable(
        title="Label convention: mean of label minus prediction, % of the box",
        headings=["part", "x", "y", "length of a landmark's own mean"],
        rows=rows,
        note="Frontal held-out faces of the research sets. Nothing was fitted to it.",
    )


def coverage_table(held: HeldOut, faces: LabelledFaces, shares: Floats, note: str) -> CardTable:
    """Share of labels inside the ellipses, by source, pose, and class of occlusion."""
    rows = [covered(name, shares[part]) for name, part in held.parts().items()]
    for title, value in (
        ("unoccluded landmarks", Visibility.UNOCCLUDED),
        ("externally occluded landmarks", Visibility.EXTERNALLY_OCCLUDED),
    ):
        of_class = np.where(faces.label_visibility == value, shares, np.nan)
        if np.isfinite(of_class).any():
            rows.append(covered(title, of_class))
    for group, members in get_markup("ibug68").groups.items():
        rows.append(covered(group.replace("_", " "), shares[:, list(members)]))
    return CardTable(
        title="Calibration: labels inside the ellipse that should hold p",
        headings=["faces or landmarks", *(f"{level:.0%}" for level in LEVELS)],
        rows=rows,
        note=note,
    )


def covered(name: str, shares: Floats) -> list[str]:
    known = shares[np.isfinite(shares)]
    return [name, *(f"{100 * np.mean(known <= level):.1f} %" for level in LEVELS)]


def headline(held: HeldOut, faces: LabelledFaces, speed: CardTable) -> Headline | None:
    """The figures that are listed beside those of other models; None without those faces."""
    wild = np.isin(held.source, ("lfpw", "helen")) & ~held.chosen_by
    merl = (held.source == "merl") & ~held.chosen_by
    if not (wild.any() and merl.any()):
        return None
    return Headline(
        nme_300w=round(float(per_face(faces, "interocular")[wild].mean()), 3),
        nme_merl_rav=round(float(per_face(faces, "box")[merl].mean()), 3),
        milliseconds=float(speed.rows[0][1].removesuffix(" ms")),
    )


def visibility_table(held: HeldOut, faces: LabelledFaces) -> CardTable:
    """Hidden landmarks called hidden, visible ones visible, where the labels tell."""
    assert faces.visibility is not None
    rows = []
    for name, part in held.parts().items():
        chosen = part & ~held.chosen_by & ~faces.failed
        classes, called = faces.label_visibility[chosen], faces.visibility[chosen] > 0.5
        if not (classes == Visibility.SELF_OCCLUDED).any():
            continue
        hidden, seen = classes == Visibility.SELF_OCCLUDED, classes > Visibility.SELF_OCCLUDED
        rows.append(
            [
                name,
                f"{chosen.sum():,}",
                f"{(~called[hidden]).mean():.3f}",
                f"{called[seen].mean():.4f}",
            ]
        )
    return CardTable(
        title="Visibility at 0.5",
        headings=["faces", "n", "hidden found", "visible kept"],
        rows=rows,
        note="Faces that were found; labels of MERL-RAV.",
    )


def occlusion_table(held: HeldOut, predictions: Faces) -> CardTable | None:
    """How well covered landmarks are separated from unoccluded ones; None if never trained."""
    if not any(face.occlusion_trained for face in predictions):
        return None
    classes = np.stack([record.visibility for record in held.records])
    predicted = np.stack([np.asarray(face.occlusion, dtype=float) for face in predictions])
    rows = []
    for name, part in held.parts().items():
        labelled = (classes > Visibility.SELF_OCCLUDED) & np.isfinite(predicted)
        chosen = labelled & (part & ~held.chosen_by)[:, None]
        covered_labels = classes[chosen] == Visibility.EXTERNALLY_OCCLUDED
        if not covered_labels.any():
            continue
        rows.append(
            [name, f"{covered_labels.sum():,}", f"{auroc(predicted[chosen], covered_labels):.3f}"]
        )
    return CardTable(
        title="Occlusion by something in front of the face",
        headings=["faces", "covered landmarks", "AUROC"],
        rows=rows,
        note="MERL-RAV's externally occluded landmarks against its unoccluded ones.",
    )


def speed_table(model: Path, onnx: Path) -> CardTable:
    """Seconds of the landmark stage for one face on one thread, and sizes of the files."""
    export_onnx(model, onnx)
    predictor = load(onnx, threads=1)
    side = predictor.info.config.input_size
    image = np.random.default_rng(0).integers(0, 256, (2 * side, 2 * side, 3), dtype=np.uint8)
    box = [Box(side / 2, side / 2, 1.5 * side, 1.5 * side)]
    seconds = [timed(lambda: predictor.predict(image, box)) for _ in range(REPEATS)]
    return CardTable(
        title="Speed and size",
        headings=["what", "figure"],
        rows=[
            [
                f"landmarks of one face, one thread, best of {REPEATS}",
                f"{1000 * min(seconds):.1f} ms",
            ],
            ["ONNX file", f"{onnx.stat().st_size / 1e6:.1f} MB"],
            ["safetensors file", f"{model.stat().st_size / 1e6:.1f} MB"],
        ],
        note="From an image and a box, on one core of an AMD EPYC server; the detector is not "
        "included. benchmarks/pipeline.py has ratios.",
    )


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def evaluated(held: HeldOut, predictions: Faces) -> LabelledFaces:
    return LabelledFaces.from_records(held.records, predictions).with_tight_boxes()
