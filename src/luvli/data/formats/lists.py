"""Lists of faces that come with networks and data sets: one face on a line, or on four.

| file | a row |
|---|---|
| HRNet `face_landmarks_*.csv` | image, scale, [box_size,] center_w, center_h, x and y of each |
| ADNet, STAR `*.tsv` | image, 5 points, all points (joined by commas), scale, centre, [tags]; a
|  | header may stand above |
| WFLW `list_98pt_test.txt` | x and y of each landmark, then the image; no header |
| WFLW `list_98pt_rect_attr_*.txt` | the same with a rectangle and six flags before the image |
| COFW68 benchmark | four lines: the image's number in COFW_test.mat (from 1), all x, all y, and the
|  | occlusion of each landmark (1: hidden by something) |

Boxes: the square of side 200 x scale around the centre. HRNet's lists of 300-W and AFLW hold the
numbers of `.pts` and Matlab files, which count from 1 (`first_pixel`), and so do COFW68's; all
others are taken as they stand. Only HRNet's lists are written.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.common import corner_and_size, face, row_name, warn_losses
from luvli.data.formats.tables import image_cell, read_rows, write_rows
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError, brief
from luvli.files import PathLike, read_text, write_text

WFLW_FLAGS = ("largepose", "expression", "illumination", "makeup", "occlusion", "blur")
"""WFLW's subsets, in the order of the flags in its files"""
_BOX_UNIT = 200.0
"""pixels: side of HRNet's boxes / scale"""

_Row = TypeVar("_Row")
ListItem = tuple[int, FaceRecord | InputError]
"""the number of a line, from 1, and its face or what is wrong with it"""


def first_pixel(landmarks: int) -> float:
    """What the coordinates of an HRNet list count from, by the number of landmarks of a face:
    300-W's are those of its .pts files (all 1,289 test faces compared), AFLW's those of a Matlab
    file; WFLW's 98 are left alone."""
    return 1.0 if landmarks in (68, 19) else 0.0


# --- reading -------------------------------------------------------------------------------


