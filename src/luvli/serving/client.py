"""`Client` and `AsyncClient`: a server's predictions as the library's own types."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import httpx

from luvli.errors import InputError
from luvli.image.source import AnyImage
from luvli.serving.client_stream import (
    AsyncStreaming,
    Streaming,
    read_error,
    read_prediction,
    to_request,
)

AGAIN = (0, 408, 429, 502, 503, 504)
"""statuses after which a request is sent again, because it changes nothing; 0: no answer"""
MAX_PAUSE = 10.0
"""seconds"""
Read = Callable[[httpx.Response], Any]


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
        self.url, self._retries = url.rstrip("/"), retries
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        settings = {"base_url": self.url, "headers": self.headers, "timeout": timeout}
        self._http: Any = self._open(**settings, trust_env=False)

    def predict(self, image: AnyImage, **options: Any) -> Any:
        """The `Prediction` of one image. Options: `boxes`, `model`, `min_score`."""
        return self._send(to_request([image], options), lambda got: read_prediction(got.json()))

    def predict_many(
        self, images: Sequence[AnyImage], errors: str = "raise", **options: Any
    ) -> Any:
        """A list of `Prediction`, from one request; `boxes` has a list for each image. An image
        that cannot be used raises `ServerError`, or, with errors="return", has it in its place."""

        def read(answer: httpx.Response) -> list[Any]:
            fields = answer.json() if len(images) > 1 else [answer.json()]
            return [read_prediction(one, errors) for one in fields]

        if len(images) == 1 and options.get("boxes") is not None:
            options["boxes"] = options["boxes"][0]
        return self._send(to_request(images, options), read)

    def draw(self, image: AnyImage, **options: Any) -> Any:
        """The image with its faces drawn, the bytes of a PNG. Also takes `coverage`."""
        return self._send(to_request([image], options, "image/png"), lambda got: got.content)

    def table(self, image: AnyImage, **options: Any) -> Any:
        """The faces of an image, the text of a CSV."""
        return self._send(to_request([image], options, "text/csv"), lambda got: got.text)

    def models(self) -> Any:
        """The served models: dicts with name, landmarks, licence and more."""
        request = {"method": "GET", "url": "/v1/models"}
        return self._send(request, lambda got: got.json()["models"])

    def _pause(self, answer: httpx.Response | None, attempt: int) -> float:
        """Seconds until the next attempt; raises `ServerError` if there is none."""
        error = read_error(answer)
        # a 500 without our code comes from a proxy in front of a process that died
        again = error.status in AGAIN or (error.status, error.code) == (500, "unknown")
        if attempt >= self._retries or not again:
            raise error
        asked = answer.headers.get("Retry-After", "") if answer else ""
        seconds = max(0.1 * 2.0**attempt, float(asked) if asked.isdecimal() else 0.0)
        return min(seconds, MAX_PAUSE) * random.uniform(0.75, 1.25)  # not all at the same time


class Client(_Calls, Streaming):
    """Talks to one server; safe to share between threads. An image is what `luvli.predict` takes.

    with Client("http://127.0.0.1:8000") as client:
        faces = client.predict("photo.jpg").faces
    """

    _open = httpx.Client

    def _send(self, request: dict[str, Any], read: Read) -> Any:
        attempt = 0
        while (outcome := self._attempt(request)) is None or not outcome.is_success:
            time.sleep(self._pause(outcome, attempt))
            attempt += 1
        return read(outcome)

    def _attempt(self, request: dict[str, Any]) -> httpx.Response | None:
        try:
            answer: httpx.Response = self._http.request(**request)
            return answer
        except httpx.TransportError:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


class AsyncClient(_Calls, AsyncStreaming):
    """`Client` for asyncio: the same methods, to be awaited."""

    _open = httpx.AsyncClient

    async def _send(self, request: dict[str, Any], read: Read) -> Any:
        attempt = 0
        while (outcome := await self._attempt(request)) is None or not outcome.is_success:
            await asyncio.sleep(self._pause(outcome, attempt))
            attempt += 1
        return read(outcome)

    async def _attempt(self, request: dict[str, Any]) -> httpx.Response | None:
        try:
            answer: httpx.Response = await self._http.request(**request)
            return answer
        except httpx.TransportError:
            return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
