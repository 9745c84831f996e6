"""What is in memory and in work at one time, within the limits; 429 or 503 beyond them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from luvli.serving.errors import Refused, busy, too_large
from luvli.serving.metrics import Metrics
from luvli.serving.settings import Limits

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
