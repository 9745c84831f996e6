"""Lists of faces that come with networks: HRNet's csv, ADNet's and STAR's tsv, WFLW's text files.

| file | a row |
|---|---|
| HRNet `face_landmarks_*.csv` | image, scale, [box_size,] center_w, center_h, x and y of each |
| ADNet, STAR `*.tsv` | image, 5 points, all points (joined by commas), scale, centre, [tags]; a
|  | header may stand above |
| WFLW `list_98pt_test.txt` | x and y of each landmark, then the image; no header |
| WFLW `list_98pt_rect_attr_*.txt` | the same with a rectangle and six flags before the image |

Boxes: the square of side 200 x scale around the centre. HRNet's lists of 300-W and AFLW hold the
numbers of `.pts` and Matlab files, which count from 1 (`first_pixel`); all others are taken as
they stand.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats.cells import image_cell, write_rows
from luvli.data.formats.common import default_markup, row_name, warn_if_predictions, warn_lost
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError, brief
from luvli.files import PathLike, read_text, write_text
from luvli.markup import markup_by_size

HRNET_UNIT = 200.0
"""pixels: side of the box / scale"""
_FROM_ONE = (68, 19)
"""landmarks of the faces in HRNet's lists that count pixels from 1: 300-W's are those of its .pts
files (all 1,289 test faces compared), AFLW's those of a Matlab file; WFLW's 98 are left alone"""
WFLW_FLAGS = ("largepose", "expression", "illumination", "makeup", "occlusion", "blur")


def read_hrnet_csv(path: PathLike) -> list[FaceRecord]:
    """HRNet's csv for 300-W, AFLW, WFLW (any number of landmarks)."""
    try:
        rows = list(csv.reader(io.StringIO(read_text(path, newline=""), newline="")))
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file ({error}): export it again.") from error
    header = rows[0] if rows else []
    if "center_w" not in header:
        raise InputError(f"{path} has no column center_w: it is not a list of HRNet.")
    extra = 1 if "box_size" in header else 0
    records = []
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        values = _numbers(row[1:], f"{path}, line {number}", len(header) - 1)
        if len(values) < 5 + extra or (len(values) - 3 - extra) % 2:
            raise InputError(f"{path} has columns that are not pairs of x and y: mend its header.")
        about = {"box_size": float(values[1])} if extra else {}
        box = square_box(values[0], values[1 + extra : 3 + extra])
        points = values[3 + extra :].reshape(-1, 2)
        first = first_pixel(len(points))
        records.append(_record(points - first, row[0], box - first, about))
    return records


