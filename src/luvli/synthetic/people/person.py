"""Who is in the image: shape, mood, gaze, skin, eyes and hair, drawn from a random stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from luvli.files import packaged_toml
from luvli.synthetic.arrays import Doubles, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.raster import materials as m
from luvli.synthetic.raster.materials import TILE

CLOSED_EYES = 0.07
"""share of people who shut their eyes"""

_FACTS = packaged_toml(__package__, "people.toml")
_TONES, _IRISES = np.array(_FACTS["tones"]), np.array(_FACTS["irises"])


@dataclass(frozen=True, eq=False)
class Style:
    """How one person's hair is cut and combed. Lengths in centimetres."""

    colour: Singles
    """(3,) linear RGB"""
    length: float
    """0: bald"""
    lift: float
    """how far the hair stands off the skull"""
    comb: Singles
    """(3,) the direction in which the top is combed, head coordinates"""
    parting: float
    """x of the parting, centimetres"""
    gravity: float
    curl: float
    sides: float
    """z of the way down that the hair beside the face takes: > 0 over the cheeks, < 0 behind"""
    fringe: float
    """length of hair that falls over the forehead; 0: none"""
    hairline: float
    """centimetres by which the hairline has receded (negative: it comes forward)"""
    tied: bool
    """drawn to the back of the head"""
    beard: float
    """length of the beard; 0: shaved"""
    moustache_only: bool


@dataclass(frozen=True, eq=False)
class Person:
    """One face before any camera."""

    identity: Singles
    expression: Singles
    gaze: tuple[float, float]
    """degrees to the image's right and up, relative to the head"""
    skin: m.Skin
    style: Style


def random_person(head: Head, rng: np.random.Generator, closed_eyes: float = CLOSED_EYES) -> Person:
    """A person of random shape, mood and looks; a share of them has shut eyes."""
    identity = np.clip(rng.normal(0, 1.0, len(head.identity)), -2.5, 2.5).astype(np.float32)
    gaze = (float(np.clip(rng.normal(0, 8), -20, 20)), float(np.clip(rng.normal(-1, 5), -14, 12)))
    expression = _mood(head, gaze[1], closed_eyes, rng)
    style = _random_style(rng)
    made_up = style.length > 14 and rng.random() < 0.6
    return Person(
        identity=identity,
        expression=expression,
        gaze=gaze,
        skin=_skin(style, made_up, rng),
        style=style,
    )


def _mood(head: Head, gaze_up: float, closed_eyes: float, rng: np.random.Generator) -> Singles:
    moods = _FACTS["moods"]
    share = np.array([mood["share"] for mood in moods])
    mood = moods[rng.choice(len(moods), p=share / share.sum())]
    weights = head.weights(**mood["weights"]) * rng.uniform(0.4, 1.15)
    weights *= np.exp(rng.normal(0, 0.15, len(weights)))  # no face is quite symmetric
    wide = tuple(_FACTS["wide"])
    calm = np.array([not name.startswith(wide) for name in head.expression_names], np.float32)
    count = len(weights)
    weights += rng.gamma(0.25, 0.12, count) * (rng.random(count) < 0.35) * calm
    if rng.random() < closed_eyes:
        weights += head.weights(eyeBlink=rng.uniform(0.7, 1.1))
    else:
        weights += head.weights(eyeBlink=np.clip(rng.normal(0.06, 0.08), 0, 0.4))
    weights += head.weights(eyeLookDown=max(-gaze_up, 0) / 30, eyeLookUp=max(gaze_up, 0) / 30)
    return np.asarray(np.clip(weights, 0, 1.1), np.float32)


def _random_style(rng: np.random.Generator) -> Style:
    kinds, cuts = list(_FACTS["hair"].values()), _FACTS["cuts"]
    choice = rng.choice(len(kinds), p=[kind["share"] for kind in kinds])
    colour = np.array(kinds[choice]["colour"])
    colour = colour * np.exp(rng.normal(0, 0.22)) * np.exp(rng.normal(0, 0.03, 3))
    kind = str(rng.choice(list(cuts), p=[cut["share"] for cut in cuts.values()]))
    side = rng.choice([-1, 1])
    combs = {"swept": (0.5 * side, 0.2, -1.0), "tied": (0.0, 0.1, -1.0)}
    comb = combs.get(kind, (rng.normal(0.6 * side, 0.4), 0.0, rng.normal(0.3, 0.7)))
    # every length is drawn, so that a cut changes nothing else of a person
    lengths = {name: rng.uniform(*cut["length"]) for name, cut in cuts.items() if name != "bald"}
    wants_fringe = kind in ("medium", "long", "short", "tied") and rng.random() < 0.5
    bearded = kind not in ("long", "tied") and rng.random() < 0.30
    lift = rng.uniform(0.15, 0.5) + (kind in ("medium", "long")) * rng.uniform(0.2, 1.0)
    parting = np.clip(rng.normal(0, 1.8), -4, 4)
    light = {"buzz": 0.0, "short": 0.12, "swept": 0.08, "curly": 0.03, "tied": 0.0}
    gravity = light.get(kind, rng.uniform(0.45, 0.8))
    curl = rng.uniform(0.9, 1.5) if kind == "curly" else rng.gamma(1.2, 0.12)
    sides = rng.uniform(-0.3, 0.45)
    fringe = rng.uniform(4.0, 9.0) if wants_fringe else 0.0
    hairline = np.clip(rng.normal(0, 0.5), -0.8, 1.2)
    if kind in ("bald", "buzz", "short") and rng.random() < 0.2:
        hairline += rng.uniform(1.0, 4.0)
    return Style(
        colour=colour.astype(np.float32),
        length=float(lengths.get(kind, 0.0)),
        lift=float(lift),
        comb=np.array(comb, np.float32),
        parting=float(parting),
        gravity=float(gravity),
        curl=float(curl),
        sides=float(sides),
        fringe=float(fringe),
        hairline=float(hairline),
        tied=kind == "tied",
        beard=float(rng.gamma(1.3, 0.7)) if bearded else 0.0,
        moustache_only=bool(rng.random() < 0.15),
    )


