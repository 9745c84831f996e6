"""CSV files: lines, cells that are no formulas, and the columns of landmarks under any name."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from luvli.errors import InputError
from luvli.files import PathLike, read_text

IMAGE_COLUMNS = (
    "image", "image_name", "image_path", "imgpath", "img_path", "img_paths", "image_file", "file",
    "filename", "file_name", "path", "file_path",
)  # fmt: skip
"""what the column, or the key, of an image's name is called"""

_FORMULA = re.compile(r"'*[=+\-@\s]")
_QUOTED = re.compile(r"'+[=+\-@\s]")
_AXES = "xx|xy|yy|x|y|visibility|occlusion|class|XX|XY|YY|X|Y"
_STYLES = (
    re.compile(rf"^(?P<prefix>(?:[A-Za-z]+_)*)(?P<axis>{_AXES})_?(?P<number>\d{{1,6}})$"),
    re.compile(rf"^(?P<prefix>(?:[A-Za-z]+_)*)(?P<number>\d{{1,6}})_?(?P<axis>{_AXES})$"),
)


def read_rows(path: PathLike, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Lines of a CSV with their numbers, from 1; empty lines are passed over."""
    rows = csv.reader(io.StringIO(read_text(path, newline=""), newline=""), delimiter=delimiter)
    try:
        for row in rows:
            if row:
                yield rows.line_num, row
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file ({error}): export it again.") from error


def write_rows(stream: Any, rows: Iterable[Sequence[Any]]) -> None:
    """Lines of a CSV, quoted where a cell holds a carriage return: Python's csv reads it as the end
    of a line but does not quote it."""
    plain = csv.writer(stream, lineterminator="\n")
    quoted = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        returns = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (quoted if returns else plain).writerow(row)


def image_cell(path: str) -> str:
    """A path that is the same for every program, and that no spreadsheet takes for a formula: a
    formula can start programs, and whoever names files names cells.

    >>> image_cell("=1+1.jpg"), image_cell("a/b.jpg")
    ('./=1+1.jpg', 'a/b.jpg')
    """
    return f"./{path}" if _FORMULA.match(path) else path


def word_cell(word: str) -> str:
    """Any other word: spreadsheets take what stands behind an apostrophe for text.

    >>> word_cell("@home"), word_cell("face 3")
    ("'@home", 'face 3')
    """
    return f"'{word}" if _FORMULA.match(word) else word


def read_word(cell: str) -> str:
    """The inverse of `word_cell`.

    >>> [read_word(word_cell(word)) for word in ("@home", "'=x", "plain", "'")]
    ['@home', "'=x", 'plain', "'"]
    """
    return cell[1:] if _QUOTED.match(cell) else cell


def numbered_columns(header: Sequence[str]) -> dict[str, list[str]]:
    """Columns by what they hold (x, y, xx, xy, yy, visibility, occlusion, class), in the
    landmarks' order, in whatever way people name them: `x_0`, `x0`, `point_x_0`, `landmark_0_x`,
    `0_x`, counted from 0 or 1.

    A file may hold several such families (OpenFace has eyes `eye_lmk_x_0`, 3-D points `X_0` and
    gaze `gaze_0_x` beside the landmarks `x_0`): the one with most landmarks is taken, small
    letters before capital ones, since capitals mean 3-D points wherever both stand in one file.

    >>> numbered_columns(["gaze_0_x", " x_0", " x_1", " y_0", " y_1", " X_0", " Y_0"])
    {'x': [' x_0', ' x_1'], 'y': [' y_0', ' y_1']}
    >>> numbered_columns(["image", "score"])
    {}
    """
    families: dict[tuple[bool, bool, int, str], dict[str, dict[int, str]]] = {}
    for column in header:
        matches = ((style, pattern.match(column.strip())) for style, pattern in enumerate(_STYLES))
        for style, match in matches:
            if match:
                axis, prefix = match["axis"], match["prefix"].lower()
                axes = families.setdefault((axis.isupper(), prefix != "", style, prefix), {})
                axes.setdefault(axis.lower(), {})[int(match["number"])] = column
                break
    best, most = {}, 0
    for _, axes in sorted(families.items()):  # small letters, no prefix, number last come first
        landmarks = len(axes.get("x", {}).keys() & axes.get("y", {}).keys())
        if landmarks > most:
            best, most = axes, landmarks
    return {axis: [names[number] for number in sorted(names)] for axis, names in best.items()}
