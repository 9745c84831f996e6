"""Writing images, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from luvli.errors import InputError
from luvli.files import PathLike, whole_file
from luvli.image.read import ImageArray


def write_image(path: PathLike, image: ImageArray) -> None:
    """Write an RGB image; the suffix chooses the format."""
    target = Path(path)
    suffix = target.suffix.lower()
    known = Image.registered_extensions()
    if suffix not in known:
        raise InputError(f"{target} has no known image suffix: use .png or .jpg.")
    # Encoded in memory first: some encoders do not notice that a disk is full.
    encoded = io.BytesIO()
    Image.fromarray(image).save(encoded, known[suffix], quality=95)  # PNG ignores the quality
    with whole_file(target) as temporary:
        temporary.write_bytes(encoded.getbuffer())
