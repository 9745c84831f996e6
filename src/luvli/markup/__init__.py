"""Point sets of face alignment: names, groups, edges, mirror pairs, and maps between them.

"Right" and "left" are the person's own, so the right eye is on the left of an image. The
mirror image of a landmark is the one whose name swaps the two words; the flip permutation
is made from the names and cannot disagree with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.errors import InputError, unknown_choice
from luvli.markup.built_in import BUILT_IN, built_in, conversion, conversions, gather
from luvli.markup.point_set import GROUPS, Markup, MarkupName, mirrored

__all__ = [
    "GROUPS",
    "Markup",
    "MarkupName",
    "convert",
    "get_markup",
    "is_markup",
    "markup_by_size",
    "markup_for",
    "markup_names",
    "mirrored",
    "register_markup",
    "sources",
]

_registered: dict[str, Markup] = {}


def get_markup(name: str) -> Markup:
    """The point set called `name`; the error for an unknown one lists the choices."""
    if name in BUILT_IN:
        return built_in(name)
    if name in _registered:
        return _registered[name]
    raise unknown_choice("markup", name, markup_names())


def is_markup(name: str) -> bool:
    """Whether `name` is known: built in or registered."""
    return name in BUILT_IN or name in _registered


def markup_names() -> list[str]:
    """Every known point set."""
    return [*BUILT_IN, *_registered]


def markup_by_size(size: int) -> Markup | None:
    """The built-in point set with this many landmarks, if there is one: no two have as many.

    >>> markup_by_size(19).name, markup_by_size(5)
    ('aflw19', None)
    """
    return next((get_markup(name) for name in BUILT_IN if get_markup(name).size == size), None)


def markup_for(size: int, name: str | None = None) -> Markup:
    """The point set by name, or by its number of landmarks when no name is given.

    >>> markup_for(98).name
    'wflw98'
    """
    if name is not None:
        chosen = get_markup(name)
        if chosen.size != size:
            raise InputError(f"markup {name} has {chosen.size} points, the arrays have {size}.")
        return chosen
    guess = markup_by_size(size)
    if guess is None:
        known = ", ".join(f"{get_markup(known).size}" for known in BUILT_IN)
        raise InputError(
            f"no built-in markup has {size} points (they have {known}): name the markup."
        )
    return guess


def register_markup(markup: Markup) -> None:
    """Make a point set of your own known by its name, for this process."""
    if markup.name in BUILT_IN:
        raise InputError(f"markup {markup.name!r} is built in: choose another name for yours.")
    markup.flip  # noqa: B018  (raises if a name has no mirror)
    _registered[markup.name] = markup


def convert(points: ArrayLike, source: str, target: str) -> NDArray[np.float64]:
    """Points (..., k, 2) of one markup as points of another.

    From wflw98 to ibug68 this picks points. The maps to aflw19 and cofw29 also take means
    where the target has no counterpart (the centre of an eye or of the mouth), so their
    results are near, not equal, to what a labeller of those sets would click.
    """
    values = np.asarray(points, dtype=np.float64)
    size = get_markup(source).size
    if values.ndim < 2 or values.shape[-2:] != (size, 2):
        raise InputError(
            f"points of {source} must have shape (..., {size}, 2), got {values.shape}."
        )
    get_markup(target)
    if source == target:
        return values.copy()
    return gather(values, _conversion(source, target))


def sources(source: str, target: str) -> list[tuple[int, ...]]:
    """For each landmark of `target`: the landmarks of `source` that `convert` makes it of."""
    if source == target:
        return [(j,) for j in range(get_markup(source).size)]
    table = _conversion(source, target)
    return [tuple(of) if isinstance(of, list) else (of,) for of in table]


def _conversion(source: str, target: str) -> Sequence[int | list[int]]:
    table = conversion(source, target)
    if table is None:
        known = ", ".join(f"{a} to {b}" for a, b in conversions())
        raise InputError(f"no map from {source} to {target}: there are {known}.")
    return table
