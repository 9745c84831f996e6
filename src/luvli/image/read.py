"""Any image as uint8 RGB, upright; anything else as one clear sentence."""

from __future__ import annotations

import importlib
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from luvli.errors import InputError, brief
from luvli.files import PathLike, check_plain, unreadable
from luvli.image import affine
from luvli.image.array import ImageArray as ImageArray
from luvli.image.array import check_image_size, from_array, too_large, warn_if_dark
from luvli.image.box import Box

ImageSource = PathLike | bytes | NDArray[Any]

Opener = Callable[[Any], Image.Image]
"""an open file -> the image in it, of which no more than the header has been read"""

_COMMON = ("BMP", "GIF", "JPEG", "PPM", "PNG")
"""formats that Pillow knows without looking for more"""
FORMATS = (
    *_COMMON, "AVIF", "DIB", "HEIF", "ICO", "JPEG2000", "MPO", "PCX", "SGI", "TGA", "TIFF", "WEBP",
)  # fmt: skip
"""formats that are read; HEIF and AVIF where Pillow has them"""

IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".jpe", ".jfif", ".dib",
    ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif", ".heic", ".heif",
)  # fmt: skip
"""What the names of image files end with, in small letters; the usual ones first."""

_STRIP = 1 << 19
"""pixels that are converted at a time"""

_TURNS = {
    1: (False, False, False),
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}
"""EXIF orientation -> sides swapped, then mirrored in x, mirrored in y"""


def read_image(source: ImageSource, white_level: int | None = None) -> ImageArray:
    """Read an image from a path, from the bytes of a file, or from an array.

    Files: the formats of `FORMATS`; the EXIF orientation is applied, transparency is laid on
    white, 16-bit values are scaled to 8 bits, CMYK and palettes become RGB, and of an
    animation the first frame is taken. Arrays: (H, W), (H, W, 1), (H, W, 3) RGB or
    (H, W, 4) RGBA; uint8, uint16, bool, or floats in 0..1. `white_level` is the value of white in
    a uint16 array: 65535 unless given, 4095 for a camera of 12 bits. An array, or a file, whose
    values stay far below its white gets a warning.

    Returns a fresh uint8 array (H, W, 3). Raises `InputError` with one sentence otherwise.
    """
    if isinstance(source, np.ndarray):
        pixels = from_array(source, white_level=white_level)
        return pixels.copy() if pixels is source else pixels
    return read_reduced(source, 1).image


class Reduced(NamedTuple):
    """An image decoded with fewer pixels than its file holds."""

    image: ImageArray
    affine: NDArray[np.float64]
    """(2, 3) pixels of the whole image -> pixels of this one"""
    factor: int
    """pixels of the whole image along one of this one: 1, 2, 4 or 8"""
    size: tuple[int, int]
    """width and height of the whole image, upright"""

    def to_whole(self, box: Box) -> Box:
        """A box in pixels of this image, in pixels of the whole one."""
        (x0, y0), (x1, y1) = affine.apply(affine.invert(self.affine), box.array.reshape(2, 2))
        return Box(x0, y0, x1, y1, box.score, detected=box.detected)


