"""One connection of the real server: heads and trailers without end, refused bodies, memory."""

from __future__ import annotations

import contextlib
import io
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from luvli.serving.metrics import resident_bytes
from luvli.serving.protocol import MAX_HEAD

from .conftest import Server


def opened(server: Server) -> socket.socket:
    made = socket.create_connection(server.address)
    made.settimeout(20)
    return made


def line(server: Server) -> bytes:
    host, port = server.address
    return f"POST /v1/predict HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()


def taken(sender: socket.socket, piece: bytes, most: int) -> int:
    """Bytes that the server lets someone send who never comes to an end, up to `most`."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            sender.sendall(piece)
            sent += len(piece)
    return sent


def test_a_head_without_end_is_refused(server: Server) -> None:
    with opened(server) as sender:
        sender.sendall(line(server) + b"X-Long: " + b"a" * (MAX_HEAD + 1))
        assert sender.recv(100).startswith(b"HTTP/1.1 431 ")
        assert sender.recv(100) == b""
    with opened(server) as sender:  # one value that never ends
        sender.sendall(line(server) + b"X-Long: ")
        assert taken(sender, b"a" * 50_000, 100_000_000) < 100_000_000
    assert server.ask("GET", "/healthz", headers={"X-Long": "a" * 30_000})[0] == 200


def test_trailers_without_end_are_cut_off(server: Server) -> None:
    before = resident_bytes(server.process.pid)
    with opened(server) as sender:
        sender.sendall(line(server) + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
        assert taken(sender, b"X-More: 1\r\n" * 5_000, 100_000_000) < 100_000_000
    assert resident_bytes(server.process.pid) - before < 30e6


def test_a_form_in_chunks_is_read(server: Server, image: bytes) -> None:
    pieces = [image[i : i + 1000] for i in range(0, len(image), 1000)]
    chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
    with opened(server) as sender:
        head = line(server) + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        sender.sendall(head + chunks + b"0\r\n\r\n")
        assert sender.recv(100).startswith(b"HTTP/1.1 200 ")


def test_head_and_body_of_an_answer_come_in_one_packet(server: Server) -> None:
    with opened(server) as sender:
        host, port = server.address
        sender.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert sender.recv(10_000).endswith(b"\r\n\r\nok\n")


def test_who_was_refused_and_goes_on_sending_is_cut_off(start: Callable[..., Server]) -> None:
    """Nobody waits for the rest of a body whose request got its answer."""
    server = start("--limit", "receive_seconds=2", "--limit", "max_bytes=1000000")
    with opened(server) as sender:
        sender.sendall(line(server) + b"Content-Length: 5000000\r\n\r\n")
        assert sender.recv(100).startswith(b"HTTP/1.1 413 ")
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begin < 15:
                sender.sendall(b"a")
                time.sleep(0.1)
        assert time.monotonic() - begin < 10


def test_who_does_not_take_the_answer_is_cut_off(start: Callable[..., Server]) -> None:
    """A drawing that is larger than all the system's buffers, asked for and not read."""
    server = start("--limit", "send_seconds=1")
    noise = np.random.default_rng(0).integers(0, 256, (2000, 2500, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG", quality=50)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.settimeout(20)
        reader.connect(server.address)
        head = line(server).replace(b"predict", b"predict?boxes=[]") + b"Accept: image/png\r\n"
        length = f"Content-Length: {len(buffer.getvalue())}\r\n\r\n".encode()
        reader.sendall(head + length + buffer.getvalue())
        assert reader.recv(20).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(ConnectionResetError):
            for _ in range(200):  # asks for nothing more, and sees the connection go
                time.sleep(0.05)
                if error := reader.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(error, "")


def test_freed_memory_goes_back_to_the_system(start: Callable[..., Server]) -> None:
    """Decoded images of 18 MB, two at a time, are what the threads' allocators would keep."""
    server = start()
    noise = np.random.default_rng(0).integers(0, 40, (200, 300, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize((3000, 2000)).save(buffer, "PNG", compress_level=1)
    with ThreadPoolExecutor(4) as pool:
        statuses = list(
            pool.map(lambda _: server.ask("POST", "/v1/predict", buffer.getvalue())[0], range(12))
        )
    assert set(statuses) <= {200, 503} and 200 in statuses
    loaded = least = resident_bytes(server.process.pid)
    end = time.monotonic() + 15
    while time.monotonic() < end and loaded - least < 10e6:
        least = min(least, resident_bytes(server.process.pid))
        time.sleep(0.2)
    assert loaded - least >= 10e6, f"{loaded / 1e6:.0f} MB stay {least / 1e6:.0f} MB"
