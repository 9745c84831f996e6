"""One HTTP connection: uvicorn's own, with two time limits and half-closed clients.

uvicorn waits without end for the rest of a request's head and for a client to read its answer,
and does not answer clients that have closed their sending side.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from luvli.serving.settings import Limits


class Connection(H11Protocol):
    """Is closed when its client takes too long."""

    def __init__(self, *arguments: Any, limits: Limits, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect("head", self._limits.receive_seconds / 2)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering or self.transport.get_protocol() is not self:  # or a WebSocket now
            self._arrived("head")
        else:  # the rest of a head, or of a body that was refused
            self._expect("head", self._limits.receive_seconds / 2)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect("reader", self._limits.send_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._arrived("reader")

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open: until a complete request is answered."""
        if not self._answering or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()  # close() would wait for the client to read its answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived("head")
        self._arrived("reader")
        super().connection_lost(exc)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect(self, event: str, seconds: float) -> None:
        if event not in self._timers:
            self._timers[event] = self.loop.call_later(seconds, self.transport.abort)

    def _arrived(self, event: str) -> None:
        if event in self._timers:
            self._timers.pop(event).cancel()
