"""Reading images of every kind, and refusing everything else with one sentence."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from luvli.errors import InputError
from luvli.image import read_image
from luvli.image.array import MAX_PIXELS, MAX_SIDE
from luvli.image.read import no_warnings
from luvli.image.source import plain_source

RAMP = np.dstack(
    [
        np.tile(np.arange(0, 240, 5, dtype=np.uint8), (32, 1)),
        np.tile(np.arange(0, 160, 5, dtype=np.uint8)[:, None], (1, 48)),
        np.full((32, 48), 90, np.uint8),
    ]
)


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def test_path_bytes_and_array_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RAMP).save(path)
    for source in (path, str(path), path.read_bytes(), RAMP):
        result = read_image(source)
        assert result.dtype == np.uint8 and result.shape == (32, 48, 3)
        np.testing.assert_array_equal(result, RAMP)
    assert read_image(RAMP) is not RAMP


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    """Each stored image is the inverse of its EXIF turn, so reading must give the ramp."""
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation]
    stored = Image.fromarray(np.ascontiguousarray(undo(RAMP)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    np.testing.assert_array_equal(read_image(encoded(stored, "PNG", exif=exif)), RAMP)


def test_grey_alpha_palette_and_bilevel() -> None:
    grey = RAMP[:, :, 0]
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(grey), "PNG"))[:, :, 2], grey)
    np.testing.assert_array_equal(read_image(grey), np.dstack([grey] * 3))
    clear = np.dstack([RAMP, np.zeros((32, 48), np.uint8)])
    assert (read_image(clear) == 255).all()
    assert (read_image(encoded(Image.fromarray(clear), "PNG")) == 255).all()
    half = np.dstack([RAMP, np.full((32, 48), 128, np.uint8)])
    np.testing.assert_allclose(
        read_image(half), (RAMP * (128 / 255) + 255 * (127 / 255)), atol=0.51
    )
    bilevel = Image.fromarray(grey > 100)
    np.testing.assert_array_equal(read_image(encoded(bilevel, "PNG"))[:, :, 0], (grey > 100) * 255)
    palette = Image.fromarray(RAMP).quantize(64)
    assert read_image(encoded(palette, "PNG")).shape == (32, 48, 3)


@pytest.mark.parametrize("format", ["", "PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_cut(format: str) -> None:
    deep = RAMP[:, :, 0].astype(np.uint16) * 257
    source = encoded(Image.fromarray(deep), format) if format else deep
    np.testing.assert_array_equal(read_image(source)[:, :, 0], RAMP[:, :, 0])


def test_twelve_bits_in_sixteen_are_said_aloud_or_scaled() -> None:
    grey = np.linspace(0, 4095, 48 * 32).reshape(32, 48)
    twelve = grey.astype(np.uint16)
    bright = read_image(twelve, white_level=4095)
    np.testing.assert_allclose(bright[:, :, 0], grey / 4095 * 255, atol=0.6)
    for source in (twelve, encoded(Image.fromarray(twelve), "PNG")):
        with pytest.warns(UserWarning, match="at most 4095.* 12 bits, .*white_level=4095"):
            assert read_image(source).max() == 16
    np.testing.assert_array_equal(read_image(plain_source(twelve, white_level=4095)), bright)
    with pytest.raises(InputError, match="white_level is for arrays of uint16"):
        read_image(RAMP, white_level=255)


def test_cmyk_jpeg_keeps_its_colours() -> None:
    cmyk = Image.fromarray(RAMP).convert("CMYK")
    result = read_image(encoded(cmyk, "JPEG", quality=100))
    assert np.abs(result.astype(int) - RAMP).mean() < 4


def test_first_frame_of_an_animation() -> None:
    frames = [Image.fromarray(np.full((20, 30, 3), value, np.uint8)) for value in (250, 10)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (read_image(data) == 250).all()


def test_float_arrays_in_0_to_1() -> None:
    np.testing.assert_array_equal(read_image(RAMP / 255.0), RAMP)
    with pytest.raises(InputError, match=r"0\.\.1"):
        read_image(RAMP.astype(float))


@pytest.mark.parametrize("shape", [(5,), (4, 4, 2), (2, 3, 4, 3), (0, 5, 3)])
def test_arrays_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        read_image(np.zeros(shape, np.uint8))


JPEG = encoded(Image.fromarray(np.tile(RAMP, (8, 8, 1))), "JPEG", quality=95)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        (JPEG[: len(JPEG) // 2], "truncated"),
        (b"", "empty"),
        (b"this is not an image", "not an image"),
        (encoded(Image.new("RGB", (1, 1)), "PNG"), "1 x 1"),
        (encoded(Image.new("RGB", (30_000, 40)), "PNG"), "30000 x 40"),
    ],
)
def test_bad_files_get_one_sentence(content: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_image(path)
    message = str(error.value)
    assert words in message and str(path) in message and "\n" not in message
    with pytest.raises(InputError, match=r"is a video: model\.track"):
        (tmp_path / "a.mp4").write_bytes(b"ftyp")
        read_image(tmp_path / "a.mp4")
    with pytest.raises(InputError, match="is a folder"):
        read_image(tmp_path)


def test_postscript_by_another_name_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow would hand it to Ghostscript; only formats of the list are opened."""
    path = tmp_path / "a.jpg"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\nshowpage\n")
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("a program was run"))
    Image.init()
    assert "EPS" in Image.OPEN
    with pytest.raises(InputError, match="known format"):
        read_image(path)


def test_the_size_limit_is_checked_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that promises more than the limit is refused though its pixels are absent."""
    data = bytearray(encoded(Image.new("L", (8, 8)), "PNG"))
    data[16:24] = (MAX_SIDE + 1).to_bytes(4, "big") + (MAX_PIXELS // MAX_SIDE).to_bytes(4, "big")
    import zlib

    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(InputError, match="above the limit"):
        read_image(bytes(data))


def test_silence_in_several_threads_ends_for_all() -> None:
    """Whoever came first may leave first: `warnings.catch_warnings` would leave all ignored."""
    before = list(warnings.filters)
    first, second = no_warnings(), no_warnings()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn("still silent", stacklevel=1)
    second.__exit__(None, None, None)
    assert not caught
    assert list(warnings.filters) == before
