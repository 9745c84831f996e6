"""Coverage where it matters: by landmark, part of the face, subset, occlusion and face size.

Ellipses that hold 90 % of all labels may hold 99 % of the easy ones and 60 % of the hard ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Bools
from luvli.evaluation.bootstrap import bootstrap_columns
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.metric_records import ConditionalCoverage
from luvli.evaluation.uncertainty import LikelihoodName, radii
from luvli.likelihood import family

LEVEL = 0.9
"""share of the labels that the ellipses asked about should hold"""


def conditional_coverage(
    radius: ArrayLike,
    conditions: Mapping[str, ArrayLike],
    likelihood: LikelihoodName = "laplace",
    level: float = LEVEL,
    *,
    kind: str = "condition",
    resamples: int = 1000,
    seed: int = 0,
) -> list[ConditionalCoverage]:
    """Share of the labels inside the `level` ellipse under each condition, drawn again by face.

    `radius` (n, k) are Mahalanobis distances (`uncertainty.radii`), NaN where there is none;
    `conditions` are masks (n, k), (n, 1) or (k,). Conditions without labels are left out.
    """
    distance = np.asarray(radius, dtype=np.float64)
    limit = float(family(likelihood).radius_quantile(level))
    known = ~np.isnan(distance)
    inside = known & (distance <= limit)
    names, sums, counts = [], [], []
    for name, condition in conditions.items():
        mask = np.broadcast_to(np.asarray(condition, dtype=bool), distance.shape)
        if (mask & known).any():
            names.append(name)
            sums.append((inside & mask).sum(axis=1))
            counts.append((known & mask).sum(axis=1))
    if not names:
        return []
    columns = bootstrap_columns(
        np.stack(sums, axis=1).astype(np.float64), np.stack(counts, axis=1),
        resamples=resamples, seed=seed,
    )  # fmt: skip
    return [
        ConditionalCoverage(kind=kind, name=name, landmarks=int(count.sum()), coverage=interval)
        for name, count, interval in zip(names, counts, columns, strict=True)
    ]


def face_conditions(faces: LabelledFaces) -> dict[str, dict[str, Bools]]:
    """The conditions that a set of faces knows, by kind: group, subset, occlusion, face size,
    landmark."""
    conditions: dict[str, dict[str, Bools]] = {}
    known = faces.markup
    numbers = np.arange(faces.landmarks)
    if known is not None:
        conditions["part"] = {
            name: np.isin(numbers, members) for name, members in known.groups.items()
        }
    if faces.subsets:
        conditions["subset"] = {name: mask[:, None] for name, mask in faces.subsets.items()}
    conditions["occlusion"] = {
        "unoccluded": faces.label_visibility == 1,
        "externally occluded": faces.label_visibility == 2,
    }  # fmt: skip
    conditions["face size"] = _by_size(faces)
    names = known.names if known else [str(j) for j in range(faces.landmarks)]
    conditions["landmark"] = {
        f"{j} {name}" if name != str(j) else name: numbers == j for j, name in enumerate(names)
    }
    return conditions


def _by_size(faces: LabelledFaces) -> dict[str, Bools]:
    """Thirds of the faces by the diagonal of their labels' tight box, in pixels."""
    from luvli.evaluation.accuracy import normalizers

    size = normalizers(faces.labels, "diagonal", faces.visible)
    if len(faces) < 6 or np.isnan(size).all():
        return {}
    low, high = np.nanquantile(size, (1 / 3, 2 / 3))
    return {
        f"up to {low:.0f} px": (size <= low)[:, None],
        f"{low:.0f} to {high:.0f} px": ((size > low) & (size <= high))[:, None],
        f"above {high:.0f} px": (size > high)[:, None],
    }


def all_conditions(
    faces: LabelledFaces, resamples: int = 1000, seed: int = 0, level: float = LEVEL
) -> list[ConditionalCoverage]:
    """`conditional_coverage` under every condition of `face_conditions`."""
    assert faces.covariance is not None
    radius = radii(faces.points, faces.covariance, faces.labels, faces.visible)
    kinds = face_conditions(faces)
    named = {
        f"{kind}/{name}": mask for kind, masks in kinds.items() for name, mask in masks.items()
    }
    rows = conditional_coverage(
        radius, named, faces.faces.likelihood, level, resamples=resamples, seed=seed
    )  # all at once: the faces are drawn once for all conditions
    return [
        row.model_copy(update=dict(zip(("kind", "name"), row.name.split("/", 1), strict=True)))
        for row in rows
    ]
