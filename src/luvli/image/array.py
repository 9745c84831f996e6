"""Arrays of any kind as uint8 RGB, and how large an image may be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, check_range, warn_caller

ImageArray = NDArray[np.uint8]
"""(H, W, 3) RGB"""

MAX_SIDE = 20_000
"""Longest side, in pixels, that `read_image` accepts; above it an image is refused unread."""
MAX_PIXELS = 150_000_000
"""Largest number of pixels that `read_image` accepts."""
MIN_SIDE = 2
"""Shortest side, in pixels, that `read_image` accepts."""


def from_array(
    array: NDArray[Any],
    name: str = "the array",
    check_size: bool = True,
    white_level: int | None = None,
) -> ImageArray:
    """An array of any allowed kind as uint8 RGB; the array itself where it is that already.

    `check_size` is False for a strip of a larger image. `white_level` as in `read_image`.
    """
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        fix = ""
        if array.ndim == 3 and array.shape[0] in (1, 3, 4):
            fix = ": put the channels last, array.transpose(1, 2, 0)"
        elif array.ndim == 4:
            fix = ": use predict_batch for several images"
        raise InputError(
            f"{name} must have shape (H, W), (H, W, 3) or (H, W, 4), got {array.shape}{fix}."
        )
    if check_size:
        check_image_size(array.shape[1], array.shape[0], name)
        if array.dtype == np.uint16 and white_level is None:
            warn_if_dark(int(array.max()), name)
    pixels = _to_uint8(array, name) if white_level is None else _scaled(array, white_level, name)
    if pixels.ndim == 2:
        return np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.shape[2] == 4:
        return _flatten(pixels)
    return pixels


def _to_uint8(array: NDArray[Any], name: str) -> ImageArray:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.uint16:
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise InputError(f"{name} has float values outside 0..1: scale them, or pass uint8.")
        return np.asarray(np.rint(array * 255), dtype=np.uint8)
    raise InputError(
        f"{name} has values of type {array.dtype}: pass uint8, uint16, or floats in 0..1."
    )


def _scaled(array: NDArray[Any], white_level: int, name: str) -> ImageArray:
    if array.dtype != np.uint16:
        raise InputError(f"white_level is for arrays of uint16, {name} is of {array.dtype}.")
    check_range("white_level", white_level, 1, 65535)
    shares = np.minimum(array, white_level) * (255 / white_level)
    return np.asarray(np.rint(shares), dtype=np.uint8)


def warn_if_dark(highest: Any, name: str) -> None:
    """16 bits that hold 10, 12 or 14 of them are nearly black, and a face in them is hardly one."""
    bits = next((bits for bits in (10, 12, 14) if 256 <= highest < 2**bits), None)
    if bits is not None:
        warn_caller(
            f"{name} has 16-bit values of at most {int(highest)} and is read as nearly black: if "
            f"its white has {bits} bits, read it as an array with white_level={2**bits - 1}."
        )


def _flatten(rgba: ImageArray) -> ImageArray:
    """Laid on white, as in most viewers."""
    alpha = rgba[:, :, 3:].astype(np.float32) / 255
    return np.asarray(np.rint(rgba[:, :, :3] * alpha + 255 * (1 - alpha)), dtype=np.uint8)


def check_image_size(width: int, height: int, name: str) -> None:
    """Refuse an image of so many pixels, or so few, before any of them is decoded."""
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise InputError(too_large(name, f"{width} x {height} pixels"))
    if min(width, height) < MIN_SIDE:
        raise InputError(
            f"{name} has only {width} x {height} pixels: give an image of at least "
            f"{MIN_SIDE} x {MIN_SIDE}."
        )


def too_large(name: str, size: str) -> str:
    return (
        f"{name} has {size}, above the limit of {MAX_SIDE:,} a side and {MAX_PIXELS:,} in all: "
        "shrink it or cut it into parts."
    )
