"""`AsyncClient` and `Client`: a server's predictions as the library's own types."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import cv2
import httpx
import numpy as np
from pydantic_core import from_json, to_json

from luvli.errors import InputError
from luvli.faces import Faces
from luvli.files import unreadable
from luvli.image.array import from_array
from luvli.image.source import AnyImage, plain_source
from luvli.measures.measure import Measure, Measures

T = TypeVar("T")
LOCAL = "http://127.0.0.1:8000"
AGAIN = (0, 408, 429, 500, 502, 503, 504)
"""statuses after which a request is sent again, because it changes nothing; 0: no answer"""


class ServerError(RuntimeError):
    """The server refused, and trying again did not help; the message is its own sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Prediction(NamedTuple):
    """The faces of one image; `timings` in milliseconds. A stream also gives `frame` and `tracks`,
    the numbers of the frame and of its faces, and how many frames it has `dropped`."""

    faces: Faces
    width: int
    height: int
    model: str
    timings: dict[str, float]
    version: str = ""
    faces_left_out: int = 0
    measures: list[Measures] | None = None
    frame: int = 0
    tracks: list[int] | None = None
    dropped: int = 0


def parse(fields: Any, errors: str = "raise") -> Any:
    """A `Prediction` from the JSON of an answer; an error in its place is raised or returned."""
    if "error" in fields:
        error = ServerError(422, **fields["error"])
        if errors == "return":
            return error
        raise error
    parts = [face["measures"] for face in fields["faces"] if "measures" in face]
    measures = [Measures({name: Measure(**m) for name, m in part.items()}) for part in parts]
    faces = Faces.from_dicts(fields["faces"])
    return Prediction(**{**fields, "faces": faces, "measures": measures or None})


def encode(image: AnyImage) -> bytes:
    """The bytes of an image file; of arrays a PNG, which loses nothing."""
    source = plain_source(image)
    if isinstance(source, np.ndarray):
        return cv2.imencode(".png", from_array(source)[:, :, ::-1])[1].tobytes()
    try:
        return source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise unreadable(str(source), error) from error


class AsyncClient:
    """Talks to one server. Images are what `luvli.predict` takes, options those of the server."""

    def __init__(self, url: str = LOCAL, token: str = "", timeout: float = 60, retries: int = 5):
        """`timeout` in seconds for each attempt; `retries` after the first attempt."""
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url!r} is not the address of a server: write http://host:port.")
        self._url, self._retries = url.rstrip("/"), retries
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False)
        address = f"{self._url.replace('http', 'ws', 1)}/v1/stream"
        self.socket: Any = {"uri": address, "additional_headers": headers, "max_size": None}

    async def predict(self, image: AnyImage, boxes: Any = None, **options: Any) -> Prediction:
        """The faces of one image."""
        rows = None if boxes is None else [boxes]
        prediction: Prediction = (await self.predict_many([image], rows, **options))[0]
        return prediction

    async def predict_many(
        self, images: Sequence[AnyImage], boxes: Any = None, errors: str = "raise", **options: Any
    ) -> list[Any]:
        """A `Prediction` of each image, from one request; `boxes` has a list for each. An image
        that cannot be used raises `ServerError`, or, with errors="return", has it in its place."""
        files, one = [encode(image) for image in images], len(images) == 1
        if boxes is not None:
            options["boxes"] = to_json(boxes[0] if one else boxes, fallback=list).decode()
        body: Any = {"content": files[0]} if one else {"files": [("image", f) for f in files]}
        answer = await self._send("POST", "/v1/predict", params=options, **body)
        return [parse(each, errors) for each in ([answer] if one else answer)]

    async def models(self) -> list[dict[str, Any]]:
        """The served models, with name, landmarks, licence and more."""
        return list((await self._send("GET", "/v1/models"))["models"])

    async def stream(self, frames: Iterable[AnyImage], **options: Any) -> AsyncIterator[Prediction]:
        """A `Prediction` of each frame, tracked and smoothed. Options: `StreamOptions`."""
        from websockets.asyncio.client import connect

        images = iter(frames)
        async with connect(**self.socket) as socket:
            await socket.send(to_json(options).decode())
            # in a thread: a camera takes its time
            while (frame := await asyncio.to_thread(next, images, None)) is not None:
                await socket.send(encode(frame))
                yield parse(from_json(await socket.recv()))

    async def _send(self, method: str, path: str, **request: Any) -> Any:
        """The answer's JSON; asked for again where the server is busy or the connection lost."""
        for attempt in range(self._retries + 1):
            if attempt:  # not all clients at the same time
                await asyncio.sleep(min(0.1 * 2**attempt, 10) * random.uniform(0.75, 1.25))
            try:
                answer = await self._http.request(method, self._url + path, **request)
                if answer.is_success:
                    return answer.json()
                error = ServerError(answer.status_code, **answer.json()["error"])
            except httpx.TransportError as lost:
                error = ServerError(0, "unreachable", f"no answer from the server: {lost}.")
            except (ValueError, LookupError, TypeError):  # of a proxy before the server
                words = f"the server answered with status {answer.status_code}."
                error = ServerError(answer.status_code, "unknown", words)
            if error.status not in AGAIN or error.code == "internal":  # it would fail again
                break
        raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()


class Client:
    """An `AsyncClient` for programs without asyncio, in a thread of its own. Threads can share it.

    with Client("http://127.0.0.1:8000") as client:
        faces = client.predict("photo.jpg").faces
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._client, self._loop = AsyncClient(*arguments, **named), asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def predict(self, image: AnyImage, *args: Any, **options: Any) -> Prediction:
        return self._run(self._client.predict(image, *args, **options))

    def predict_many(self, images: Sequence[AnyImage], *args: Any, **options: Any) -> list[Any]:
        return self._run(self._client.predict_many(images, *args, **options))

    def models(self) -> list[dict[str, Any]]:
        return self._run(self._client.models())

    def stream(self, frames: Iterable[AnyImage], **options: Any) -> Iterator[Prediction]:
        from websockets.sync.client import connect

        with connect(**self._client.socket) as socket:  # frames come from the caller's thread
            socket.send(to_json(options).decode())
            for frame in frames:
                socket.send(encode(frame))
                yield parse(from_json(socket.recv()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._client.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
