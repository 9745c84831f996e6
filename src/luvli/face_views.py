"""What a face can be asked for besides its numbers: parts of it, crops, drawings, tables.

`FaceLandmarks` inherits these methods; they change nothing and keep nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError, a_type, require
from luvli.image.align import Template, align_affine
from luvli.image.box import Box
from luvli.markup import Markup, get_markup, is_markup

if TYPE_CHECKING:
    from luvli.faces import FaceLandmarks, RegionRadii
    from luvli.image.read import ImageArray
    from luvli.image.source import AnyImage, Color

Which = int | str | slice | ArrayLike
"""a landmark by number, landmarks or parts by name, a slice, numbers, or a mask"""
PART = ": "
"""stands between the name of a point set and that of the part of it that a face was cut to"""


class FaceViews:
    """Parts, crops, drawings and tables of a face."""

    if TYPE_CHECKING:
        points: Floats
        covariance: Floats
        visibility: Floats
        box: Floats
        score: float
        markup: str
        visibility_trained: bool
        covariance_trained: bool
        occlusion: Floats
        confidence: float | None
        regions: RegionRadii | None
        track: int | None

        def __len__(self) -> int: ...
        @property
        def is_empty(self) -> bool: ...
        @property
        def uncertainty(self) -> Floats: ...

    def __repr__(self) -> str:
        """One line: how many points, where, how sure."""
        if self.is_empty:
            return f"FaceLandmarks({len(self)} points of {self.markup}, no face)"
        x0, y0, x1, y1 = (round(float(edge), 1) for edge in self.box)
        told = [
            f"{len(self)} point{'' if len(self) == 1 else 's'} of {self.markup}",
            f"box ({x0}, {y0}, {x1}, {y1})",
            f"score {self.score:.2f}",
        ]
        if not np.isnan(self.uncertainty).all():  # points of another program have none
            told.append(f"uncertainty {np.nanmean(self.uncertainty):.2f} px")
        if self.visibility_trained:
            told.append(f"{int((self.visibility <= 0.5).sum())} hidden")
        if self.confidence is not None:
            told.append(f"confidence {self.confidence:.2f}")
        if self.track is not None:
            told.append(f"track {self.track}")
        return f"FaceLandmarks({', '.join(told)})"

    @property
    def names(self) -> tuple[str, ...]:
        """What the landmarks are called, for instance "left eye outer corner"."""
        whole = self.markup.partition(PART)[0]
        known = get_markup(whole).names if is_markup(whole) else None
        return tuple(known[j] if known else f"landmark {j}" for j in self._numbers())

    def _numbers(self) -> list[int]:
        """Which landmarks of the whole point set these are; a part's name says so."""
        whole, _, part = self.markup.partition(PART)
        if not part or not (is_markup(whole) or part[0].isdecimal()):
            return list(range(len(self)))
        found: list[int] = []
        for name in part.split(", "):
            first, _, last = name.partition("-")
            if first.isdecimal():
                found += range(int(first), int(last or first) + 1)
            else:
                found += get_markup(whole).find(name)
        return found

    def __getitem__(self, which: Which) -> Self:
        """Some of the landmarks, as a face of their own: `face["left_eye"]`, `face[36:42]`,
        `face[["left_eye", "chin"]]`, `face[face.visible()]`; left and right are the person's."""
        names = [which] if isinstance(which, str) else which
        if isinstance(names, list | tuple) and names and all(isinstance(n, str) for n in names):
            markup = self._whole_markup("parts by name")
            index = np.array([j for n in names for j in markup.find(str(n))], dtype=np.intp)
            name = ", ".join(map(str, names))
        else:
            numbers = np.arange(len(self))
            chosen: Any = which if isinstance(which, slice) else np.asarray(which)
            if isinstance(chosen, np.ndarray) and not chosen.size:
                chosen = chosen.astype(np.intp)  # an empty list has no type of its own
            index = np.atleast_1d(numbers[chosen])  # IndexError where there is no such landmark
            name = _runs(np.asarray(self._numbers(), dtype=np.intp)[index])
        kept: Any = self.regions
        if kept is not None:
            kept = kept._replace(radii=kept.radii[index])
        return replace(  # type: ignore[type-var]  # FaceLandmarks is a dataclass
            self,
            points=self.points[index],
            covariance=self.covariance[index],
            visibility=self.visibility[index],
            occlusion=self.occlusion[index],
            markup=f"{self.markup.partition(PART)[0]}{PART}{name}",
            regions=kept,
        )

    def _whole_markup(self, wanted: str) -> Markup:
        """The point set, for what a part of a face cannot be asked for."""
        if PART in self.markup:
            raise InputError(
                f"this is a part of a face ({self.markup}), which has no {wanted}: ask the whole "
                "face."
            )
        return get_markup(self.markup)

    def relative(self, width: float, height: float) -> Floats:
        """(k, 2) points as fractions of the image's width and height: 0 at its left and top edge,
        1 at its right and bottom edge."""
        return np.asarray((self.points + 0.5) / (width, height))

    # -- images ----------------------------------------------------------------------------

    def crop(
        self, image: AnyImage, size: int | None = None, margin: float = 0.25, color: Color = "rgb"
    ) -> ImageArray:
        """The face cut out of its image: a square around the box, wider by `margin` on each side.

        Black beyond the image's edge. `size` is the side in pixels; by default the image's own
        resolution is kept.
        """
        from luvli.image.crop import Crop

        if np.isnan(self.box).any():
            raise InputError("there is no face to cut out: its box has no location.")
        edges = Box(*(float(edge) for edge in self.box))
        side = max(edges.width, edges.height) * (1 + 2 * margin)
        wanted = max(2, round(side)) if size is None else size
        window = Crop.from_box(edges, wanted, 1 + 2 * margin)
        return window.warp(_read(image, color))

    def align(
        self,
        image: AnyImage,
        size: int = 112,
        template: Template = "arcface",
        color: Color = "rgb",
    ) -> ImageArray:
        """The face upright, (size, size, 3) RGB, with eyes, nose and mouth where the template
        wants them. `align_affine` gives the transformation itself."""
        from luvli.image.crop import warp_affine

        pixels = _read(image, color)
        return warp_affine(pixels, self.align_affine(size, template), size)

    def align_affine(self, size: int = 112, template: Template = "arcface") -> Floats:
        """(2, 3) from image pixels to those of the aligned face: `face.transform` takes it."""
        return align_affine(self.five_points(), size, template)

    def five_points(self) -> Floats:
        """(5, 2) centres of the eyes, nose tip, corners of the mouth; the person's right first.
        NaN where the point set has none."""
        markup = self._whole_markup("eyes, nose and mouth to align by")
        found = [self.points[list(eye)].mean(axis=0) for eye in markup.eyes]
        for name in ("nose tip", "right mouth corner", "left mouth corner"):
            known = name in markup.names
            found.append(self.points[markup.names.index(name)] if known else np.full(2, np.nan))
        return np.stack(found)

    def draw(self, image: AnyImage, **options: Any) -> ImageArray:
        """The face on a copy of its image: `luvli.draw(image, [face], ...)`."""
        from luvli.drawing.draw import draw

        return draw(image, [cast("FaceLandmarks", self)], **options)

    # -- tables ----------------------------------------------------------------------------

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with one row for each landmark; `landmark` is its number in the
        whole point set, for parts of a face, too."""
        pandas = require("pandas", "tables")
        return pandas.DataFrame(
            {
                "landmark": self._numbers(),
                "name": list(self.names),
                "x": self.points[:, 0],
                "y": self.points[:, 1],
                "var_x": self.covariance[:, 0, 0],
                "var_y": self.covariance[:, 1, 1],
                "cov_xy": self.covariance[:, 0, 1],
                "uncertainty": self.uncertainty,
                "visibility": self.visibility,
                "occlusion": self.occlusion,
            }
        )


def _runs(numbers: NDArray[np.intp]) -> str:
    """Numbers in words: those that follow each other as first-last.

    >>> _runs(np.array([36, 37, 38, 8]))
    '36-38, 8'
    """
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1) if len(numbers) else []
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _read(image: AnyImage, color: Color) -> ImageArray:
    from luvli.image.read import read_image
    from luvli.image.source import plain_source

    return read_image(plain_source(image, color))


def to_supervision(faces: FaceLandmarks | Sequence[FaceLandmarks]) -> Any:
    """Faces of one point set as `supervision.KeyPoints`, for its annotators.

    Its `visible` leaves out landmarks that the head hides; covariances, boxes and everything else
    about a face travel in its `data`, with NaN for what the model does not tell.
    """
    from luvli.faces import ARRAYS, PLAIN_FIELDS

    try:
        supervision = import_module("supervision")
    except ImportError as error:
        raise InputError("supervision is not installed: pip install supervision.") from error
    several = [faces] if isinstance(faces, FaceViews) else list(faces)
    if len({face.markup for face in several}) > 1:
        raise InputError("faces of several point sets do not fit into one KeyPoints.")
    if not several:
        return supervision.KeyPoints.empty()
    data = {name: np.stack([getattr(face, name) for face in several]) for name in ARRAYS}
    for name in PLAIN_FIELDS:
        values = [getattr(face, name) for face in several]
        data[name] = np.array([np.nan if value is None else value for value in values])
    seen = [face.visible() if face.visibility_trained else len(face) * [True] for face in several]
    fields = {
        "keypoint_confidence": data["visibility"].astype(np.float32),
        "detection_confidence": data["score"].astype(np.float32),
        "visible": np.array(seen),
    }
    known = signature(supervision.KeyPoints).parameters  # older versions have fewer
    return supervision.KeyPoints(
        xy=data.pop("points"),
        class_id=np.zeros(len(several), int),
        data=data,
        **{name: values for name, values in fields.items() if name in known},
    )


def from_supervision(keypoints: Any, markup: str | None = None) -> list[FaceLandmarks]:
    """The inverse of `to_supervision`. KeyPoints of other programs have no covariances (NaN),
    and their visibility means nothing."""
    from luvli.faces import ARRAYS, PLAIN_FIELDS, FaceLandmarks
    from luvli.markup import markup_by_size

    if not hasattr(keypoints, "xy"):
        raise InputError(f"from_supervision takes supervision.KeyPoints, not {a_type(keypoints)}.")
    faces = []
    for number, points in enumerate(np.asarray(keypoints.xy, dtype=np.float64)):
        k = len(points)
        known = markup_by_size(k)
        fields: dict[str, Any] = {
            "points": points,
            "covariance": np.full((k, 2, 2), np.nan),
            "visibility": np.ones(k),
            "markup": known.name if known else f"points{k}",
            "visibility_trained": False,
            "covariance_trained": False,
        }
        for name, values in keypoints.data.items():
            value = values[number]
            if name in ARRAYS:
                fields[name] = value
            elif name in PLAIN_FIELDS:
                value = value.item() if isinstance(value, np.generic) else value
                fields[name] = None if isinstance(value, float) and np.isnan(value) else value
        if markup:
            fields["markup"] = markup
        if "box" not in fields:
            fields["box"] = Box.around(points).array
        if fields.get("track") is not None:
            fields["track"] = int(fields["track"])
        faces.append(FaceLandmarks(**fields))
    return faces
