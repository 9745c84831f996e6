"""Colours of the samples that the z-buffer left: skin, eyes, teeth, cloth and objects.

Everything is linear RGB. A pixel has `SAMPLES` squared samples; neighbours on one surface share
one evaluation, so that smooth skin costs one and edges cost what they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luvli.synthetic.raster import NOTHING, SAMPLES, STRAND

Floats = NDArray[np.float32]

TILE = 256
# columns of the vertex attributes
NORMAL, PLACE, OPEN, LIT, COLOUR = 0, 3, 5, 6, 7
ATTRIBUTES = 10
# entries of the skin's numbers
(LIP, BLUSH, STUBBLE, BROW, SOCKET, HAIR, HAIRLINE, LINER, GLOSS, ROUGH, FRECKLE, BUMP, PHOTO) = (
    range(13)
)
(IRIS_SIZE, PUPIL_SIZE) = range(13, 15)
NUMBERS = 15
# rows of the palette
(TONE, LIP_COLOUR, STUBBLE_COLOUR, BROW_COLOUR, SCALP_COLOUR, IRIS, SCLERA, TEETH) = range(8)


@dataclass(frozen=True, eq=False)
class Skin:
    """What one face is painted with."""

    numbers: Floats
    """(NUMBERS,) strengths, see the names above"""
    palette: Floats
    """(8, 3) linear RGB, see the names above"""
    shift: NDArray[np.int32]
    """(2,) where in the noise tile this skin begins"""
    photo: NDArray[np.uint8]
    """(HEIGHT, WIDTH, 4) square roots of colours and weight from a photograph, times 255;
    (1, 1, 4) when there is none"""


@cache
def noise_tile() -> Floats:
    """(TILE, TILE, 4) periodic noise of unit variance: blotches, grain, pores, streaks."""
    rng = np.random.default_rng(0)
    fy, fx = np.meshgrid(np.fft.fftfreq(TILE), np.fft.fftfreq(TILE), indexing="ij")
    radius = np.hypot(fx, fy)

    def filtered(gain: Any) -> Any:
        spectrum = np.fft.fft2(rng.standard_normal((TILE, TILE))) * gain
        field = np.fft.ifft2(spectrum).real
        return (field - field.mean()) / field.std()

    layers = [
        filtered(np.exp(-((radius / 0.02) ** 2))),
        filtered(1 / (radius + 0.02) * np.exp(-((radius / 0.15) ** 2))),
        filtered(np.exp(-(((radius - 0.28) / 0.12) ** 2))),
        filtered(np.exp(-((fx / 0.4) ** 2) - (fy / 0.02) ** 2)),
    ]
    return np.stack(layers, axis=-1).astype(np.float32)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _step(low: Any, high: Any, value: Any) -> Any:
    t = min(max((value - low) / (high - low), np.float32(0)), np.float32(1))
    return t * t * (np.float32(3) - np.float32(2) * t)


@njit(cache=True, nogil=True, fastmath=True)
def shade(
    owner: Any,
    nearness: Any,
    painted: Any,
    screen: Any,
    triangles: Any,
    part: Any,
    attributes: Any,
    maps: Any,
    photo: Any,
    tile: Any,
    numbers: Any,
    palette: Any,
    shift: Any,
    lamp: Any,
    lamp_colour: Any,
    ambient: Any,
    lens: Any,
    picture: Any,
) -> None:
    """Fill `picture` (h, w, 3), which holds the background, from the sample buffers.

    `part` (t,) is the `Part` of each triangle, `attributes` (n, ATTRIBUTES) what is known of
    each vertex. `lens` (3,) is the
    camera's centre x, y and focal length in sample units: it gives the direction to the camera.
    """
    height, width = picture.shape[0], picture.shape[1]
    zero, one = np.float32(0), np.float32(1)
    wrap = (np.float32(0.30), np.float32(0.14), np.float32(0.09))
    bleed = (np.float32(-0.12), np.float32(0.10), np.float32(0.16))
    value = np.zeros(ATTRIBUTES, np.float32)
    albedo = np.zeros(3, np.float32)
    last = np.zeros(3, np.float32)
    region = np.zeros(8, np.float32)
    for py in range(height):
        for px in range(width):
            red, green, blue = zero, zero, zero
            last_part, last_near = -1, zero
            for sample in range(SAMPLES * SAMPLES):
                x = px * SAMPLES + sample % SAMPLES
                y = py * SAMPLES + sample // SAMPLES
                t = owner[y, x]
                if t == NOTHING:
                    red += picture[py, px, 0]
                    green += picture[py, px, 1]
                    blue += picture[py, px, 2]
                    continue
                if t <= STRAND:
                    red += painted[y, x, 0]
                    green += painted[y, x, 1]
                    blue += painted[y, x, 2]
                    continue
                kind, near = part[t], nearness[y, x]
                if kind == last_part and abs(near - last_near) < np.float32(0.003) * near:
                    red += last[0]
                    green += last[1]
                    blue += last[2]
                    continue
                last_part, last_near = kind, near
                # ---- where on the triangle: perspective-correct barycentric coordinates
                a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
                xa, ya = screen[a, 0], screen[a, 1]
                xb, yb = screen[b, 0], screen[b, 1]
                xc, yc = screen[c, 0], screen[c, 1]
                area = (xc - xa) * (yb - ya) - (xb - xa) * (yc - ya)
                dx, dy = np.float32(x) - xa, np.float32(y) - ya
                u = ((xc - xa) * dy - dx * (yc - ya)) / area
                v = (dx * (yb - ya) - (xb - xa) * dy) / area
                wa = max(one - u - v, zero) * screen[a, 2]
                wb = max(u, zero) * screen[b, 2]
                wc = max(v, zero) * screen[c, 2]
                total = wa + wb + wc
                wa, wb, wc = wa / total, wb / total, wc / total
                for i in range(ATTRIBUTES):
                    value[i] = wa * attributes[a, i] + wb * attributes[b, i] + wc * attributes[c, i]
                nx, ny, nz = value[0], value[1], value[2]
                vx = (lens[0] - np.float32(x)) / lens[2]
                vy = (np.float32(y) - lens[1]) / lens[2]
                length = np.sqrt(vx * vx + vy * vy + one)
                vx, vy, vz = vx / length, vy / length, one / length
                gloss, sharp = np.float32(0.02), 4
                opened, lit = value[OPEN], value[LIT]
                skin = False
                if kind == 0:  # ---- skin
                    skin = True
                    tu, tv = value[PLACE], value[PLACE + 1]
                    ua, ub, uc = attributes[a, 3], attributes[b, 3], attributes[c, 3]
                    if max(ua, ub, uc) - min(ua, ub, uc) > 300:  # across the seam at the back
                        tu = ua
                    row = min(max(int(tv), 0), maps.shape[0] - 2)
                    column = min(max(int(tu), 0), maps.shape[1] - 2)
                    fu = min(max(tu - np.float32(column), zero), one)
                    fv = min(max(tv - np.float32(row), zero), one)
                    w11 = fu * fv / np.float32(255)
                    w10 = fv / np.float32(255) - w11
                    w01 = fu / np.float32(255) - w11
                    w00 = np.float32(1 / 255) - w11 - w10 - w01
                    for i in range(8):
                        region[i] = (
                            w00 * maps[row, column, i]
                            + w01 * maps[row, column + 1, i]
                            + w10 * maps[row + 1, column, i]
                            + w11 * maps[row + 1, column + 1, i]
                        )
                    nu, nv = int(tu * 2) + shift[0], int(tv * 2) + shift[1]
                    low = tile[(nv // 8) % TILE, (nu // 8) % TILE, 0]
                    mid = tile[(nv // 2) % TILE, (nu // 2) % TILE, 1]
                    high = tile[nv % TILE, nu % TILE, 2]
                    right = tile[nv % TILE, (nu + 1) % TILE, 2]
                    under = tile[(nv + 1) % TILE, nu % TILE, 2]
                    rough = numbers[ROUGH]
                    grain = one + rough * (
                        np.float32(0.03) * low + np.float32(0.025) * mid + np.float32(0.03) * high
                    )
                    warm = numbers[BLUSH] * (region[1] + np.float32(0.10) * low)
                    freckle = numbers[FRECKLE] * _step(
                        np.float32(1.2), np.float32(2.0), high + np.float32(0.6) * mid
                    )
                    freckle *= min(one, region[1] * np.float32(2) + region[7])
                    socket = one - numbers[SOCKET] * region[4]
                    lip = numbers[LIP] * _step(np.float32(0.25), np.float32(0.8), region[0])
                    beard = (
                        numbers[STUBBLE]
                        * region[2]
                        * min(max(np.float32(0.65) + np.float32(0.35) * high, zero), one)
                    )
                    brow = numbers[BROW] * region[3] * (np.float32(0.7) + np.float32(0.2) * high)
                    brow = min(max(brow, zero), one)
                    inside = region[5] * np.float32(12.75) - np.float32(6.4) - numbers[HAIRLINE]
                    inside += np.float32(0.12) * mid
                    scalp = numbers[HAIR] * _step(np.float32(-0.1), np.float32(0.9), inside)
                    liner = min(one, numbers[LINER] * region[6])
                    for i in range(3):
                        hue = palette[TONE, i] * grain * socket
                        if i > 0:
                            hue *= one - warm * (np.float32(0.22) if i == 1 else np.float32(0.18))
                        hue *= one - freckle * (np.float32(0.15) + np.float32(0.15) * np.float32(i))
                        hue += lip * (palette[LIP_COLOUR, i] * (one + np.float32(0.10) * mid) - hue)
                        albedo[i] = hue
                    weight = zero
                    if numbers[PHOTO] > 0:
                        for i in range(4):
                            region[i] = (
                                w00 * photo[row, column, i]
                                + w01 * photo[row, column + 1, i]
                                + w10 * photo[row + 1, column, i]
                                + w11 * photo[row + 1, column + 1, i]
                            )
                        weight = region[3] * numbers[PHOTO]
                        for i in range(3):
                            albedo[i] += weight * (region[i] * region[i] - albedo[i])
                    for i in range(3):
                        hue = albedo[i]
                        hue += (one - weight) * beard * (palette[STUBBLE_COLOUR, i] - hue)
                        hue += (one - weight) * brow * (palette[BROW_COLOUR, i] - hue)
                        hue += scalp * (palette[SCALP_COLOUR, i] - hue)
                        albedo[i] = hue * (one - np.float32(0.75) * liner)
                    bump = numbers[BUMP] * (one - scalp)
                    nx += bump * (high - right)
                    ny += bump * (under - high)
                    gloss = numbers[GLOSS] * (
                        np.float32(0.35) + (region[7] if weight == zero else zero) + lip
                    )
                    gloss *= (one - scalp) * (one - np.float32(0.5) * beard)
                    sharp = 5 if lip > np.float32(0.3) else 4
                elif kind == 1:  # ---- eye
                    radius = np.sqrt(value[PLACE] ** 2 + value[PLACE + 1] ** 2)
                    angle = np.arctan2(value[PLACE + 1], value[PLACE])
                    size = numbers[IRIS_SIZE]
                    iris = one - _step(size - np.float32(0.04), size + np.float32(0.04), radius)
                    hole = numbers[PUPIL_SIZE] * size
                    pupil = one - _step(hole - np.float32(0.04), hole + np.float32(0.04), radius)
                    ring = _step(np.float32(0.55), np.float32(1.0), radius / size)
                    spoke = tile[int(angle * 40) % TILE, int(radius * 60) % TILE, 2]
                    vein = max(zero, tile[shift[0] % TILE, int(angle * 30) % TILE, 1])
                    for i in range(3):
                        white = palette[SCLERA, i]
                        if i > 0:
                            white *= (
                                one
                                - np.float32(0.10) * vein
                                - np.float32(0.12) * _step(np.float32(0.4), np.float32(0.9), radius)
                            )
                        shade_of_iris = palette[IRIS, i] * (one + np.float32(0.25) * spoke)
                        shade_of_iris *= one - np.float32(0.65) * ring
                        hue = white + iris * (shade_of_iris - white)
                        albedo[i] = hue * (one - np.float32(0.97) * pupil)
                    opened = min(one, np.float32(0.25) + opened * np.float32(1.3))
                    gloss, sharp = np.float32(1.4), 8
                elif kind == 2:
                    for i in range(3):
                        albedo[i] = palette[TEETH, i]
                    opened = min(one, np.float32(0.15) + opened * np.float32(1.3))
                    gloss, sharp = np.float32(0.25), 6
                elif kind == 3 or kind == 4:
                    albedo[0], albedo[1], albedo[2] = (
                        np.float32(0.36),
                        np.float32(0.09),
                        np.float32(0.09),
                    )
                    opened = opened * (np.float32(0.9) if kind == 3 else np.float32(0.45))
                    lit *= np.float32(0.6)
                    gloss, sharp = np.float32(0.15), 6
                else:  # ---- cloth, objects: colours of their own
                    for i in range(3):
                        albedo[i] = value[COLOUR + i]
                    if kind == 5:
                        nu = int(value[PLACE]) + shift[0]
                        nv = int(value[PLACE + 1]) + shift[1]
                        weave = one + np.float32(0.10) * tile[nv % TILE, nu % TILE, 1]
                        for i in range(3):
                            albedo[i] *= weave
                        gloss = zero
                    else:
                        gloss, sharp = value[PLACE], 5
                length = np.sqrt(nx * nx + ny * ny + nz * nz) + np.float32(1e-6)
                nx, ny, nz = nx / length, ny / length, nz / length
                facing = max(nx * vx + ny * vy + nz * vz, zero)
                fresnel = (one - facing) ** 4
                mirror = min(gloss, np.float32(0.5)) * np.float32(0.25) * fresnel
                for i in range(3):
                    sky = (
                        ambient[0, i] + ambient[1, i] * nx + ambient[2, i] * ny + ambient[3, i] * nz
                    )
                    # what is enclosed by skin is lit by skin: redder
                    glow = max(sky, zero) * opened
                    if skin:
                        glow *= one - bleed[i] * (one - opened)
                    last[i] = albedo[i] * glow + mirror * glow
                for lamp_index in range(2):
                    if lamp_colour[lamp_index, 1] == 0:
                        continue
                    lx, ly, lz = lamp[lamp_index, 0], lamp[lamp_index, 1], lamp[lamp_index, 2]
                    cosine = nx * lx + ny * ly + nz * lz
                    hx, hy, hz = lx + vx, ly + vy, lz + vz
                    length = np.sqrt(hx * hx + hy * hy + hz * hz) + np.float32(1e-6)
                    shine = max((nx * hx + ny * hy + nz * hz) / length, zero)
                    for _ in range(sharp):  # to the power of 2 ** sharp
                        shine *= shine
                    shine *= gloss * (np.float32(0.35) + np.float32(2) * fresnel)
                    see = lit if lamp_index == 0 else min(one, np.float32(1.2) * opened)
                    for i in range(3):
                        soft = wrap[i] if skin else np.float32(0.05)
                        diffuse = max((cosine + soft) / (one + soft), zero)
                        # light that enters beside a shadow leaves inside it, red most of all
                        through = see + soft * (one - see) * np.float32(0.5) if skin else see
                        shown = shine if cosine > 0 else zero
                        last[i] += (
                            lamp_colour[lamp_index, i] * through * (albedo[i] * diffuse + shown)
                        )
                red += last[0]
                green += last[1]
                blue += last[2]
            share = np.float32(1.0 / (SAMPLES * SAMPLES))
            picture[py, px, 0] = red * share
            picture[py, px, 1] = green * share
            picture[py, px, 2] = blue * share
