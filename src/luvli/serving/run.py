"""Runs the application on uvicorn, in one process or in several workers that share a socket."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from luvli.errors import InputError
from luvli.serving.app import create_app
from luvli.serving.engine import Engine
from luvli.serving.settings import METRICS_FOLDER, ServerSettings


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio turns off Nagle's algorithm only for sockets that name TCP; with it, answers
        # wait 40 ms for the client to confirm the headers
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(1024)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another --port."
        ) from error
    return opened


def server_app(settings: ServerSettings) -> FastAPI:
    """The application of one process."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    return create_app(Engine(settings))


def serve(settings: ServerSettings, listening: socket.socket, workers: int = 1) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are answered first."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises the signal again when it is done: the exit code is 0
        signal.signal(number, lambda *_: sys.exit(0))
    app = server_app(settings)  # also before workers start: a bad model is refused once, here
    limits = settings.limits
    config = uvicorn.Config(
        partial(server_app, settings) if workers > 1 else app,
        factory=workers > 1,
        workers=workers,
        loop="asyncio",
        http=partial(Connection, send_seconds=limits.send_seconds),  # type: ignore[arg-type]
        ws="websockets-sansio",
        ws_max_size=limits.max_bytes,
        ws_max_queue=2,
        ws_per_message_deflate=False,
        limit_concurrency=limits.max_connections,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # any number of seconds
        timeout_graceful_shutdown=limits.drain_seconds,  # type: ignore[arg-type]
        timeout_worker_healthcheck=60,
        server_header=False,
        access_log=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
        lifespan="on",
    )
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listening])
        return
    del app
    with tempfile.TemporaryDirectory() as folder:
        os.environ[METRICS_FOLDER] = folder
        supervisor = Multiprocess(config, [listening])
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        sys.exit(1)  # the worker has said why


class Connection(H11Protocol):
    """uvicorn's connection, with time limits also where it would wait without end: for the head of
    a request and for a client to read its answer. Half-closed clients get their answer."""

    def __init__(self, *arguments: Any, send_seconds: float, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._send_seconds = send_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self._abort_in(self.timeout_keep_alive)

    def data_received(self, data: bytes) -> None:
        # unlike uvicorn's own, any bytes do not stop the clock, only a whole head does
        self.conn.receive_data(data)
        self.handle_events()

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()  # close() would wait for the client to read its answer

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self._abort_in(self._send_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading.cancel()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open: until a complete request is answered."""
        cycle = self.cycle
        answering = cycle is not None and not (cycle.response_complete or cycle.more_body)
        if answering:
            cycle.keep_alive = False
        return answering

    def _abort_in(self, seconds: float) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, self.transport.abort)
