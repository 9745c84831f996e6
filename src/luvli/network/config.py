"""Everything that says which network it is; travels inside the model file. Needs no PyTorch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from luvli.image.crop import Convention
from luvli.likelihood import family
from luvli.network.pixels import STRIDE, PixelGrid

MeanEstimator = Literal["relu", "softmax", "tau-softmax", "direct", "argmax"]
Bottleneck = Literal["after", "before"]
InputSize = Annotated[int, Field(ge=64, le=2048, multiple_of=64)]

POOLINGS = 4
"""each U-net halves its input four times more"""

PUBLISHED: dict[str, Any] = {
    "bottleneck": "before",
    "mean_epsilon": 1e-5,
    "cholesky_floor": 0.0,
    "pixel_grid": "corners",
    "contrast_stretch": True,
    "crop": "published",
}
"""What `reference=True` means for a network: the published code where it differs from the paper."""

RETIRED: dict[str, Any] = {"astray": 0, "covariance_estimator": "cen"}
"""options that are gone, and the values with which files that have them can be read"""


class NetworkConfig(BaseModel):
    """A network's architecture and conventions.

    The defaults are the paper's. `reference=True` changes the defaults of the options in
    `PUBLISHED` to those of the published code; an option that is given keeps its value.

    >>> NetworkConfig(unets=4).bottleneck
    'after'
    >>> NetworkConfig(unets=4, reference=True).bottleneck
    'before'
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    trunk: str = "dunet"
    """the network from crops to heat maps and bottlenecks, by its name in
    `luvli.network.trunks.TRUNKS`"""
    trunk_options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """for trunks of your own: whatever they need besides the fields below"""
    unets: int = Field(default=8, ge=1, le=64)
    """K, the number of U-nets in a row"""
    order: int = Field(default=1, ge=0, le=64)
    """how many earlier U-nets each dense layer sees; more than K-1 is the same as K-1"""
    channels: int = Field(default=128, ge=1, le=4096)
    """C, the width of every trunk tensor"""
    bn_size: int = Field(default=4, ge=1, le=64)
    """the 1x1 convolution of a dense layer is bn_size * growth wide (DenseNet's name for it)"""
    growth: int = Field(default=32, ge=1, le=1024)
    """channels that each dense layer adds"""
    landmarks: int = Field(default=68, ge=1, le=10000)
    """number of landmarks, N_p of the paper"""
    input_size: InputSize = 256
    """side of the square crop, in crop pixels; heat maps have a quarter of it"""
    mean_estimator: MeanEstimator = "relu"
    """the function sigma of eq. 16, or "direct" regression from the bottleneck (ablation), or
    "argmax": the highest pixel, moved a quarter towards its higher neighbours, which is how a
    plain DU-Net is read; it has no gradient, so that only heat-map losses train it"""
    tau: float = Field(default=0.02, gt=0)
    """temperature of "tau-softmax\""""
    cholesky_floor: float = Field(default=0.02, ge=0)
    """smallest diagonal entry of L in heat-map pixels; bounds the likelihood from above"""
    likelihood: str = "laplace"
    """the distribution the network was, or will be, trained with"""
    markup: str = "ibug68"
    """name of the point set"""
    covariance_trained: bool = True
    """False when no likelihood was learnt (heat maps, mean squared error), so that covariances
    mean nothing"""
    visibility_trained: bool = True
    """False when no visibility labels were seen, so that `visibility` means nothing"""
    occlusion: bool = False
    """whether a third linear layer beside CEN and VEN tells what something else covers"""
    occlusion_trained: bool = True
    """False when no labels of occlusion were seen; means nothing without `occlusion`"""
    failure_head: int = Field(default=0, ge=0, le=4096)
    """hidden units of the head that estimates whether an alignment failed, from the bottlenecks of
    all U-nets; 0 for none. A stage with `loss: failure` adds and trains it"""

    reference: bool = False
    """behave like the published code where it differs from the paper"""
    bottleneck: Bottleneck = "after"
    """what CEN and VEN read: the features after the bottleneck block, or those before it"""
    mean_epsilon: float = Field(default=0.0, ge=0)
    """added to both denominators of the mean estimator; a dead heat map then gives (0, 0)"""
    pixel_grid: PixelGrid = "centres"
    """how heat-map and crop pixels correspond, see `luvli.network.pixels`"""
    contrast_stretch: bool = False
    """crops must be stretched to the full range 0..1 before they enter the network: see
    `luvli.network.pixels.contrast_stretch`"""
    crop: Convention = "pixel-centre"
    """how boxes become crops (`luvli.image.crop`). A published network also carries here which
    number its label files gave the first pixel: `published-0` for WFLW, else `published`"""

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_published_code(cls, given: Any) -> Any:
        if isinstance(given, dict):
            given = {k: v for k, v in given.items() if k not in RETIRED or v != RETIRED[k]}
        if isinstance(given, dict) and given.get("reference"):
            wflw = {"crop": "published-0"} if given.get("markup") == "wflw98" else {}
            return {**PUBLISHED, **wflw, **given}
        return given

    @field_validator("likelihood")
    @classmethod
    def _known_likelihood(cls, name: str) -> str:
        family(name)
        return name

    @property
    def heatmap_size(self) -> int:
        """Side of the heat maps."""
        return self.input_size // STRIDE

    @property
    def bottleneck_size(self) -> int:
        """Numbers in the bottleneck of one U-net: C x 4 x 4 for 256-pixel crops."""
        return int(self.channels * (self.heatmap_size // 2**POOLINGS) ** 2)
