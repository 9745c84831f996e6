"""Distributions of landmarks, and the losses made of them.

`Laplace`, `Gauss` and `Mixed` work on numpy arrays without PyTorch, and on PyTorch tensors
with gradients. The losses need PyTorch and are looked up on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from luvli._lazy import lazy
from luvli.errors import unknown_choice
from luvli.likelihood.elliptical import Elliptical
from luvli.likelihood.gauss import Gauss
from luvli.likelihood.laplace import Laplace
from luvli.likelihood.mixed import Mixed

if TYPE_CHECKING:
    from luvli.likelihood.distillation import Teacher, distillation_loss
    from luvli.likelihood.heatmap import heatmap_loss, heatmap_targets
    from luvli.likelihood.loss import LossDifferences, LuvliLoss, luvli_loss, occlusion_loss

__all__ = [
    "Elliptical",
    "Gauss",
    "Laplace",
    "LossDifferences",
    "LuvliLoss",
    "Mixed",
    "Teacher",
    "distillation_loss",
    "family",
    "heatmap_loss",
    "heatmap_targets",
    "luvli_loss",
    "occlusion_loss",
]

_FAMILIES: dict[str, type[Elliptical]] = {"laplace": Laplace, "gauss": Gauss}


def family(name: Literal["laplace", "gauss"]) -> type[Elliptical]:
    """The class of distributions with this name.

    >>> family("laplace").__name__
    'Laplace'
    """
    if name not in _FAMILIES:
        raise unknown_choice("likelihood", name, _FAMILIES)
    return _FAMILIES[name]


__getattr__ = lazy(
    __name__,
    {
        "Teacher": "distillation",
        "distillation_loss": "distillation",
        "LossDifferences": "loss",
        "LuvliLoss": "loss",
        "luvli_loss": "loss",
        "occlusion_loss": "loss",
        "heatmap_loss": "heatmap",
        "heatmap_targets": "heatmap",
    },
    needs={"torch": "train"},
)
