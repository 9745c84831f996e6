"""`luvli.read`: the faces of a result file, in whichever format it was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from luvli.data.formats import read_csv, read_pts
from luvli.data.formats.checked import load_json
from luvli.data.formats.common import default_markup
from luvli.data.formats.json import parse_faces
from luvli.data.formats.parquet import read_face_table
from luvli.errors import InputError, brief
from luvli.faces import Faces
from luvli.files import PathLike

_SETTINGS = ("markup", "likelihood", "visibility_trained", "covariance_trained",
             "occlusion_trained")  # fmt: skip
_NUMBERS = {"score": "scores", "confidence": "confidence", "expected_error": "expected_error",
            "eyes_closed": "eyes_closed"}  # fmt: skip
_OPTIONAL = ("accepted", "track", "time", "frame", "image", "image_size")

_Row = Mapping[str, Any]


def read(path: PathLike) -> Faces:
    """The faces of a file that `luvli predict` wrote (json, csv, parquet, coco or pts), or of a
    folder of Parquet files, with everything that the file holds.

    `faces.image`, `faces.image_size` and, of videos, `faces.frame`, `faces.time` and `faces.track`
    say where each face is from. What a format does not hold is NaN or None.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    try:
        if source.is_dir() or suffix == ".parquet":
            rows: Iterator[_Row] = map(_from_table, read_face_table(source).to_pylist())
        elif suffix == ".csv":
            rows = _from_csv(source)
        elif suffix == ".pts":
            rows = _from_pts(source)
        elif suffix == ".json":
            rows = _from_json(source)
        else:
            raise InputError(f"{source} is no result file: give .json, .csv, .parquet or .pts.")
        return faces_of(list(rows)).check()
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise InputError(
            f"{source} is not a file of predicted faces ({brief(error)}): write it again."
        ) from error


def faces_of(rows: Sequence[_Row]) -> Faces:
    """Faces from one mapping each, with the keys of our JSON."""
    if not rows:
        return Faces.empty("ibug68")
    points = np.array([_floats(row["points"], 2) for row in rows])
    n, k = points.shape[:2]
    first = rows[0]
    values: dict[str, Any] = {
        name: first[name] for name in _SETTINGS if first.get(name) is not None
    }
    values.setdefault("markup", default_markup(k))
    shapes = {"covariance": (k, 2, 2), "visibility": (k,), "occlusion": (k,), "box": (4,)}
    for name, shape in shapes.items():
        arrays = [row.get(name) for row in rows]
        values["boxes" if name == "box" else name] = np.array(
            [np.full(shape, np.nan) if a is None else _floats(a).reshape(shape) for a in arrays]
        )
    if np.isnan(values["covariance"]).all():
        values["covariance_trained"] = False
    if np.isnan(values["visibility"]).any():
        values["visibility"] = np.ones((n, k))
        values["visibility_trained"] = False
    for name, field in _NUMBERS.items():
        values[field] = _floats([row.get(name) for row in rows])
    for name in _OPTIONAL:
        given = [row.get(name) for row in rows]
        if all(value is not None for value in given):
            values[name] = given
    return Faces(points, **values)


def _floats(values: Any, width: int = 0) -> Any:
    """Numbers, with NaN for null; a null in place of a pair too."""
    if width:
        values = [(None,) * width if value is None else value for value in values]
    return np.array(values, dtype=np.float64)


def _from_json(path: Path) -> Iterator[_Row]:
    content = load_json(path)
    if isinstance(content, dict) and "annotations" in content:
        yield from _from_coco(content)
        return
    for face in parse_faces(path):
        yield {**face.get("attributes", {}), **face}


def _from_coco(content: Mapping[str, Any]) -> Iterator[_Row]:
    images = {image["id"]: image for image in content.get("images", [])}
    for face in content["annotations"]:
        image = images.get(face["image_id"], {})
        rows = np.reshape(face["keypoints"], (-1, 3)).astype(float)
        x, y, width, height = face["bbox"]
        size = (image["width"], image["height"]) if "width" in image else None
        yield {
            **face.get("attributes", {}),
            "image": image.get("file_name"),
            "image_size": size,
            "points": rows[:, :2],
            "visibility": rows[:, 2] > 0,
            "box": (x, y, x + width, y + height),
            "score": face.get("score"),
        }


def _from_pts(path: Path) -> Iterator[_Row]:
    points, classes = read_pts(path)
    yield {"image": path.stem, "points": points, "visibility": classes > 0}


def _from_table(row: _Row) -> _Row:
    size = None if row.get("width") is None else (row["width"], row["height"])
    return {**row, "points": np.reshape(row["points"], (-1, 2)), "image_size": size}


def _from_csv(path: Path) -> Iterator[_Row]:
    for face in read_csv(path, hidden_points=True):
        about = face.attributes
        yield {
            **about,
            "image": None if face.image is None else str(face.image),
            "image_size": (about["width"], about["height"]) if "width" in about else None,
            "points": face.points,
            "covariance": face.covariance,
            "visibility": face.visibility_probability,
            "occlusion_trained": "occlusion" in about,
            "box": face.box,
            "score": face.score,
            "markup": face.markup,
        }
