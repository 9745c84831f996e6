"""From the bytes that someone sent to images, without trusting any of them.

Nothing touches the disk: bodies are read into memory within `Limits`, and an image's size is
read from its header before a pixel is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from luvli.errors import InputError
from luvli.image.read import ImageArray, Opener, read_reduced
from luvli.serving.errors import Refused, too_large, unusable
from luvli.serving.settings import Limits

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""ASGI: the next message of a request"""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""what is decoded at all; fewer decoders, fewer doors"""
MAX_SCANS = 64
"""of a progressive JPEG: each one goes over all pixels again, and a few bytes make one"""
MAX_FIELDS = 32
MAX_PART_HEADERS = 8_000
"""bytes of the headers of one part"""


@dataclass
class Upload:
    """The files and the fields of one request."""

    files: list[tuple[str, bytes]] = field(default_factory=list)
    """name as sent (only for messages) and bytes"""
    fields: dict[str, str] = field(default_factory=dict)


async def read_body(receive: Receive, limits: Limits) -> bytes:
    """The whole body of an ASGI request, within `max_bytes` and `receive_seconds`."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.receive_seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(499, "gone", "the client went away.")
                body += message.get("body", b"")
                if len(body) > limits.max_bytes:
                    raise body_too_large(limits)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refused(
            408, "slow", f"the body did not arrive within {limits.receive_seconds:g} seconds."
        ) from None
    return bytes(body)


def body_too_large(limits: Limits) -> Refused:
    """413 for a body above `max_bytes`."""
    return too_large(
        f"the request has more than {limits.max_bytes / 1e6:g} MB: send fewer or smaller images."
    )


def parse_upload(body: bytes, content_type: str, limits: Limits) -> Upload:
    """A body that is one image, or multipart/form-data with images and fields."""
    kind, _, parameters = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        if not body:
            raise unusable("the request has no image: send its bytes as the body.")
        return Upload([("the file", body)])
    try:
        upload = _parse_multipart(body, parameters, limits)
    except Refused:
        raise
    except Exception as error:  # the parser has an exception for each kind of damage
        raise Refused(400, "bad_request", "the multipart body is damaged.") from error
    if not upload.files:
        raise unusable("the form has no image: send at least one file.")
    return upload


def _parse_multipart(body: bytes, parameters: str, limits: Limits) -> Upload:
    from python_multipart.multipart import MultipartParser, parse_options_header

    _, options = parse_options_header(f"multipart/form-data;{parameters}".encode("latin-1"))
    boundary = options.get(b"boundary")
    if not boundary:
        raise Refused(400, "bad_request", "the multipart body has no boundary.")
    upload = Upload()
    name, headers = bytearray(), {}
    value, data = bytearray(), bytearray()
    length = 0

    def add(target: bytearray) -> Any:
        def take(piece: bytes, start: int, end: int) -> None:
            nonlocal length
            if target is not data:
                length += end - start
                if length > MAX_PART_HEADERS:
                    raise Refused(400, "bad_request", "a part of the body has huge headers.")
            target.extend(piece[start:end])

        return take

    def header_end() -> None:
        headers[bytes(name).lower()] = bytes(value)
        name.clear()
        value.clear()

    def part_end() -> None:
        nonlocal length
        _, about = parse_options_header(headers.get(b"content-disposition", b""))
        field_name = about.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" in about:
            if len(upload.files) >= limits.max_images:
                raise too_large(
                    f"the request has more than {limits.max_images} images: send fewer."
                )
            number = len(upload.files) + 1
            upload.files.append((f"image {number}", bytes(data)))
        elif len(upload.fields) >= MAX_FIELDS:
            raise Refused(400, "bad_request", f"the form has more than {MAX_FIELDS} fields.")
        else:
            upload.fields[field_name] = bytes(data).decode("utf-8", "replace")
        headers.clear()
        data.clear()
        length = 0

    parser = MultipartParser(
        boundary,
        {
            "on_header_field": add(name),
            "on_header_value": add(value),
            "on_header_end": header_end,
            "on_part_data": add(data),
            "on_part_end": part_end,
        },
    )
    parser.write(body)
    parser.finalize()
    return upload


def checked_opener(data: bytes, limits: Limits, name: str = "the file") -> Opener:
    """Opens the image of a request; refuses by its header what must not be decoded."""

    def opener(stream: Any) -> Image.Image:
        try:
            image = Image.open(stream, formats=FORMATS)
        except Image.DecompressionBombError:
            raise _too_many_pixels(name, "too many", limits) from None
        except Exception:  # unknown format, or a header that is damaged
            raise Refused(
                415,
                "not_an_image",
                f"{name} is not an image that this server reads: send JPEG, PNG, WebP, GIF or BMP.",
            ) from None
        if image.width * image.height > limits.max_pixels:
            raise _too_many_pixels(name, f"{image.width} x {image.height}", limits)
        if image.format in ("JPEG", "MPO") and data.count(b"\xff\xda") > MAX_SCANS:
            raise unusable(f"{name} is a JPEG of more than {MAX_SCANS} scans: save it again.")
        return image

    return opener


def decode(data: bytes, limits: Limits, name: str = "the file") -> ImageArray:
    """The pixels, upright, after every check."""
    with refused_input(name):
        return read_reduced(data, 1, opener=checked_opener(data, limits, name)).image


@contextmanager
def refused_input(name: str) -> Iterator[None]:
    """What cannot be read is refused, in the sentence of the reader."""
    try:
        yield
    except Refused:
        raise
    except InputError as error:
        raise unusable(str(error).replace("the image data", name)) from error


def _too_many_pixels(name: str, size: str, limits: Limits) -> Refused:
    return too_large(
        f"{name} has {size} pixels, the limit is {limits.max_pixels / 1e6:g} million: shrink it."
    )
