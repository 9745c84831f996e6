"""Distributions of landmarks, and the losses made of them.

`Laplace`, `Gauss`, `Student` and `Mixed` work on numpy arrays without PyTorch, and on PyTorch
tensors with gradients. The losses need PyTorch and are looked up on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from luvli._lazy import lazy
from luvli.errors import unknown_choice
from luvli.likelihood.elliptical import Elliptical, MissingMethod
from luvli.likelihood.gauss import Gauss
from luvli.likelihood.laplace import Laplace
from luvli.likelihood.mixed import Mixed
from luvli.likelihood.student import Student, student

if TYPE_CHECKING:
    from luvli.likelihood.distillation import Teacher, distillation_loss
    from luvli.likelihood.heatmap import heatmap_loss, heatmap_targets
    from luvli.likelihood.loss import LossDifferences, LuvliLoss, luvli_loss, occlusion_loss

__all__ = [
    "LIKELIHOODS",
    "Elliptical",
    "Gauss",
    "Laplace",
    "LossDifferences",
    "LuvliLoss",
    "MissingMethod",
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
    "register_likelihood",
    "student",
]

LIKELIHOODS: dict[str, type[Elliptical]] = {"laplace": Laplace, "gauss": Gauss}
"""by the names that recipes, model files and results use"""
STUDENT = "student-"
"""what the name of Student's t begins with; its degrees of freedom follow"""


def register_likelihood(name: str, kind: type[Elliptical]) -> None:
    """Make a likelihood available to recipes, model files and evaluation under this name."""
    LIKELIHOODS[name] = kind


def family(name: str) -> type[Elliptical]:
    """The class of distributions with this name: what the covariances of a face belong to.

    Networks are trained with "laplace" or "gauss"; "student-8" is Student's t with 8 degrees of
    freedom, which a calibration may find to fit better.

    >>> family("laplace").__name__
    'Laplace'
    >>> round(float(family("student-8").radius_quantile(0.5)), 4)
    1.0655
    """
    if name in LIKELIHOODS:
        return LIKELIHOODS[name]
    freedom = name.removeprefix(STUDENT)
    if freedom != name and freedom.replace(".", "", 1).isdecimal():
        return student(float(freedom))
    raise unknown_choice("likelihood", name, [*LIKELIHOODS, f"{STUDENT}NU"])


def density_name(name: str) -> str:
    """The same in words.

    >>> density_name("laplace"), density_name("student-8")
    ('Laplacian', "Student's t (8)")
    """
    family(name)
    known = {"laplace": "Laplacian", "gauss": "Gaussian"}
    if name.startswith(STUDENT):
        return f"Student's t ({name.removeprefix(STUDENT)})"
    return known.get(name, name)


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
