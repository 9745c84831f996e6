"""`Client` and `AsyncClient`: a server's predictions as the library's own types."""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
import numpy as np
import pydantic_core
from PIL import Image

from luvli.errors import InputError
from luvli.faces import Faces
from luvli.files import unreadable
from luvli.image.read import from_array
from luvli.image.source import AnyImage, plain_source
from luvli.measures.measure import Measure, Measures

Read = Callable[[httpx.Response], Any]
AGAIN = (0, 408, 429, 502, 503, 504)
"""statuses after which a request is sent again, because it changes nothing; 0: no answer"""
MAX_PAUSE = 10.0
"""seconds between two attempts"""


class ServerError(RuntimeError):
    """The server refused, and trying again did not help; the message is its own sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Prediction(NamedTuple):
    """The faces of one image, and what the server says about them; `timings` in milliseconds."""

    faces: Faces
    width: int
    height: int
    model: str
    timings: dict[str, float]
    version: str = ""
    faces_left_out: int = 0
    measures: list[Measures] | None = None
    """with measures=True: those of each face"""
    frame: int = 0
    """of a stream: the number of the frame, from 0; frames that a newer one replaced have none"""
    tracks: list[int] | None = None
    """of a stream: a number for each face that stays with it"""
    dropped: int = 0
    """of a stream: frames so far that a newer one replaced"""


def parse(fields: Any, errors: str = "raise") -> Any:
    """A `Prediction` from the JSON of an answer, or the `ServerError` that stands in its place."""
    if "error" in fields:
        error = ServerError(422, **fields["error"])
        if errors == "raise":
            raise error
        return error
    parts = [face["measures"] for face in fields["faces"] if "measures" in face]
    measures = [Measures({name: Measure(**m) for name, m in part.items()}) for part in parts]
    faces = Faces.from_dicts(fields["faces"])
    return Prediction(**{**fields, "faces": faces, "measures": measures or None})


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


class _Calls:
    """The calls of both clients: each is a request, and a function that reads its answer."""

    _open: Callable[..., Any]
    _send: Callable[[dict[str, Any], Read], Any]

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 5,
    ) -> None:
        """`timeout` in seconds for each attempt; `retries` after the first attempt."""
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url!r} is not the address of a server: write http://host:port.")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._retries = retries
        self._http = self._open(base_url=url, headers=headers, timeout=timeout, trust_env=False)
        stream = url.replace("http", "ws", 1).rstrip("/") + "/v1/stream"
        self._stream: dict[str, Any] = {
            "uri": stream,
            "additional_headers": headers,
            "max_size": None,
        }

    def predict(self, image: AnyImage, **options: Any) -> Any:
        """The `Prediction` of one image. Options: `boxes`, `model`, `min_score`, `measures`."""
        return self._send(_request([image], options), lambda answer: parse(answer.json()))

    def predict_many(
        self, images: Sequence[AnyImage], errors: str = "raise", **options: Any
    ) -> Any:
        """A list of `Prediction`, from one request; `boxes` has a list for each image. An image
        that cannot be used raises `ServerError`, or, with errors="return", has it in its place."""

        several = len(images) > 1
        if not several and options.get("boxes") is not None:
            options["boxes"] = options["boxes"][0]

        def read(answer: httpx.Response) -> list[Any]:
            return [parse(one, errors) for one in (answer.json() if several else [answer.json()])]

        return self._send(_request(images, options), read)

    def models(self) -> Any:
        """The served models: dicts with name, landmarks, licence and more."""
        request = {"method": "GET", "url": "/v1/models"}
        return self._send(request, lambda answer: answer.json()["models"])

    def _pause(self, failure: httpx.Response | Exception, attempt: int) -> float:
        """Seconds until the next attempt; raises `ServerError` if there is none."""
        if isinstance(failure, Exception):
            error = ServerError(0, "unreachable", f"no answer from the server: {failure}.")
        else:
            status = failure.status_code
            try:
                error = ServerError(status, **failure.json()["error"])
            except (ValueError, KeyError, TypeError):  # of a proxy before the server
                error = ServerError(status, "unknown", f"the server answered with status {status}.")
        # a 500 without our code comes from a proxy in front of a process that died
        again = error.status in AGAIN or (error.status, error.code) == (500, "unknown")
        if attempt >= self._retries or not again:
            raise error
        # not all clients at the same time
        return min(0.2 * 2.0**attempt, MAX_PAUSE) * random.uniform(0.75, 1.25)


def _request(images: Sequence[AnyImage], options: dict[str, Any]) -> dict[str, Any]:
    query = {name: value for name, value in options.items() if value is not None}
    if "boxes" in query:
        query["boxes"] = pydantic_core.to_json(query["boxes"], fallback=list).decode()
    files = [encode(image) for image in images]
    body = {"content": files[0]} if len(files) == 1 else {"files": [("image", f) for f in files]}
    return {"method": "POST", "url": "/v1/predict", "params": query, **body}


class Client(_Calls):
    """Talks to one server; safe to share between threads. An image is what `luvli.predict` takes.

    with Client("http://127.0.0.1:8000") as client:
        faces = client.predict("photo.jpg").faces
    """

    _open = httpx.Client

    def stream(self, frames: Iterable[AnyImage], **options: Any) -> Iterator[Prediction]:
        """A `Prediction` for each frame, tracked and smoothed. Options: `StreamOptions`."""
        from websockets.sync.client import connect

        with connect(**self._stream) as socket:
            socket.send(pydantic_core.to_json(options).decode())
            for frame in frames:
                socket.send(encode(frame))
                yield parse(pydantic_core.from_json(socket.recv()))

    def _send(self, request: dict[str, Any], read: Read) -> Any:
        for attempt in range(self._retries + 1):
            try:
                answer = self._http.request(**request)
                if answer.is_success:
                    return read(answer)
            except httpx.TransportError as error:
                answer = error
            time.sleep(self._pause(answer, attempt))  # raises after the last attempt
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


class AsyncClient(_Calls):
    """`Client` for asyncio: the same methods, to be awaited."""

    _open = httpx.AsyncClient

    async def stream(self, frames: Iterable[AnyImage], **options: Any) -> AsyncIterator[Prediction]:
        """As `Client.stream`: `async for prediction in client.stream(frames)`."""
        from websockets.asyncio.client import connect

        async with connect(**self._stream) as socket:
            await socket.send(pydantic_core.to_json(options).decode())
            for frame in frames:
                await socket.send(encode(frame))
                yield parse(pydantic_core.from_json(await socket.recv()))

    async def _send(self, request: dict[str, Any], read: Read) -> Any:
        for attempt in range(self._retries + 1):
            try:
                answer = await self._http.request(**request)
                if answer.is_success:
                    return read(answer)
            except httpx.TransportError as error:
                answer = error
            await asyncio.sleep(self._pause(answer, attempt))
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
