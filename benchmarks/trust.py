"""How far a model's confidence, regions, triage and label audit can be trusted: docs/trust.md.

    python benchmarks/trust.py luvli-68              what the model file itself knows
    python benchmarks/trust_faces.py luvli-68 --data DATA --out held.npz     once: predictions
    python benchmarks/trust.py luvli-68 held.npz                             all tables
    python benchmarks/trust.py luvli-68 held.npz --only audit --sheets FOLDER
    python benchmarks/trust_faces.py luvli-68 --data DATA --all 4000 --out many.npz
    python benchmarks/trust.py luvli-68 held.npz --only order --many many.npz

Faces are judged by what was fitted on others: the confidence by fits on four fifths of the
photographs, its order, regions and triage by fits on random halves. The audit looks at faces that
the model was not trained on. `--sheets` draws the fifty most suspicious labels of each set;
`--without` leaves labels out that were looked at and found wrong. `--many` are faces that the
network was trained on, which only its order is measured on: they are many.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trust_audit import audit_tables
from trust_faces import read_faces
from trust_order import halves, halves_table, simple_orders, trained_table
from trust_uses import crop_table, pose_tables

from luvli import load
from luvli.cli.tables import print_table
from luvli.evaluation.confidence import confidence_metrics
from luvli.evaluation.visibility import auroc
from luvli.markup import get_markup
from luvli.network.face_features import feature_table, pose_kind
from luvli.network.model_info import ModelInfo
from luvli.trust.confidence import fit_confidence
from luvli.trust.conformal import coverage_by, fit_regions, largest_radius
from luvli.trust.fit_tables import in_use, kinds_table
from luvli.trust.measure import Measured
from luvli.trust.triage import choose_threshold, fit_triage

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
FOLDS = 5
SUCCESS = 5.0
COVERAGE = 0.9
GROUPS = {name: list(group) for name, group in get_markup("ibug68").groups.items()}
PARTS = ("confidence", "order", "regions", "triage", "audit", "pose", "crops")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", help="the model that made the predictions")
    parser.add_argument("faces", nargs="?", type=Path, help="what trust_faces.py wrote")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--sheets", type=Path, help="folder for pictures of suspicious labels")
    parser.add_argument("--without", type=Path, help="text file: names of faces to leave out")
    parser.add_argument("--many", type=Path, help="what trust_faces.py --all wrote")
    options = parser.parse_args()
    if options.model is None:
        print("no model given: nothing to measure")
        return
    info = load(options.model).info
    model_table(info)
    if options.faces is None:
        return
    measured, columns = calibrated_faces(options.faces, info)
    sure, expected = crossed_confidence(measured)
    parts: dict[str, Callable[[], None]] = {
        "confidence": lambda: confidence_tables(measured, columns, sure, expected),
        "order": lambda: order_tables(measured, columns, options.many, info),
        "regions": lambda: region_tables(measured.take(measured.plain)),
        "triage": lambda: triage_table(measured, sure),
        "audit": lambda: audit_tables(
            measured, columns, sure, options.sheets, names_in(options.without)
        ),
        "pose": lambda: pose_tables(measured, columns),
        "crops": lambda: crop_table(measured, sure),
    }
    for name in PARTS if options.only is None else [options.only]:
        parts[name]()


def calibrated_faces(path: Path, info: ModelInfo) -> tuple[Measured, dict[str, NDArray[Any]]]:
    """Labelled faces of a file with the model's covariances, and their columns."""
    measured, columns = read_faces(path)
    if info.calibration is not None:
        measured = measured.calibrated(info.calibration)
    known = ~np.isnan(measured.error)
    rows = {name: c[known] for name, c in columns.items() if c.shape[:1] == known.shape}
    return measured.take(known), rows


def names_in(path: Path | None) -> set[str]:
    return set() if path is None else set(path.read_text(encoding="utf-8").split())


