"""What surfaces are made of, as the shading loops read it: numbered parts, entries and columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from luvli.synthetic.arrays import Bytes, Ints, Singles


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
(GLOSS, ROUGH, FRECKLE, BUMP, PHOTO, IRIS_SIZE, PUPIL_SIZE) = range(8, 15)
NUMBERS = 15
# rows of the palette
(TONE, LIP_COLOUR, STUBBLE_COLOUR, BROW_COLOUR, SCALP_COLOUR, IRIS, SCLERA, TEETH_COLOUR) = range(8)


@dataclass(frozen=True, eq=False)
class Skin:
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
