"""A tile of noise that skin, eyes, cloth and backgrounds share."""

from __future__ import annotations

from functools import cache

import numpy as np

from luvli.synthetic.arrays import Doubles, Singles

TILE = 256
"""side of the tile in texels"""


@cache
def noise_tile() -> Singles:
    """(TILE, TILE, 4) periodic noise of unit variance: blotches, grain, pores, streaks."""
    rng = np.random.default_rng(0)
    fy, fx = np.meshgrid(np.fft.fftfreq(TILE), np.fft.fftfreq(TILE), indexing="ij")
    radius = np.hypot(fx, fy)

    def filtered(gain: Doubles) -> Doubles:
        spectrum = np.fft.fft2(rng.standard_normal((TILE, TILE))) * gain
        field = np.fft.ifft2(spectrum).real
        unit: Doubles = (field - field.mean()) / field.std()
        return unit

    layers = [
        filtered(np.exp(-((radius / 0.02) ** 2))),
        filtered(1 / (radius + 0.02) * np.exp(-((radius / 0.15) ** 2))),
        filtered(np.exp(-(((radius - 0.28) / 0.12) ** 2))),
        filtered(np.exp(-((fx / 0.4) ** 2) - (fy / 0.02) ** 2)),
    ]
    return np.stack(layers, axis=-1).astype(np.float32)