def order_tables(
    measured: Measured, columns: dict[str, NDArray[Any]], many: Path | None, info: ModelInfo
) -> None:
    """What the order of the faces by confidence is worth, beside simpler ones."""
    halves_table(measured, columns)
    if many is not None:
        trained_table(measured, *calibrated_faces(many, info))


def model_table(info: ModelInfo) -> None:
    """What the counts that a model carries for the triage tell: promises, AUROC, calibration.

    They are of held-out faces, a fifth of them spoilt, that its confidence was not fitted on.
    """
    table = info.trust.triage if info.trust is not None else None
    if table is None:
        print(f"{info.name} {info.version} is not calibrated for triage")
        return
    rows = []
    good = table.faces - table.failed[-1]
    for rate in (0.01, 0.02, 0.03, 0.05, 0.1):
        chosen = choose_threshold(table, rate)
        possible = f"{min(1.0, good / (1 - rate) / table.faces):.0%}"
        if not np.isfinite(chosen.threshold):
            rows.append([f"{rate:.0%}", "none", "", "", possible])
            continue
        share = f"{chosen.accepted / table.faces:.0%}"
        failed = f"{chosen.failed} of {chosen.accepted}"
        rows.append([f"{rate:.0%}", f"{chosen.threshold:.3f}", share, failed, possible])
    title = f"{info.name} {info.version}: {table.faces} faces, {table.failed[-1]} failed"
    print_table(["failures at most", "from", "accepted", "failed", "possible"], rows, title=title)
    accepted, failed_by = (np.array([0, *counts]) for counts in (table.accepted, table.failed))
    right = accepted - failed_by
    area = np.trapezoid(1 - failed_by / failed_by[-1], right / right[-1])
    limits = np.array([1.0, *table.thresholds])
    count = np.diff(accepted)
    success = np.diff(right) / np.maximum(count, 1)
    gap = np.abs(success - (limits[1:] + limits[:-1]) / 2)
    error = float((gap * count).sum() / count.sum())
    print(f"AUROC {area:.3f}, calibration error {error:.3f} (by the grid of thresholds)")


def folds(photographs: NDArray[np.str_], seed: int = 0) -> NDArray[np.intp]:
    """(n,) a fold for each photograph, the same for all of its faces."""
    names, place = np.unique(photographs, return_inverse=True)
    return np.random.default_rng(seed).permutation(np.arange(len(names)) % FOLDS)[place]


def crossed_confidence(measured: Measured) -> tuple[Floats, Floats]:
    """(n,) confidence and expected error of each face, by fits on other photographs."""
    sure, expected = np.zeros(len(measured)), np.zeros(len(measured))
    fold = folds(measured.photograph)
    for k in range(FOLDS):
        learn = measured.take(fold != k)
        table = fit_confidence(learn.faces, learn.error, ~learn.plain, SUCCESS)
        features = feature_table(measured.take(fold == k).faces, table.shape)
        sure[fold == k], expected[fold == k] = table.judge_features(features)
    return sure, expected


def confidence_tables(
    measured: Measured, columns: dict[str, NDArray[Any]], sure: Floats, expected: Floats
) -> None:
    """AUROC and calibration error, beside simpler orders."""
    orders = {"confidence": 1 - sure, "expected error": expected}
    orders |= simple_orders(measured, columns)
    failed = measured.error >= SUCCESS
    parts = {
        "all": np.arange(len(measured)),
        "20 % spoilt": in_use(measured),
        "plain": np.flatnonzero(measured.plain),
    }
    rows = []
    for name, index in parts.items():
        found = confidence_metrics(sure[index], measured.error[index], SUCCESS)
        others = [f"{auroc(order[index], failed[index]):.3f}" for order in orders.values()]
        about = [f"{len(index):,}", f"{found['failed']:.1%}", f"{found['calibration_error']:.3f}"]
        rows.append([name, *about, *others])
    print_table(["faces", "n", "failed", "ECE", *orders], rows, title="AUROC of failures")
    title, names, lines = kinds_table(measured, sure, SUCCESS)
    print_table(names, lines, title=title)


