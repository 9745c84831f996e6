"""Colours of the samples that the z-buffer left: skin, eyes, teeth, cloth and objects.

Everything is linear RGB. A pixel has `SAMPLES` squared samples; neighbours on one surface share
one evaluation, so that smooth skin costs one and edges cost what they need.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Bytes, Ints, Singles
from luvli.synthetic.raster import materials as m
from luvli.synthetic.raster.materials import TILE
from luvli.synthetic.raster.skin_colour import Finish, skin_colour, smooth_step
from luvli.synthetic.raster.triangles import FACE_HAIR, NOTHING, SAMPLES, SEAM

# how far light reaches round an edge of skin, and what skin lights skin with: red, green, blue
_WRAP = (0.30, 0.14, 0.09)
_BLEED = (-0.12, 0.10, 0.16)
_SKIN, _EYE, _TEETH, _GUMS, _MOUTH, _CLOTH = (int(part) for part in list(m.Material)[:6])


class Samples(NamedTuple):
    """What the z-buffer holds: (h, w) owners and inverse depths, (h, w, 3) colours of strands."""

    owner: Ints
    nearness: Singles
    painted: Singles


class Surface(NamedTuple):
    """Everything that was drawn, as one mesh."""

    screen: Singles
    """(n, 3) x, y in sample units and inverse depth"""
    triangles: Ints
    """(t, 3)"""
    part: Bytes
    """(t,) `Material`"""
    attributes: Singles
    """(n, ATTRIBUTES)"""


@njit(cache=True, nogil=True, fastmath=True)
def shade(
    samples: Samples,
    surface: Surface,
    skin: m.Skin,
    maps: Bytes,
    tile: Singles,
    lights: m.Lights,
    lens: tuple[float, float, float],
    image: Singles,
) -> None:
    """Fill `image` (h, w, 3), which holds the background, from the sample buffers.

    `maps` (h, w, 8) are the regions of the head's skin, 0 to 255, `tile` the noise, `lens` the
    camera's centre x, y and focal length in sample units.
    """
    owner, nearness, painted = samples
    value = np.zeros(m.ATTRIBUTES, np.float32)
    albedo, colour, total = np.zeros((3, 3), np.float32)
    region = np.zeros(8, np.float32)
    for py in range(image.shape[0]):
        for px in range(image.shape[1]):
            total[:] = 0
            last_part, last_near = -1, 0.0
            for sample in range(SAMPLES * SAMPLES):
                x, y = px * SAMPLES + sample % SAMPLES, py * SAMPLES + sample // SAMPLES
                t, near = owner[y, x], nearness[y, x]
                if t >= 0:
                    kind = surface.part[t]
                    if kind != last_part or abs(near - last_near) >= 0.003 * near:
                        last_part, last_near = kind, near
                        _interpolate(surface, t, kind == _SKIN, x, y, value)
                        if kind == _SKIN:
                            finish = skin_colour(skin, maps, tile, value, region, albedo)
                        elif kind == _EYE:
                            finish = _eye_colour(skin, tile, value, albedo)
                        else:
                            finish = _plain_colour(kind, skin, tile, value, albedo)
                        view = _unit((lens[0] - x) / lens[2], (y - lens[1]) / lens[2], 1.0)
                        _illuminate(kind == _SKIN, value, finish, albedo, lights, view, colour)
                for i in range(3):
                    if t == NOTHING:
                        total[i] += image[py, px, i]
                    elif t <= FACE_HAIR:
                        total[i] += painted[y, x, i]
                    else:
                        total[i] += colour[i]
            for i in range(3):
                image[py, px, i] = total[i] / (SAMPLES * SAMPLES)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _unit(x: float, y: float, z: float) -> tuple[float, float, float]:
    """A vector of length 1."""
    length = np.sqrt(x * x + y * y + z * z) + 1e-6
    return x / length, y / length, z / length


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _interpolate(surface: Surface, t: int, skin: bool, x: int, y: int, value: Singles) -> None:
    """Attributes at sample (x, y) of triangle t: perspective-correct barycentric coordinates."""
    screen, attributes = surface.screen, surface.attributes
    a, b, c = surface.triangles[t, 0], surface.triangles[t, 1], surface.triangles[t, 2]
    xa, ya = screen[a, 0], screen[a, 1]
    xb, yb = screen[b, 0] - xa, screen[b, 1] - ya
    xc, yc = screen[c, 0] - xa, screen[c, 1] - ya
    area = xc * yb - xb * yc
    u = (xc * (y - ya) - (x - xa) * yc) / area
    v = ((x - xa) * yb - xb * (y - ya)) / area
    wa = max(1 - u - v, 0.0) * screen[a, 2]
    wb = max(u, 0.0) * screen[b, 2]
    wc = max(v, 0.0) * screen[c, 2]
    total = wa + wb + wc
    for i in range(m.ATTRIBUTES):
        mixed = wa * attributes[a, i] + wb * attributes[b, i] + wc * attributes[c, i]
        value[i] = mixed / total
    ua, ub, uc = attributes[a, m.PLACE], attributes[b, m.PLACE], attributes[c, m.PLACE]
    if skin and max(ua, ub, uc) - min(ua, ub, uc) > SEAM:
        value[m.PLACE] = ua


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _plain_colour(
    kind: int, skin: m.Skin, tile: Singles, value: Singles, albedo: Singles
) -> Finish:
    """Teeth, gums, cloth and objects; `value` is changed to what the part does to its light."""
    gloss, sharp = 0.02, 4
    if kind == _TEETH:
        for i in range(3):
            albedo[i] = skin.palette[m.TEETH_COLOUR, i]
        # what reaches teeth is scattered on by them and by the lips: they are never as dark as
        # the gap between the lips would make them
        value[m.OPEN] = min(1.0, 0.45 + value[m.OPEN] * 1.2)
        value[m.LIT] = 0.35 + 0.65 * value[m.LIT]
        gloss, sharp = 0.25, 6
    elif kind in (_GUMS, _MOUTH):
        albedo[0], albedo[1], albedo[2] = 0.36, 0.09, 0.09
        value[m.OPEN] *= 0.9 if kind == _GUMS else 0.45
        value[m.LIT] *= 0.6
        gloss, sharp = 0.15, 6
    elif kind == _CLOTH:
        nu, nv = int(value[m.PLACE]) + skin.shift[0], int(value[m.PLACE + 1]) + skin.shift[1]
        weave = 1 + 0.10 * tile[nv % TILE, nu % TILE, 1]
        for i in range(3):
            albedo[i] = value[m.COLOUR + i] * weave
        gloss = 0.0
    else:
        for i in range(3):
            albedo[i] = value[m.COLOUR + i]
        gloss, sharp = value[m.PLACE], 5
    return Finish(0.0, 0.0, gloss, sharp)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _eye_colour(skin: m.Skin, tile: Singles, value: Singles, albedo: Singles) -> Finish:
    """White, iris and pupil, by the place on the ball."""
    radius = np.sqrt(value[m.PLACE] ** 2 + value[m.PLACE + 1] ** 2)
    angle = np.arctan2(value[m.PLACE + 1], value[m.PLACE])
    size = skin.numbers[m.IRIS_SIZE]
    hole = skin.numbers[m.PUPIL_SIZE] * size
    iris = 1 - smooth_step(size - 0.04, size + 0.04, radius)
    pupil = 1 - smooth_step(hole - 0.04, hole + 0.04, radius)
    ring = smooth_step(0.55, 1.0, radius / size)
    spoke = tile[int(angle * 40) % TILE, int(radius * 60) % TILE, 2]
    vein = max(0.0, tile[skin.shift[0] % TILE, int(angle * 30) % TILE, 1])
    for i in range(3):
        white = skin.palette[m.SCLERA, i]
        if i > 0:
            white *= 1 - 0.10 * vein - 0.12 * smooth_step(0.4, 0.9, radius)
        coloured = skin.palette[m.IRIS, i] * (1 + 0.25 * spoke) * (1 - 0.65 * ring)
        albedo[i] = (white + iris * (coloured - white)) * (1 - 0.97 * pupil)
    value[m.OPEN] = min(1.0, 0.25 + value[m.OPEN] * 1.3)
    return Finish(0.0, 0.0, 1.4, 8)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _illuminate(
    skin: bool,
    value: Singles,
    finish: Finish,
    albedo: Singles,
    lights: m.Lights,
    view: tuple[float, float, float],
    colour: Singles,
) -> None:
    """Sky and lamps on one sample, into `colour` (3,)."""
    direction, strength, ambient = lights
    opened = value[m.OPEN]
    vx, vy, vz = view
    nx, ny, nz = _unit(value[0] + finish.tilt_x, value[1] + finish.tilt_y, value[2])
    fresnel = (1 - max(nx * vx + ny * vy + nz * vz, 0.0)) ** 4
    mirror = min(finish.gloss, 0.5) * 0.25 * fresnel
    for i in range(3):
        sky = ambient[0, i] + ambient[1, i] * nx + ambient[2, i] * ny + ambient[3, i] * nz
        glow = max(sky, 0.0) * opened
        if skin:  # what is enclosed by skin is lit by skin: redder
            glow *= 1 - _BLEED[i] * (1 - opened)
        colour[i] = albedo[i] * glow + mirror * glow
    for lamp in range(2):
        if strength[lamp, 1] == 0:
            continue
        lx, ly, lz = direction[lamp, 0], direction[lamp, 1], direction[lamp, 2]
        cosine = nx * lx + ny * ly + nz * lz
        hx, hy, hz = _unit(lx + vx, ly + vy, lz + vz)
        shine = max(nx * hx + ny * hy + nz * hz, 0.0)
        for _ in range(finish.sharp):
            shine *= shine
        shine *= finish.gloss * (0.35 + 2 * fresnel) if cosine > 0 else 0.0
        see = value[m.LIT] if lamp == 0 else min(1.0, 1.2 * opened)
        for i in range(3):
            soft = _WRAP[i] if skin else 0.05
            diffuse = max((cosine + soft) / (1 + soft), 0.0)
            # light that enters beside a shadow leaves inside it, red most of all
            through = see + soft * (1 - see) * 0.5 if skin else see
            colour[i] += strength[lamp, i] * through * (albedo[i] * diffuse + shine)
