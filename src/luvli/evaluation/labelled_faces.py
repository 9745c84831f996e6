"""`LabelledFaces`: predicted faces and their labels; and the one loop that makes them of a model.

labelled = predict_records(luvli.load("luvli-68"), records, crop_by="detector")
labelled.nme("interocular").mean()         # percent
labelled[labelled.subsets["challenge"]]    # another LabelledFaces
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.data.boxes import crop_box
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError, unknown_choice
from luvli.evaluation import accuracy
from luvli.evaluation.curve import NotMeasured, all_or_none
from luvli.evaluation.paper_units import CROP_PER_HEATMAP, crop_boxes, paper_pixels
from luvli.evaluation.table import listed_names
from luvli.faces import Faces, RegionRadii
from luvli.files import PathLike, is_there
from luvli.image.box import Box, best_match
from luvli.image.read import read_image
from luvli.likelihood import covariance as algebra
from luvli.markup import Markup, get_markup, is_markup, markup_by_size
from luvli.prediction.predictor import BATCH, CroppedFaces, Predictor

CropBy = Literal["paper", "reference", "tight", "detector", "detector-or-tight"]
"""Boxes to crop by. `paper`: the data set's, else the tight one with 5 % noise; `reference`: the
noise of the published code; `tight`: no noise; `detector`: what our own detector finds at the face,
no prediction where it finds none; `detector-or-tight`: the tight box there."""

T = TypeVar("T")

Progress = Callable[[Iterable[FaceRecord]], Iterable[FaceRecord]]
"""hands records on while it shows how far they are"""


@dataclass(frozen=True, eq=False)
class LabelledFaces:
    """n predicted faces with k landmarks each, and what is true: the input of every metric.

    `labelled[mask]` and `labelled[indices]` are `LabelledFaces` again.
    """

    faces: Faces
    """the predictions; points are NaN where there is none"""
    labels: Floats
    """(n, k, 2) in the pixels of the predictions; NaN where there is no label"""
    label_visibility: NDArray[np.int8]
    """(n, k) classes: -1, 0, 1, 2 (`luvli.data.record.Visibility`)"""
    label_boxes: Floats | None = None
    """(n, 4) the data set's own boxes, the normaliser if given; tight ones otherwise"""
    names: tuple[str, ...] = ()
    """(n) a name for each face"""
    images: tuple[str, ...] = ()
    """(n) paths of the images, "" where unknown"""
    subsets: Mapping[str, Bools] = field(default_factory=dict)
    """(n,) which faces belong to each named part of the test set"""
    lengths: Mapping[str, Floats] = field(default_factory=dict)
    """(n,) normalisers of the data set itself, by name: box_size of AFLW-19"""
    groups: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    """(n,) words that sort the faces, by name: source, photograph, corruption of a calibration"""
    paper_pixel: Floats | None = None
    """(n,) side of one pixel of the paper's 256-pixel crop, where known: what stands beside the
    paper's figures is measured in it (`luvli.evaluation.paper_units`)"""
    dataset: str = ""
    subset: str = "all"
    method: str = "predictions"
    notes: tuple[str, ...] = ()
    """sentences about what was matched or left out"""

    def __post_init__(self) -> None:
        n, k = self.faces.points.shape[:2]
        shapes: dict[str, tuple[int, ...]] = {
            "labels": (n, k, 2), "label_visibility": (n, k), "label_boxes": (n, 4),
            "paper_pixel": (n,),
        }  # fmt: skip
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise InputError(f"{name} must have shape {shape}, got {value.shape}.")
        names = self.names or tuple(f"face {i}" for i in range(n))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "images", self.images or ("",) * n)
        if len(self.names) != n or len(self.images) != n:
            raise InputError(f"{n} faces need {n} names and images.")

    @classmethod
    def from_arrays(
        cls,
        points: ArrayLike,
        labels: ArrayLike,
        label_visibility: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        visibility: ArrayLike | None = None,
        *,
        confidence: ArrayLike | None = None,
        expected_error: ArrayLike | None = None,
        markup: str | None = None,
        likelihood: str = "laplace",
        **about: Any,
    ) -> LabelledFaces:
        """Of arrays made by any program: points (n, k, 2), covariance (n, k, 2, 2) and visibility
        (n, k); None: not predicted. Covariances that are not positive-definite count as missing.

        >>> LabelledFaces.from_arrays(np.ones((3, 68, 2)), np.zeros((3, 68, 2))).visible.all()
        np.True_
        """
        faces = predicted_faces(points, covariance, visibility, markup, likelihood)
        scores: dict[str, Any] = {"confidence": confidence, "expected_error": expected_error}
        truth = np.array(labels, dtype=np.float64)
        if label_visibility is None:
            located = np.isfinite(truth).all(axis=-1)
            label_visibility = np.where(located, Visibility.UNOCCLUDED, Visibility.UNLABELLED)
        classes = np.asarray(label_visibility, dtype=np.int8)
        return cls(replace(faces, **scores).check(), truth, classes, **about)

    @classmethod
    def from_records(
        cls, records: Sequence[FaceRecord], faces: Faces, **about: Any
    ) -> LabelledFaces:
        """Labels and the predictions for them, in the same order.

        `about` are the plain fields: method, dataset, subset, notes.
        """
        if not records or len(records) != len(faces):
            raise InputError(
                f"{len(records)} labelled faces and {len(faces)} predictions: there must be one "
                "prediction for each face, and at least one face."
            )
        parts = {name for record in records for name in record.attributes.get("subsets", ())}
        sizes = all_or_none(record.attributes.get("box_size") for record in records)
        sets = {record.dataset for record in records}
        fields: dict[str, Any] = {"dataset": sets.pop() if len(sets) == 1 else ""}
        fields |= {
            name: value for name, value in about.items() if isinstance(value, np.ndarray) or value
        }
        names = fields.pop("names", [record.name for record in records])
        images = fields.pop("images", [record.image for record in records])
        fields.setdefault("paper_pixel", paper_pixels(crop_boxes(records), fields["dataset"]))
        return cls(
            faces,
            np.stack([record.points for record in records]),
            np.stack([record.visibility for record in records]),
            label_boxes=all_or_none(record.box for record in records),
            names=tuple(name or f"face {i}" for i, name in enumerate(names)),
            images=tuple(map(absolute_path, images)),
            subsets={
                name: np.array([name in r.attributes.get("subsets", ()) for r in records])
                for name in sorted(parts)
            },
            lengths={} if sizes is None else {"box_size": sizes},
            **fields,
        )

    def records(self) -> list[FaceRecord]:
        """The labels, as a label file would hold them."""
        return [
            FaceRecord(
                self.labels[i], self.label_visibility[i], Path(image) if image else None,
                None if self.label_boxes is None else self.label_boxes[i], "given",
                self.faces.markup, self.dataset, self.names[i],
                {"subsets": [name for name, mask in self.subsets.items() if mask[i]]}
                | {name: values[i] for name, values in self.lengths.items()},
            )
            for i, image in enumerate(self.images)
        ]  # fmt: skip

    def __len__(self) -> int:
        return len(self.faces)

    def __getitem__(self, which: ArrayLike | slice) -> LabelledFaces:
        """The faces chosen by a mask, indices or a slice."""
        chosen = which if isinstance(which, slice) else np.asarray(which)
        if isinstance(chosen, np.ndarray) and not chosen.size:
            chosen = chosen.astype(np.intp)  # an empty list has no type of its own
        index = np.atleast_1d(np.arange(len(self))[chosen])
        return replace(
            self,
            faces=self.faces[index],
            labels=self.labels[index],
            label_visibility=self.label_visibility[index],
            label_boxes=None if self.label_boxes is None else self.label_boxes[index],
            names=tuple(self.names[i] for i in index),
            images=tuple(self.images[i] for i in index),
            subsets={name: mask[index] for name, mask in self.subsets.items()},
            lengths={name: values[index] for name, values in self.lengths.items()},
            groups={name: words[index] for name, words in self.groups.items()},
            paper_pixel=None if self.paper_pixel is None else self.paper_pixel[index],
        )

    def with_predictions(self, **changes: Any) -> LabelledFaces:
        """The same labels with other arrays of the predictions (fields of `Faces`)."""
        return replace(self, faces=replace(self.faces, **changes))

    @property
    def points(self) -> Floats:
        """(n, k, 2) predicted locations."""
        return self.faces.points

    @property
    def likelihood(self) -> str:
        """The density that the covariances belong to."""
        return self.faces.likelihood

    @property
    def covariance(self) -> Floats | None:
        """(n, k, 2, 2) predicted covariances; None where the model was not trained for them."""
        return self.faces.covariance if self.faces.covariance_trained else None

    @property
    def visibility(self) -> Floats | None:
        """(n, k) predicted probabilities, NaN without a prediction; None where not trained."""
        if not self.faces.visibility_trained:
            return None
        return np.where(np.isnan(self.points[..., 0]), np.nan, self.faces.visibility)

    @property
    def distribution(self) -> tuple[Floats, Floats, Floats, Bools]:
        """Points, covariances, labels, and which are visible: what every measure of uncertainty
        takes."""
        covariance, visible = self._predicted("covariance"), self.visible
        if not (visible & np.isfinite(self.points).all(axis=2)).any():
            raise NotMeasured(f"{self.method} has no visible landmark with a prediction.")
        return self.points, covariance, self.labels, visible

    @property
    def visibility_pair(self) -> tuple[Floats, NDArray[np.int8]]:
        """`visibility` and the labels' classes."""
        return self._predicted("visibility"), self.label_visibility

    def _predicted(self, name: str) -> Floats:
        values: Floats | None = getattr(self, name)
        if values is None:
            raise NotMeasured(f"this needs {name}, which the predictions of {self.method} lack.")
        return values

    @property
    def landmarks(self) -> int:  # k
        return int(self.labels.shape[1])

    @property
    def markup(self) -> Markup | None:
        """The point set with its eyes and groups; None for one that is not known here."""
        name = self.faces.markup
        return get_markup(name) if is_markup(name) else None

    @property
    def visible(self) -> Bools:
        """(n, k) the landmarks that are measured: v_j = 1 and a location."""
        return accuracy.measured(self.labels, self.label_visibility > 0)

    @property
    def failed(self) -> Bools:
        """(n,) faces with a visible landmark that has no prediction."""
        unpredicted = ~np.isfinite(self.points).all(axis=2)
        return np.asarray((unpredicted & self.visible).any(axis=1))

    @property
    def box_size(self) -> Floats:
        """(n,) sqrt(w h) of the labels' box, in pixels."""
        return accuracy.normalizers(self.labels, "box", self.visible, self.label_boxes)

    @property
    def paper_heatmap_pixel(self) -> Floats | None:
        """(n,) side of one of the paper's heat-map pixels, where known."""
        return None if self.paper_pixel is None else self.paper_pixel * CROP_PER_HEATMAP

    def landmark_errors(self, normalizer: str = "box") -> Floats:
        """(n, k) percent of the normaliser; NaN if unmeasured, inf if unpredicted."""
        needs_eyes = normalizer in ("interocular", "interpupil")
        length: Any = self.lengths.get(normalizer, normalizer)
        if (needs_eyes and self.markup is None) or (length is normalizer == "box_size"):
            raise NotMeasured(f"these faces have no {normalizer}: choose another normalizer.")
        return accuracy.landmark_errors(
            self.points, self.labels, length, self.visible, boxes=self.label_boxes,
            markup=self.markup.name if self.markup else None,
        )  # fmt: skip

    def nme(self, normalizer: str = "box", average: accuracy.Average = "all") -> Floats:
        """(n,) percent: eq. 15 ("all"), or eq. 20 ("visible")."""
        return accuracy.average_errors(self.landmark_errors(normalizer), average)

    def with_tight_boxes(self) -> LabelledFaces:
        """The same faces, normalised by the tight boxes of their labels."""
        return replace(self, label_boxes=None)


