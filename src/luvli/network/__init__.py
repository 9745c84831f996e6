"""The network: DU-Net, mean estimator, CEN and VEN; model files; the published checkpoints.

Names are looked up on first use, so that `luvli.network.config` and `luvli.network.pixels`
can be used where PyTorch is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from luvli._lazy import lazy

if TYPE_CHECKING:
    from luvli.network.config import NetworkConfig
    from luvli.network.dunet import DUNet, UNetFeatures
    from luvli.network.heads import spatial_mean
    from luvli.network.model import LUVLi, UNetOutput, build
    from luvli.network.official import load_official, to_official
    from luvli.network.weights import load_model, load_weights_into, save_model

__all__ = [
    "LUVLi",
    "UNetOutput",
    "build",
    "NetworkConfig",
    "DUNet",
    "UNetFeatures",
    "spatial_mean",
    "load_official",
    "to_official",
    "load_model",
    "load_weights_into",
    "save_model",
]

__getattr__ = lazy(
    __name__,
    {
        "LUVLi": "model",
        "UNetOutput": "model",
        "build": "model",
        "NetworkConfig": "config",
        "DUNet": "dunet",
        "UNetFeatures": "dunet",
        "spatial_mean": "heads",
        "load_official": "official",
        "to_official": "official",
        "load_model": "weights",
        "load_weights_into": "weights",
        "save_model": "weights",
    },
    needs={"torch": "train"},
    without={"NetworkConfig"},
)