def iterate_hrnet(path: PathLike) -> Iterator[ListItem]:
    """HRNet's csv for 300-W, AFLW, WFLW (any number of landmarks)."""
    rows = read_rows(path)
    _, header = next(rows, (1, []))
    if "center_w" not in header:
        raise InputError(f"{path} has no column center_w: it is not a list of HRNet.")
    sized = "box_size" in header

    def parse(row: Sequence[str]) -> FaceRecord:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} values instead of {len(header)}")
        scale, *values = _numbers(row[1:])
        attributes = {"box_size": float(values.pop(0))} if sized else {}
        if len(values) < 4 or len(values) % 2:
            raise ValueError("columns that are not pairs of x and y")
        places = np.array(values) - first_pixel(len(values) // 2 - 1)
        return face(places[2:], row[0], box=_square(scale, places[:2]), attributes=attributes)

    return _parsed(path, rows, parse)


def iterate_wflw(path: PathLike) -> Iterator[ListItem]:
    """WFLW's text files, plain or with rectangle and flags."""

    def parse(line: str) -> FaceRecord:
        words = line.split()
        counts = (n for n in (206, 196) if len(words) > n and all(map(_is_number, words[:n])))
        count = next(counts, len(words) - 1)
        name = line.split(maxsplit=count)[-1].strip()  # which may hold blanks
        values = _numbers(words[:count])
        plain = 196 if count == 206 else count
        if plain % 2 or not plain:
            raise ValueError(f"{len(values)} numbers, which are not pairs of coordinates")
        box = values[plain : plain + 4] if plain < len(values) else None
        about = {"subsets": _flagged(values[plain + 4 :])}
        return face(values[:plain], name, box=box, attributes=about)

    return _parsed(path, _lines(path), parse)


def iterate_star(path: PathLike) -> Iterator[ListItem]:
    """ADNet's and STAR's tsv; tags, where there are six, are WFLW's subsets."""
    lines = _lines(path)
    if lines[0][1].count("\t") < 5:
        raise InputError(f"{path} has no six columns: it is not a list of ADNet or STAR.")

    def parse(line: str) -> FaceRecord:
        name, _, points, *rest = line.split("\t")
        box = _square(*np.split(_numbers(rest[:3]), [1]))
        tags = _numbers(rest[3].split(",")) if len(rest) > 3 and rest[3].strip() else ()
        places, about = _numbers(points.split(",")), {"subsets": _flagged(tags)}
        return face(places, name.replace("\\", "/"), box=box, attributes=about)

    headed = "," not in lines[0][1].split("\t")[2]
    return _parsed(path, lines[headed:], parse)


def iterate_cofw68(path: PathLike) -> Iterator[ListItem]:
    """The COFW68 benchmark; ids are those of the data set `cofw68`: 0001, 0002, ..."""
    lines = _lines(path)

    def parse(part: Sequence[tuple[int, str]]) -> FaceRecord:
        number, x, y, occluded = (_numbers(line.split()) for _, line in part)
        if len(number) != 1 or not len(x) == len(y) == len(occluded):
            raise ValueError("not a number and three lines of equally many numbers")
        hidden, plain = Visibility.EXTERNALLY_OCCLUDED, Visibility.UNOCCLUDED
        classes = np.where(occluded > 0, hidden, plain)
        face_id = f"{int(number[0]):04d}"
        return face(np.stack([x, y], axis=1) - 1, "", classes, dataset="cofw68", face_id=face_id)

    parts = ((lines[i][0], lines[i : i + 4]) for i in range(0, len(lines), 4))
    return _parsed(path, parts, parse)


def whole(
    iterate: Callable[[PathLike], Iterator[ListItem]],
) -> Callable[[PathLike], list[FaceRecord]]:
    """A reader of such lists that raises what is wrong with the first bad line."""

    def read(path: PathLike) -> list[FaceRecord]:
        records = []
        for _, item in iterate(path):
            if isinstance(item, InputError):
                raise item
            records.append(item)
        return records

    return read


def _lines(path: PathLike) -> list[tuple[int, str]]:
    """Lines of a text that hold something, with their numbers from 1; never none."""
    lines = enumerate(read_text(path).splitlines(), start=1)
    filled = [(number, line) for number, line in lines if line.strip()]
    if not filled:
        raise InputError(f"{path} has no faces: is it the right file?")
    return filled


def _parsed(
    path: PathLike, rows: Iterable[tuple[int, _Row]], parse: Callable[[_Row], FaceRecord]
) -> Iterator[ListItem]:
    for number, row in rows:
        try:
            yield number, parse(row)
        except (ValueError, IndexError, OverflowError) as error:  # InputError is a ValueError
            yield number, InputError(f"{path}, line {number}: {brief(error)}: mend it.")


def _is_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def _numbers(words: Sequence[str]) -> Floats:
    values = np.array([float(word) for word in words])
    if not np.isfinite(values).all():
        raise ValueError("NaN or infinity")
    return values


def _flagged(flags: Iterable[float]) -> list[str]:
    return [flag for flag, on in zip(WFLW_FLAGS, flags, strict=False) if on]


def _square(scale: float | Floats, centre: Floats) -> Floats:
    """HRNet's box: the square of side 200 x scale around the centre."""
    half = _BOX_UNIT * scale / 2
    return np.concatenate([centre - half, centre + half])


# --- writing -------------------------------------------------------------------------------


def write_hrnet_csv(path: PathLike, records: Sequence[FaceRecord]) -> None:
    """One markup, every landmark with a location: 0, 0 stands for one without."""
    kinds = {len(record.points) for record in records}
    if len(kinds) > 1:
        raise InputError(
            f"{path} was not written: it holds one markup, these have {sorted(kinds)}."
        )
    nowhere = dict.fromkeys(("self_occluded", "unlabelled"), "written at 0, 0")
    warn_losses(path, records, "this list", **nowhere, externally_occluded="written as any other")
    count = max(kinds, default=0)
    first = first_pixel(count)
    sized = any("box_size" in record.attributes for record in records)
    head = ["image_name", "scale", *(["box_size"] if sized else []), "center_w", "center_h"]
    head += [f"original_{j}_{axis}" for j in range(count) for axis in "xy"]
    rows: list[Sequence[object]] = [head]
    for record in records:
        x, y, width, height = corner_and_size(record)
        side = max(width, height)
        size = [record.attributes.get("box_size", side)] if sized else []
        places = np.array([x + width / 2, y + height / 2, *np.nan_to_num(record.points).ravel()])
        row = [side / _BOX_UNIT, *size, *(places + first).tolist()]
        rows.append([image_cell(row_name(record)), *row])
    text = io.StringIO()
    write_rows(text, rows)
    write_text(path, text.getvalue())
