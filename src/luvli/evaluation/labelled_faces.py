"""`LabelledFaces`: predicted faces and their labels, the input of every metric and figure.

labelled = predict_records(luvli.load("luvli-68"), records, crop_by="detector")
labelled.nme("interocular").mean()         # percent
labelled[labelled.subsets["challenge"]]    # another LabelledFaces
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Bools, Floats
from luvli.data.boxes import ENLARGEMENTS
from luvli.data.record import FaceRecord, Visibility
from luvli.data.sets import SETS
from luvli.errors import InputError
from luvli.evaluation import accuracy, uncertainty
from luvli.evaluation.accuracy import NotMeasured
from luvli.faces import FaceLandmarks, Faces
from luvli.files import PathLike, is_there
from luvli.likelihood import covariance as algebra
from luvli.markup import Markup, get_markup, is_markup, markup_by_size

CROP_PIXELS = 256
"""side of the paper's crop"""
CROP_PER_HEATMAP = 4.0
"""pixels of that crop in one pixel of the paper's heat maps"""


_BY_FACE = ("faces", "labels", "label_visibility", "label_boxes", "names", "images", "subsets",
            "lengths", "groups", "paper_pixel")  # fmt: skip
"""the fields with one entry for each face"""


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
    paper's figures is measured in it (`paper_pixels`)"""
    dataset: str = ""
    subset: str = "all"
    method: str = "predictions"
    notes: tuple[str, ...] = ()
    """sentences about what was matched or left out"""

    def __post_init__(self) -> None:
        n, k = self.faces.points.shape[:2]
        shapes = {
            "labels": (n, k, 2), "label_visibility": (n, k), "label_boxes": (n, 4),
            "paper_pixel": (n,),
        }  # fmt: skip
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise InputError(f"{name} must have shape {shape}, got {value.shape}.")
        object.__setattr__(self, "names", self.names or tuple(f"face {i}" for i in range(n)))
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
            label_visibility = np.where(
                accuracy.measured(truth), Visibility.UNOCCLUDED, Visibility.UNLABELLED
            )
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
        subsets = [record.attributes.get("subsets", ()) for record in records]
        sizes = _all_or_none(record.attributes.get("box_size") for record in records)
        sets = {record.dataset for record in records}
        given = {n: value for n, value in about.items() if isinstance(value, np.ndarray) or value}
        fields: dict[str, Any] = {"dataset": sets.pop() if len(sets) == 1 else ""} | given
        names = fields.pop("names", [record.name for record in records])
        images = fields.pop("images", [record.image for record in records])
        fields.setdefault("paper_pixel", paper_pixels(records, fields["dataset"]))
        return cls(
            faces,
            np.stack([record.points for record in records]),
            np.stack([record.visibility for record in records]),
            label_boxes=_all_or_none(record.box for record in records),
            names=tuple(name or f"face {i}" for i, name in enumerate(names)),
            images=tuple(map(absolute_path, images)),
            subsets={
                name: np.array([name in each for each in subsets])
                for name in sorted(set().union(*subsets))
            },
            lengths={} if sizes is None else {"box_size": sizes},
            **fields,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[LabelledFaces]) -> LabelledFaces:
        """Faces of one point set, one after the other, without what is known of a test set as a
        whole: subsets, boxes, lengths."""
        return cls(
            Faces.concatenate([part.faces for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.label_visibility for part in parts]),
            names=tuple(name for part in parts for name in part.names),
            images=tuple(image for part in parts for image in part.images),
            groups={
                name: np.concatenate([part.groups[name] for part in parts])
                for name in parts[0].groups
            },
        )

    def __len__(self) -> int:
        return len(self.faces)

    def __getitem__(self, which: ArrayLike | slice) -> LabelledFaces:
        """The faces chosen by a mask, indices or a slice."""
        chosen = which if isinstance(which, slice) else np.asarray(which)
        if isinstance(chosen, np.ndarray) and not chosen.size:
            chosen = chosen.astype(np.intp)  # an empty list has no type of its own
        index = np.arange(len(self))[chosen]

        def rows(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: each[index] for name, each in value.items()}
            return tuple(value[i] for i in index) if isinstance(value, tuple) else value[index]

        known = {name: getattr(self, name) for name in _BY_FACE}
        return replace(self, **{n: rows(value) for n, value in known.items() if value is not None})

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
    def residuals(self) -> uncertainty.Residuals:
        """What every measure of uncertainty takes."""
        found = uncertainty.Residuals.of(
            self.points, self.needed("covariance"), self.labels, self.visible, self.likelihood
        )
        if np.isnan(found.gap).all():
            raise NotMeasured(f"{self.method} has no visible landmark with a prediction.")
        return found

    def needed(self, name: str) -> Floats:
        """Predicted covariance or visibility; raises `NotMeasured` where there is none."""
        values: Floats | None = getattr(self, name)
        if values is None:
            raise NotMeasured(f"this needs {name}, which the predictions of {self.method} lack.")
        if not np.isfinite(self.points).any():
            raise NotMeasured(f"{self.method} has no prediction.")
        return values

    @property
    def landmarks(self) -> int:
        """k, of each face."""
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


def faces_at(faces: Faces, rows: NDArray[np.intp]) -> Faces:
    """The faces of these rows, in this order; for -1 a face without locations."""
    if not len(faces):
        return Faces.stack([FaceLandmarks.empty(faces.markup)] * len(rows))
    chosen, missing = faces[np.where(rows < 0, 0, rows)], rows < 0

    def with_gaps(name: str, gap: float = np.nan) -> Floats:
        values: Floats = getattr(chosen, name).copy()
        values[missing] = gap
        return values

    unknown = ("points", "covariance", "occlusion", "boxes", "failure_logit", "confidence",
               "expected_error", "eyes_closed")  # fmt: skip
    gaps: dict[str, Any] = {name: with_gaps(name) for name in unknown}
    return replace(
        chosen, **gaps, visibility=with_gaps("visibility", 0.0), scores=with_gaps("scores", 0.0)
    )


def paper_pixels(records: Sequence[FaceRecord], dataset: str = "") -> Floats:
    """(n,) side of one pixel of the paper's crop, in image pixels, whatever network was run.

    The paper crops the square around a face's box, the data set's or the tight one, enlarges it
    (1.1 times; 1.25 for AFLW-19 and WFLW) and shows it as 256 pixels. So one of its pixels is a
    length on the *face*, in which networks of other crops are compared with it.
    """
    boxes = np.stack(
        [r.tight_box if r.box is None or r.box_kind == "tight" else r.box for r in records]
    )
    enlarge = SETS[dataset].enlarge if dataset in SETS else ENLARGEMENTS["reference"]
    return np.asarray((boxes[:, 2:] - boxes[:, :2]).max(axis=1) * enlarge / CROP_PIXELS)


def absolute_path(image: PathLike | None) -> str:
    """The path of an image as it is kept in a report: from the root where the file is there,
    so that it is found from any folder; as given otherwise, "" for none."""
    if not image:
        return ""
    path = Path(image)
    return (path.resolve() if is_there(path) and path.is_file() else path).as_posix()


def _all_or_none(values: Iterable[Any]) -> Floats | None:
    """Values as one array; None where one is missing."""
    listed = list(values)
    return None if any(v is None for v in listed) else np.array(listed, dtype=np.float64)
