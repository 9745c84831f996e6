"""Random light: a sky and two lamps."""

from __future__ import annotations

import numpy as np

from luvli.synthetic.arrays import Doubles
from luvli.synthetic.raster.lights import Lights


def random_lights(rng: np.random.Generator) -> Lights:
    """A sky with a slope, a key lamp above the horizon, a weaker second lamp."""

    def warm(kelvin_like: float) -> Doubles:
        tint = np.array([1 + 0.11 * kelvin_like, 1.0, 1 - 0.14 * kelvin_like])
        return np.asarray(tint / tint.mean(), np.float64)

    ambient_level = rng.uniform(0.15, 0.65)
    hue = rng.normal(0, 0.5)
    ambient = np.zeros((4, 3))
    ambient[0] = ambient_level * warm(hue)
    ambient[1] = ambient_level * rng.normal(0, 0.18) * warm(rng.normal(0, 0.6))
    ambient[2] = ambient_level * rng.normal(0.18, 0.15) * warm(rng.normal(0, 0.6))
    ambient[3] = ambient_level * rng.normal(0.10, 0.15) * warm(rng.normal(0, 0.6))
    around = np.radians(np.clip(rng.normal(0, 42), -110, 110))
    above = np.radians(np.clip(rng.normal(30, 18), -25, 80))
    side = np.radians(rng.uniform(70, 150) * rng.choice([-1, 1]))
    lift = np.radians(rng.uniform(-10, 50))
    direction = np.array(
        [
            [np.sin(around) * np.cos(above), np.sin(above), np.cos(around) * np.cos(above)],
            [np.sin(side) * np.cos(lift), np.sin(lift), np.cos(side) * np.cos(lift)],
        ]
    )
    key = rng.uniform(0.3, 1.5) * (1.1 - 0.7 * ambient_level)
    fill = rng.uniform(0, 0.5) * (rng.random() < 0.6)
    colour = np.array([key * warm(rng.normal(0.1, 0.5)), fill * warm(rng.normal(0, 0.8))])
    return Lights(
        direction.astype(np.float32), colour.astype(np.float32), ambient.astype(np.float32)
    )
