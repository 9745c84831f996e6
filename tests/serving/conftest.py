"""A real server process, and a real browser, for the tests of this folder."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("websockets", reason="needs the extra serve")

import luvli.serving

EXAMPLES = Path(luvli.serving.__file__).parent / "page/examples"
COMMAND = [sys.executable, "-c", "from luvli.cli import main; main()", "serve", "--port", "0"]


@dataclass
class Server:
    """A running `luvli serve`."""

    process: subprocess.Popen[str]
    url: str

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=300)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(300)


@contextlib.contextmanager
def running(*options: str) -> Iterator[Server]:
    """`luvli serve` with options, until the end of the block."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*COMMAND, *options], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    words = process.stderr.readline().split()
    assert len(words) > 1, f"no address: {words} {process.stderr.read()}"
    log = process.stderr
    threading.Thread(target=log.read, daemon=True).start()  # a full pipe would stop the server
    server = Server(process, words[1])
    try:
        wait_until_ready(server)
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(300)


def wait_until_ready(server: Server) -> None:
    # the socket listens before the model is loaded: the answer comes when it is
    status, _, _ = server.ask("GET", "/readyz")
    assert status == 200


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with the default settings, shared by the tests that leave it as it is."""
    with running() as one:
        yield one


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Start servers with options of their own."""
    with contextlib.ExitStack() as stack:
        yield lambda *options: stack.enter_context(running(*options))


@pytest.fixture(scope="session")
def image() -> bytes:
    """A rendered face, as JPEG."""
    return (EXAMPLES / "front.jpg").read_bytes()
