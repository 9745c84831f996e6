"""Bodies and images of requests, within limits and without touching the disk."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastapi import Request
from PIL import Image
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from luvli.errors import InputError
from luvli.image.read import ImageArray, Opener, read_reduced
from luvli.serving.errors import Refused, busy, too_large, unusable
from luvli.serving.metrics import Metrics
from luvli.serving.settings import Limits

Hold = Callable[[int], None]
"""counts so many more bytes of a request or its answer"""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""what is decoded, beside HEIC where pillow-heif is installed"""
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
MAX_SCANS = 64
"""of a progressive JPEG: each one goes over all pixels again, and a few bytes make one"""
MAX_FIELDS = 8
MAX_FIELD_BYTES = 200_000
"""of a form field: enough for the boxes of 16 images with 100 faces each"""


class Admission:
    """Counts the predictions of one process, and the bytes of bodies and answers."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits, self._metrics = limits, metrics
        self._predictions = self._bytes = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue for the duration of a prediction."""
        if self._predictions >= self._limits.max_requests:
            raise busy()
        self._count(1, 0)
        try:
            yield
        finally:
            self._count(-1, 0)

    async def memory(self) -> AsyncIterator[Hold]:
        """A dependency: what a request holds until its answer has been sent."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if self._bytes + size > self._limits.max_buffered_bytes:
                raise busy()
            held += size
            self._count(0, size)

        try:
            yield hold
        finally:
            self._count(0, -held)

    def _count(self, predictions: int, size: int) -> None:
        self._predictions += predictions
        self._bytes += size
        self._metrics.in_flight.set(self._predictions)
        self._metrics.buffered.set(self._bytes)


class Upload(NamedTuple):
    """The images of one request: names for messages, and bytes; and the form field `boxes`."""

    images: list[tuple[str, bytes]]
    boxes: str | None = None


async def read_body(request: Request, hold: Hold, limits: Limits) -> bytes:
    """The body of a request, refused as soon as it is too large or too slow."""
    refused = too_large(f"the request has more than {limits.max_bytes / 1e6:g} MB: send less.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.max_bytes:
        raise refused
    body = bytearray()
    try:
        async with asyncio.timeout(limits.receive_seconds):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limits.max_bytes:
                    raise refused
                hold(len(chunk))
                body += chunk
    except TimeoutError:
        message = f"the body did not arrive within {limits.receive_seconds:g} seconds."
        raise Refused(408, "slow", message) from None
    if not body:
        raise unusable("the request has no image: send its bytes as the body.")
    return bytes(body)


def read_upload(headers: Headers, body: bytes, limits: Limits) -> Upload:
    """The images and boxes of a body; runs in a thread, because a form can take seconds."""
    kind = headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() != "multipart/form-data":
        return Upload([("the file", body)])

    async def whole() -> Any:
        yield body

    most: Any = {"max_files": limits.max_images, "max_fields": MAX_FIELDS}
    parser = MultiPartParser(headers, whole(), max_part_size=MAX_FIELD_BYTES, **most)
    parser.spool_max_size = len(body) + 1  # larger files would be written to disk
    try:
        parts = asyncio.run(parser.parse()).multi_items()
    except MultiPartException as error:
        if "files" in error.message:
            raise too_large(f"the request has more than {limits.max_images} images.") from None
        raise Refused(400, "bad_request", f"the form cannot be read: {error.message}") from None
    fields = {name: value for name, value in parts if isinstance(value, str)}
    if unknown := set(fields) - {"boxes"}:
        raise unusable(f"there is no form field {min(unknown)[:50]!r}: send files, or boxes.")
    files = [value.file for _, value in parts if isinstance(value, UploadFile)]
    if not files:
        raise unusable("the form has no image: send at least one file.")
    return Upload(
        [(f"image {i}", file.read()) for i, file in enumerate(files, 1)], fields.get("boxes")
    )


def checked_opener(data: bytes, limits: Limits, name: str) -> Opener:
    """Opens the image of a request; refuses by its header what must not be decoded."""
    is_heic = data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS
    allowed = f"the limit is {limits.max_pixels / 1e6:g} million: shrink it."

    def opener(stream: Any) -> Image.Image:
        try:
            if is_heic:
                importlib.import_module("pillow_heif").register_heif_opener()
            image = Image.open(stream, formats=("HEIF",) if is_heic else FORMATS)
        except Image.DecompressionBombError:
            raise too_large(f"{name} has too many pixels, {allowed}") from None
        except Exception:  # unknown format, or a damaged header
            kind = "a HEIC photograph, which this server does not read"
            kind = kind if is_heic else "not an image of a known kind"
            words = f"{name} is {kind}: send JPEG, PNG, WebP, GIF or BMP."
            raise Refused(415, "not_an_image", words) from None
        if image.width * image.height > limits.max_pixels:
            raise too_large(f"{name} has {image.width} x {image.height} pixels, {allowed}")
        if image.format in ("JPEG", "MPO") and data.count(b"\xff\xda") > MAX_SCANS:
            raise unusable(f"{name} is a JPEG of more than {MAX_SCANS} scans: save it again.")
        return image

    return opener


def decode(data: bytes, limits: Limits, name: str) -> ImageArray:
    """The pixels (H, W, 3), upright, after every check."""
    with refused_input(name):
        return read_reduced(data, 1, opener=checked_opener(data, limits, name)).image


@contextmanager
def refused_input(name: str) -> Iterator[None]:
    """An image that cannot be read is refused, with the reader's own sentence."""
    try:
        yield
    except Refused:
        raise
    except InputError as error:
        raise unusable(str(error).replace("the image data", name)) from error
