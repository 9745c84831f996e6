"""Arrays in numpy's files, of which nothing is run and every kind of damage is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, brief
from luvli.files import PathLike, check_plain


def load_arrays(path: PathLike) -> dict[str, NDArray[Any]]:
    """The arrays of an npz by their names, or the one of an npy as `points`."""
    source = Path(path)
    check_plain(source)
    try:
        content = np.load(source, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"points": content}
        with content:
            return {name: np.asarray(content[name]) for name in content.files}
    except Exception as error:  # numpy, zipfile and zlib have a kind for each damage
        raise InputError(
            f"{source} is not a readable numpy file ({brief(error)}): save plain number arrays."
        ) from error
