"""In which order faces are best left out: by confidence, or by something simpler?

Each order is worth its share of the possible gain in risk-coverage (`gain_share`). All faces of
one table are judged by one fit of the confidence, as they are in use: several fits differ a little
in scale, which disturbs an order of all their faces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.cli.tables import print_table
from luvli.evaluation.confidence import gain_share
from luvli.network.face_features import feature_table
from luvli.trust.confidence import fit_confidence
from luvli.trust.measure import Measured

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Columns = Mapping[str, NDArray[Any]]

SPLITS = 50
DRAWS = 400
SUCCESS = 5.0
MERL = "merl"
"""the source in the columns that is not of 300-W"""


def simple_orders(measured: Measured, columns: Columns) -> dict[str, Floats]:
    """Orders that need no fit, each (n,), the worst face highest."""
    visible = np.stack([face.visibility for face in measured.faces]) + 1e-3
    weight = visible / visible.sum(axis=1, keepdims=True)
    sides = np.stack([face.box[2:] - face.box[:2] for face in measured.faces])
    size = np.sqrt(sides.prod(axis=1))
    spread = np.stack([face.uncertainty for face in measured.faces])
    points = np.stack([face.points for face in measured.faces])
    away = np.linalg.norm(points - columns["mirror"], axis=2)
    return {
        "sigma": (spread * weight).sum(axis=1) / size,
        "detector's score": -np.array([face.score for face in measured.faces]),
        "mirror disagreement": (away * weight).sum(axis=1) / size,
    }


def judged_by(learn: Measured, others: Measured) -> Floats:
    """(n,) the doubt in `others` (1 - confidence) by one fit on `learn`."""
    table = fit_confidence(learn.faces, learn.error, ~learn.plain, SUCCESS)
    sure, _ = table.judge_features(feature_table(others.faces, table.shape))
    return 1 - sure


def halves(measured: Measured, rng: np.random.Generator) -> Bools:
    """(n,) faces of a random half of the photographs."""
    names, place = np.unique(measured.photograph, return_inverse=True)
    return np.asarray(rng.permutation(len(names))[place] < len(names) // 2)


def halves_table(measured: Measured, columns: Columns) -> None:
    """Fitted on a random half of the photographs, as a released model is; the plain faces of the
    other half, drawn with replacement for the intervals."""
    simple = simple_orders(measured, columns)

    def trials() -> Iterator[tuple[dict[str, Floats], NDArray[np.intp]]]:
        rng = np.random.default_rng(2)
        for _ in range(SPLITS):
            fit = halves(measured, rng)
            doubt = np.full(len(measured), np.nan)
            doubt[~fit] = judged_by(measured.take(fit), measured.take(~fit))
            yield {"confidence": doubt, **simple}, np.flatnonzero(~fit & measured.plain)

    title = f"gain in risk-coverage, {SPLITS} random halves"
    _order_table(title, measured.error, columns, trials(), DRAWS // SPLITS)


def trained_table(measured: Measured, many: Measured, columns: Columns) -> None:
    """Fitted on all held-out faces, judged are the faces that the network was trained on."""
    doubt = judged_by(measured, many)
    held = np.isin(many.photograph, measured.photograph)
    one = {"confidence": doubt, **simple_orders(many, columns)}, np.flatnonzero(~held & many.plain)
    title = "gain in risk-coverage, faces that trained the network but not the confidence"
    _order_table(title, many.error, columns, iter([one]), DRAWS)


def _order_table(
    title: str,
    error: Floats,
    columns: Columns,
    trials: Iterator[tuple[dict[str, Floats], NDArray[np.intp]]],
    draws: int,
) -> None:
    """Mean gain of each order by set, and what the confidence gains over it with 95 %."""
    rng = np.random.default_rng(3)
    found: dict[tuple[str, str], list[float]] = {}
    ahead: dict[tuple[str, str], list[float]] = {}
    counts: dict[str, list[int]] = {}
    for orders, index in trials:
        part = columns["part"][index]
        sets = {name: index[part == name] for name in np.unique(part).tolist()}
        sets |= {"300-W": index[part != MERL], "all": index}
        for name, chosen in sets.items():
            counts.setdefault(name, []).append(len(chosen))
            for way, order in orders.items():
                found.setdefault((way, name), []).append(gain_share(error[chosen], order[chosen]))
            for _ in range(draws):
                drawn = rng.choice(chosen, len(chosen))
                gains = {
                    way: gain_share(error[drawn], order[drawn]) for way, order in orders.items()
                }
                for way, gain in gains.items():
                    ahead.setdefault((way, name), []).append(gains["confidence"] - gain)
    rows = []
    for way in dict.fromkeys(way for way, _ in found):
        cells = []
        for name in counts:
            low, high = 100 * np.quantile(ahead[way, name], (0.025, 0.975))
            beside = "" if way == "confidence" else f" ({low:+.0f} to {high:+.0f})"
            cells.append(f"{100 * np.mean(found[way, name]):.0f}{beside}")
        rows.append([way, *cells])
    heads = [f"{name} ({np.mean(n):.0f})" for name, n in counts.items()]
    print_table(["order (confidence ahead by)", *heads], rows, title=title)
