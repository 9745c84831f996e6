"""Words in the cells of a CSV, such that no spreadsheet takes them for a formula.

A cell that begins with one of `= + - @` is a formula to most spreadsheets, and a formula can
start programs. Who names files of others, names cells of ours; numbers are not concerned.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from typing import IO, Any

_FORMULA = re.compile(r"'*[=+\-@\s]")
_QUOTED = re.compile(r"'+[=+\-@\s]")


def write_rows(stream: IO[str], rows: Iterable[Sequence[Any]]) -> None:
    """Lines of a CSV. Names that hold a carriage return, which Python's csv takes for the end of
    a line but does not quote, are quoted."""
    usual = csv.writer(stream, lineterminator="\n")
    quoted = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        strange = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (quoted if strange else usual).writerow(row)


def image_cell(path: str) -> str:
    """A path that is the same for every program, and no formula.

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
