"""What surfaces are made of and lit by, as the shading loops read it: numbered parts."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np

from luvli.synthetic.arrays import Bytes, Doubles, Ints, Singles


class Material(IntEnum):
    """What a triangle is made of: chooses its shading."""

    SKIN = 0
    EYE = 1
    TEETH = 2
    GUMS = 3
    MOUTH = 4
    """the inside of the mouth"""
    CLOTH = 5
    PLAIN = 6
    """an object with colours of its own at the vertices"""


# columns of the vertex attributes
_NORMAL, PLACE, OPEN, LIT, COLOUR = 0, 3, 5, 6, 7
ATTRIBUTES = 10
# channels of the region maps of a head's skin
LIPS, CHEEKS, BEARD, BROWS, SOCKETS, SCALP, LIDS, SHINE = range(8)
# entries of the skin's numbers
(LIP, BLUSH, STUBBLE, BROW, SOCKET, HAIR_COVER, HAIRLINE, LINER) = range(8)
(GLOSS, ROUGH, BUMP, PHOTO, IRIS_SIZE, PUPIL_SIZE) = range(8, 14)
NUMBERS = 14
# rows of the palette
(TONE, LIP_COLOUR, STUBBLE_COLOUR, BROW_COLOUR, SCALP_COLOUR, IRIS, SCLERA, TEETH_COLOUR) = range(8)


class Skin(NamedTuple):
    """What one face is painted with."""

    numbers: Singles
    """(NUMBERS,) strengths, see the names above"""
    palette: Singles
    """(8, 3) linear RGB, see the names above"""
    shift: Ints
    """(2,) where in the noise tile this skin begins"""
    photo: Bytes
    """(HEIGHT, WIDTH, 4) square roots of colours and weight from a photograph, times 255;
    (1, 1, 4) when there is none"""


class Lights(NamedTuple):
    """Light on a scene, in camera coordinates (x right, y up, z to the camera), linear RGB."""

    direction: Singles
    """(2, 3) unit vectors to the key and the second lamp"""
    colour: Singles
    """(2, 3) their strength"""
    ambient: Singles
    """(4, 3) the sky: constant, and slopes along x, y, z (first-order spherical harmonics)"""


TILE = 256
"""side of the tile in texels"""


@cache
def noise_tile() -> Singles:
    """(TILE, TILE, 3) periodic noise of unit variance: blotches, grain, pores."""
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
    ]
    return np.stack(layers, axis=-1).astype(np.float32)
