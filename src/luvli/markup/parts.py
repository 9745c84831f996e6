"""Some landmarks of a point set, by name or number.

A face that was cut to a part keeps the part in the name of its markup, "ibug68: left_eye", so that
names and numbers of its landmarks are still those of the whole face.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.errors import InputError
from luvli.markup import Markup, get_markup, is_markup

Which = int | str | slice | ArrayLike
"""a landmark by number, landmarks or parts by name, a slice, numbers, or a mask"""
_SEPARATOR = ": "


def is_names(which: Any) -> bool:
    """Whether `which` names parts or landmarks, one or several."""
    if isinstance(which, str):
        return True
    return (
        isinstance(which, list | tuple) and bool(which) and all(isinstance(n, str) for n in which)
    )


def select(markup: str, count: int, which: Which) -> tuple[NDArray[np.intp], str]:
    """Places of the chosen landmarks among `count`, and the name of the part that they make.

    >>> select("ibug68", 68, "left_eye")[1]
    'ibug68: left_eye'
    """
    if is_names(which):
        names = [which] if isinstance(which, str) else list(which)  # type: ignore[arg-type]
        whole = whole_markup(markup, "parts by name")
        index = np.array([j for name in names for j in whole.find(str(name))], dtype=np.intp)
        return index, f"{markup}{_SEPARATOR}{', '.join(map(str, names))}"
    index = chosen_places(count, which)
    numbers = np.asarray(landmark_numbers(markup, count), dtype=np.intp)[index]
    return index, f"{markup.partition(_SEPARATOR)[0]}{_SEPARATOR}{_runs(numbers)}"


def chosen_places(count: int, which: int | slice | ArrayLike) -> NDArray[np.intp]:
    """Places among `count` by number, slice or mask; IndexError where there is no such one.

    >>> chosen_places(3, [True, False, True]).tolist(), chosen_places(3, []).tolist()
    ([0, 2], [])
    """
    chosen: Any = which if isinstance(which, slice) else np.asarray(which)
    if isinstance(chosen, np.ndarray) and not chosen.size:
        chosen = chosen.astype(np.intp)  # an empty list has no type of its own
    return np.atleast_1d(np.arange(count)[chosen])


def whole_markup(markup: str, wanted: str) -> Markup:
    """The point set, for what a part of a face cannot be asked for."""
    if _SEPARATOR in markup:
        raise InputError(
            f"this is a part of a face ({markup}), which has no {wanted}: ask the whole face."
        )
    return get_markup(markup)


def landmark_numbers(markup: str, count: int) -> list[int]:
    """Which landmarks of the whole point set these are.

    >>> landmark_numbers("ibug68: 36-38, chin", 4)
    [36, 37, 38, 8]
    """
    whole, _, part = markup.partition(_SEPARATOR)
    if not part or not (is_markup(whole) or part[0].isdecimal()):
        return list(range(count))
    numbers: list[int] = []
    for name in part.split(", "):
        first, _, last = name.partition("-")
        if first.isdecimal():
            numbers += range(int(first), int(last or first) + 1)
        else:
            numbers += get_markup(whole).find(name)
    return numbers


def landmark_names(markup: str, count: int) -> tuple[str, ...]:
    """What the landmarks are called, for instance "left eye outer corner"."""
    whole = markup.partition(_SEPARATOR)[0]
    names = get_markup(whole).names if is_markup(whole) else None
    return tuple(names[j] if names else f"landmark {j}" for j in landmark_numbers(markup, count))


def _runs(numbers: NDArray[np.intp]) -> str:
    """Numbers in words: those that follow each other as first-last.

    >>> _runs(np.array([36, 37, 38, 8]))
    '36-38, 8'
    """
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1) if len(numbers) else []
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
