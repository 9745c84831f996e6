"""Writing pictures, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from luvli.errors import InputError
from luvli.files import PathLike, whole_file
from luvli.image.read import Picture


def write_image(path: PathLike, image: Picture) -> None:
    """Write an RGB picture; the suffix chooses the format."""
    target = Path(path)
    if target.suffix.lower() not in Image.registered_extensions():
        raise InputError(f"{target} has no known picture suffix: use .png or .jpg.")
    with whole_file(target) as temporary:
        Image.fromarray(image).save(temporary, quality=95)  # PNG has no quality and ignores it
