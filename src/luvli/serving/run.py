"""Runs the application: one process, or several that share a socket.

uvicorn does the HTTP, within the bounds of `protocol`; here it is started, and ends with an exit
code of 0 after SIGTERM.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import cv2
import uvicorn

from luvli.errors import InputError
from luvli.serving.app import create_app
from luvli.serving.engine import Engine
from luvli.serving.metrics import SIZE, Metrics
from luvli.serving.protocol import bounded_protocol
from luvli.serving.settings import ServerSettings

log = logging.getLogger("luvli.serving")

WORKER = "LUVLI_SERVE_WORKER"
"""tells a worker process: descriptor of the socket, of the counters, workers, its own number"""
RESTART_SECONDS = 1.0
"""between two starts of a worker that dies"""


class _Server(uvicorn.Server):
    """Ends with exit code 0 after SIGTERM or SIGINT: being told to stop is no failure."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What is there now stays: looked through for garbage again and again, it would halt all
        # requests for a tenth of a second each time.
        gc.collect()
        gc.freeze()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # Named TCP, because asyncio turns off Nagle's algorithm only for sockets that say so; with
        # it the body of an answer waits 40 ms for the client to confirm the headers.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(1024)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another --port."
        ) from error
    opened.set_inheritable(True)
    return opened


def serve(settings: ServerSettings, listening: socket.socket) -> None:
    """Serve in this process until SIGTERM or SIGINT."""
    metrics = None
    if WORKER in os.environ:
        _, counters, workers, number = map(int, os.environ[WORKER].split())
        metrics = Metrics.shared(counters, workers, number)
    cv2.setNumThreads(1)  # requests share out the cores; OpenCV's own threads get in their way
    limits = settings.limits
    config = uvicorn.Config(
        create_app(Engine(settings, metrics)),
        loop="asyncio",
        http=bounded_protocol(limits),
        ws="websockets-sansio",
        ws_max_size=limits.max_bytes,
        ws_max_queue=2,
        ws_per_message_deflate=False,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # seconds, any number
        timeout_graceful_shutdown=limits.drain_seconds,  # type: ignore[arg-type]
        server_header=False,
        access_log=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
        lifespan="on",
    )
    _Server(config).run(sockets=[listening])


def inherited_socket() -> socket.socket | None:
    """The socket that the parent of a worker process opened."""
    if WORKER not in os.environ:
        return None
    return socket.socket(fileno=int(os.environ[WORKER].split()[0]))


def supervise(listening: socket.socket, workers: int) -> int:
    """Run `workers` copies of this command on one socket until told to stop.

    A worker that dies is started again; when all have left after SIGTERM, the exit code is 0.
    """
    stopping = False
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile() as counters:
        counters.truncate(workers * SIZE * 8)
        descriptors = listening.fileno(), counters.fileno()

        def start(number: int) -> subprocess.Popen[bytes]:
            about = f"{descriptors[0]} {descriptors[1]} {workers} {number}"
            return subprocess.Popen(
                [sys.executable, "-c", "from luvli.cli import main; main()", *sys.argv[1:]],
                env={**os.environ, WORKER: about},
                pass_fds=descriptors,
            )

        def stop(*_: Any) -> None:
            nonlocal stopping
            stopping = True
            for process in processes:
                process.terminate()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        processes.extend(start(number) for number in range(workers))
        while not stopping:
            for number, process in enumerate(processes):
                if process.poll() is not None and not stopping:
                    if process.returncode == 2:  # bad input: the next one would say the same
                        stop()
                        break
                    log.warning("worker %d ended with %d", number, process.returncode)
                    time.sleep(RESTART_SECONDS)
                    processes[number] = start(number)
            time.sleep(0.2)
        codes = [process.wait() for process in processes]
    # a worker that was still starting has no handler yet: it ends by the signal itself
    return max((abs(code) for code in codes if code != -signal.SIGTERM), default=0)
