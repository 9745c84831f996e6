"""Changes of the colours of a finished crop; no landmark moves.

Every function takes and gives (H, W, 3) uint8 RGB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luvli.data.augment.config import Augmentation
from luvli.image.read import ImageArray


def change_colours(image: ImageArray, config: Augmentation, rng: np.random.Generator) -> ImageArray:
    """Colour factors, then the degradations that `config` asks for, in the order of a camera.

    Light and colour first, then optics (blur), sensor (resolution), file (JPEG), and last
    the contrast stretch of the published code.
    """
    if config.colour != (1.0, 1.0):
        image = scale_channels(image, rng.uniform(*config.colour, size=3))
    if rng.random() < config.grey:
        image = make_grey(image)
    if rng.random() < config.blur:
        image = blur(image, rng)
    if rng.random() < config.low_resolution:
        image = lower_resolution(image, rng.uniform(1.5, 5.0))
    if rng.random() < config.jpeg:
        image = compress(image, int(rng.integers(15, 71)))
    if config.stretch:
        image = stretch_contrast(image)
    return image


def scale_channels(image: ImageArray, factors: NDArray[np.float64]) -> ImageArray:
    """Each channel times its factor, cut at 255."""
    import cv2

    levels = np.arange(256)[:, None] * factors
    table = np.rint(levels).clip(0, 255).astype(np.uint8)
    return np.asarray(cv2.LUT(image, table[None]), dtype=np.uint8)


def make_grey(image: ImageArray) -> ImageArray:
    """The luminance, in all three channels."""
    import cv2

    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB), dtype=np.uint8)


def blur(image: ImageArray, rng: np.random.Generator) -> ImageArray:
    """Out of focus (a Gaussian) or moved (a line), by up to 2 percent of the side."""
    import cv2

    side = image.shape[0]
    spread = float(rng.uniform(0.004, 0.02)) * side
    if rng.random() < 0.5:
        return np.asarray(cv2.GaussianBlur(image, (0, 0), spread), dtype=np.uint8)
    return np.asarray(
        cv2.filter2D(image, -1, motion_kernel(3 * spread, rng.uniform(0, np.pi))), dtype=np.uint8
    )


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
    import cv2

    height, width = image.shape[:2]
    small = (max(2, round(width / factor)), max(2, round(height / factor)))
    shrunk = cv2.resize(image, small, interpolation=cv2.INTER_AREA)
    return np.asarray(
        cv2.resize(shrunk, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.uint8
    )


def compress(image: ImageArray, quality: int) -> ImageArray:
    """Through a JPEG file of this quality and back."""
    import cv2

    _, data = cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    return np.ascontiguousarray(np.asarray(decoded, dtype=np.uint8)[:, :, ::-1])


def stretch_contrast(image: ImageArray) -> ImageArray:
    """The darkest value of any channel becomes 0, the brightest 255 (published code)."""
    low, high = int(image.min()), int(image.max())
    if low == high:
        return image
    table = np.rint((np.arange(256) - low) * (255.0 / (high - low))).clip(0, 255).astype(np.uint8)
    return np.asarray(table[image], dtype=np.uint8)
