"""Bodies and images of requests, within limits and without touching the disk."""

from __future__ import annotations

import asyncio
import importlib
import io
from typing import Any, NamedTuple

from fastapi import Request
from PIL import Image
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from luvli.image.read import no_warnings, orientation
from luvli.serving.engine import Take
from luvli.serving.errors import Refused
from luvli.serving.settings import Limits

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""what is decoded, beside HEIC where pillow-heif is installed"""
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
MAX_SCANS = 64
"""of a progressive JPEG: each one goes over all pixels again, and a few bytes make one"""
MAX_FIELDS = 8
MAX_FIELD_BYTES = 200_000
"""of a form field: enough for the boxes of 16 images with 100 faces each"""


class UploadedImage(NamedTuple):
    """An image of a request."""

    source: bytes | Refused
    """its file, which may be decoded, or why it may not"""
    size: tuple[int, int] = (0, 0)
    """width and height in pixels, upright"""


class Upload(NamedTuple):
    """The images of one request, and the form field `boxes`."""

    images: list[UploadedImage]
    boxes: str | None = None


async def read_body(request: Request, take: Take, limits: Limits) -> bytes:
    """The body of a request, refused as soon as it is too large or too slow."""
    refused = Refused("too_large", f"send at most {limits.max_bytes / 1e6:g} MB in one request.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.max_bytes:
        raise refused
    body = bytearray()
    try:
        async with asyncio.timeout(limits.receive_seconds):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limits.max_bytes:
                    raise refused
                take(len(chunk))
                body += chunk
    except TimeoutError:
        message = f"the body did not arrive within {limits.receive_seconds:g} seconds."
        raise Refused("slow", message) from None
    if not body:
        raise Refused("unusable", "the request has no image: send its bytes as the body.")
    return bytes(body)


def read_upload(headers: Headers, body: bytes, limits: Limits) -> Upload:
    """The images and boxes of a body; runs in a thread, because a form can take seconds."""
    kind = headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() != "multipart/form-data":
        return Upload([checked(body, limits, "the file")])

    async def whole() -> Any:
        yield body

    most: Any = {"max_files": limits.max_images, "max_fields": MAX_FIELDS}
    parser = MultiPartParser(headers, whole(), max_part_size=MAX_FIELD_BYTES, **most)
    parser.spool_max_size = len(body) + 1  # larger files would be written to disk
    try:
        parts = asyncio.run(parser.parse()).multi_items()
    except MultiPartException as error:
        if "files" in error.message:
            raise Refused("too_large", f"send at most {limits.max_images} images.") from None
        raise Refused("bad_request", f"the form cannot be read: {error.message}") from None
    fields = {name: value for name, value in parts if isinstance(value, str)}
    if unknown := set(fields) - {"boxes"}:
        words = f"there is no form field {min(unknown)[:50]!r}: send files, or boxes."
        raise Refused("unusable", words)
    files = [value.file.read() for _, value in parts if isinstance(value, UploadFile)]
    if not files:
        raise Refused("unusable", "the form has no image: send at least one file.")
    images = [checked(data, limits, f"image {i}") for i, data in enumerate(files, 1)]
    return Upload(images, fields.get("boxes"))


def checked(data: bytes, limits: Limits, name: str) -> UploadedImage:
    """The image, after a look at its header."""
    try:
        return UploadedImage(data, header_size(data, limits, name))
    except Refused as error:
        return UploadedImage(error)


def header_size(data: bytes, limits: Limits, name: str) -> tuple[int, int]:
    """Width and height by the header of an image; refuses what must not be decoded."""
    is_heic = data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS
    allowed = f"the limit is {limits.max_pixels / 1e6:g} million: shrink it."
    try:
        if is_heic:
            importlib.import_module("pillow_heif").register_heif_opener()
        with no_warnings():
            image = Image.open(io.BytesIO(data), formats=("HEIF",) if is_heic else FORMATS)
    except Image.DecompressionBombError:
        raise Refused("too_large", f"{name} has too many pixels, {allowed}") from None
    except Exception:  # unknown format, or a damaged header
        kind = "a HEIC photograph, which this server does not read"
        kind = kind if is_heic else "not an image of a known kind"
        words = f"{name} is {kind}: send JPEG, PNG, WebP, GIF or BMP."
        raise Refused("not_an_image", words) from None
    width, height = image.size
    if width * height > limits.max_pixels:
        raise Refused("too_large", f"{name} has {width} x {height} pixels, {allowed}")
    if image.format in ("JPEG", "MPO") and data.count(b"\xff\xda") > MAX_SCANS:
        words = f"{name} is a JPEG of more than {MAX_SCANS} scans: save it again."
        raise Refused("unusable", words)
    return (height, width) if orientation(image) >= 5 else (width, height)