def region_tables(measured: Measured, splits: int = 50) -> None:
    """Coverage of regions on random halves, by group and pose; area beside fixed ellipses."""
    rng = np.random.default_rng(0)
    radii = measured.radii()
    told = np.array([pose_kind(face) for face in measured.faces])
    pose = np.where(measured.pose == "", "300-W", measured.pose)
    extent = [np.ptp(t[np.isfinite(t).all(axis=1)], axis=0) for t in measured.truth]
    size = np.sqrt(np.prod(extent, axis=1))
    points = np.stack([face.points for face in measured.faces])
    away = (measured.truth - points) / size[:, None, None]
    spread = np.stack([face.covariance for face in measured.faces])
    area = np.sqrt(np.linalg.det(spread)) / size[:, None] ** 2
    held: dict[str, list[float]] = {}
    ratios = []
    for _ in range(splits):
        fit = halves(measured, rng)
        test = ~fit
        table = fit_regions(radii[fit], GROUPS, told[fit].tolist())
        limit = np.stack([table.radius(kind, COVERAGE) for kind in told[test]])
        joint = np.array([table.radius(kind, COVERAGE, True)[0] for kind in told[test]])
        inside = largest_radius(radii[test]) <= joint
        held.setdefault("all", []).append(coverage_by(radii[test], limit)[0])
        held.setdefault("joint", []).append(float(inside.mean()))
        for name, group in GROUPS.items():
            value = coverage_by(radii[test][:, group], limit[:, group])[0]
            held.setdefault(name, []).append(value)
        for name in np.unique(pose):
            part = pose[test] == name
            held.setdefault(name, []).append(coverage_by(radii[test][part], limit[part])[0])
            held.setdefault(f"joint, {name}", []).append(float(inside[part].mean()))
        fixed, reach = fixed_ellipses(away, fit)
        limits = fit_regions(reach[fit], GROUPS, ["all"] * int(fit.sum())).radius("all", COVERAGE)
        seen = np.isfinite(radii[test])
        ours = (area[test] * limit**2)[seen]
        theirs = np.broadcast_to(fixed * limits**2, seen.shape)[seen]
        ratios.append((ours.sum() / theirs.sum(), np.exp(np.log(ours / theirs).mean())))
    masks = {name: pose == name for name in np.unique(pose)}
    rows = []
    for name, values in held.items():
        part = masks.get(name.removeprefix("joint, "), np.ones(len(measured), dtype=bool))
        columns = GROUPS.get(name, slice(None))
        chance = split_scatter(radii[part][:, columns], name.startswith("joint"), len(values))
        row = [f"{100 * f(values):.1f}" for f in (np.mean, np.min, np.max)]
        rows.append([name, f"{part.sum():,}", *row, f"{100 * chance:.1f}"])
    title = f"regions of coverage {COVERAGE}, {splits} splits of {len(measured):,} faces"
    heads = ["part", "faces", "held (%)", "least", "most", "chance"]
    print_table(heads, rows, title=title)
    by_sum, by_ratio = np.mean(ratios, axis=0)
    print(f"area beside fixed ellipses: {by_sum:.2f} of the sum, {by_ratio:.2f} geometric mean")


def split_scatter(radii: Floats, joint: bool, splits: int) -> float:
    """How far from its mean the furthest of so many splits lies by chance alone.

    Both halves of n faces are samples: if a face's share of landmarks inside scatters by s, the
    coverage of one half with the radii of the other scatters by 2 s / sqrt(n).
    """
    known = np.isfinite(radii)
    radii, known = radii[known.any(axis=1)], known[known.any(axis=1)]
    limit = (
        np.quantile(largest_radius(radii), COVERAGE)
        if joint
        else np.quantile(radii[known], COVERAGE)
    )
    inside = np.where(known, radii <= limit, False)
    each = (inside == known).all(axis=1) if joint else inside.sum(axis=1) / known.sum(axis=1)
    furthest = NormalDist().inv_cdf(1 - 0.5 / splits)
    return float(furthest * 2 * each.std() / np.sqrt(len(each)))


