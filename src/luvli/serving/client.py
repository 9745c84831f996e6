"""`Client` and `AsyncClient`: a server's predictions as the library's own types."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import httpx

from luvli.errors import InputError
from luvli.image.source import AnyImage
from luvli.serving.client_stream import AsyncStreaming, Streaming, parse_answer, pause, to_request

Read = Callable[[httpx.Response], Any]
_Request = dict[str, Any]


class _Calls:
    """The calls of both clients: each is a request, and a function that reads its answer."""

    _open: Callable[..., Any]
    _send: Callable[[_Request, Read], Any]

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
        about: _Request = {"base_url": self.url, "headers": self.headers, "timeout": timeout}
        self._http: Any = self._open(**about, trust_env=False)

    def predict(self, image: AnyImage, **options: Any) -> Any:
        """The `Prediction` of one image. Options: `boxes`, `model`, `min_score`."""
        return self._send(to_request([image], options), lambda answer: parse_answer(answer.json()))

    def predict_many(
        self, images: Sequence[AnyImage], errors: str = "raise", **options: Any
    ) -> Any:
        """A list of `Prediction`, from one request; `boxes` has a list for each image. An image
        that cannot be used raises `ServerError`, or, with errors="return", has it in its place."""
        if len(images) == 1 and options.get("boxes") is not None:
            options["boxes"] = options["boxes"][0]

        def read_all(answer: httpx.Response) -> list[Any]:
            fields = answer.json()
            return [parse_answer(one, errors) for one in (fields if len(images) > 1 else [fields])]

        return self._send(to_request(images, options), read_all)

    def draw(self, image: AnyImage, **options: Any) -> Any:
        """The image with its faces drawn, the bytes of a PNG. Also takes `coverage`."""
        return self._send(to_request([image], options, "image/png"), lambda answer: answer.content)

    def table(self, image: AnyImage, **options: Any) -> Any:
        """The faces of an image, the text of a CSV."""
        return self._send(to_request([image], options, "text/csv"), lambda answer: answer.text)

    def models(self) -> Any:
        """The served models: dicts with name, landmarks, licence and more."""
        request = {"method": "GET", "url": "/v1/models"}
        return self._send(request, lambda answer: answer.json()["models"])


class Client(_Calls, Streaming):
    """Talks to one server; safe to share between threads. An image is what `luvli.predict` takes.

    with Client("http://127.0.0.1:8000") as client:
        faces = client.predict("photo.jpg").faces
    """

    _open = httpx.Client

    def _send(self, request: _Request, read_answer: Read) -> Any:
        for attempt in range(self._retries + 1):
            try:
                answer = self._http.request(**request)
                if answer.is_success:
                    return read_answer(answer)
            except httpx.TransportError as error:
                answer = error
            time.sleep(pause(answer, attempt, self._retries))  # raises after the last attempt
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


class AsyncClient(_Calls, AsyncStreaming):
    """`Client` for asyncio: the same methods, to be awaited."""

    _open = httpx.AsyncClient

    async def _send(self, request: _Request, read_answer: Read) -> Any:
        for attempt in range(self._retries + 1):
            try:
                answer = await self._http.request(**request)
                if answer.is_success:
                    return read_answer(answer)
            except httpx.TransportError as error:
                answer = error
            await asyncio.sleep(pause(answer, attempt, self._retries))
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
