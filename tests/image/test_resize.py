"""Resizing against OpenCV's mean over areas, and where edges and pixels go."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.image.resize import resized


@pytest.mark.parametrize("size", [(256, 256), (200, 321), (101, 97), (160, 150), (512, 512)])
def test_close_to_the_mean_over_areas(astronaut: NDArray[np.uint8], size: tuple[int, int]) -> None:
    expected = cv2.resize(astronaut, size, interpolation=cv2.INTER_AREA).astype(int)
    difference = np.abs(resized(astronaut, *size) - expected)
    assert difference.mean() < 3 and np.quantile(difference, 0.999) < 50


def test_fine_patterns_fade() -> None:
    """Stripes of one pixel, shrunk: grey everywhere, where skipping pixels would show bands."""
    stripes = np.zeros((600, 600, 3), np.uint8)
    stripes[:, ::2] = 255
    for side in (300, 290, 150, 100, 37):
        assert np.abs(resized(stripes, side, side)[3:-3, 3:-3].astype(int) - 127).max() < 40


@pytest.mark.parametrize("size", [(500, 300), (123, 77), (40, 40), (900, 700), (1, 1), (700, 3)])
def test_edges_stay_edges(size: tuple[int, int]) -> None:
    """A slope keeps its place: pixel x of the small image is the mean around (x + 1/2) / ratio."""
    slope = np.tile(np.linspace(0, 250, 700)[None, :, None], (500, 1, 3)).astype(np.uint8)
    small = resized(slope, *size)
    assert small.shape == (size[1], size[0], 3)
    middle = (np.arange(size[0]) + 0.5) * 700 / size[0] - 0.5
    inner = slice(1, -1) if size[0] > 2 else slice(None)
    assert np.abs(small[0, :, 0] - middle * 250 / 699)[inner].max() < 1.6


def test_nothing_to_do_copies_nothing(astronaut: NDArray[np.uint8]) -> None:
    assert resized(astronaut, 512, 512) is astronaut
