"""The limits of the real server: what happens at each of them, and at the end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from patience import SECONDS, wait_until
from PIL import Image
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import luvli
from luvli.serving import Client, ServerError

from .conftest import COMMAND, Server
from .test_server import metrics

pytestmark = pytest.mark.seconds(2)
Start = Callable[..., Server]


def limited(start: Start, *limits: str) -> Server:
    return start(*(word for limit in limits for word in ("--limit", limit)))


def opened(server: Server) -> socket.socket:
    made = socket.create_connection(server.address)
    made.settimeout(SECONDS)
    return made


def head(server: Server, *lines: str) -> bytes:
    host, port = server.address
    first = f"POST /v1/predict HTTP/1.1\r\nHost: {host}:{port}\r\n"
    return (first + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


def received(client: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(1 << 16):
            data += piece
    return data


def attempt(url: str, image: bytes) -> int:
    try:
        Client(url, retries=0).predict(image)
    except ServerError as error:
        return error.status
    return 200


def test_slow_and_half_closed_clients_do_not_block_others(start: Start, image: bytes) -> None:
    server = limited(start, "max_requests=1", "receive_seconds=10", "idle_seconds=10")
    slow_heads = [opened(server) for _ in range(20)]
    slow_bodies = [opened(server) for _ in range(20)]
    for client in slow_heads:
        client.sendall(b"POST /v1/predict HTTP/1.1\r\nX-Slow")
    for client in slow_bodies:
        client.sendall(head(server, f"Content-Length: {len(image)}") + image[:1000])
    assert len(Client(server.url).predict(image).faces) == 1
    with opened(server) as half_closed:
        half_closed.sendall(head(server, f"Content-Length: {len(image)}") + image)
        half_closed.shutdown(socket.SHUT_WR)
        assert received(half_closed).startswith(b"HTTP/1.1 200 ")
    assert all(received(client) == b"" for client in slow_heads)  # closed by the server
    for client in slow_bodies:
        assert client.recv(100).startswith(b"HTTP/1.1 408 ")
        client.close()
    wait_until(lambda: metrics(server)["luvli_buffered_bytes"] == 0)


def test_who_goes_on_sending_after_a_refusal_is_cut_off(start: Start) -> None:
    server = limited(start, "idle_seconds=8", "max_bytes=1000000")
    with opened(server) as sender:
        sender.sendall(head(server, "Content-Length: 5000000"))
        assert sender.recv(100).startswith(b"HTTP/1.1 413 ")  # before the body is sent
        with pytest.raises(OSError):
            while True:
                sender.sendall(b"a")
                time.sleep(0.02)


@pytest.mark.parametrize("kind", ["head", "trailers"])
def test_heads_and_trailers_without_end_are_cut_off(server: Server, kind: str) -> None:
    chunked = head(server, "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n"
    begin, piece = {
        "head": (b"GET / HTTP/1.1\r\nX-Long: ", b"a" * 50_000),
        "trailers": (chunked, b"X-More: 1\r\n" * 5_000),
    }[kind]
    with opened(server) as sender, pytest.raises(OSError):
        sender.sendall(begin)
        while True:
            sender.sendall(piece)
    assert server.ask("GET", "/healthz", headers={"X-Long": "a" * 30_000})[0] == 200


def test_who_does_not_read_the_answer_is_cut_off(start: Start) -> None:
    """A drawing that is larger than all the system's buffers, asked for and not read."""
    server = limited(start, "send_seconds=5")
    noise = np.random.default_rng(0).integers(0, 256, (2000, 2500, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG", quality=50)
    body = buffer.getvalue()
    request = head(server, "Accept: image/png", f"Content-Length: {len(body)}")
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(server.address)
        reader.sendall(request.replace(b"predict", b"predict?boxes=[]") + body)
        assert reader.recv(20).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: metrics(server)["luvli_buffered_bytes"] == 0)
    assert server.ask("GET", "/healthz")[0] == 200


def test_a_body_in_chunks_is_read(server: Server, image: bytes) -> None:
    pieces = [image[i : i + 1000] for i in range(0, len(image), 1000)]
    chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
    with opened(server) as sender:
        request = head(server, "Transfer-Encoding: chunked", "Connection: close")
        sender.sendall(request + chunks + b"0\r\n\r\n")
        assert received(sender).startswith(b"HTTP/1.1 200 ")


def test_faces_images_memory_and_streams_are_limited(start: Start, image: bytes) -> None:
    limits = ("max_faces=1", "max_images=2", "max_streams=0")
    server = limited(start, *limits)
    client = Client(server.url, retries=0)
    for call in (
        lambda: client.predict(image, boxes=[[0, 0, 9, 9]] * 2),
        lambda: client.predict_many([image] * 3),
    ):
        with pytest.raises(ServerError) as caught:
            call()
        assert caught.value.status == 413
    pair = np.tile(np.asarray(Image.open(io.BytesIO(image)).convert("RGB")), (1, 2, 1))
    answer = client.predict(pair)
    assert (len(answer.faces), answer.faces_left_out) == (1, 1)
    with (
        connect(server.url.replace("http", "ws") + "/v1/stream") as stream,
        pytest.raises(ConnectionClosed),
    ):
        stream.recv()
    assert stream.close_code == 1013
    full = limited(start, "max_buffered_bytes=10000")
    assert attempt(full.url, image) == 503


def test_many_at_once_get_an_answer_or_a_clear_no(start: Start, image: bytes) -> None:
    server = limited(start, "max_requests=2")
    statuses = []

    def ask(_: int) -> None:
        status, headers, body = server.ask("POST", "/v1/predict", image)
        statuses.append(status)
        if status == 503:
            assert headers["Retry-After"] == "1"
            assert json.loads(body)["error"]["code"] == "busy"

    with ThreadPoolExecutor(24) as pool:
        while 503 not in statuses:
            list(pool.map(ask, range(48)))
    assert set(statuses) == {200, 503}
    with ThreadPoolExecutor(8) as pool:  # clients that try again are all served
        patient = Client(server.url, retries=100)
        many = list(pool.map(lambda _: patient.predict(image).faces, range(16)))
    # who shares a call of the network gets the same numbers
    alone = luvli.load("luvli-68").predict(image)
    assert all(np.array_equal(faces.points, alone.points) for faces in many)


def test_sigterm_answers_what_is_in_flight(start: Start, image: bytes) -> None:
    server = start()
    with opened(server) as client:
        client.sendall(head(server, f"Content-Length: {len(image)}") + image[:-10])
        wait_until(lambda: metrics(server)["luvli_buffered_bytes"] > 0)
        server.process.send_signal(signal.SIGTERM)
        client.sendall(image[-10:])
        assert received(client).startswith(b"HTTP/1.1 200 ")
    assert server.process.wait(SECONDS) == 0


def test_the_exit_is_clean_while_the_network_still_runs(start: Start, image: bytes) -> None:
    """Requests that take longer than the time after SIGTERM are cut off; no thread aborts the
    process."""
    server = limited(start, "drain_seconds=0.01", "max_batch=1")
    with ThreadPoolExecutor(32) as pool:
        asked = [pool.submit(attempt, server.url, image) for _ in range(32)]
        wait_until(lambda: any(one.done() for one in asked))
        assert server.stop() == 0
        assert {one.result() for one in asked} <= {0, 200, 500, 503}


def test_a_form_that_takes_long_to_parse_stops_nobody(start: Start) -> None:
    """8 MB of beginnings of boundaries, which the parser looks at one by one."""
    server = limited(start, "request_seconds=1000")
    begin = b'--cut\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\n'
    body = begin + b"\r\n--cut-" * 1_000_000 + b"\r\n--cut--\r\n"
    form = {"Content-Type": "multipart/form-data; boundary=cut"}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.ask, "POST", "/v1/predict", body, form)
        answers = 0
        while not asked.done():
            held = metrics(server)["luvli_buffered_bytes"]
            answers += held == len(body)  # it has arrived, and is being parsed
        assert asked.result()[0] == 415
    assert answers > 0


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in Linux's /proc")
def test_workers_share_counters_and_a_killed_one_is_replaced(start: Start, image: bytes) -> None:
    server = start("--workers", "2", "--threads", "1")

    def workers() -> set[int]:
        parent = server.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        command = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
        return {int(child) for child in children if b"spawn_main" in command[child]}

    for _ in range(4):
        assert server.ask("POST", "/v1/predict", image)[0] == 200
    assert metrics(server)["luvli_faces_total"] == 4  # whichever worker answers
    victim = min(workers())
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in workers() and len(workers()) == 2)
    assert len(Client(server.url).predict(image).faces) == 1
    assert server.stop() == 0