def write_hrnet_csv(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """The same; one markup, every landmark with a location."""
    points = _same_size(path, records)
    count = points.shape[1] if len(points) else 0
    sized = any("box_size" in record.attributes for record in records)
    head = ["image_name", "scale", *(["box_size"] if sized else []), "center_w", "center_h"]
    rows: list[list[str]] = [head + [f"original_{j}_{axis}" for j in range(count) for axis in "xy"]]
    for record, place in zip(records, points, strict=True):
        box = record.tight_box if record.box is None else record.box
        x0, y0, x1, y1 = box + first_pixel(count)
        scale = max(x1 - x0, y1 - y0) / HRNET_UNIT
        size = [record.attributes.get("box_size", scale * HRNET_UNIT)] if sized else []
        places = (place + first_pixel(count)).ravel()
        numbers = [scale, *size, (x0 + x1) / 2, (y0 + y1) / 2, *places]
        rows.append([image_cell(row_name(record)), *(repr(float(value)) for value in numbers)])
    text = io.StringIO()
    write_rows(text, rows)
    write_text(path, text.getvalue())


def read_star_tsv(path: PathLike) -> list[FaceRecord]:
    """ADNet's and STAR's tsv; tags, where there are six, are WFLW's subsets."""
    lines = read_text(path).splitlines()
    if not lines or lines[0].count("\t") < 5:
        raise InputError(f"{path} has no six columns: it is not a list of ADNet or STAR.")
    headed = "," not in lines[0].split("\t")[2]
    records = []
    for number, line in enumerate(lines[headed:], start=1 + headed):
        cells = line.split("\t")
        place = f"{path}, line {number}"
        if len(cells) < 6:
            raise InputError(f"{place} has {len(cells)} cells instead of 6 or 7: mend it.")
        points = _numbers(cells[2].split(","), place)
        if points.size % 2:
            raise InputError(f"{place} has an odd number of coordinates: mend it.")
        scale, *centre = _numbers(cells[3:6], place)
        tagged = len(cells) > 6 and cells[6].strip()
        tags = _numbers(cells[6].split(","), place) if tagged else np.zeros(0)
        subsets = [flag for flag, on in zip(WFLW_FLAGS, tags, strict=False) if on]
        name = cells[0].replace("\\", "/")
        records.append(
            _record(
                points.reshape(-1, 2),
                name,
                square_box(scale, np.array(centre)),
                {"subsets": subsets},
            )
        )
    return records


def write_star_tsv(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """The same; the five points are pupils (means of the eyes), nose tip and mouth corners."""
    points = _same_size(path, records)
    lines = ["image_path\tlandmarks_5pts\tlandmarks\tscale\tcenter_w\tcenter_h"]
    for record, place in zip(records, points, strict=True):
        x0, y0, x1, y1 = record.tight_box if record.box is None else record.box
        cells = [
            row_name(record),
            _joined(_five_points(path, place)),
            _joined(place),
            repr(float(max(x1 - x0, y1 - y0)) / HRNET_UNIT),
            repr(float(x0 + x1) / 2),
            repr(float(y0 + y1) / 2),
        ]
        lines.append("\t".join(cells))
    write_text(path, "\n".join(lines) + "\n")


def read_wflw_list(path: PathLike) -> list[FaceRecord]:
    """WFLW's text files, plain or with rectangle and flags."""
    records = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        place = f"{path}, line {number}"
        values = _numbers(words[:-1], place)
        plain = 2 * 98 if len(values) == 2 * 98 + 10 else len(values)
        if plain % 2 or not plain:
            raise InputError(
                f"{place} does not hold pairs of coordinates and an image: download it again."
            )
        box = values[plain : plain + 4] if plain < len(values) else None
        flags = values[plain + 4 :]
        subsets = [flag for flag, on in zip(WFLW_FLAGS, flags, strict=False) if on]
        points = values[:plain].reshape(-1, 2)
        records.append(_record(points, words[-1], box, {"subsets": subsets}))
    if not records:
        raise InputError(f"{path} has no faces: is it the right file?")
    return records


def write_wflw_list(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """`list_98pt_test.txt`: coordinates, then the image."""
    points = _same_size(path, records)
    names = [row_name(record) for record in records]
    if any(len(name.split()) > 1 for name in names):
        warn_lost(path, "this list cannot hold names with spaces; they are written without.")
    lines = [
        f"{' '.join(repr(float(value)) for value in place.ravel())} {''.join(name.split())}"
        for name, place in zip(names, points, strict=True)
    ]
    write_text(path, "\n".join(lines) + "\n")


def first_pixel(landmarks: int) -> float:
    """What the coordinates of an HRNet list count from, by the number of landmarks of a face."""
    return 1.0 if landmarks in _FROM_ONE else 0.0


def square_box(scale: float, centre: NDArray[np.float64]) -> NDArray[np.float64]:
    """(4,) HRNet's box: the square of side 200 x scale around the centre."""
    half = HRNET_UNIT * scale / 2
    return np.concatenate([centre - half, centre + half])


def _record(
    points: NDArray[np.float64],
    image: str,
    box: NDArray[np.float64] | None,
    attributes: Mapping[str, object],
) -> FaceRecord:
    return FaceRecord(
        points=points,
        visibility=np.full(len(points), Visibility.UNOCCLUDED),
        image=Path(image) if image else None,
        box=box,
        box_kind="tight" if box is None else "given",
        markup=default_markup(len(points)),
        attributes=attributes,
    )


def _numbers(words: Sequence[str], place: str, count: int | None = None) -> NDArray[np.float64]:
    if count is not None and len(words) != count:
        raise InputError(f"{place} has {len(words)} numbers instead of {count}: mend it.")
    try:
        values = np.array([float(word) for word in words])
    except ValueError as error:
        raise InputError(
            f"{place} has a value that is no number ({brief(error)}): mend it."
        ) from error
    if not np.isfinite(values).all():
        raise InputError(f"{place} has NaN or infinity: mend it.")
    return values


def _same_size(path: PathLike, records: Sequence[FaceRecord]) -> NDArray[np.float64]:
    sizes = {len(record.points) for record in records}
    if len(sizes) > 1:
        raise InputError(
            f"{path} was not written: it holds one markup, these have {sorted(sizes)}."
        )
    warn_if_predictions(path, records, "this list")
    hidden = sum(int((~record.visible).sum()) for record in records)
    covered = sum(int((record.visibility == 2).sum()) for record in records)
    if hidden or covered:
        warn_lost(
            path,
            f"this list knows no visibility; {hidden} landmarks without a place are written at "
            f"0, 0, {covered} externally occluded ones as any other.",
        )
    return np.array([np.nan_to_num(record.points) for record in records], dtype=np.float64)


def _five_points(path: PathLike, points: NDArray[np.float64]) -> NDArray[np.float64]:
    markup = markup_by_size(len(points))
    if markup is None:
        raise InputError(f"{path} was not written: {len(points)} points have no known eyes.")
    eyes = [points[list(eye)].mean(axis=0) for eye in markup.eyes]
    others = ("nose tip", "right mouth corner", "left mouth corner")
    return np.array([*eyes, *(points[markup.names.index(name)] for name in others)])


def _joined(places: NDArray[np.float64]) -> str:
    return ",".join(repr(value) for value in places.ravel().tolist())
