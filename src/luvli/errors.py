"""Errors and warnings for users.

`InputError` carries a single sentence that names the file (or argument) and the fix. The
command line prints it and exits with code 2; nothing else in the project is shown to a
user without a traceback.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import TypeVar

Name = TypeVar("Name", bound=str)


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what, and how to mend it."""


class OutputError(InputError):
    """Nothing more can be written to a place, for want of space or permission: whatever comes
    next would fail too, so a run over many files ends here, and can go on later."""


class LuvliWarning(UserWarning):
    """What the project warns of; the command line prints one line, without a place in the code."""


class LossWarning(LuvliWarning):
    """Something was written to a format that cannot hold all of it; the message names the loss."""


class BoxWarning(LuvliWarning):
    """A given face box is implausible; the message says why."""


def unknown_choice(what: str, given: object, choices: Iterable[str]) -> InputError:
    """An error for an unknown name that lists the choices, the nearest one first.

    >>> str(unknown_choice("markup", "ibug86", ["ibug68", "wflw98"]))
    "unknown markup 'ibug86': did you mean 'ibug68'? Choose one of ibug68, wflw98."
    """
    names = list(choices)
    near = get_close_matches(str(given), names, n=1)
    hint = f": did you mean {near[0]!r}? Choose" if near else "; choose"
    return InputError(f"unknown {what} {given!r}{hint} one of {', '.join(names)}.")


def check_choice(what: str, given: Name, choices: Iterable[str]) -> Name:
    """The name itself where it is one of the choices; otherwise the error of `unknown_choice`.

    >>> check_choice("split", "test", ("train", "test"))
    'test'
    """
    names = tuple(choices)
    if given not in names:
        raise unknown_choice(what, given, names)
    return given


def check_range(
    name: str, value: float, low: float, high: float = math.inf, *, ends: bool = True
) -> None:
    """Refuse a number that does not lie in `low`..`high`, the ends included unless `ends` is False.

    >>> check_range("coverage", 0.9, 0, 1, ends=False)
    """
    inside = low <= value <= high if ends else low < value < high
    if inside:
        return
    if high == math.inf:
        where = f"be at least {low:g}" if ends else f"be above {low:g}"
    else:
        where = f"lie in {low:g}..{high:g}" if ends else f"lie between {low:g} and {high:g}"
    raise InputError(f"{name} must {where}, got {value}.")


def a_type(value: object) -> str:
    """The name of a value's type with its article, for a sentence.

    >>> a_type(3), a_type(None)
    ('an int', 'a NoneType')
    """
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the program that called us, not at one of ours."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "luvli":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def brief(error: BaseException) -> str:
    """What an error says, short enough for a sentence, whatever a hostile file put into it.

    >>> brief(ValueError("bad\\nvery bad")), brief(KeyError())
    ('bad', 'KeyError')
    """
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    if not lines:
        return type(error).__name__
    return lines[0] if len(lines[0]) <= 100 else f"{lines[0][:100]}..."


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say in one sentence how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"this needs the package {module.split('.')[0]!r}: "
            f"install it with pip install 'luvli[{extra}]', in a clone pip install '.[{extra}]'."
        ) from error


def import_modules(names: Sequence[str]) -> None:
    """Import the user's modules, from the current folder too: they register trunks, losses and
    likelihoods."""
    sys.path.insert(0, "")
    for name in names:
        try:
            importlib.import_module(name.removesuffix(".py").replace(os.sep, "."))
        except ImportError as error:
            raise InputError(
                f"--import {name} failed ({error}): give the name of a Python module, from the "
                "folder of which luvli is called."
            ) from error
