"""What strangers send: forms, bombs, damage; and who may listen."""

from __future__ import annotations

import asyncio
import io
import struct
import zlib
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest
from fastapi import Request
from PIL import Image

from luvli.errors import InputError
from luvli.serving.errors import Refused
from luvli.serving.settings import Limits, check_exposure, is_loopback, read_tokens
from luvli.serving.upload import Upload, decode, read_upload

LIMITS = Limits(max_images=2, max_pixels=1_000_000)
FORM = "multipart/form-data; boundary=cut"
PART = b'--cut\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
CHUNK = 65_536


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


def form(*parts: tuple[str, str | None, bytes]) -> bytes:
    body = b""
    for name, filename, data in parts:
        file = f'; filename="{filename}"'.encode() if filename is not None else b""
        body += PART % (name.encode(), file) + data + b"\r\n"
    return body + b"--cut--\r\n"


def read(body: bytes, kind: str, limits: Limits = LIMITS) -> tuple[Upload, int]:
    """The upload, and how many bytes of the body were looked at."""
    taken = 0

    async def chunks() -> AsyncGenerator[bytes, None]:
        nonlocal taken
        for start in range(0, len(body), CHUNK):
            taken += len(body[start : start + CHUNK])
            yield body[start : start + CHUNK]

    async def work() -> Upload:
        request = Request({"type": "http", "headers": [(b"content-type", kind.encode())]})
        try:
            return await read_upload(request, chunks(), limits)
        except Refused as refused:
            refused.add_note(str(taken))
            raise

    return asyncio.run(work()), taken


def test_a_body_is_one_image_or_a_form_with_several() -> None:
    assert read(b"abc", "image/jpeg")[0].images == [("the file", b"abc")]
    body = form(("a", "x.jpg", b"1\r\n2"), ("boxes", None, b"[]"), ("b", "../y", bytes(3 * CHUNK)))
    upload, taken = read(body, FORM)
    assert upload.images == [("image 1", b"1\r\n2"), ("image 2", bytes(3 * CHUNK))]
    assert upload.boxes == "[]" and taken == len(body)


FIELD = form(("x", None, b"x"))[: -len(b"--cut--\r\n")]
BOXES = b"[" + b"[0,0,9,9]," * 1_900_000 + b"[0,0,9,9]]"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "image/png", 422),
        (form(), FORM, 422),
        (form(("boxes", None, b"[]")), FORM, 422),
        (form(("bxs", None, b"[]"), ("a", "a", b"x")), FORM, 422),
        (form(*[("a", "a", b"x")] * 3), FORM, 413),
        (b"nonsense", FORM, 400),
        (b"nonsense", "multipart/form-data", 400),
        (b"--cut\r\nX: " + b"y" * 10_000 + b"\r\n\r\n", FORM, 400),
        # large ones, refused after a few chunks instead of being parsed for a minute
        (b"--cut\r\n\r\n\r\n" * 1_600_000 + b"--cut--\r\n", FORM, 400),
        (FIELD * 380_000 + b"--cut--\r\n", FORM, 400),
        (form(("boxes", None, BOXES), ("a", "a", b"x")), FORM, 400),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, bytes) else None,
)
def test_bad_forms_are_refused_early(body: bytes, kind: str, status: int) -> None:
    with pytest.raises(Refused) as caught:
        read(body, kind)
    assert caught.value.status == status
    assert int(caught.value.__notes__[0]) <= 5 * CHUNK


def test_a_body_that_does_not_arrive_is_given_up() -> None:
    async def never() -> AsyncGenerator[bytes, None]:
        yield b"x"
        await asyncio.Event().wait()

    request = Request({"type": "http", "headers": []})
    with pytest.raises(Refused) as caught:
        asyncio.run(read_upload(request, never(), Limits(receive_seconds=0.05)))
    assert caught.value.status == 408


def test_a_bomb_is_refused_by_its_header_alone() -> None:
    for width, height in ((2000, 2000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)):
        with pytest.raises(Refused) as caught:
            decode(png_claiming(width, height), LIMITS, "it")
        assert caught.value.status == 413


def saved(kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(stream, kind, **options)
    return stream.getvalue()


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    data = saved("JPEG", progressive=True)
    assert decode(data, LIMITS, "it").shape == (32, 32, 3)
    last = data.rindex(b"\xff\xda")
    bomb = data[:last] + data[last:-2] * 100 + b"\xff\xd9"
    with pytest.raises(Refused) as caught:
        decode(bomb, LIMITS, "it")
    assert caught.value.status == 422


@pytest.mark.parametrize("kind", ["TIFF", "ICO", "PPM"])
def test_formats_that_nobody_sends_are_not_decoded(kind: str) -> None:
    with pytest.raises(Refused) as caught:
        decode(saved(kind), LIMITS, "it")
    assert caught.value.status == 415


def test_heic_is_read_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif (extra heic)")
    heif.register_heif_opener()
    data = saved("HEIF")
    assert decode(data, LIMITS, "it").shape == (32, 32, 3)
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    with pytest.raises(Refused, match="HEIC") as caught:
        decode(data, LIMITS, "it")
    assert caught.value.status == 415


def test_listening_to_everyone_needs_a_token() -> None:
    check_exposure("127.0.0.1", (), False)
    check_exposure("0.0.0.0", ("x" * 20,), False)
    check_exposure("0.0.0.0", (), True)
    with pytest.raises(InputError, match="--token-file"):
        check_exposure("0.0.0.0", (), False)
    assert is_loopback("127.9.9.9") and is_loopback("::1") and not is_loopback("localhost.evil.com")


def test_tokens_are_read_with_remarks_and_checked(tmp_path: Path) -> None:
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
        ("max_faces", "NAME=NUMBER"),
        ("max_faces=many", "many"),
        ("max_faces=0", "max_faces"),
    ):
        with pytest.raises(InputError, match=hint):
            Limits.parse([word])
