"""What strangers send: forms, bombs, damage."""

from __future__ import annotations

import asyncio
import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from luvli.errors import InputError
from luvli.serving.errors import Refused
from luvli.serving.settings import (
    Limits,
    ServerSettings,
    check_exposure,
    is_loopback,
    read_tokens,
)
from luvli.serving.upload import Receive, decode, parse_upload, read_body

LIMITS = Limits(max_images=2, max_pixels=1_000_000, max_bytes=1000, receive_seconds=0.05)


def png_claiming(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that its few bytes of data would have to fill."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(100_000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def form(*parts: tuple[str, str | None, bytes]) -> tuple[bytes, str]:
    body = b""
    for name, filename, data in parts:
        file = f'; filename="{filename}"' if filename is not None else ""
        body += f'--cut\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
        body += data + b"\r\n"
    return body + b"--cut--\r\n", "multipart/form-data; boundary=cut"


def test_a_plain_body_is_one_picture() -> None:
    assert parse_upload(b"abc", "image/jpeg", LIMITS).files == [("the file", b"abc")]


def test_a_form_gives_files_in_order_and_fields() -> None:
    body, kind = form(("a", "x.jpg", b"1\r\n2"), ("boxes", None, b"[]"), ("b", "../y", b""))
    upload = parse_upload(body, kind, LIMITS)
    assert upload.files == [("image 1", b"1\r\n2"), ("image 2", b"")]
    assert upload.fields == {"boxes": "[]"}


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "image/png", 422),
        (*form(), 422),
        (*form(("boxes", None, b"[]")), 422),
        (*form(*[("a", "a", b"x")] * 3), 413),
        (*form(*[(str(i), None, b"x") for i in range(40)]), 400),
        (b"nonsense", "multipart/form-data; boundary=cut", 400),
        (b"nonsense", "multipart/form-data", 400),
        (b"--cut\r\nX: " + b"y" * 10_000 + b"\r\n\r\n", "multipart/form-data; boundary=cut", 400),
    ],
)
def test_bad_forms_are_refused(body: bytes, kind: str, status: int) -> None:
    with pytest.raises(Refused) as caught:
        parse_upload(body, kind, LIMITS)
    assert caught.value.status == status


def test_a_bomb_is_refused_by_its_header_alone() -> None:
    for width, height in ((2000, 2000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)):
        with pytest.raises(Refused) as caught:
            decode(png_claiming(width, height), LIMITS)
        assert caught.value.status == 413


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    assert decode(data, LIMITS).shape == (32, 32, 3)
    last = data.rindex(b"\xff\xda")
    bomb = data[:last] + data[last:-2] * 100 + b"\xff\xd9"
    with pytest.raises(Refused) as caught:
        decode(bomb, LIMITS)
    assert caught.value.status == 422


@pytest.mark.parametrize("kind", ["TIFF", "ICO", "PPM"])
def test_formats_that_nobody_sends_are_not_decoded(kind: str) -> None:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(stream, kind)
    with pytest.raises(Refused) as caught:
        decode(stream.getvalue(), LIMITS)
    assert caught.value.status == 415


def test_bodies_are_bounded_in_size_and_time() -> None:
    def sender(count: int, seconds: float, whole: bool = True) -> Receive:
        """Sends 100 bytes so many times, and then goes away if that is not the whole body."""
        sizes = iter(range(count, 0, -1))

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(seconds)
            left = next(sizes, 0)
            if not left:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": b"x" * 100, "more_body": left > whole}

        return receive

    assert len(asyncio.run(read_body(sender(10, 0), LIMITS))) == 1000
    for sent, status in (
        (sender(11, 0), 413),
        (sender(10, 0.02), 408),
        (sender(3, 0, whole=False), 499),
    ):
        with pytest.raises(Refused) as caught:
            asyncio.run(read_body(sent, LIMITS))
        assert caught.value.status == status


def test_listening_to_everyone_needs_a_token() -> None:
    check_exposure("127.0.0.1", (), False)
    check_exposure("0.0.0.0", ("x" * 20,), False)
    check_exposure("0.0.0.0", (), True)
    with pytest.raises(InputError, match="--token-file"):
        check_exposure("0.0.0.0", (), False)
    assert is_loopback("127.9.9.9") and is_loopback("::1") and not is_loopback("localhost.evil.com")
    assert ServerSettings().is_local


def test_tokens_are_read_with_remarks_and_checked(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "tokens"
    file.write_text("# mine\nabcdefghijklmnop  # laptop\n\nponmlkjihgfedcba\n")
    assert read_tokens(file) == ("abcdefghijklmnop", "ponmlkjihgfedcba")
    for text in ("", "short\n", "has a space inside it\n"):
        file.write_text(text)
        with pytest.raises(InputError, match=str(file)):
            read_tokens(file)


def test_limits_are_named_settings() -> None:
    assert Limits.parse(["max_faces=3", "patience_ms=1.5"]).patience_ms == 1.5
    for word, hint in (
        ("max_face=3", "max_faces"),
        ("max_faces", "max_faces=NUMBER"),
        ("max_faces=many", "many"),
        ("max_faces=0", "max_faces"),
    ):
        with pytest.raises(InputError, match=hint):
            Limits.parse([word])
