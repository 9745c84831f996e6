"""Distributions of landmarks, and the losses made of them.

`Laplace`, `Gauss`, `Student` and `Mixed` work on numpy arrays without PyTorch, and on PyTorch
tensors with gradients. The losses need PyTorch and are looked up on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from luvli._lazy import lazy
from luvli.errors import unknown_choice
from luvli.likelihood.elliptical import Elliptical
from luvli.likelihood.gauss import Gauss
from luvli.likelihood.laplace import Laplace
from luvli.likelihood.mixed import Mixed
from luvli.likelihood.student import Student, student

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
    "Student",
    "Teacher",
    "density_name",
    "distillation_loss",
    "family",
    "heatmap_loss",
    "heatmap_targets",
    "luvli_loss",
    "occlusion_loss",
    "student",
]

_FAMILIES: dict[str, type[Elliptical]] = {"laplace": Laplace, "gauss": Gauss}
STUDENT = "student-"
"""what the name of Student's law begins with; its degrees of freedom follow"""


def family(name: str) -> type[Elliptical]:
    """The class of distributions with this name: what the covariances of a face belong to.

    Networks are trained with "laplace" or "gauss"; "student-8" is Student's law with 8 degrees of
    freedom, which a calibration may find to fit better.

    >>> family("laplace").__name__
    'Laplace'
    >>> round(float(family("student-8").radius_quantile(0.5)), 4)
    1.0655
    """
    if name in _FAMILIES:
        return _FAMILIES[name]
    freedom = name.removeprefix(STUDENT)
    if freedom != name and freedom.replace(".", "", 1).isdecimal():
        return student(float(freedom))
    raise unknown_choice("likelihood", name, [*_FAMILIES, f"{STUDENT}NU"])


def density_name(name: str) -> str:
    """The same in words.

    >>> density_name("laplace"), density_name("student-8")
    ('Laplacian', "Student's law (8)")
    """
    family(name)
    known = {"laplace": "Laplacian", "gauss": "Gaussian"}
    return known.get(name) or f"Student's law ({name.removeprefix(STUDENT)})"


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
