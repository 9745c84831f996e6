"""What a reader of the attack is, and the good faces and image that its good files hold."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hostile import mutate
from hostile.mutate import Mutator

FACES = 3


@dataclasses.dataclass(frozen=True)
class Reader:
    """One kind of file."""

    name: str
    suffix: str
    make: Callable[[Path], None]
    """writes a good file"""
    read: Callable[[Path], Any]
    mutators: tuple[Mutator, ...] = mutate.BINARY


def records(markup: str = "ibug68") -> list[Any]:
    """Three labelled faces with everything that a record holds."""
    from luvli.data.record import FaceRecord, Visibility
    from luvli.markup import get_markup

    shape = get_markup(markup).schematic * 40
    return [
        FaceRecord(
            points=shape + 60 + 3 * i,
            visibility=np.full(len(shape), Visibility.UNOCCLUDED),
            image=Path(f"image-{i}.jpg"),
            box=np.array([20.0, 20, 110, 110]) + 3 * i,
            markup=markup,
            face_id=f"{i + 1:04d}",
            score=0.9,
        )
        for i in range(FACES)
    ]


def photograph() -> Any:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:48, :64]
    return np.stack([x * 4, y * 5, rng.integers(0, 99, x.shape)], axis=2).astype(np.uint8)


def encoded(format: str) -> bytes:
    """The photograph as the bytes of a file."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(photograph()).save(stream, format)
    return stream.getvalue()