def linear(srgb: ArrayLike) -> Doubles:
    """sRGB values in 0..1 as linear light."""
    return np.asarray(srgb, np.float64) ** 2.2


def _skin(style: Style, made_up: bool, rng: np.random.Generator) -> m.Skin:
    dark = float(np.clip(rng.beta(1.1, 1.5) * 5, 0, 5))
    if style.colour.max() > 0.1 and style.colour.max() / style.colour.min() > 1.5:
        dark = min(dark, rng.uniform(0, 1.6))  # fair and red hair goes with fair skin
    tone = np.array([np.interp(dark, np.arange(6), _TONES[:, k]) for k in range(3)])
    tone = linear(np.clip(tone + rng.normal(0, 0.02) + rng.normal(0, 0.012, 3), 0.08, 0.97))
    if made_up:
        lips = linear([rng.uniform(0.45, 0.8), rng.uniform(0.1, 0.4), rng.uniform(0.15, 0.4)])
    else:
        lips = tone * np.array([0.82, 0.50, 0.52]) * np.exp(rng.normal(0, 0.1, 3))
    iris = _IRISES[rng.choice(2 if dark > 2.5 else len(_IRISES))] * np.exp(rng.normal(0, 0.2))
    brow = np.minimum(style.colour * rng.uniform(0.6, 1.2), 0.12) + rng.uniform(0.0, 0.12) * tone
    palette = np.zeros((8, 3))
    palette[m.TONE], palette[m.LIP_COLOUR], palette[m.IRIS] = tone, lips, iris
    palette[m.STUBBLE_COLOUR] = 0.35 * tone + 0.4 * np.minimum(style.colour, 0.1)
    palette[m.BROW_COLOUR], palette[m.SCALP_COLOUR] = brow, 0.8 * style.colour
    palette[m.SCLERA] = np.array([0.58, 0.54, 0.51]) * rng.uniform(0.7, 1.05)
    palette[m.TEETH_COLOUR] = np.array([0.80, 0.75, 0.65]) * rng.uniform(0.7, 1.15)
    numbers = np.zeros(m.NUMBERS)
    numbers[m.LIP] = rng.uniform(0.5, 0.95) if made_up else rng.uniform(0.35, 0.8)
    numbers[m.BLUSH] = rng.uniform(0.3, 1.5)
    if style.beard > 0:
        numbers[m.STUBBLE] = min(1.0, 0.4 + 0.4 * style.beard)
    elif style.length < 14:
        numbers[m.STUBBLE] = rng.beta(1.2, 3.0) * 0.6
    numbers[m.BROW] = rng.uniform(0.25, 0.75)
    numbers[m.SOCKET] = rng.uniform(0.05, 0.38)
    numbers[m.HAIR_COVER] = 0.0 if style.length <= 0 else min(1.0, 0.65 + 0.2 * style.length)
    numbers[m.HAIRLINE] = style.hairline
    numbers[m.LINER] = rng.uniform(0.8, 1.3) if made_up else rng.uniform(0.5, 1.1)
    numbers[m.GLOSS] = rng.gamma(2.0, 0.06)
    numbers[m.ROUGH] = rng.uniform(0.5, 1.6)
    numbers[m.BUMP] = rng.uniform(0.01, 0.045)
    numbers[m.IRIS_SIZE] = rng.uniform(0.40, 0.47)
    numbers[m.PUPIL_SIZE] = rng.uniform(0.28, 0.55)
    shift = rng.integers(0, TILE, 2).astype(np.int32)
    photo = np.zeros((1, 1, 4), np.uint8)
    return m.Skin(numbers.astype(np.float32), palette.astype(np.float32), shift, photo)