def read_reduced(
    source: PathLike | bytes, factor: int, least: int = 0, opener: Opener | None = None
) -> Reduced:
    """Read a file with one pixel for `factor` x `factor` of it, as far as its format allows.

    JPEG files can be decoded at 1/2, 1/4 and 1/8, in less time and memory, each pixel the
    mean of those it stands for; others are read whole. With `least` the longest side keeps at
    least so many pixels. `opener` takes the place of `open_image`: it may refuse what it sees in
    the header with an `InputError`, before a pixel is decoded.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        stream = io.BytesIO(source)
        return _decode(stream, "the image data", len(source), factor, least, opener)
    path = Path(source)
    check_plain(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _decode(file, str(path), size, factor, least, opener)
    except OSError as error:
        raise unreadable(path, error) from error


def _decode(
    stream: Any, name: str, size: int, factor: int, least: int, opener: Opener | None
) -> Reduced:
    if size == 0:
        raise InputError(f"{name} is empty (0 bytes): copy or download it again.")
    try:
        # Pillow's own size warning is of no use; ours is the limit
        with no_warnings(), (opener or open_image)(stream) as image:
            check_image_size(image.width, image.height, name)
            whole = image.size
            factor = min(factor, max(whole) // max(least, 1)) or 1
            wanted = max(1, whole[0] // factor), max(1, whole[1] // factor)
            drafted = image.draft(image.mode, wanted)  # None where the format cannot
            image.load()
            factor = round(whole[0] / drafted[1][2]) if drafted else 1
            reduced = _upright(image, whole, factor, name)
            highest = image.getextrema()[1] if image.mode.startswith("I") else 0
        warn_if_dark(highest, name)
        return reduced
    except (InputError, Warning):
        raise
    except UnidentifiedImageError as error:
        raise InputError(f"{name} {_unknown_format(Path(name).suffix.lower())}") from error
    except Image.DecompressionBombError as error:
        raise InputError(too_large(name, "more pixels than can be counted safely")) from error
    except MemoryError as error:
        raise InputError(too_large(name, "more pixels than fit in memory")) from error
    except Exception as error:  # decoders raise many kinds on damaged files
        raise InputError(
            f"{name} is damaged or truncated ({brief(error)}): copy or download it again."
        ) from error


def _unknown_format(suffix: str) -> str:
    if suffix in (".heic", ".heif"):
        return (
            "is a HEIC photograph, which needs the package pillow-heif: pip install pillow-heif, "
            "or convert it to JPEG."
        )
    if suffix in (".mp4", ".mov", ".avi", ".mkv", ".webm"):
        return "is a video: model.track gives its frames with faces."
    return "is not an image in a known format: check it, or convert it to JPEG or PNG."


_silenced = warnings.catch_warnings()
_readers = 0
_turn = threading.Lock()


@contextmanager
def no_warnings() -> Iterator[None]:
    """Silences warnings, in several threads at once.

    Two threads inside `warnings.catch_warnings` restore each other's filters, and the last to
    leave may leave all warnings of the program ignored for good. Here the first who comes
    silences them and the last who leaves brings them back.
    """
    global _readers, _silenced
    with _turn:
        if not _readers:
            _silenced = warnings.catch_warnings()
            _silenced.__enter__()
            warnings.simplefilter("ignore")
        _readers += 1
    try:
        yield
    finally:
        with _turn:
            _readers -= 1
            if not _readers:
                _silenced.__exit__(None, None, None)


def open_image(stream: Any) -> Image.Image:
    """Pillow knows formats that it hands to other programs; only those of the list are tried."""
    try:
        return Image.open(stream, formats=_COMMON)
    except UnidentifiedImageError:
        Image.init()  # the readers of the other formats, which take a while to import
        with suppress(ImportError):  # HEIC, the photographs of many phones
            heif: Any = importlib.import_module("pillow_heif")
            heif.register_heif_opener()
        stream.seek(0)
        return Image.open(stream, formats=[name for name in FORMATS if name in Image.OPEN])


def _upright(image: Image.Image, whole: tuple[int, int], factor: int, name: str) -> Reduced:
    """The pixels in an array, written once, strip by strip, turned as EXIF says."""
    swapped, mirror_x, mirror_y = _TURNS[orientation(image)]
    width, height = image.size
    # The last pixel of a reduced image may stand for fewer than `factor`.
    rest = np.array([whole[0] - width * factor, whole[1] - height * factor])
    upright: ImageArray = np.empty((width, height, 3) if swapped else (height, width, 3), np.uint8)
    stored = upright[:: -1 if mirror_y else 1, :: -1 if mirror_x else 1]
    if swapped:
        stored, rest, whole = stored.transpose(1, 0, 2), rest[::-1], whole[::-1]
    rows = max(1, _STRIP // width)
    for start in range(0, height, rows):
        stop = min(start + rows, height)
        part = image if stop - start == height else image.crop((0, start, width, stop))
        stored[start:stop] = from_array(_as_array(part), name, check_size=False)
    # Pixel x stands for factor * x to factor * (x + 1) of the whole, counted from its start, or,
    # in a mirrored one, from its end.
    shift = np.where([mirror_x, mirror_y], rest, 0.0)
    to_reduced = np.column_stack([np.eye(2) / factor, (0.5 - shift) / factor - 0.5])
    return Reduced(upright, to_reduced, factor, (whole[0], whole[1]))


def orientation(image: Image.Image) -> int:
    """EXIF orientation, 1 to 8; 1 where there is none, or a broken one."""
    with suppress(Exception):
        number = image.getexif().get(0x0112, 1)
        return number if number in _TURNS else 1
    return 1


def _as_array(image: Image.Image) -> NDArray[Any]:
    """The pixels in their own depth where that matters, otherwise RGB or RGBA."""
    if image.mode.startswith("I;16") or image.mode == "I":
        deep: NDArray[np.uint16] = np.clip(np.asarray(image), 0, 65535).astype(np.uint16)
        return deep
    if image.mode == "F":
        return np.asarray(image)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return np.asarray(image.convert("RGBA"))
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
