"""`luvli triage`: which predictions to accept and which to look at."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from luvli.cli.options import MODEL
from luvli.cli.output import print_paths, print_result, warn
from luvli.evaluation.table import Table


def triage(
    results: Path = Argument(help="faces.json, a Parquet file or a folder of `luvli predict`."),
    out: Path = Option("triage", help="Folder for table, curve and sheet."),
    max_failure_rate: float = Option(0.05, help="At most this share of the accepted faces failed."),
    model: str = MODEL,
) -> None:
    """Accept faces so that at most a given share of them failed, with 95 % confidence.

    The promise holds for faces like those that the model was calibrated on; the command names
    how yours differ. It writes triage.csv, faces.json with `accepted`, a contact sheet of
    rejected faces and the risk-coverage curve. For results in Parquet, it writes the Parquet
    folder `faces` instead of the first two.

    Example: `luvli triage predictions/faces.json --max-failure-rate 0.05`
    """
    from luvli.calibration.shift import shift_of
    from luvli.calibration.triage_results import triage_results, write_pictures
    from luvli.prediction.predictor import load
    from luvli.trust.trust import Trust

    info = load(model).info
    trust = info.trust or Trust()
    chosen = trust.threshold(max_failure_rate, info.name)
    assert trust.triage is not None
    result = triage_results(results, out, trust, chosen.threshold)
    pictures = write_pictures(out, result, trust.triage, chosen, max_failure_rate)
    rows = [
        ["faces", f"{result.faces:,}"],
        ["accepted", f"{result.accepted:,} ({result.share:.0%})"],
        ["for review", f"{result.faces - result.accepted:,}"],
        ["accepted from confidence", f"{chosen.threshold:.3f}"],
        ["failures among the accepted, at most", f"{max_failure_rate:.1%}"],
        ["on the calibration faces", f"{chosen.failed} of {chosen.accepted:,}"],
    ]
    counts = {"faces": result.faces, "accepted": result.accepted, "threshold": chosen.threshold}
    print_result(Table("", ["triage", ""], rows), value=counts)
    shift = shift_of(result.sampled(), trust)
    if shift is not None and shift.alarm:
        warn(
            f"these faces differ from the calibration faces, most of all: {shift.sentence} (p = "
            f"{shift.p_values[shift.worst]:.1g}). The bound may not hold; calibrate on faces "
            "like these."
        )
    print_paths((*result.written, *pictures))