def fixed_ellipses(away: Floats, fit: Bools) -> tuple[Floats, Floats]:
    """One ellipse for each landmark, of the labels' own spread: areas (k,), distances (n, k)."""
    shapes = np.zeros((away.shape[1], 2, 2))
    for j in range(away.shape[1]):
        there = away[fit, j]
        there = there[np.isfinite(there).all(axis=1)]
        far = np.linalg.norm(there, axis=1)
        shapes[j] = np.cov(there[far <= np.quantile(far, 0.95)].T) + 1e-8 * np.eye(2)
    square = np.einsum("njx,jxy,njy->nj", away, np.linalg.inv(shapes), away)
    return np.sqrt(np.linalg.det(shapes)), np.sqrt(square)


def triage_table(measured: Measured, sure: Floats, splits: int = 100, draws: int = 1000) -> None:
    """How often the bound is broken, and how many faces are accepted.

    The promise is about the world, not about the next few faces. So calibration faces are drawn,
    with replacement, from all held-out faces, a fifth of them spoilt, and these are the world:
    the promise is broken where more of the world's accepted faces failed. Random halves are beside
    it: there the other half, 600 accepted faces, is above the promise by chance too, and what
    one half lacks in failures the other has.
    """
    rng = np.random.default_rng(1)
    failed = measured.error >= SUCCESS
    world = np.where(measured.plain, 0.8 / measured.plain.sum(), 0.2 / (~measured.plain).sum())
    size = len(in_use(measured)) // 2

    def like_the_world() -> NDArray[np.intp]:
        spoilt = rng.random(size) < 0.2
        return np.where(
            spoilt,
            rng.choice(np.flatnonzero(~measured.plain), size),
            rng.choice(np.flatnonzero(measured.plain), size),
        )

    rows = []
    for rate in (0.01, 0.02, 0.05, 0.1):
        broken, found = 0, []
        for _ in range(draws):
            one, others = like_the_world(), like_the_world()
            table = fit_triage(sure[one], failed[one], 0.2, sure[others])
            threshold = choose_threshold(table, rate).threshold
            if np.isfinite(threshold):
                taken = world * (sure >= threshold)
                found.append((taken.sum(), (taken * failed).sum() / taken.sum()))
                broken += found[-1][1] > rate
        possible = min(1.0, float((world * ~failed).sum()) / (1 - rate))
        mean = [f"{value:.1%}" for value in np.mean(found, axis=0)] if found else ["", ""]
        halves_broken = broken_halves(measured, sure, failed, rate, splits)
        none = f"{1 - len(found) / draws:.0%}"
        rows.append([f"{rate:.0%}", f"{broken / draws:.1%}", none, mean[0], f"{possible:.1%}",
                     mean[1], str(halves_broken)])  # fmt: skip
    heads = ["failures at most", "broken", "no promise", "accepted", "possible", "failed",
             f"of {splits} halves above"]  # fmt: skip
    print_table(heads, rows, title=f"triage, {draws} draws of {size} faces, 20 % spoilt")


def broken_halves(measured: Measured, sure: Floats, failed: Bools, rate: float, splits: int) -> int:
    """In how many random halves more than `rate` of the accepted failed."""
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(splits):
        fit = halves(measured, rng)
        one, other = (
            np.flatnonzero(part)[in_use(measured.take(part), seed=int(rng.integers(2**31)))]
            for part in (fit, ~fit)
        )
        # where tests begin is told by faces of which nobody says what failed
        table = fit_triage(sure[one], failed[one], 0.2, sure[other])
        taken = sure[other] >= choose_threshold(table, rate).threshold
        broken += bool(taken.any()) and float(failed[other][taken].mean()) > rate
    return broken


if __name__ == "__main__":
    main()
