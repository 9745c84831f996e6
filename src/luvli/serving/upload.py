"""Bodies, answers and images of requests, within limits and without touching the disk."""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import Response
from PIL import Image
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from luvli.errors import InputError
from luvli.image.read import ImageArray, Opener, read_reduced
from luvli.serving.errors import Refused, busy, too_large, unusable
from luvli.serving.metrics import Metrics
from luvli.serving.settings import Limits

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""what is decoded, beside HEIC where pillow-heif is installed"""
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
MAX_SCANS = 64
"""of a progressive JPEG: each one goes over all pixels again, and a few bytes make one"""
MAX_FIELDS = 8
MAX_FIELD_BYTES = 200_000
"""of a form field: enough for the boxes of 16 images with 100 faces each"""
PIECE = 1 << 16
"""bytes of an answer that are sent at a time"""


class Admission:
    """Counts the predictions, bodies and answers of one process."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._clients: Counter[str] = Counter()
        self._bytes = 0

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """A place in the queue for the duration of a prediction."""
        if self._clients.total() >= self._limits.max_requests:
            raise busy()
        if 0 < self._limits.max_client_requests <= self._clients[client]:
            message = "you have too many requests in flight: wait for their answers."
            raise Refused(429, "too_many_requests", message)
        self._clients[client] += 1
        self._metrics.in_flight.inc()
        try:
            yield
        finally:
            self._metrics.in_flight.dec()
            self._clients.subtract([client])
            self._clients += Counter()  # forgets clients without requests

    def hold(self, size: int) -> None:
        """Count `size` more bytes in memory, or fewer."""
        if size > 0 and self._bytes + size > self._limits.max_buffered_bytes:
            raise busy()
        self._bytes += size
        self._metrics.buffered.inc(size)

    @contextmanager
    def body(self, request: Request) -> Iterator[AsyncGenerator[bytes, None]]:
        """The chunks of a request's body, held until the end of the block."""
        size, limit = 0, self._limits.max_bytes
        refused = too_large(f"the request has more than {limit / 1e6:g} MB: send less.")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise refused

        async def chunks() -> AsyncGenerator[bytes, None]:
            nonlocal size
            async for chunk in request.stream():
                self.hold(len(chunk))
                size += len(chunk)
                if size > limit:
                    raise refused
                yield chunk

        try:
            yield chunks()
        finally:
            self.hold(-size)


class HeldResponse(Response):
    """An answer that is held until its client has read it."""

    def __init__(self, content: bytes, media_type: str, admission: Admission) -> None:
        super().__init__(content, media_type=media_type)
        self._admission = admission

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it in pieces: each waits until the client has read most of those before."""
        size = len(self.body)
        self._admission.hold(size)
        try:
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            for i in range(0, size, PIECE):
                piece, more = self.body[i : i + PIECE], i + PIECE < size
                await send({"type": "http.response.body", "body": piece, "more_body": more})
        finally:
            self._admission.hold(-size)


class Upload(NamedTuple):
    """The images of one request."""

    images: list[tuple[str, bytes]]
    """name for messages, and bytes"""
    boxes: str | None = None
    """the form field of this name"""


class _InMemoryParser(MultiPartParser):
    spool_max_size = 1 << 40  # Starlette writes larger files to disk; bodies are limited anyway


async def read_upload(
    request: Request, chunks: AsyncGenerator[bytes, None], limits: Limits
) -> Upload:
    """An image as the body, or multipart/form-data with images and boxes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        async with asyncio.timeout(limits.receive_seconds):
            if kind == "multipart/form-data":
                return await _read_form(request, chunks, limits)
            body = b"".join([chunk async for chunk in chunks])
    except TimeoutError:
        message = f"the body did not arrive within {limits.receive_seconds:g} seconds."
        raise Refused(408, "slow", message) from None
    if not body:
        raise unusable("the request has no image: send its bytes as the body.")
    return Upload([("the file", body)])


async def _read_form(
    request: Request, chunks: AsyncGenerator[bytes, None], limits: Limits
) -> Upload:
    most = {"max_files": limits.max_images, "max_fields": MAX_FIELDS}
    parser = _InMemoryParser(request.headers, chunks, max_part_size=MAX_FIELD_BYTES, **most)
    try:
        parts = (await parser.parse()).multi_items()
    except MultiPartException as error:
        if "files" in error.message:
            raise too_large(f"the request has more than {limits.max_images} images.") from None
        raise Refused(400, "bad_request", f"the form cannot be read: {error.message}") from None
    fields = {name: value for name, value in parts if isinstance(value, str)}
    if unknown := set(fields) - {"boxes"}:
        raise unusable(f"there is no form field {min(unknown)[:50]!r}: send files, or boxes.")
    files = [value for _, value in parts if isinstance(value, UploadFile)]
    if not files:
        raise unusable("the form has no image: send at least one file.")
    images = [(f"image {i}", await file.read()) for i, file in enumerate(files, 1)]
    return Upload(images, fields.get("boxes"))


def checked_opener(data: bytes, limits: Limits, name: str) -> Opener:
    """Opens the image of a request; refuses by its header what must not be decoded."""

    def too_many(pixels: str) -> Refused:
        most = limits.max_pixels / 1e6
        return too_large(f"{name} has {pixels} pixels, the limit is {most:g} million: shrink it.")

    def opener(stream: Any) -> Image.Image:
        try:
            image = Image.open(stream, formats=_formats(data))
        except Image.DecompressionBombError:
            raise too_many("too many") from None
        except Exception as error:  # unknown format, or a damaged header
            words = f"{name} is not an image of a known kind"
            if isinstance(error, ImportError):
                words = f"{name} is a HEIC photograph, which this server does not read"
            words += ": send JPEG, PNG, WebP, GIF or BMP."
            raise Refused(415, "not_an_image", words) from None
        if image.width * image.height > limits.max_pixels:
            raise too_many(f"{image.width} x {image.height}")
        if image.format in ("JPEG", "MPO") and data.count(b"\xff\xda") > MAX_SCANS:
            raise unusable(f"{name} is a JPEG of more than {MAX_SCANS} scans: save it again.")
        return image

    return opener


def _formats(data: bytes) -> tuple[str, ...]:
    if data[4:8] != b"ftyp" or data[8:12] not in HEIC_BRANDS:
        return FORMATS
    heif: Any = importlib.import_module("pillow_heif")
    heif.register_heif_opener()
    return ("HEIF",)


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