def predicted_faces(
    points: ArrayLike,
    covariance: ArrayLike | None = None,
    visibility: ArrayLike | None = None,
    markup: str | None = None,
    likelihood: str = "laplace",
) -> Faces:
    """`Faces` of what any program predicts, None for what it does not; see `from_arrays`."""
    places = np.array(points, dtype=np.float64)
    places[~np.isfinite(places).all(axis=-1)] = np.nan
    n, k = places.shape[:2]
    spread, seen = np.full((n, k, 2, 2), np.nan), np.zeros((n, k))
    if covariance is not None:
        spread = np.array(covariance, dtype=np.float64)
        spread[~algebra.is_covariance(spread)] = np.nan
        spread = (spread + spread.swapaxes(-1, -2)) / 2  # of rounding
    if visibility is not None:
        seen = np.where(np.isnan(places[..., 0]), 0.0, np.asarray(visibility, np.float64))
    guess = markup_by_size(k)
    return Faces(
        places,
        spread,
        seen,
        markup=markup or (guess.name if guess else f"{k} points"),
        likelihood=likelihood,
        covariance_trained=covariance is not None,
        visibility_trained=visibility is not None,
    ).check()


def absolute_path(image: PathLike | None) -> str:
    """The path of an image as it is kept in a report: from the root where the file is there,
    so that it is found from any folder; as given otherwise, "" for none."""
    if not image:
        return ""
    path = Path(image)
    return (path.resolve() if is_there(path) and path.is_file() else path).as_posix()


