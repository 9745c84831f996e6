"""The colour of one sample of skin: tone, blush, lips, brows, beard, scalp, or a photograph."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from luvli.synthetic.arrays import Bytes, Singles
from luvli.synthetic.raster import materials as m
from luvli.synthetic.raster.materials import TILE


class Finish(NamedTuple):
    """How the surface of a sample differs from a smooth, dull one."""

    tilt_x: float
    """what bumps add to the normal"""
    tilt_y: float
    gloss: float
    sharp: int
    """highlights have the exponent 2 ** sharp"""


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def smooth_step(low: float, high: float, value: float) -> float:
    """0 below `low`, 1 above `high`, smooth between."""
    t = min(max((value - low) / (high - low), 0.0), 1.0)
    return t * t * (3 - 2 * t)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _look_up(image: Bytes, channels: int, u: float, v: float, found: Singles) -> None:
    """Bilinear values (0 to 1) of the first `channels` of an image at texel (u, v)."""
    row = min(max(int(v), 0), image.shape[0] - 2)
    column = min(max(int(u), 0), image.shape[1] - 2)
    right, down = min(max(u - column, 0.0), 1.0), min(max(v - row, 0.0), 1.0)
    for i in range(channels):
        upper = image[row, column, i] * (1 - right) + image[row, column + 1, i] * right
        lower = image[row + 1, column, i] * (1 - right) + image[row + 1, column + 1, i] * right
        found[i] = (upper * (1 - down) + lower * down) / 255


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def skin_colour(
    skin: m.Skin, maps: Bytes, tile: Singles, value: Singles, region: Singles, albedo: Singles
) -> Finish:
    """Albedo (3,) of the skin at the texel that `value` names; `region` (8,) is scratch."""
    numbers, palette = skin.numbers, skin.palette
    u, v = value[m.PLACE], value[m.PLACE + 1]
    _look_up(maps, 8, u, v, region)
    nu, nv = int(u * 2) + skin.shift[0], int(v * 2) + skin.shift[1]
    low = tile[(nv // 8) % TILE, (nu // 8) % TILE, 0]
    mid = tile[(nv // 2) % TILE, (nu // 2) % TILE, 1]
    high = tile[nv % TILE, nu % TILE, 2]
    grain = 1 + numbers[m.ROUGH] * (0.03 * low + 0.025 * mid + 0.03 * high)
    warm = numbers[m.BLUSH] * (region[m.CHEEKS] + 0.10 * low)
    socket = 1 - numbers[m.SOCKET] * region[m.SOCKETS]
    lip = numbers[m.LIP] * smooth_step(0.25, 0.8, region[m.LIPS])
    beard = numbers[m.STUBBLE] * region[m.BEARD] * min(max(0.65 + 0.35 * high, 0.0), 1.0)
    brow = min(max(numbers[m.BROW] * region[m.BROWS] * (0.7 + 0.2 * high), 0.0), 1.0)
    inside = region[m.SCALP] * 12.75 - 6.4 - numbers[m.HAIRLINE] + 0.12 * mid
    scalp = numbers[m.HAIR_COVER] * smooth_step(-0.1, 0.9, inside)
    liner = min(1.0, numbers[m.LINER] * region[m.LIDS])
    shine = region[m.SHINE]
    for i in range(3):
        hue = palette[m.TONE, i] * grain * socket
        if i > 0:
            hue *= 1 - warm * (0.22 if i == 1 else 0.18)
        albedo[i] = hue + lip * (palette[m.LIP_COLOUR, i] * (1 + 0.10 * mid) - hue)
    weight = 0.0
    if numbers[m.PHOTO] > 0:
        _look_up(skin.photo, 4, u, v, region)
        weight = region[3] * numbers[m.PHOTO]
        shine = shine if weight == 0 else 0.0
        for i in range(3):
            albedo[i] += weight * (region[i] * region[i] - albedo[i])
    for i in range(3):
        hue = albedo[i]
        hue += (1 - weight) * beard * (palette[m.STUBBLE_COLOUR, i] - hue)
        hue += (1 - weight) * brow * (palette[m.BROW_COLOUR, i] - hue)
        hue += scalp * (palette[m.SCALP_COLOUR, i] - hue)
        albedo[i] = hue * (1 - 0.75 * liner)
    bump = numbers[m.BUMP] * (1 - scalp)
    tilt_x = bump * (high - tile[nv % TILE, (nu + 1) % TILE, 2])
    tilt_y = bump * (tile[(nv + 1) % TILE, nu % TILE, 2] - high)
    gloss = numbers[m.GLOSS] * (0.35 + shine + lip) * (1 - scalp) * (1 - 0.5 * beard)
    return Finish(tilt_x, tilt_y, gloss, 5 if lip > 0.3 else 4)
