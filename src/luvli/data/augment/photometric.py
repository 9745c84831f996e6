"""Changes of the colours of a finished crop, (H, W, 3) uint8 RGB; no landmark moves."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from luvli.data.augment.config import Augmentation
from luvli.image.read import ImageArray


def change_colours(image: ImageArray, config: Augmentation, rng: np.random.Generator) -> ImageArray:
    """Colour factors, then the degradations that `config` asks for, in the order of a camera:
    optics (blur), sensor (resolution), file (JPEG); last the published code's contrast stretch."""
    if config.colour != (1.0, 1.0):
        image = scale_channels(image, rng.uniform(*config.colour, size=3))
    if rng.random() < config.grey:
        image = _uint8(cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB))
    if rng.random() < config.blur:
        image = blur(image, rng.uniform(0.004, 0.02), rng)
    if rng.random() < config.low_resolution:
        image = lower_resolution(image, rng.uniform(1.5, 5.0))
    if rng.random() < config.jpeg:
        image = compress(image, int(rng.integers(15, 71)))
    if config.stretch:
        image = stretch_contrast(image)
    return image


def scale_channels(image: ImageArray, factors: NDArray[np.float64]) -> ImageArray:
    """Each channel times its factor, cut at 255."""
    levels = np.rint(np.arange(256)[:, None] * factors).clip(0, 255).astype(np.uint8)
    return _uint8(cv2.LUT(image, levels[None]))


def blur(image: ImageArray, spread: float, rng: np.random.Generator) -> ImageArray:
    """Out of focus (a Gaussian) or moved (a line, three times as long), by `spread` sides."""
    spread *= image.shape[0]
    if rng.random() < 0.5:
        return _uint8(cv2.GaussianBlur(image, (0, 0), spread))
    return _uint8(cv2.filter2D(image, -1, motion_kernel(3 * spread, rng.uniform(0, np.pi))))


def motion_kernel(length: float, angle: float) -> NDArray[np.float32]:
    """A centred line of `length` pixels at `angle` radians that sums to 1: it moves no mass."""
    reach = max(1, int(np.ceil(length / 2)))
    kernel = np.zeros((2 * reach + 1, 2 * reach + 1), np.float32)
    for t in np.linspace(-length / 2, length / 2, 4 * reach + 1):
        kernel[round(reach + t * np.sin(angle)), round(reach + t * np.cos(angle))] += 1
    kernel += kernel[::-1, ::-1]  # rounding must not shift the image
    return np.asarray(kernel / kernel.sum(), np.float32)


def lower_resolution(image: ImageArray, factor: float) -> ImageArray:
    """Shrunk by `factor` and enlarged again; pixel centres stay where they were."""
    height, width = image.shape[:2]
    small = (max(2, round(width / factor)), max(2, round(height / factor)))
    shrunk = cv2.resize(image, small, interpolation=cv2.INTER_AREA)
    return _uint8(cv2.resize(shrunk, (width, height), interpolation=cv2.INTER_LINEAR))


def compress(image: ImageArray, quality: int) -> ImageArray:
    """Through a JPEG file of this quality and back."""
    _, data = cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.ascontiguousarray(_uint8(cv2.imdecode(data, cv2.IMREAD_COLOR))[:, :, ::-1])


def stretch_contrast(image: ImageArray) -> ImageArray:
    """The darkest value of any channel becomes 0, the brightest 255 (published code)."""
    low, high = int(image.min()), int(image.max())
    if low == high:
        return image
    table = np.rint((np.arange(256) - low) * (255.0 / (high - low))).clip(0, 255).astype(np.uint8)
    return _uint8(table[image])


def _uint8(image: object) -> ImageArray:
    return np.asarray(image, dtype=np.uint8)
