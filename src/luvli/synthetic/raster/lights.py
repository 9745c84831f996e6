"""Light as the shading loops take it, and hair under that light."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from luvli.synthetic.arrays import Real, Singles


class Lights(NamedTuple):
    """Light on a scene, in camera coordinates (x right, y up, z to the camera), linear RGB."""

    direction: Singles
    """(2, 3) unit vectors to the key and the second lamp"""
    colour: Singles
    """(2, 3) their strength"""
    ambient: Singles
    """(4, 3) the sky: constant, and slopes along x, y, z (first-order spherical harmonics)"""


def light_strands(points: Singles, centre: Real, albedo: Real, lights: Lights) -> Singles:
    """(s, p, 3) colours of strands: diffuse and two highlights that run along the hair.

    The hair of a head is lit as a volume: what faces away from a lamp (seen from `centre`)
    lies in the shadow of the rest, and roots lie deeper than tips.
    """
    colour: Singles = np.empty(points.shape, np.float32)
    middle, hue = np.asarray(centre, np.float32), np.asarray(albedo, np.float32)
    _light_strands(points, middle, hue, lights, colour)
    return colour


@njit(cache=True, nogil=True, fastmath=True)
def _light_strands(
    points: Singles, centre: Singles, albedo: Singles, lights: Lights, colour: Singles
) -> None:
    """Light of strands (s, p, 3) into `colour`."""
    one, zero = np.float32(1), np.float32(0)
    lamp, lamp_colour, ambient = lights.direction, lights.colour, lights.ambient
    count = points.shape[1]
    half = np.zeros((2, 3), np.float32)
    for k in range(2):
        length = np.sqrt(lamp[k, 0] ** 2 + lamp[k, 1] ** 2 + (lamp[k, 2] + one) ** 2)
        length += np.float32(1e-6)
        half[k, 0], half[k, 1] = lamp[k, 0] / length, lamp[k, 1] / length
        half[k, 2] = (lamp[k, 2] + one) / length
    for s in range(points.shape[0]):
        for p in range(count):
            q = min(p, count - 2)
            tx = points[s, q + 1, 0] - points[s, q, 0]
            ty = points[s, q + 1, 1] - points[s, q, 1]
            tz = points[s, q + 1, 2] - points[s, q, 2]
            length = np.sqrt(tx * tx + ty * ty + tz * tz) + np.float32(1e-6)
            tx, ty, tz = tx / length, ty / length, tz / length
            ox = points[s, p, 0] - centre[0]
            oy = points[s, p, 1] - centre[1]
            oz = points[s, p, 2] - centre[2]
            length = np.sqrt(ox * ox + oy * oy + oz * oz) + np.float32(1e-6)
            ox, oy, oz = ox / length, oy / length, oz / length
            deep = np.float32(0.35) + np.float32(0.65) * np.float32(p) / np.float32(count - 1)
            for i in range(3):
                sky = ambient[0, i] + ambient[1, i] * ox + ambient[2, i] * oy + ambient[3, i] * oz
                colour[s, p, i] = albedo[i] * max(sky, zero) * deep
            for k in range(2):
                if lamp_colour[k, 1] == 0:
                    continue
                facing = ox * lamp[k, 0] + oy * lamp[k, 1] + oz * lamp[k, 2]
                facing = min(max(np.float32(0.8) * facing + np.float32(0.35), zero), one) * deep
                along = tx * lamp[k, 0] + ty * lamp[k, 1] + tz * lamp[k, 2]
                across = np.sqrt(max(one - along * along, zero))
                shine = tx * half[k, 0] + ty * half[k, 1] + tz * half[k, 2]
                shine = max(one - shine * shine, zero)
                broad = shine**12
                narrow = np.float32(0.05) * broad * broad * broad
                for i in range(3):
                    hair = albedo[i] * (np.float32(0.8) * across + np.float32(0.9) * broad)
                    colour[s, p, i] += lamp_colour[k, i] * facing * (hair + narrow)
