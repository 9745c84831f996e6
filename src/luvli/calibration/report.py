"""What `luvli calibrate` reports: how good confidence and triage are on faces left out of the fit,
and how many more faces each guarantee takes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Floats
from luvli.calibration.fit_measures import (
    LEVELS,
    MIN_MEASURED,
    labelled_eyes,
    measure_errors,
    reach,
)
from luvli.calibration.guarantees import MIN_FACES, faces_needed
from luvli.calibration.measure import face_errors, is_plain
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.registry import BINS
from luvli.evaluation.selective import auroc, calibration_error, gain_share
from luvli.evaluation.table import Table
from luvli.face_measures import with_measures
from luvli.faces import Faces
from luvli.likelihood import density_name
from luvli.measures.calibration import MeasureCalibration
from luvli.network.calibration import Calibration
from luvli.trust.triage import MARGIN, TriageTable, accepted_needed, choose_threshold
from luvli.trust.trust import Trust

CORRUPTED_IN_USE = 0.2
"""share of corrupted images that the triage is calibrated for"""
RATES = (0.01, 0.02, 0.05)
MAX_COVERAGE = 0.99
"""of a region, which takes most faces"""
MIN_ROW = 20
"""faces that a row of a table takes"""


def sample_in_use(faces: LabelledFaces) -> NDArray[np.intp]:
    """Indices of faces as they may come in use: all plain ones, and a share of corrupted ones."""
    plain = is_plain(faces)
    corrupted = np.flatnonzero(~plain)
    wanted = round(plain.sum() * CORRUPTED_IN_USE / (1 - CORRUPTED_IN_USE))
    drawn = np.random.default_rng(0).choice(corrupted, min(len(corrupted), wanted), replace=False)
    return np.sort(np.concatenate([np.flatnonzero(plain), drawn]))


def coverage_table(calibration: Calibration) -> Table:
    """Coverage of the ellipses before and after."""
    rows = [
        [f"{float(level):.0%}", f"{before:.1%}", f"{calibration.after[level]:.1%}"]
        for level, before in calibration.before.items()
    ]
    distribution = density_name(calibration.likelihood or "laplace")
    note = f"{calibration.faces:,} faces, which the scale was fitted on; {distribution}."
    return Table("ellipses", ["should hold", "uncalibrated", "calibrated"], rows, notes=[note])


def confidence_table(faces: LabelledFaces, confidence: Floats, success: float) -> Table:
    """Failures, AUROC, calibration error, the gain of ordering faces by confidence, and how often
    it is high, for faces as they are, by source, and by kind of corruption."""
    error, source, kind = face_errors(faces), faces.groups["source"], faces.groups["corruption"]
    plain = is_plain(faces)
    parts = {"with 20 % corrupted": sample_in_use(faces), "plain": np.flatnonzero(plain)}
    for name in np.unique(source).tolist():
        parts[f"plain, {name}"] = np.flatnonzero(plain & (source == name))
    for name in np.unique(kind[~plain]).tolist():
        parts[name] = np.flatnonzero(kind == name)
    rows = []
    for name, index in parts.items():
        values, failed = confidence[index], error[index] >= success
        if len(index) < MIN_ROW:
            continue
        ordered = ["", "", ""]
        if np.isfinite(error[index]).any():  # there are faces
            gain = gain_share(error[index], 1 - values)
            wrong = calibration_error(values, ~failed, BINS)
            ordered = [f"{auroc(1 - values, failed):.3f}", f"{wrong:.3f}", f"{gain:.0%}"]
        shares = (values > 0.5, values > 0.1, failed & (values > 0.5))
        high = (f"{share.mean():.0%}" for share in shares)
        rows.append([name, f"{len(index):,}", f"{failed.mean():.1%}", *ordered, *high])
    heads = ["faces", "n", "failed", "AUROC", "ECE", "gain", "above 0.5", "above 0.1",
             "failed and above 0.5"]  # fmt: skip
    return Table("confidence", heads, rows, notes=["On faces left out of its fit."])


def triage_table(table: TriageTable) -> Table:
    """Share of accepted faces for several failure rates."""
    rows = []
    good = table.faces - table.failed[-1]
    for rate in RATES:
        chosen = choose_threshold(table, rate)
        cells = ["none", "", ""]
        if math.isfinite(chosen.threshold):
            share = f"{chosen.accepted / table.faces:.0%}"
            cells = [f"{chosen.threshold:.3f}", share, f"{chosen.failed} of {chosen.accepted}"]
        rows.append([f"{rate:.0%}", *cells, f"{min(1.0, good / (1 - rate) / table.faces):.0%}"])
    heads = ["failures at most", "threshold", "accepted", "failed", "possible"]
    note = f"{table.faces:,} faces, {table.corrupted_share:.0%} of them corrupted."
    return Table("triage", heads, rows, notes=[note])


def measures_table(
    plain: LabelledFaces, measures: MeasureCalibration, shut: Faces | None = None
) -> Table:
    """How many intervals of each measure hold the labelled value, and what the probability of
    closed eyes is worth, on faces that `measures` were not fitted on."""
    rows = []
    for name, (error, measure) in measure_errors(plain, measures).items():
        if len(error) >= MIN_MEASURED:
            held = [f"{np.mean(np.abs(error) < reach(measure, level)):.0%}" for level in LEVELS]
            mean = f"{np.abs(error).mean():.3f}"
            rows.append([name.replace("_", " "), f"{len(error):,}", mean, *held])
    eyes = labelled_eyes(plain.labels)
    closed = [plain.faces[eyes == 1]] + ([] if shut is None else [shut])
    parts = [Faces.concatenate(closed), plain.faces[eyes == 0]]
    if measures.eyes_closed is not None and min(map(len, parts)) >= MIN_ROW:
        yes, no = (with_measures(faces, measures).eyes_closed for faces in parts)
        area = auroc(np.concatenate([yes, no]), np.arange(len(yes) + len(no)) < len(yes))
        rows.append([
            f"eyes closed: AUROC {area:.3f}",
            f"{len(yes):,} closed, {len(no):,} open",
            "",
            f"{np.mean(yes > 0.5):.0%} of the closed",
            f"{np.mean(no > 0.5):.0%} of the open called closed",
        ])  # fmt: skip
    heads = ["measure", "faces", "mean error", *(f"{level:.0%} hold" for level in LEVELS)]
    note = "Fitted on one half of the faces and measured on the other."
    return Table("measures", heads, rows, notes=[note])


def advice(trust: Trust) -> list[str]:
    """Which guarantees more faces would give."""
    lines: list[str] = []
    counts = trust.conformal.faces if trust.conformal is not None else {}
    for pose in ("frontal", "half-profile", "profile"):
        count = counts.get(pose, 0)
        if count < MIN_FACES:
            lines.append(
                f"{pose}: {count} faces; {MIN_FACES - count} more for radii of its own (it takes "
                "those of all poses now)."
            )
        elif count < faces_needed(MAX_COVERAGE):
            more = faces_needed(MAX_COVERAGE) - count
            lines.append(f"{pose}: {more} more faces for regions of coverage {MAX_COVERAGE:g}.")
    table = trust.triage
    if table is None:
        return lines
    for rate in RATES:
        if math.isfinite(choose_threshold(table, rate).threshold):
            continue
        confident = next(i for i, value in enumerate(table.thresholds) if value <= 0.9)
        missing = MARGIN * accepted_needed(rate) / max(table.accepted[confident], 1) - 1
        what = "too many failures among confident faces."
        if missing > 0:
            more = math.ceil(table.faces * missing)
            what = f"about {more:,} more faces, half of them for the fit."
        lines.append(f"triage at {rate:.0%}: {what}")
    return lines
