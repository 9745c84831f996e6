"""uvicorn's HTTP protocol with the bounds that it leaves open.

httptools parses, in C: in pure Python that took a third of the event loop's work for a request.
It holds what it has not understood yet for as long as bytes come, and uvicorn waits for the rest
of a head, or of a body whose request was refused, without end. Both are bounded here, and so is
the number of connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from luvli.serving.settings import Limits

MAX_HEAD = 64_000
"""bytes without a piece of a body among them: the head of a request, trailers, the seams of
chunks"""


def bounded_protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of one connection, for uvicorn."""

    class BoundedProtocol(HttpToolsProtocol):
        _timer: asyncio.TimerHandle | None = None
        _unread = 0
        """bytes that came since the last piece of a body"""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.max_connections:
                self._end(b"503 Service Unavailable\r\nRetry-After: 1")
                return
            self._watch()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            self._unread += len(data)
            super().data_received(data)
            if self.transport.get_protocol() is not self:  # it is a WebSocket now
                self._stop_watching()
            elif self._unread > MAX_HEAD:
                self._end(b"431 Request Header Fields Too Large")
            else:
                self._watch()

        def on_headers_complete(self) -> None:
            self._unread = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unread = 0
            super().on_body(body)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            super().connection_lost(exc)

        @property
        def _in_work(self) -> bool:
            """Whether a request is being answered: then it has its own bounds of time."""
            return self.cycle is not None and not self.cycle.response_complete

        def _watch(self) -> None:
            """A timer runs while more is expected of the client, and it has begun to send it."""
            if self._in_work or self.timeout_keep_alive_task is not None:
                self._stop_watching()
            elif self._timer is None:
                self._timer = self.loop.call_later(limits.receive_seconds / 2, self._cut)

        def _stop_watching(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _cut(self) -> None:
            if not self._in_work:
                self.transport.close()

        def _end(self, status: bytes) -> None:
            if not self._in_work:  # otherwise this would stand in the middle of an answer
                self.transport.write(
                    b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
            self.transport.close()

    return BoundedProtocol
