"""Whatever people hold an image in, as what the readers take: a path, bytes or an RGB array."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
from PIL import Image

from luvli.errors import InputError, a_type, brief, check_choice
from luvli.files import check_plain
from luvli.image.array import from_array
from luvli.image.read import (
    ImageArray,
    ImageSource,
    _upright,
    open_image,
    orientation,
    read_image,
)

AnyImage = ImageSource | Image.Image | IO[bytes] | Any
"""a path, bytes, an array, a `PIL.Image`, a file open for reading, or a PyTorch tensor"""

Color = Literal["rgb", "bgr"]
"""the order of an array's channels; OpenCV reads BGR. Files know their own."""


def plain_source(
    image: AnyImage, color: Color = "rgb", white_level: int | None = None
) -> ImageSource:
    """The same image as a path, bytes or array of RGB; `white_level` as in `read_image`.

    >>> import numpy as np
    >>> blue = np.zeros((4, 4, 3), np.uint8) + np.uint8([255, 0, 0])
    >>> plain_source(blue, color="bgr")[0, 0].tolist()
    [0, 0, 255]
    """
    check_choice("color", color, get_args(Color))
    if image is None:
        raise InputError(
            "the image is None: cv2.imread answers so where it cannot read a file; check its "
            "path, or give the path itself."
        )
    if isinstance(image, str | os.PathLike):
        if str(image).startswith(("http://", "https://")):
            raise InputError(f"{image} is an address: download the image, and give its bytes.")
        return image
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image)
    if isinstance(image, Image.Image):
        try:
            return _upright(image, image.size, 1, "the image").image
        except ValueError as error:
            raise InputError(
                f"the PIL.Image cannot be read ({brief(error)}): open it again."
            ) from error
    if hasattr(image, "detach") and hasattr(image, "numpy"):
        image = _from_tensor(image)
    if isinstance(image, np.ndarray):
        if white_level is not None:
            image = from_array(image, white_level=white_level)
        if color == "bgr" and image.ndim == 3 and image.shape[2] in (3, 4):
            image = np.ascontiguousarray(image[:, :, [2, 1, 0, 3][: image.shape[2]]])
        return image
    if hasattr(image, "read"):
        return _from_file(image)
    several = ", or use predict_batch for several" if isinstance(image, list | tuple) else ""
    raise InputError(
        f"an image cannot be {a_type(image)}: give a path, bytes, an open file, a "
        f"PIL.Image, an array or a tensor{several}."
    )


def image_pixels(image: AnyImage, color: Color = "rgb") -> ImageArray:
    """(H, W, 3) RGB of whatever an image is held in."""
    return read_image(plain_source(image, color))


def name_of(image: Any) -> str:
    """What to call an image in a sentence: its path, or "" where it has none."""
    name = image if isinstance(image, str | os.PathLike) else getattr(image, "name", None)
    name = name or getattr(image, "filename", None)
    return str(name) if isinstance(name, str | os.PathLike) else ""


def _from_file(stream: Any) -> bytes:
    try:
        data = stream.read()
    except UnicodeDecodeError:
        data = ""
    if not isinstance(data, bytes):
        raise InputError('the open file gives text: open it for bytes, open(path, "rb").')
    if not data:
        raise InputError("the open file gives nothing: if it was read before, call seek(0) first.")
    return data


def _from_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    """(C, H, W) as PyTorch has it, or (H, W, C), as an array (H, W, C)."""
    if "bfloat16" in str(getattr(tensor, "dtype", "")):
        tensor = tensor.float()  # NumPy has no such type
    array: np.ndarray[Any, Any] = np.asarray(tensor.detach().cpu().numpy())
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 4:
        raise InputError(
            f"a tensor of {len(array)} images {array.shape} is a batch: use predict_batch."
        )
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    return np.ascontiguousarray(array)


def image_size(source: ImageSource) -> tuple[int, int]:
    """Width and height in pixels, upright; of a file only the head is read."""
    if isinstance(source, np.ndarray):
        return int(source.shape[1]), int(source.shape[0])
    import io

    try:
        if isinstance(source, bytes):
            stream: Any = io.BytesIO(source)
        else:
            check_plain(source)
            stream = Path(source).open("rb")  # noqa: SIM115  # closed below
        with stream, open_image(stream) as image:
            width, height = image.size
            turned = orientation(image) >= 5
    except Exception:  # reading it will say what is wrong
        return 0, 0
    return (height, width) if turned else (width, height)