def predict_records(
    predictor: Predictor,
    records: Iterable[FaceRecord],
    crop_by: str = "paper",
    *,
    refine_boxes: bool = False,
    skip_bad: bool = False,
    progress: Progress = iter,
    batch_size: int = BATCH,
    **about: Any,
) -> LabelledFaces:
    """Run a model over labelled faces. Those that the detector misses, or that have no label, have
    NaN points.

    Args:
        predictor: the model.
        records: labelled faces with images, all of the model's point set.
        crop_by: one of `CropBy`.
        refine_boxes: crop faces again where the landmarks do not fit a detector's box, as
            prediction does. Off: published protocols crop once.
        skip_bad: leave out faces whose image or box cannot be used, with a note that names each;
            otherwise the first of them raises `InputError`.
        progress: may wrap the records in a progress bar.
        batch_size: images in memory, and faces that go through the network together.
        about: fields of `LabelledFaces`: method, dataset, subset, notes.
    """
    if crop_by not in get_args(CropBy):
        raise unknown_choice("kind of crop", crop_by, get_args(CropBy))
    usable: list[FaceRecord] = []
    predictions: list[Faces] = []
    problems: list[InputError] = []
    markup = predictor.info.config.markup

    def crop(record: FaceRecord) -> CroppedFaces | InputError:
        if record.markup != markup:
            raise InputError(
                f"the model finds {markup} points and {record.name} is labelled with "
                f"{record.markup}: choose a data set or a model of the same markup."
            )
        try:
            return _crop(predictor, record, crop_by, refine_boxes)
        except InputError as error:
            return error

    for record, result in predict_each(predictor, progress(records), crop, batch_size):
        if isinstance(result, Faces):
            usable.append(record)
            predictions.append(result)
        elif skip_bad:
            problems.append(result)
        else:
            raise result
    if not usable:
        raise problems[0] if problems else InputError("there are no labelled faces to predict.")
    template = next((faces for faces in predictions if len(faces)), predictions[0])
    faces = Faces.concatenate([p if len(p) else _no_face(template) for p in predictions])
    notes = about.pop("notes", ())
    if problems:
        listed = listed_names([str(problem) for problem in problems])
        notes = (*notes, f"{len(problems)} bad faces were left out: {listed}")
    about = {"method": predictor.info.name, "notes": notes} | about
    return LabelledFaces.from_records(usable, faces, **about)


