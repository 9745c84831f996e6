"""What strangers send: forms, bombs, damage; and who may listen."""

from __future__ import annotations

import asyncio
import io
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import Request
from PIL import Image
from starlette.datastructures import Headers

from luvli.errors import InputError
from luvli.serving.errors import Refused
from luvli.serving.settings import Limits, check_exposure, read_tokens
from luvli.serving.upload import Upload, header_size, read_body, read_upload

LIMITS = Limits(max_images=2, max_pixels=1_000_000)
FORM = "multipart/form-data; boundary=cut"
PART = b'--cut\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'


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


def read(body: bytes, kind: str = FORM) -> Upload:
    return read_upload(Headers({"content-type": kind}), body, LIMITS)


def test_a_form_has_several_images_and_boxes() -> None:
    files = [saved("PNG"), saved("BMP", size=400)]  # with line ends in them; and a larger one
    body = form(("a", "x.jpg", files[0]), ("boxes", None, b"[]"), ("b", "../y", files[1]))
    upload = read(body)
    assert [image.source for image in upload.images] == files and upload.boxes == "[]"
    assert [image.size for image in upload.images] == [(32, 32), (400, 400)]


FIELD = form(("x", None, b"x"))[: -len(b"--cut--\r\n")]
BOXES = b"[" + b"[0,0,9,9]," * 1_900_000 + b"[0,0,9,9]]"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (form(), FORM, 422),
        (form(("boxes", None, b"[]")), FORM, 422),
        (form(("bxs", None, b"[]"), ("a", "a", b"x")), FORM, 422),
        (form(*[("a", "a", b"x")] * 3), FORM, 413),
        (b"nonsense", FORM, 400),
        (b"nonsense", "multipart/form-data", 400),
        (b"--cut\r\nX: " + b"y" * 10_000 + b"\r\n\r\n", FORM, 400),
        # large ones, refused at the part too many instead of being parsed for a minute
        (b"--cut\r\n\r\n\r\n" * 1_600_000 + b"--cut--\r\n", FORM, 400),
        (FIELD * 380_000 + b"--cut--\r\n", FORM, 400),
        (form(("boxes", None, BOXES), ("a", "a", b"x")), FORM, 400),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, bytes) else None,
)
def test_bad_forms_are_refused_early(body: bytes, kind: str, status: int) -> None:
    start = time.thread_time()
    with pytest.raises(Refused) as caught:
        read(body, kind)
    assert caught.value.status == status
    assert time.thread_time() - start < 5  # seconds of the processor; all parts take 30 or more


def test_a_body_is_read_as_far_as_the_limits_allow() -> None:
    def read(limits: Limits, *chunks: bytes, length: str = "", ends: bool = True) -> Any:
        """What is read of a body that arrives so, and the sizes that were counted."""
        arriving = [{"type": "http.request", "body": c, "more_body": True} for c in chunks]
        if ends:
            arriving.append({"type": "http.request", "body": b"", "more_body": False})

        async def receive() -> dict[str, Any]:
            if not arriving:
                await asyncio.Event().wait()
            return arriving.pop(0)

        headers = [(b"content-length", length.encode())] if length else []
        request, held = Request({"type": "http", "headers": headers}, receive), []
        try:
            return asyncio.run(read_body(request, held.append, limits)), sum(held)
        except Refused as error:
            return error.status, sum(held)

    assert read(Limits(max_bytes=6), b"abc", b"def") == (b"abcdef", 6)
    limits = Limits(max_bytes=5)
    assert read(limits, b"abc", b"def") == (413, 3)
    assert read(limits, b"abc", length="6") == (413, 0)
    impatient = Limits(max_bytes=5, receive_seconds=0.05)
    assert read(impatient, b"abc", ends=False) == (408, 3)
    assert read(limits) == (422, 0)


def test_a_bomb_is_refused_by_its_header_alone() -> None:
    for width, height in ((2000, 2000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)):
        with pytest.raises(Refused) as caught:
            header_size(png_claiming(width, height), LIMITS, "it")
        assert caught.value.status == 413


def saved(kind: str, size: int = 32, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((size, size, 3), np.uint8)).save(stream, kind, **options)
    return stream.getvalue()


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    data = saved("JPEG", progressive=True)
    assert header_size(data, LIMITS, "it") == (32, 32)
    last = data.rindex(b"\xff\xda")
    bomb = data[:last] + data[last:-2] * 100 + b"\xff\xd9"
    with pytest.raises(Refused) as caught:
        header_size(bomb, LIMITS, "it")
    assert caught.value.status == 422


@pytest.mark.parametrize("kind", ["TIFF", "ICO", "PPM"])
def test_formats_that_nobody_sends_are_not_decoded(kind: str) -> None:
    with pytest.raises(Refused) as caught:
        header_size(saved(kind), LIMITS, "it")
    assert caught.value.status == 415


def test_heic_is_read_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif (extra heic)")
    heif.register_heif_opener()
    data = saved("HEIF")
    assert header_size(data, LIMITS, "it") == (32, 32)
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    with pytest.raises(Refused, match="HEIC") as caught:
        header_size(data, LIMITS, "it")
    assert caught.value.status == 415


def test_listening_to_everyone_needs_a_token() -> None:
    check_exposure("127.0.0.1", (), False)
    check_exposure("0.0.0.0", ("x" * 20,), False)
    check_exposure("0.0.0.0", (), True)
    with pytest.raises(InputError, match="--token-file"):
        check_exposure("0.0.0.0", (), False)


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
        ("max_faces=many", "max_faces cannot be used: Input should be a valid integer"),
        ("max_faces=0", "max_faces"),
    ):
        with pytest.raises(InputError, match=hint):
            Limits.parse([word])
