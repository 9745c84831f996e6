"""The bounds of the real server: what happens at each of them, and at the end."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from luvli.serving import Client, ServerError
from luvli.serving.metrics import resident_bytes

from .conftest import Server
from .test_server import metrics

pytestmark = pytest.mark.seconds(2)


def head(server: Server, length: int) -> bytes:
    host, port = server.address
    first = f"POST /v1/predict HTTP/1.1\r\nHost: {host}:{port}\r\n"
    return f"{first}Content-Length: {length}\r\n\r\n".encode()


def settled(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def test_bounds_answer_at_once_and_free_their_place(
    start: Callable[..., Server], image: bytes
) -> None:
    limits = ("max_requests=1", "max_bytes=200000", "receive_seconds=2", "max_connections=12")
    server = start(*(word for limit in limits for word in ("--limit", limit)))
    # 413, by the length that is announced, before any of it is sent
    with socket.create_connection(server.address) as sender:
        sender.sendall(head(server, 10**9))
        assert b" 413 " in sender.recv(1000)
    # a sender that dawdles holds the only place: others get 503 with Retry-After
    slow = socket.create_connection(server.address)
    slow.sendall(head(server, len(image)) + image[:1000])
    assert settled(lambda: metrics(server)["luvli_requests_in_flight"] == 1)
    begin = time.monotonic()
    status, headers, body = server.ask("POST", "/v1/predict", image)
    assert status == 503 and headers["Retry-After"] == "1" and time.monotonic() - begin < 1
    assert json.loads(body)["error"]["code"] == "busy"
    # the sender is dropped with 408 in time, and the client that tries again gets its answer
    with Client(server.url) as client:
        assert len(client.predict(image).faces) == 1
    assert b" 408 " in slow.recv(1000)
    slow.close()
    # a client that goes away in the middle frees its place
    gone = socket.create_connection(server.address)
    gone.sendall(head(server, len(image)) + image[:1000])
    assert settled(lambda: metrics(server)["luvli_requests_in_flight"] == 1)
    gone.close()
    assert settled(lambda: metrics(server)["luvli_requests_in_flight"] == 0, 1.5)
    # headers that never end are cut off, and so are connections beyond the bound
    lame = [socket.create_connection(server.address) for _ in range(12)]
    for one in lame:
        one.sendall(b"POST /v1/predict HTTP/1.1\r\nX-Slow")
    with socket.create_connection(server.address) as extra:
        assert b" 503 " in extra.recv(1000)
    for one in lame:
        one.settimeout(10)
        assert one.recv(1000) == b""  # closed by the server
        one.close()
    assert settled(lambda: server.ask("GET", "/healthz")[0] == 200)


def test_faces_images_and_clients_are_bounded(start: Callable[..., Server], image: bytes) -> None:
    limits = ("max_faces=1", "max_images=2", "max_client_requests=2", "max_streams=0")
    server = start(*(word for limit in limits for word in ("--limit", limit)))
    client = Client(server.url, retries=0)
    with pytest.raises(ServerError) as caught:
        client.predict(image, boxes=[[0, 0, 9, 9]] * 2)
    assert caught.value.status == 413
    with pytest.raises(ServerError) as caught:
        client.predict_many([image] * 3)
    assert caught.value.status == 413
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda _: attempt(server.url, image), range(12)))
    assert set(outcomes) == {200, 429}
    assert asyncio.run(stream_reason(server)) == 1013


def attempt(url: str, image: bytes) -> int:
    try:
        Client(url, retries=0).predict(image)
    except ServerError as error:
        return error.status
    return 200


async def stream_reason(server: Server) -> int:
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    async with connect(server.url.replace("http", "ws") + "/v1/stream") as connection:
        with pytest.raises(ConnectionClosed):
            await connection.recv()
        assert connection.close_code is not None
        return connection.close_code


def test_sigterm_finishes_what_is_in_work(start: Callable[..., Server], image: bytes) -> None:
    server = start()
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(Client(server.url, retries=0).predict, image) for _ in range(4)]
        assert settled(lambda: metrics(server)["luvli_requests_in_flight"] > 0)
        assert server.stop() == 0
        assert all(len(answer.result().faces) == 1 for answer in answers)


def test_workers_share_a_port_their_counters_and_the_end(
    start: Callable[..., Server], image: bytes
) -> None:
    server = start("--workers", "2")
    for _ in range(4):
        assert server.ask("POST", "/v1/predict", image)[0] == 200
    assert metrics(server)["luvli_faces_total"] == 4  # whichever worker is asked
    assert server.stop() == 0


def test_many_at_once_get_an_answer_or_a_clear_no(
    start: Callable[..., Server], image: bytes
) -> None:
    server = start("--limit", "max_requests=4")
    with ThreadPoolExecutor(24) as pool:
        outcomes = list(pool.map(lambda _: attempt(server.url, image), range(36)))
    assert set(outcomes) == {200, 503}
    with ThreadPoolExecutor(8) as pool:  # and with patience everyone is served
        many = list(
            pool.map(lambda _: len(Client(server.url, retries=9).predict(image).faces), range(16))
        )
    assert many == [1] * 16


def test_mutated_uploads_never_break_the_server(server: Server, image: bytes) -> None:
    """A short version of `benchmarks/serving.py --soak`."""
    draw = random.Random(17)
    numbers = np.random.default_rng(17)
    seen: set[int] = set()
    for _ in range(60):
        seen.add(server.ask("POST", "/v1/predict", mutated(image, draw, numbers))[0])
    assert seen <= {200, 413, 415, 422}, seen
    assert {415, 422} <= seen
    assert metrics(server)["luvli_requests_in_flight"] == 0


def mutated(data: bytes, draw: random.Random, numbers: np.random.Generator) -> bytes:
    """Damage of a few kinds: cut short, bytes changed, pieces swapped, header only."""
    kind = draw.choice(["cut", "bytes", "header", "piece", "length"])
    changed = bytearray(data)
    if kind == "cut":
        return bytes(changed[: draw.randrange(len(changed))])
    if kind == "bytes":
        for place in numbers.integers(0, len(changed), draw.choice([1, 10, 100])):
            changed[place] = draw.randrange(256)
    elif kind == "header":
        for place in numbers.integers(0, 200, 8):
            changed[place] = draw.randrange(256)
    elif kind == "piece":
        start = draw.randrange(len(changed))
        del changed[start : start + draw.randrange(2000)]
    else:
        changed += bytes(draw.randrange(5000))
        changed[:4] = b"\x89PNG" if draw.random() < 0.5 else b"RIFF"
    return bytes(changed)


def test_memory_stays_where_it_is(start: Callable[..., Server], image: bytes) -> None:
    """Once every thread has worked and every batch size was there, many more requests take no more:
    12 are not always enough for that."""
    server = start("--limit", "max_requests=8")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: attempt(server.url, image), range(80)))
        before = resident_bytes(server.process.pid)
        list(pool.map(lambda _: attempt(server.url, image), range(240)))
    grown = resident_bytes(server.process.pid) - before
    assert before > 0 and grown < 30e6, f"{before / 1e6:.0f} MB and {grown / 1e6:.0f} MB more"


def test_a_busy_port_is_named(server: Server) -> None:
    _, port = server.address
    code = "from luvli.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "serve", "--port", str(port)], capture_output=True, text=True
    )
    assert result.returncode == 2 and f"port {port}" in result.stderr


def test_the_client_tries_again_after_a_cut_connection(image: bytes) -> None:
    """A server that hangs up twice, is busy once, loses it once in a process that dies behind a
    proxy, and then answers."""
    listening = socket.create_server(("127.0.0.1", 0))
    answer = json.dumps(
        {
            "faces": [],
            "width": 1,
            "height": 2,
            "model": "m",
            "version": "v",
            "timings": {},
            "faces_left_out": 0,
        }
    ).encode()
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    good = (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer
    )

    died = b"HTTP/1.1 500 Oh\r\nContent-Length: 5\r\nConnection: close\r\n\r\nError"
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"

    def play() -> None:
        for reply in (b"", cut, busy, died, good + answer):
            connection, _ = listening.accept()
            with connection:
                received: Any = b""
                while reply and image[-100:] not in received:
                    received = received[-200:] + connection.recv(1 << 16)
                connection.sendall(reply)

    threading.Thread(target=play, daemon=True).start()
    with Client(f"http://127.0.0.1:{listening.getsockname()[1]}", retries=5) as client:
        assert client.predict(image).height == 2
    listening.close()
    with pytest.raises(ServerError, match="no answer"):
        Client(f"http://127.0.0.1:{listening_port()}", retries=1).predict(image)


def listening_port() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
