"""Images decoded as finely as they are looked at: where their pixels lie, and what it costs."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from luvli.image import Box, Crop, affine, read_image
from luvli.image.photograph import Photograph
from luvli.image.read import read_reduced

ImageArray = NDArray[np.uint8]


def smooth(width: int, height: int) -> ImageArray:
    """Soft colours that differ at every place, so that a shift by a pixel shows."""
    y, x = np.mgrid[:height, :width]
    red, green = 40 + 170 * x / width, 40 + 170 * y / height
    return np.dstack([red, green, 127 + 60 * np.sin(x / 40) * np.cos(y / 50)]).astype(np.uint8)


def jpeg(image: ImageArray, orientation: int = 1) -> bytes:
    buffer, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(image).save(buffer, "JPEG", quality=98, subsampling=0, exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("factor", [2, 4, 8])
def test_reduced_pixels_lie_where_the_affine_says(orientation: int, factor: int) -> None:
    """Sides that are no multiple of the factor, all eight turns: compared with the whole image."""
    data = jpeg(smooth(501, 389), orientation)
    whole, reduced = read_image(data), read_reduced(data, factor)
    assert reduced.factor == factor and reduced.size == whole.shape[1::-1]
    back = affine.invert(reduced.affine)
    height, width = reduced.image.shape[:2]
    y, x = np.mgrid[2 : height - 2, 2 : width - 2]
    places = affine.apply(back, np.stack([x, y], axis=-1).astype(float)).astype(np.float32)
    blurred = cv2.blur(whole.astype(np.float32), (factor + 1, factor + 1))
    expected = cv2.remap(blurred, places[..., 0], places[..., 1], cv2.INTER_LINEAR)
    difference = reduced.image[2:-2, 2:-2].astype(float) - expected
    # one whole pixel would be 0.34 in red and 0.44 in green, on average
    assert np.abs(difference[..., :2].mean(axis=(0, 1))).max() < 0.2


def test_least_keeps_the_longest_side() -> None:
    data = jpeg(smooth(1200, 500))
    sizes = [
        read_reduced(data, 8, least).image.shape[1] for least in (0, 151, 400, 601, 1200, 5000)
    ]
    assert sizes == [150, 300, 600, 1200, 1200, 1200]


def test_formats_that_cannot_be_reduced_are_read_whole() -> None:
    buffer = io.BytesIO()
    Image.fromarray(smooth(300, 200)).save(buffer, "PNG")
    reduced = read_reduced(buffer.getvalue(), 8)
    assert reduced.factor == 1
    np.testing.assert_array_equal(reduced.image, smooth(300, 200))


@pytest.mark.parametrize("side", [100, 333, 700])
def test_crops_are_those_of_the_whole_image(side: float, astronaut: ImageArray) -> None:
    large = np.asarray(cv2.resize(astronaut, (2048, 2048), interpolation=cv2.INTER_CUBIC), np.uint8)
    data = jpeg(large)
    photograph = Photograph(data)
    assert photograph.overview(500).factor == 4
    box = Box(900 - side / 2, 500 - side / 2, 900 + side / 2, 500 + side / 2)
    crop = Crop.from_box(box, 128, 1.25)
    expected, got = crop.warp(read_image(data)), photograph.warp(crop)
    assert photograph.overview(500).factor <= max(1, 1.25 * side / 128)
    assert np.abs(got.astype(int) - expected).mean() < 1.5


def test_arrays_are_not_copied_and_not_written_to(astronaut: ImageArray) -> None:
    photograph = Photograph(astronaut)
    assert photograph.whole() is astronaut
    assert photograph.overview(10).image is astronaut
    assert Photograph(astronaut[:, ::-1]).whole().flags.c_contiguous
