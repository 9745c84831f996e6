"""From measured faces to everything that a model file knows about trust.

The faces are split by photograph. On one part the covariances are scaled and the confidence
is learnt; on the other, which neither has seen, the radii of regions, the counts of the triage
and the features for the shift alarm are taken, so that their guarantees hold.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools
from luvli.errors import InputError
from luvli.evaluation.confidence import confidence_metrics, gain_share
from luvli.markup import get_markup, is_markup
from luvli.network.calibration import Calibration
from luvli.network.config import NetworkConfig
from luvli.network.face_features import FEATURE_COLUMNS, feature_table, pose_kind
from luvli.network.trust_tables import TriageTable, TrustTables
from luvli.trust.calibrate import fit as fit_scale
from luvli.trust.confidence import fit_confidence
from luvli.trust.conformal import LEAST_FACES, faces_needed, fit_regions
from luvli.trust.measure import Measured
from luvli.trust.shift import fit_shift
from luvli.trust.triage import ROOM, STARTS, accepted_needed, choose_threshold, fit_triage

Table = tuple[str, list[str], list[list[str]]]
"""title, headings, rows"""

FIT_SHARE = 0.5
"""share of the photographs that scale and confidence are fitted on"""
FEWEST = 300
"""plain faces that a calibration takes in all"""
SPOILT_IN_USE = 0.2
"""share of spoilt images that the triage is calibrated for"""
TURNED_WITHOUT_LABELS = 0.05
RATES = (0.01, 0.02, 0.05)
COVERAGES = (0.9, 0.95, 0.99)


class Fitted(NamedTuple):
    """What `luvli calibrate` writes, and what it says."""

    calibration: Calibration | None
    trust: TrustTables
    tables: list[Table]
    advice: list[str]
    """how many more faces are needed for which guarantee"""


def fit_tables(
    measured: Measured,
    config: NetworkConfig,
    success: float = 5.0,
    trained_on: str = "",
    scale: bool = True,
    data: Sequence[str] = (),
) -> Fitted:
    """Fit everything; with `scale`, the covariances must be as the network gives them."""
    check_measured(measured, config)
    first = in_first_part(measured.photograph, FIT_SHARE)
    groups = landmark_groups(config)
    calibration = None
    if scale:
        part = measured.take(first & measured.plain)
        calibration = fit_scale(
            np.stack([face.points for face in part.faces]),
            np.stack([face.covariance for face in part.faces]),
            part.truth,
            np.isfinite(part.truth).all(axis=2),
            config.likelihood,
            groups,
            part.source,
            np.stack([face.occlusion for face in part.faces]),
        )
        measured = measured.calibrated(calibration)
    learn, keep = measured.take(first), measured.take(~first)
    confidence = fit_confidence(learn.faces, learn.error, ~learn.plain, success)
    table = feature_table(keep.faces, confidence.shape)
    sure, expected = confidence.judge_features(table)
    plain = keep.plain
    poses = [pose_kind(face) for face in keep.take(plain).faces]
    regions = fit_regions(keep.take(plain).radii(), groups, poses)
    used = in_use(keep)
    learnt, _ = confidence.judge_features(
        feature_table([learn.faces[i] for i in in_use(learn).tolist()], confidence.shape)
    )
    spoilt_share = float(np.mean(~plain[used]))
    triage = fit_triage(sure[used], keep.error[used] >= success, spoilt_share, learnt)
    shift = fit_shift({name: table[plain, i] for i, name in enumerate(FEATURE_COLUMNS)})
    trust = TrustTables(
        confidence=confidence,
        regions=regions,
        triage=triage,
        shift=shift,
        trained_on=trained_on,
        data=[*data],
    )
    tables = [
        confidence_table(keep, sure, expected, success),
        kinds_table(keep, sure, success),
        triage_table(triage),
    ]
    advice = pose_advice(regions.faces) + triage_advice(triage)
    return Fitted(calibration, trust, tables, advice)


def check_measured(measured: Measured, config: NetworkConfig) -> None:
    """Refuse what no guarantee can be made of."""
    plain = measured.take(measured.plain & ~np.isnan(measured.error))
    if len(plain) < FEWEST:
        raise InputError(
            f"calibration takes at least {FEWEST} labelled faces, got {len(plain)}: give "
            f"{FEWEST - len(plain)} more, of photographs that the model was not trained on."
        )
    hidden = ~np.isfinite(plain.truth).all(axis=2)
    turned = np.array([pose_kind(face) == "profile" for face in plain.faces])
    if config.visibility_trained and not hidden.any() and turned.mean() > TURNED_WITHOUT_LABELS:
        raise InputError(
            f"the labels have no visibility, but {int(turned.sum())} of {len(plain)} faces are "
            "profiles, which hide half of them: give a set with visibility labels, "
            "MERL-RAV for instance, or faces that look ahead."
        )


def in_first_part(photographs: NDArray[np.str_], share: float, salt: str = "fit") -> Bools:
    """(n,) which photographs belong to the first part, by their hashed names."""
    known = {
        name: int(hashlib.sha256(f"{salt} {name}".encode()).hexdigest()[:13], 16) / 16**13
        for name in np.unique(photographs).tolist()
    }
    return np.array([known[name] < share for name in photographs.tolist()], dtype=bool)


def in_use(measured: Measured, share: float = SPOILT_IN_USE, seed: int = 0) -> NDArray[np.intp]:
    """Faces as they may come in use: all plain ones, and so many spoilt ones at random."""
    plain, spoilt = np.flatnonzero(measured.plain), np.flatnonzero(~measured.plain)
    wanted = min(len(spoilt), round(len(plain) * share / (1 - share)))
    drawn = np.random.default_rng(seed).choice(spoilt, wanted, replace=False)
    known = ~np.isnan(measured.error)
    chosen = np.sort(np.concatenate([plain, drawn]))
    return np.asarray(chosen[known[chosen]], dtype=np.intp)


# --- what is said ----------------------------------------------------------------------------


def confidence_table(
    measured: Measured,
    sure: NDArray[np.float64],
    expected: NDArray[np.float64],
    success: float,
) -> Table:
    """How good the confidence is on faces that it was not fitted on, by source."""
    spread = np.array(
        [
            np.average(face.uncertainty, weights=face.visibility + 1e-3)
            / max(float(np.sqrt(np.prod(face.box[2:] - face.box[:2]))), 1e-9)
            for face in measured.faces
        ]
    )
    score = np.array([face.score for face in measured.faces])
    rows = []
    parts = {"with 20 % spoilt": in_use(measured), "plain": np.flatnonzero(measured.plain)}
    for name in np.unique(measured.source).tolist():
        parts[f"plain, {name}"] = np.flatnonzero(measured.plain & (measured.source == name))
    for name, index in parts.items():
        error = measured.error[index]
        index, error = index[~np.isnan(error)], error[~np.isnan(error)]
        if len(index) < 20:
            continue
        found = confidence_metrics(sure[index], error, success)
        ways = (1 - sure[index], expected[index], spread[index], -score[index])
        gains = [f"{100 * gain_share(error, way):.0f} %" for way in ways]
        rows.append(
            [name, f"{len(index):,}", f"{found['failed']:.1%}", f"{found['auroc']:.3f}",
             f"{found['calibration_error']:.3f}", *gains]
        )  # fmt: skip
    heads = ["faces", "n", "failed", "AUROC", "ECE", "gain", "by expected error", "by sigma",
             "by score"]  # fmt: skip
    return "confidence, on faces kept away from its fit", heads, rows


def kinds_table(measured: Measured, sure: NDArray[np.float64], success: float) -> Table:
    """What the confidence says about each kind of spoilt image."""
    rows = []
    for kind in np.unique(measured.kind).tolist():
        part = measured.kind == kind
        rows.append(
            [kind, f"{int(part.sum()):,}", f"{np.mean(measured.error[part] >= success):.0%}",
             f"{np.median(sure[part]):.2f}", f"{np.mean(sure[part] > 0.5):.0%}",
             f"{np.mean(sure[part] > 0.1):.0%}"]
        )  # fmt: skip
    return ("what the confidence says", ["images", "n", "failed", "median", "above 0.5",
                                         "above 0.1"], rows)  # fmt: skip


def triage_table(table: TriageTable) -> Table:
    """What can be promised at which share of accepted faces."""
    rows = []
    best = table.faces - table.failed[-1]
    for rate in RATES:
        chosen = choose_threshold(table, rate)
        oracle = min(1.0, best / (1 - rate) / table.faces)
        if math.isinf(chosen.threshold):
            rows.append([f"{rate:.0%}", "none", "", "", f"{oracle:.0%}"])
            continue
        rows.append(
            [f"{rate:.0%}", f"{chosen.threshold:.3f}", f"{chosen.accepted / table.faces:.0%}",
             f"{chosen.failed} of {chosen.accepted}", f"{oracle:.0%}"]
        )  # fmt: skip
    title = f"triage, {table.faces:,} faces, {table.spoilt_share:.0%} of them spoilt"
    return title, ["failures at most", "threshold", "accepted", "failed", "possible"], rows


def pose_advice(faces: dict[str, int]) -> list[str]:
    """Which classes of pose have no radii of their own, and which coverages nobody has."""
    lines = []
    for pose in ("frontal", "half-profile", "profile"):
        count = faces.get(pose, 0)
        if count < LEAST_FACES:
            lines.append(
                f"{pose}: {count} faces; {LEAST_FACES - count} more for radii of its own (it "
                "takes those of all poses now)."
            )
        for coverage in COVERAGES:
            if LEAST_FACES <= count < faces_needed(coverage):
                more = faces_needed(coverage) - count
                lines.append(f"{pose}: {more} more faces for regions of coverage {coverage:g}.")
    return lines


def triage_advice(table: TriageTable) -> list[str]:
    """How many more faces a promise takes, where it fails for their number."""
    lines = []
    for rate in RATES:
        if math.isinf(choose_threshold(table, rate).threshold):
            have = max(table.accepted[STARTS[-1]], 1)
            needed = math.ceil(ROOM * accepted_needed(rate))  # where tests begin
            if have < needed:
                factor = needed / have
                more = math.ceil(table.faces * (factor - 1))
                lines.append(
                    f"triage at {rate:.0%}: about {more:,} more faces, half of them for the fit."
                )
            else:
                lines.append(f"triage at {rate:.0%}: too many failures among confident faces.")
    return lines


def landmark_groups(config: NetworkConfig) -> dict[str, list[int]]:
    """The markup's groups of landmarks where they hold every one, else one group of all."""
    if is_markup(config.markup):
        groups = get_markup(config.markup).groups
        if sum(len(group) for group in groups.values()) == config.landmarks:
            return {name: list(group) for name, group in groups.items()}
    return {"all": list(range(config.landmarks))}
