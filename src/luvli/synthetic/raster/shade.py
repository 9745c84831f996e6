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
from luvli.synthetic.raster.skin_colour import ONE, ZERO, Finish, skin_colour, smooth_step
from luvli.synthetic.raster.triangles import FACE_HAIR, NOTHING, SAMPLES

SEAM = 300
"""texels; a triangle that is wider lies across the seam at the back of the head"""
# how far light reaches round an edge of skin, and what skin lights skin with: red, green, blue
_WRAP = (np.float32(0.30), np.float32(0.14), np.float32(0.09))
_BLEED = (np.float32(-0.12), np.float32(0.10), np.float32(0.16))
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


class Lens(NamedTuple):
    """The camera's centre and focal length in sample units: gives the direction to the camera."""

    x: np.float32
    y: np.float32
    focal: np.float32


@njit(cache=True, nogil=True, fastmath=True)
def shade(
    samples: Samples,
    surface: Surface,
    skin: m.Skin,
    maps: Bytes,
    tile: Singles,
    lights: m.Lights,
    lens: Lens,
    image: Singles,
) -> None:
    """Fill `image` (h, w, 3), which holds the background, from the sample buffers.

    `maps` (h, w, 8) are the regions of the head's skin, 0 to 255, `tile` the noise.
    """
    # arrays leave their tuples here, once: inside the loops each time would cost a reference count
    owner, nearness, painted = samples
    screen, triangles, part, attributes = surface
    numbers, palette, shift, photo = skin
    direction, strength, ambient = lights
    value = np.zeros(m.ATTRIBUTES, np.float32)
    albedo = np.zeros(3, np.float32)
    colour = np.zeros(3, np.float32)
    region = np.zeros(8, np.float32)
    share = np.float32(1.0 / (SAMPLES * SAMPLES))
    for py in range(image.shape[0]):
        for px in range(image.shape[1]):
            red, green, blue = ZERO, ZERO, ZERO
            last_part, last_near = -1, ZERO
            for sample in range(SAMPLES * SAMPLES):
                x = px * SAMPLES + sample % SAMPLES
                y = py * SAMPLES + sample // SAMPLES
                t = owner[y, x]
                if t == NOTHING:
                    red += image[py, px, 0]
                    green += image[py, px, 1]
                    blue += image[py, px, 2]
                    continue
                if t <= FACE_HAIR:
                    red += painted[y, x, 0]
                    green += painted[y, x, 1]
                    blue += painted[y, x, 2]
                    continue
                kind, near = part[t], nearness[y, x]
                if kind != last_part or abs(near - last_near) >= np.float32(0.003) * near:
                    last_part, last_near = kind, near
                    _interpolate(screen, triangles, attributes, t, kind == _SKIN, x, y, value)
                    if kind == _SKIN:
                        finish = skin_colour(
                            maps, photo, tile, numbers, palette, shift, value, region, albedo
                        )
                    elif kind == _EYE:
                        finish = _eye_colour(tile, numbers, palette, shift, value, albedo)
                    else:
                        finish = _plain_colour(kind, tile, palette, shift, value, albedo)
                    right, up = lens.x - np.float32(x), np.float32(y) - lens.y
                    view = _unit(right / lens.focal, up / lens.focal, ONE)
                    skin_lit = kind == _SKIN
                    _illuminate(
                        skin_lit, value, finish, albedo, direction, strength, ambient, view, colour
                    )
                red += colour[0]
                green += colour[1]
                blue += colour[2]
            image[py, px, 0] = red * share
            image[py, px, 1] = green * share
            image[py, px, 2] = blue * share


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _interpolate(
    screen: Singles,
    triangles: Ints,
    attributes: Singles,
    t: int,
    skin: bool,
    x: int,
    y: int,
    value: Singles,
) -> None:
    """Attributes at sample (x, y) of triangle t: perspective-correct barycentric coordinates."""
    a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
    xa, ya = screen[a, 0], screen[a, 1]
    xb, yb = screen[b, 0], screen[b, 1]
    xc, yc = screen[c, 0], screen[c, 1]
    area = (xc - xa) * (yb - ya) - (xb - xa) * (yc - ya)
    dx, dy = np.float32(x) - xa, np.float32(y) - ya
    u = ((xc - xa) * dy - dx * (yc - ya)) / area
    v = (dx * (yb - ya) - (xb - xa) * dy) / area
    wa = max(ONE - u - v, ZERO) * screen[a, 2]
    wb = max(u, ZERO) * screen[b, 2]
    wc = max(v, ZERO) * screen[c, 2]
    total = wa + wb + wc
    wa, wb, wc = wa / total, wb / total, wc / total
    for i in range(m.ATTRIBUTES):
        value[i] = wa * attributes[a, i] + wb * attributes[b, i] + wc * attributes[c, i]
    ua, ub, uc = attributes[a, m.PLACE], attributes[b, m.PLACE], attributes[c, m.PLACE]
    if skin and max(ua, ub, uc) - min(ua, ub, uc) > SEAM:
        value[m.PLACE] = ua


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _plain_colour(
    kind: int, tile: Singles, palette: Singles, shift: Ints, value: Singles, albedo: Singles
) -> Finish:
    """Teeth, gums, cloth and objects; `value` is changed to what the part does to its light."""
    gloss, sharp = np.float32(0.02), 4
    if kind == _TEETH:
        for i in range(3):
            albedo[i] = palette[m.TEETH_COLOUR, i]
        # what reaches teeth is scattered on by them and by the lips: they are never as dark as
        # the gap between the lips would make them
        value[m.OPEN] = min(ONE, np.float32(0.45) + value[m.OPEN] * np.float32(1.2))
        value[m.LIT] = np.float32(0.35) + np.float32(0.65) * value[m.LIT]
        gloss, sharp = np.float32(0.25), 6
    elif kind in (_GUMS, _MOUTH):
        albedo[0], albedo[1], albedo[2] = np.float32(0.36), np.float32(0.09), np.float32(0.09)
        value[m.OPEN] *= np.float32(0.9) if kind == _GUMS else np.float32(0.45)
        value[m.LIT] *= np.float32(0.6)
        gloss, sharp = np.float32(0.15), 6
    else:  # cloth and objects have colours of their own
        for i in range(3):
            albedo[i] = value[m.COLOUR + i]
        if kind == _CLOTH:
            nu = int(value[m.PLACE]) + shift[0]
            nv = int(value[m.PLACE + 1]) + shift[1]
            weave = ONE + np.float32(0.10) * tile[nv % TILE, nu % TILE, 1]
            for i in range(3):
                albedo[i] *= weave
            gloss = ZERO
        else:
            gloss, sharp = value[m.PLACE], 5
    return Finish(ZERO, ZERO, gloss, sharp)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _eye_colour(
    tile: Singles, numbers: Singles, palette: Singles, shift: Ints, value: Singles, albedo: Singles
) -> Finish:
    """White, iris and pupil, by the place on the ball."""
    radius = np.sqrt(value[m.PLACE] ** 2 + value[m.PLACE + 1] ** 2)
    angle = np.arctan2(value[m.PLACE + 1], value[m.PLACE])
    size = numbers[m.IRIS_SIZE]
    iris = ONE - smooth_step(size - np.float32(0.04), size + np.float32(0.04), radius)
    hole = numbers[m.PUPIL_SIZE] * size
    pupil = ONE - smooth_step(hole - np.float32(0.04), hole + np.float32(0.04), radius)
    ring = smooth_step(np.float32(0.55), np.float32(1.0), radius / size)
    spoke = tile[int(angle * 40) % TILE, int(radius * 60) % TILE, 2]
    vein = max(ZERO, tile[shift[0] % TILE, int(angle * 30) % TILE, 1])
    for i in range(3):
        white = palette[m.SCLERA, i]
        if i > 0:
            shaded = np.float32(0.12) * smooth_step(np.float32(0.4), np.float32(0.9), radius)
            white *= ONE - np.float32(0.10) * vein - shaded
        coloured = palette[m.IRIS, i] * (ONE + np.float32(0.25) * spoke)
        coloured *= ONE - np.float32(0.65) * ring
        albedo[i] = (white + iris * (coloured - white)) * (ONE - np.float32(0.97) * pupil)
    value[m.OPEN] = min(ONE, np.float32(0.25) + value[m.OPEN] * np.float32(1.3))
    return Finish(ZERO, ZERO, np.float32(1.4), 8)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _unit(x: np.float32, y: np.float32, z: np.float32) -> tuple[np.float32, np.float32, np.float32]:
    """A vector of length 1."""
    length = np.sqrt(x * x + y * y + z * z) + np.float32(1e-6)
    return x / length, y / length, z / length


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _illuminate(
    skin: bool,
    value: Singles,
    finish: Finish,
    albedo: Singles,
    direction: Singles,
    strength: Singles,
    ambient: Singles,
    view: tuple[np.float32, np.float32, np.float32],
    colour: Singles,
) -> None:
    """Sky and lamps on one sample, into `colour` (3,)."""
    wrap, bleed = _WRAP, _BLEED
    opened = value[m.OPEN]
    vx, vy, vz = view
    nx, ny, nz = _unit(value[0] + finish.tilt_x, value[1] + finish.tilt_y, value[2])
    fresnel = (ONE - max(nx * vx + ny * vy + nz * vz, ZERO)) ** 4
    mirror = min(finish.gloss, np.float32(0.5)) * np.float32(0.25) * fresnel
    for i in range(3):
        sky = ambient[0, i] + ambient[1, i] * nx + ambient[2, i] * ny + ambient[3, i] * nz
        glow = max(sky, ZERO) * opened
        if skin:  # what is enclosed by skin is lit by skin: redder
            glow *= ONE - bleed[i] * (ONE - opened)
        colour[i] = albedo[i] * glow + mirror * glow
    for lamp in range(2):
        if strength[lamp, 1] == 0:
            continue
        lx, ly, lz = direction[lamp, 0], direction[lamp, 1], direction[lamp, 2]
        cosine = nx * lx + ny * ly + nz * lz
        hx, hy, hz = _unit(lx + vx, ly + vy, lz + vz)
        shine = max(nx * hx + ny * hy + nz * hz, ZERO)
        for _ in range(finish.sharp):
            shine *= shine
        shine *= finish.gloss * (np.float32(0.35) + np.float32(2) * fresnel)
        see = value[m.LIT] if lamp == 0 else min(ONE, np.float32(1.2) * opened)
        for i in range(3):
            soft = wrap[i] if skin else np.float32(0.05)
            diffuse = max((cosine + soft) / (ONE + soft), ZERO)
            # light that enters beside a shadow leaves inside it, red most of all
            through = see + soft * (ONE - see) * np.float32(0.5) if skin else see
            shown = shine if cosine > 0 else ZERO
            colour[i] += strength[lamp, i] * through * (albedo[i] * diffuse + shown)
