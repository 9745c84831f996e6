"""What is done to training faces: a typed configuration, and the paper's two recipes."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from luvli.errors import check_choice


def _ordered(values: tuple[float, float]) -> tuple[float, float]:
    if values[0] > values[1]:
        raise ValueError(f"must be a range (low, high), got {values}")
    return values


Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Spread = Annotated[float, Field(ge=0.0)]
Factor = Annotated[float, Field(gt=0.0)]
Range = Annotated[tuple[float, float], AfterValidator(_ordered)]
Factors = Annotated[tuple[Factor, Factor], AfterValidator(_ordered)]


class _Settings(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class Rectangle(_Settings):
    """A filled rectangle over part of the image: the paper's "random occlusion"."""

    probability: Probability = 0.5
    side: Factors = (0.1, 0.5)
    """width and height, drawn apart, as fractions of the crop's side"""
    where: Literal["crop", "image"] = "crop"
    """`image` is the published code's: black, always there, anywhere on the whole image,
    with half-sides of up to half the image"""


class BoxJitter(_Settings):
    """Errors of a face detector, as fractions of the box's longer side."""

    centre: Spread = 0.0
    """standard deviation of the centre, in x and in y"""
    size: Spread = 0.0
    """standard deviation of the logarithm of the side"""
    limit: Spread = 3.0
    """draws beyond this many standard deviations are cut to it"""


class Turned(_Settings):
    """A share of the faces that is turned farther in the plane, as of people who lie."""

    probability: Probability = 0.0
    rotation: Range = (-150.0, 150.0)
    """degrees, drawn as `Augmentation.rotation` is, in its place"""


_RECIPES: dict[str, dict[str, object]] = {
    "A": {"scale": (0.75, 1.25), "rotation": (-30, 30), "rectangle": None},
    "B": {},
    "none": {"scale": (1, 1), "rotation": (0, 0), "colour": (1, 1), "rectangle": None},
}
"""what each changes of the defaults"""


class Augmentation(_Settings):
    """Ranges for the random changes of a training face; the defaults are recipe B.

    Supplement A2 of the paper: recipe A (300-W split 1) scales by 0.75 to 1.25 and turns by
    up to 30 degrees, recipe B (everything else) by 0.8 to 1.2 and 50 degrees and also
    occludes; both multiply each colour channel by 0.6 to 1.4. Everything below `rectangle`
    is not in the paper and off unless asked for.

    >>> Augmentation.recipe("A").rotation
    (-30.0, 30.0)
    """

    scale: Factors = (0.8, 1.2)
    """factor of the crop's side: above 1 the face becomes smaller"""
    rotation: Range = (-50.0, 50.0)
    """degrees, counter-clockwise as seen"""
    distribution: Literal["uniform", "clipped_normal"] = "uniform"
    """how scale and rotation are drawn. `clipped_normal` (the published code): a Gaussian
    whose standard deviation is half of the range's half-width, cut at the range"""
    colour: Factors = (0.6, 1.4)
    """factor of each of red, green and blue, drawn apart"""
    rectangle: Rectangle | None = Rectangle()

    flip: Probability = 0.0
    """mirror image, with landmarks and visibility renamed by the markup's pairs"""
    turned: Turned = Turned()
    box_jitter: BoxJitter = BoxJitter()
    turned_boxes: bool = False
    """move the boxes of turned faces as our detector does: its map from heads to boxes is for
    upright faces (`luvli.data.augment.geometry.turned_box_error`)"""
    blur: Probability = 0.0
    """out of focus or moved"""
    jpeg: Probability = 0.0
    """compression of quality 15 to 70"""
    low_resolution: Probability = 0.0
    """shrunk 1.5 to 5 times and enlarged again"""
    grey: Probability = 0.0
    """without colour"""
    occluder: Probability = 0.0
    """a hand, hair or a thing drawn over the face"""
    mask: Probability = 0.0
    """a mask of cloth drawn over nose, mouth and chin; for the 68 points"""

    label_noise: dict[str, Spread] = {}
    """group of the markup -> standard deviation, along each axis and in sides of the face box, by
    which its labels are moved at random. The covariances of a network that
    learns from such labels include the uncertainty of the label convention"""

    keep_inside: bool = False
    """published code: enlarge the crop until every visible landmark is inside"""
    stretch: bool = False
    """published code: stretch the contrast of the finished crop to 0..255"""

    @classmethod
    def recipe(cls, name: str, reference: bool = False) -> Augmentation:
        """Recipe `A`, `B` or `none`; with `reference`, as the published code does it."""
        changes = dict(_RECIPES[check_choice("augmentation recipe", name, _RECIPES)])
        if reference:
            changes["stretch"] = True
        if reference and name != "none":
            changes |= {"keep_inside": True, "distribution": "clipped_normal"}
        if reference and name == "B":
            changes["rectangle"] = Rectangle(probability=1.0, where="image")
        return cls.model_validate(changes)

    def reach(self, enlarge: float) -> float:
        """Side, in box sides, of the square that no drawn crop leaves (but for `keep_inside`).

        A crop turned by t needs |cos t| + |sin t| of its side; a cache of this size loses
        nothing that the images hold. Corners of faces that are `turned` farther may be black.
        """
        low, high = (math.radians(angle) for angle in self.rotation)
        quarter = math.pi / 2
        corner = max(abs(math.cos(t)) + abs(math.sin(t)) for t in (low, high))
        if math.floor(high / quarter - 0.5) >= math.ceil(low / quarter - 0.5):
            corner = math.sqrt(2)  # an odd multiple of 45 degrees lies between
        jitter = self.box_jitter
        grown = math.exp(jitter.limit * jitter.size)
        moved = 2 * jitter.limit * jitter.centre
        margin = 1.15 if self.keep_inside else 1.0
        return margin * (enlarge * self.scale[1] * grown * corner + moved)
