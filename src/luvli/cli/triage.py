"""`luvli triage`: which predictions to accept and which to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def triage(
    results: Annotated[
        Path, typer.Argument(help="faces.json, a Parquet file or a folder of `luvli predict`.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for table, curve and sheet.")] = Path("triage"),
    max_failure_rate: Annotated[
        float, typer.Option(help="At most this share of the accepted faces failed.")
    ] = 0.05,
    model: Annotated[
        str, typer.Option(help="The calibrated model that made the predictions.")
    ] = "luvli-68",
) -> None:
    """Accept faces so that at most a wanted share of them failed, with 95 % confidence.

    The promise is for faces like those that the model was calibrated on; where these look
    different, that is said. Written are triage.csv, faces.json with `accepted`, a contact sheet
    of rejected faces and the risk-coverage curve. Results in Parquet, of any number, are written
    as Parquet again, to the folder `faces`, in place of the first two.

    Example: `luvli triage predictions/faces.json --max-failure-rate 0.05`
    """
    from luvli.cli.tables import print_table
    from luvli.prediction.predictor import load
    from luvli.trust.triage import threshold_of
    from luvli.trust.triage_parquet import is_parquet, judge_parquet
    from luvli.trust.triage_report import (
        judge,
        read_predicted_faces,
        shift_of,
        write_pictures,
        write_triage_report,
    )

    info = load(model).info
    chosen = threshold_of(info, max_failure_rate)
    trust = info.trust
    assert trust is not None and trust.triage is not None
    if is_parquet(results):
        found = judge_parquet(results, out / "faces", trust, chosen.threshold)
        count, accepted, predictions = found.faces, found.accepted, found.sample
        share = accepted / max(count, 1)
        drawn = write_pictures(out, found.rejected, trust.triage, max_failure_rate, share)
        written = [out / "faces", *drawn]
    else:
        predictions = judge(read_predicted_faces(results), trust, chosen.threshold)
        count, accepted = len(predictions), sum(bool(item.face.accepted) for item in predictions)
        share = accepted / max(count, 1)
        written = write_triage_report(out, predictions, trust.triage, max_failure_rate, share)
    rows = [
        ["faces", f"{count:,}"],
        ["accepted", f"{accepted:,} ({share:.0%})"],
        ["for review", f"{count - accepted:,}"],
        ["accepted from confidence", f"{chosen.threshold:.3f}"],
        ["failures among the accepted, at most", f"{max_failure_rate:.1%}"],
        ["on the calibration faces", f"{chosen.failed} of {chosen.accepted:,}"],
    ]
    print_table(["triage", ""], rows)
    shift = shift_of(predictions, trust)
    if shift is not None and shift.alarm:
        typer.secho(
            f"luvli: these faces differ from the calibration faces ({shift.worst} most: p = "
            f"{shift.p_values[shift.worst]:.1g}): the promise may not hold; calibrate on faces "
            "like these.",
            fg="yellow",
            err=True,
        )
    for path in written:
        typer.echo(str(path))
