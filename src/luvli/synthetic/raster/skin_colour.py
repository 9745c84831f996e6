"""The colour of one sample of skin: tone, blush, lips, brows, beard, scalp, or a photograph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Bytes, Ints, Singles
from luvli.synthetic.raster import materials as m
from luvli.synthetic.raster.materials import TILE

ONE, ZERO = np.float32(1), np.float32(0)


class Finish(NamedTuple):
    """How the surface of a sample differs from a smooth, dull one."""

    tilt_x: np.float32
    """what bumps add to the normal"""
    tilt_y: np.float32
    gloss: np.float32
    sharp: int
    """highlights have the exponent 2 ** sharp"""


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def smooth_step(low: np.float32, high: np.float32, value: np.float32) -> np.float32:
    """0 below `low`, 1 above `high`, smooth between."""
    t = min(max((value - low) / (high - low), np.float32(0)), np.float32(1))
    return t * t * (np.float32(3) - np.float32(2) * t)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _look_up(image: Bytes, channels: int, tu: np.float32, tv: np.float32, found: Singles) -> None:
    """Bilinear values (0 to 1) of the first `channels` of an image at texel (tu, tv)."""
    row = min(max(int(tv), 0), image.shape[0] - 2)
    column = min(max(int(tu), 0), image.shape[1] - 2)
    fu = min(max(tu - np.float32(column), np.float32(0)), np.float32(1))
    fv = min(max(tv - np.float32(row), np.float32(0)), np.float32(1))
    w11 = fu * fv / np.float32(255)
    w10 = fv / np.float32(255) - w11
    w01 = fu / np.float32(255) - w11
    w00 = np.float32(1 / 255) - w11 - w10 - w01
    for i in range(channels):
        found[i] = (
            w00 * image[row, column, i]
            + w01 * image[row, column + 1, i]
            + w10 * image[row + 1, column, i]
            + w11 * image[row + 1, column + 1, i]
        )


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def skin_colour(
    maps: Bytes,
    photo: Bytes,
    tile: Singles,
    numbers: Singles,
    palette: Singles,
    shift: Ints,
    value: Singles,
    region: Singles,
    albedo: Singles,
) -> Finish:
    """Albedo (3,) of the skin at the texel that `value` names; `region` (8,) is scratch.

    The others are those of `shade`, one by one: taking an array out of a tuple for every sample
    costs more than the shading.
    """
    tu, tv = value[m.PLACE], value[m.PLACE + 1]
    _look_up(maps, 8, tu, tv, region)
    nu, nv = int(tu * 2) + shift[0], int(tv * 2) + shift[1]
    low = tile[(nv // 8) % TILE, (nu // 8) % TILE, 0]
    mid = tile[(nv // 2) % TILE, (nu // 2) % TILE, 1]
    high = tile[nv % TILE, nu % TILE, 2]
    grain = ONE + numbers[m.ROUGH] * (
        np.float32(0.03) * low + np.float32(0.025) * mid + np.float32(0.03) * high
    )
    warm = numbers[m.BLUSH] * (region[m.CHEEKS] + np.float32(0.10) * low)
    freckle = numbers[m.FRECKLE] * smooth_step(
        np.float32(1.2), np.float32(2.0), high + np.float32(0.6) * mid
    )
    freckle *= min(ONE, region[m.CHEEKS] * np.float32(2) + region[m.SHINE])
    socket = ONE - numbers[m.SOCKET] * region[m.SOCKETS]
    lip = numbers[m.LIP] * smooth_step(np.float32(0.25), np.float32(0.8), region[m.LIPS])
    beard = numbers[m.STUBBLE] * region[m.BEARD]
    beard *= min(max(np.float32(0.65) + np.float32(0.35) * high, ZERO), ONE)
    brow = numbers[m.BROW] * region[m.BROWS] * (np.float32(0.7) + np.float32(0.2) * high)
    brow = min(max(brow, ZERO), ONE)
    inside = region[m.SCALP] * np.float32(12.75) - np.float32(6.4) - numbers[m.HAIRLINE]
    inside += np.float32(0.12) * mid
    scalp = numbers[m.HAIR_COVER] * smooth_step(np.float32(-0.1), np.float32(0.9), inside)
    liner = min(ONE, numbers[m.LINER] * region[m.LIDS])
    shine = region[m.SHINE]
    for i in range(3):
        hue = palette[m.TONE, i] * grain * socket
        if i > 0:
            hue *= ONE - warm * (np.float32(0.22) if i == 1 else np.float32(0.18))
        hue *= ONE - freckle * (np.float32(0.15) + np.float32(0.15) * np.float32(i))
        hue += lip * (palette[m.LIP_COLOUR, i] * (ONE + np.float32(0.10) * mid) - hue)
        albedo[i] = hue
    weight = ZERO
    if numbers[m.PHOTO] > 0:
        _look_up(photo, 4, tu, tv, region)
        weight = region[3] * numbers[m.PHOTO]
        shine = shine if weight == ZERO else ZERO
        for i in range(3):
            albedo[i] += weight * (region[i] * region[i] - albedo[i])
    for i in range(3):
        hue = albedo[i]
        hue += (ONE - weight) * beard * (palette[m.STUBBLE_COLOUR, i] - hue)
        hue += (ONE - weight) * brow * (palette[m.BROW_COLOUR, i] - hue)
        hue += scalp * (palette[m.SCALP_COLOUR, i] - hue)
        albedo[i] = hue * (ONE - np.float32(0.75) * liner)
    bump = numbers[m.BUMP] * (ONE - scalp)
    right = tile[nv % TILE, (nu + 1) % TILE, 2]
    under = tile[(nv + 1) % TILE, nu % TILE, 2]
    gloss = numbers[m.GLOSS] * (np.float32(0.35) + shine + lip)
    gloss *= (ONE - scalp) * (ONE - np.float32(0.5) * beard)
    sharp = 5 if lip > np.float32(0.3) else 4
    return Finish(bump * (high - right), bump * (under - high), gloss, sharp)
