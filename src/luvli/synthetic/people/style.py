"""How a person's hair is cut, combed and coloured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from luvli.synthetic.arrays import Singles

_ALBEDO = {  # linear RGB of hair
    "black": (0.014, 0.011, 0.010),
    "dark brown": (0.034, 0.020, 0.012),
    "brown": (0.085, 0.048, 0.026),
    "fair": (0.21, 0.135, 0.065),
    "blond": (0.42, 0.30, 0.16),
    "red": (0.18, 0.058, 0.022),
    "grey": (0.22, 0.21, 0.20),
    "white": (0.55, 0.53, 0.50),
    "dyed": (0.15, 0.03, 0.10),
}


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


def random_style(rng: np.random.Generator) -> Style:
    """A haircut; long and short ones about as often as in photographs of the press."""
    names = list(_ALBEDO)
    chance = np.array([0.26, 0.24, 0.17, 0.10, 0.09, 0.04, 0.06, 0.03, 0.01])
    colour = np.array(_ALBEDO[names[rng.choice(len(names), p=chance)]])
    colour = colour * np.exp(rng.normal(0, 0.22)) * np.exp(rng.normal(0, 0.03, 3))
    kind = rng.choice(
        ["bald", "buzz", "short", "swept", "medium", "long", "tied", "curly"],
        p=[0.04, 0.07, 0.17, 0.12, 0.20, 0.26, 0.07, 0.07],
    )
    side = rng.choice([-1, 1])
    comb = {"swept": (0.5 * side, 0.2, -1.0), "tied": (0.0, 0.1, -1.0)}.get(
        str(kind), (rng.normal(0.6 * side, 0.4), 0.0, rng.normal(0.3, 0.7))
    )
    length = {
        "bald": 0.0,
        "buzz": rng.uniform(0.3, 1.0),
        "short": rng.uniform(1.5, 5.0),
        "swept": rng.uniform(4.0, 9.0),
        "medium": rng.uniform(10.0, 20.0),
        "long": rng.uniform(22.0, 42.0),
        "tied": rng.uniform(12.0, 18.0),
        "curly": rng.uniform(3.0, 11.0),
    }[str(kind)]
    wants_fringe = kind in ("medium", "long", "short", "tied") and rng.random() < 0.5
    bearded = kind not in ("long", "tied") and rng.random() < 0.30
    return Style(
        colour=colour.astype(np.float32),
        length=float(length),
        lift=float(rng.uniform(0.15, 0.5) + (kind in ("medium", "long")) * rng.uniform(0.2, 1.0)),
        comb=np.array(comb, np.float32),
        parting=float(np.clip(rng.normal(0, 1.8), -4, 4)),
        gravity=float(
            {"buzz": 0.0, "short": 0.12, "swept": 0.08, "curly": 0.03, "tied": 0.0}.get(
                str(kind), rng.uniform(0.45, 0.8)
            )
        ),
        curl=float(rng.uniform(0.9, 1.5) if kind == "curly" else rng.gamma(1.2, 0.12)),
        sides=float(rng.uniform(-0.3, 0.45)),
        fringe=float(rng.uniform(4.0, 9.0)) if wants_fringe else 0.0,
        hairline=float(np.clip(rng.normal(0, 0.5), -0.8, 1.2))
        + (
            rng.uniform(1.0, 4.0) if kind in ("bald", "buzz", "short") and rng.random() < 0.2 else 0
        ),
        tied=kind == "tied",
        beard=float(rng.gamma(1.3, 0.7)) if bearded else 0.0,
        moustache_only=bool(rng.random() < 0.15),
    )