def predict_each(
    predictor: Predictor,
    items: Iterable[T],
    crop: Callable[[T], CroppedFaces | InputError],
    batch_size: int = BATCH,
) -> Iterator[tuple[T, Faces | InputError]]:
    """Each item with the faces predicted on what `crop` makes of it, or with its error.

    `crop` runs in as many threads as the model has; the faces of `batch_size` items go through the
    network together.
    """
    with ThreadPoolExecutor(max(1, predictor.backend.threads)) as pool:
        waiting = iter(items)
        while batch := list(islice(waiting, batch_size)):
            crops = list(pool.map(crop, batch))
            good = [one for one in crops if isinstance(one, CroppedFaces)]
            predictions = iter(predictor.predict_cropped(good) if good else [])
            for item, one in zip(batch, crops, strict=True):
                yield item, one if isinstance(one, InputError) else next(predictions)


def _crop(
    predictor: Predictor, record: FaceRecord, crop_by: str, refine_boxes: bool
) -> CroppedFaces:
    """The face cut out of its image; no box where nothing is labelled or detected."""
    if record.image is None:
        raise InputError(f"{record.name or 'a face'} has no image: a model cannot be run on it.")
    image, box = read_image(record.image), None
    try:
        if crop_by in ("paper", "reference") and (record.visible.any() or record.box is not None):
            box = crop_box(record, "reference" if crop_by == "reference" else "paper")
        elif record.visible.any():
            box = Box(*record.tight_box)
            if crop_by != "tight":
                detected = best_match(box, predictor.detect(image, str(record.image)))
                box = box if detected is None and crop_by == "detector-or-tight" else detected
    except InputError as error:
        raise InputError(f"{record.image}: {error}") from error
    if box is not None and box.detected and not refine_boxes:
        box = replace(box, detected=False)
    return predictor.preprocess(image, [] if box is None else [box], name=str(record.image))


def _no_face(like: Faces) -> Faces:
    """One face without locations, of the same model."""
    missing: dict[type, Any] = {np.bool_: False, np.int64: -1}
    changes: dict[str, Any] = {
        item.name: np.full((1, *values.shape[1:]), missing.get(values.dtype.type, np.nan))
        for item in fields(like)
        if isinstance(values := getattr(like, item.name), np.ndarray)
    }
    changes |= {"visibility": np.zeros_like(changes["visibility"]), "scores": np.zeros(1)}
    if like.regions is not None:
        levels, radii, joint = like.regions
        gaps = (np.full((1, *side.shape[1:]), np.nan) for side in (radii, joint))
        changes["regions"] = RegionRadii(levels, *gaps)
    return replace(like, **changes)
