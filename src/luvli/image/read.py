"""Any picture as uint8 RGB, upright; anything else as one clear sentence."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from luvli.errors import InputError
from luvli.files import PathLike, unreadable

Picture = NDArray[np.uint8]
"""(H, W, 3) RGB"""

ImageSource = PathLike | bytes | NDArray[Any]

MAX_SIDE = 20_000
"""Longest side, in pixels, that `read_image` accepts; above it a picture is refused unread."""
MAX_PIXELS = 150_000_000
"""Largest number of pixels that `read_image` accepts."""
MIN_SIDE = 2
"""Shortest side, in pixels, that `read_image` accepts."""

_BACKGROUND = (255, 255, 255)  # what shows through transparent pixels, as in most viewers


def read_image(source: ImageSource) -> Picture:
    """Read a picture from a path, from the bytes of a file, or from an array.

    Files: everything Pillow reads; the EXIF orientation is applied, transparency is laid on
    white, 16-bit values are scaled to 8 bits, CMYK and palettes become RGB, and of an
    animation the first frame is taken. Arrays: (H, W), (H, W, 1), (H, W, 3) RGB or
    (H, W, 4) RGBA; uint8, uint16, bool, or floats in 0..1.

    Returns a fresh uint8 array (H, W, 3). Raises `InputError` with one sentence otherwise.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source, "the array")
    if isinstance(source, bytes | bytearray | memoryview):
        return _decode(io.BytesIO(bytes(source)), "the image data", len(source))
    path = Path(source)
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            return _decode(stream, str(path), size)
    except OSError as error:
        raise unreadable(path, error) from error


def _decode(stream: Any, name: str, size: int) -> Picture:
    if size == 0:
        raise InputError(f"{name} is empty (0 bytes): copy or download it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own size warning; ours is the limit
            with Image.open(stream) as image:
                _check_size(image.width, image.height, name)
                image.load()
                upright = _upright(image)
                return _from_array(_as_array(upright), name)
    except InputError:
        raise
    except UnidentifiedImageError as error:
        raise InputError(
            f"{name} is not a picture in a known format: check it, or convert it to JPEG or PNG."
        ) from error
    except Image.DecompressionBombError as error:
        raise InputError(_too_large(name, "more pixels than can be counted safely")) from error
    except MemoryError as error:
        raise InputError(_too_large(name, "more pixels than fit in memory")) from error
    except Exception as error:  # decoders raise many kinds on damaged files
        raise InputError(
            f"{name} is damaged or truncated ({_short(error)}): copy or download it again."
        ) from error


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # a broken EXIF block does not make the pixels unreadable
        return image


def _as_array(image: Image.Image) -> NDArray[Any]:
    """The pixels in their own depth where that matters, otherwise RGB or RGBA."""
    if image.mode.startswith("I;16") or image.mode == "I":
        deep: NDArray[np.uint16] = np.clip(np.asarray(image), 0, 65535).astype(np.uint16)
        return deep
    if image.mode == "F":
        return np.asarray(image)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return np.asarray(image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))


def _from_array(array: NDArray[Any], name: str) -> Picture:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise InputError(
            f"{name} must have shape (H, W), (H, W, 3) or (H, W, 4), got {array.shape}."
        )
    _check_size(array.shape[1], array.shape[0], name)
    pixels = _to_uint8(array, name)
    if pixels.ndim == 2:
        return np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.shape[2] == 4:
        return _flatten(pixels)
    return pixels.copy()


def _to_uint8(array: NDArray[Any], name: str) -> Picture:
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


def _flatten(rgba: Picture) -> Picture:
    alpha = rgba[:, :, 3:].astype(np.float32) / 255
    mixed = rgba[:, :, :3] * alpha + np.array(_BACKGROUND, np.float32) * (1 - alpha)
    return np.asarray(np.rint(mixed), dtype=np.uint8)


def _check_size(width: int, height: int, name: str) -> None:
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise InputError(_too_large(name, f"{width} x {height} pixels"))
    if min(width, height) < MIN_SIDE:
        raise InputError(
            f"{name} has only {width} x {height} pixels: give a picture of at least "
            f"{MIN_SIDE} x {MIN_SIDE}."
        )


def _too_large(name: str, size: str) -> str:
    return (
        f"{name} has {size}, above the limit of {MAX_SIDE:,} a side and {MAX_PIXELS:,} in all: "
        "shrink it or cut it into parts."
    )


def _short(error: Exception) -> str:
    text = str(error).strip().split("\n")[0]
    return text[:80] or type(error).__name__
