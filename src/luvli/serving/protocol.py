"""uvicorn's HTTP protocol with the bounds that it leaves open.

httptools parses, in C: in pure Python that took a third of the event loop's work for a request.
It holds what it has not understood yet for as long as bytes come, and uvicorn waits for the rest
of a head, or of a body whose request was refused, and for a client to take its answer, without
end. All of it is bounded here, and so is the number of connections.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from luvli.serving.settings import Limits

MAX_HEAD = 64_000
"""bytes without a piece of a body among them: the head of a request, trailers, the seams of
chunks"""
NOT_LINGERING = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
JOINED = 1 << 16
"""bytes of an answer that are put together at most, before they are sent"""


class _Joining:
    """A transport that sends the head of an answer with the beginning of its body.

    uvicorn writes them one after the other, and each system call takes as long as the parsing of
    the whole request.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)  # all else is done by the transport itself

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size > JOINED:
            self.flush()

    def flush(self) -> None:
        """Send what was written."""
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
            self.transport.write(data)

    def close(self) -> None:
        self.flush()
        self.transport.close()


def bounded_protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of one connection, for uvicorn."""

    class BoundedProtocol(HttpToolsProtocol):
        _joining: _Joining
        _timer: asyncio.TimerHandle | None = None
        _taking: asyncio.TimerHandle | None = None
        """runs while the client has not taken all of an answer"""
        _unread = 0
        """bytes that came since the last piece of a body"""

        def connection_made(self, transport: Any) -> None:
            self._joining = _Joining(transport, self.loop)
            super().connection_made(self._joining)  # type: ignore[arg-type]  # like a transport
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

        def on_response_complete(self) -> None:
            self._joining.flush()
            if self._taking is None and self.transport.get_write_buffer_size():
                self._taking = self.loop.call_later(limits.send_seconds, self._cut_reader)
            super().on_response_complete()

        def handle_websocket_upgrade(self) -> None:
            self._joining.flush()
            self.transport = self._joining.transport
            super().handle_websocket_upgrade()

        def on_headers_complete(self) -> None:
            self._unread = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unread = 0
            super().on_body(body)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            if self._taking is not None:
                self._taking.cancel()
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

        def _cut_reader(self) -> None:
            self._taking = None
            if self.transport.get_write_buffer_size():
                # without lingering: the system, too, would wait for the client with what it holds
                sending = self.transport.get_extra_info("socket")
                sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOT_LINGERING)
                self.transport.abort()

        def _end(self, status: bytes) -> None:
            if not self._in_work:  # otherwise this would stand in the middle of an answer
                self.transport.write(
                    b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
            self.transport.close()

    return BoundedProtocol
