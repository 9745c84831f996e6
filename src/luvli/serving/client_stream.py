"""What both clients send and receive, and their streams."""

from __future__ import annotations

import io
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pydantic_core
from PIL import Image

from luvli.faces import Faces
from luvli.files import unreadable
from luvli.image.read import from_array
from luvli.image.source import AnyImage, plain_source

AGAIN = (0, 408, 429, 502, 503, 504)
"""statuses after which a request is sent again, because it changes nothing; 0: no answer"""
MAX_PAUSE = 10.0
"""seconds"""


class ServerError(RuntimeError):
    """The server refused, and trying again did not help; the message is its own sentence."""

    def __init__(self, status: int, code: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after

    @classmethod
    def of(cls, failure: httpx.Response | Exception) -> ServerError:
        """From an answer that is no success, or from the exception in its place."""
        if isinstance(failure, Exception):
            return cls(0, "unreachable", f"no answer from the server: {failure}.")
        status, asked = failure.status_code, failure.headers.get("Retry-After", "")
        try:
            words = failure.json()["error"]
            code, message = str(words["code"]), str(words["message"])
        except (ValueError, KeyError, TypeError):
            code, message = "unknown", f"the server answered with status {status}."
        return cls(status, code, message, float(asked) if asked.isdecimal() else 0.0)


class Prediction(NamedTuple):
    """The faces of one image, and what the server says about them; `timings` in milliseconds."""

    faces: Faces
    width: int
    height: int
    model: str
    timings: dict[str, float]
    version: str = ""
    faces_left_out: int = 0
    frame: int = 0
    """of a stream: the number of the frame, from 0; frames that a newer one replaced have none"""
    tracks: list[int] | None = None
    """of a stream: a number for each face that stays with it"""
    dropped: int = 0
    """of a stream: frames so far that a newer one replaced"""


def encode(image: AnyImage) -> bytes:
    """The bytes of an image file; of arrays a PNG, which loses nothing."""
    source = plain_source(image)
    if isinstance(source, bytes):
        return source
    if isinstance(source, np.ndarray):
        stream = io.BytesIO()
        Image.fromarray(from_array(source)).save(stream, "PNG", compress_level=1)
        return stream.getvalue()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise unreadable(source, error) from error


def to_request(images: Sequence[AnyImage], options: Any, accept: str = "*/*") -> dict[str, Any]:
    """The arguments of httpx for a prediction."""
    query = {name: value for name, value in options.items() if value is not None}
    if "boxes" in query:
        query["boxes"] = pydantic_core.to_json(query["boxes"], fallback=list).decode()
    request = {"method": "POST", "url": "/v1/predict", "params": query}
    files = [encode(image) for image in images]
    body = {"content": files[0]} if len(files) == 1 else {"files": [("image", f) for f in files]}
    return {**request, **body, "headers": {"Accept": accept}}


def parse_answer(fields: dict[str, Any], errors: str = "raise") -> Any:
    """A `Prediction`, or the `ServerError` that stands in its place."""
    if "error" not in fields:
        return Prediction(**{**fields, "faces": Faces.from_dicts(fields["faces"])})
    error = ServerError(422, fields["error"]["code"], fields["error"]["message"])
    if errors == "raise":
        raise error
    return error


def pause(failure: httpx.Response | Exception, attempt: int, retries: int) -> float:
    """Seconds until the next attempt; raises `ServerError` if there is none."""
    error = ServerError.of(failure)
    # a 500 without our code comes from a proxy in front of a process that died
    again = error.status in AGAIN or (error.status, error.code) == (500, "unknown")
    if attempt >= retries or not again:
        raise error
    seconds = max(0.1 * 2.0**attempt, error.retry_after)
    return min(seconds, MAX_PAUSE) * random.uniform(0.75, 1.25)  # not all at the same time


class _Address:
    url: str
    headers: dict[str, str]

    def _stream(self) -> dict[str, Any]:
        url = self.url.replace("http", "ws", 1) + "/v1/stream"
        return {"uri": url, "additional_headers": self.headers, "max_size": None}


class Streaming(_Address):
    """The stream of `Client`."""

    def stream(self, frames: Iterable[AnyImage], **options: Any) -> Iterator[Prediction]:
        """A `Prediction` for each frame, tracked and smoothed. Options: `StreamOptions`."""
        from websockets.sync.client import connect

        with connect(**self._stream()) as socket:
            socket.send(pydantic_core.to_json(options).decode())
            for frame in frames:
                socket.send(encode(frame))
                yield parse_answer(pydantic_core.from_json(socket.recv()))


class AsyncStreaming(_Address):
    """The stream of `AsyncClient`."""

    async def stream(self, frames: Iterable[AnyImage], **options: Any) -> AsyncIterator[Prediction]:
        """As `Client.stream`: `async for prediction in client.stream(frames)`."""
        from websockets.asyncio.client import connect

        async with connect(**self._stream()) as socket:
            await socket.send(pydantic_core.to_json(options).decode())
            for frame in frames:
                await socket.send(encode(frame))
                yield parse_answer(pydantic_core.from_json(await socket.recv()))