def test_a_busy_port_and_a_bad_model_are_named(server: Server, tmp_path: Path) -> None:
    port = str(server.address[1])
    for options, hint in (
        (["--port", port], f"port {port}"),
        (["--model", f"{tmp_path}/none.onnx", "--workers", "2"], "none.onnx"),
    ):
        result = subprocess.run([*COMMAND, *options], capture_output=True, text=True)
        assert result.returncode == 2 and hint in result.stderr


@contextlib.contextmanager
def replying(replies: Sequence[bytes], image: bytes) -> Iterator[str]:
    """The address of a server that gives these replies to requests with an image, one after the
    other, and hangs up on the first empty one."""
    listening = socket.create_server(("127.0.0.1", 0))

    def play() -> None:
        for reply in replies:
            connection, _ = listening.accept()
            with connection:
                data = b""
                while reply and image[-100:] not in data:
                    data = data[-200:] + connection.recv(1 << 16)
                connection.sendall(reply)

    threading.Thread(target=play, daemon=True).start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.close()


END = b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"


def test_the_client_tries_again_after_a_cut_connection(image: bytes) -> None:
    """A server that hangs up, stops in the middle, is busy, loses it in a process that dies behind
    a proxy, and then answers."""
    fields = {"faces": [], "width": 1, "height": 2, "model": "m", "version": "v", "timings": {}}
    answer = json.dumps({**fields, "faces_left_out": 0}).encode()
    replies = (
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{",
        b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\n" + END % (0, b""),
        b"HTTP/1.1 500 Oh\r\n" + END % (5, b"Error"),
        b"HTTP/1.1 200 OK\r\n" + END % (len(answer), answer),
    )
    with replying(replies, image) as url, Client(url, retries=5) as client:
        assert client.predict(image).height == 2
    with pytest.raises(ServerError, match="no answer"):
        Client(url, retries=1).predict(image)


def test_the_client_does_not_repeat_what_the_server_fails_on(image: bytes) -> None:
    error = json.dumps({"error": {"code": "internal", "message": "It failed."}}).encode()
    replies = [
        b"HTTP/1.1 500 Oh\r\n" + END % (len(error), error),
        b"HTTP/1.1 200 OK\r\n" + END % (2, b"{}"),
    ]
    with (
        replying(replies, image) as url,
        Client(url, retries=5) as client,
        pytest.raises(ServerError, match=r"It failed\.") as raised,
    ):
        client.predict(image)
    assert raised.value.status == 500
