"""`luvli audit`: which labels of a data set are probably wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from luvli.cli.messages import print_paths, warn
from luvli.cli.options import Limit, SetFolder, SetName, SkipBad
from luvli.cli.tables import print_table

if TYPE_CHECKING:
    from luvli.calibration.label_batches import LabelSource
    from luvli.data.sets import FaceSet

_SHOWN = 50
"""faces on the page"""


def audit(
    dataset: SetName,
    folder: SetFolder,
    out: Annotated[Path, typer.Option(help="Folder for audit.csv and audit.html.")] = Path("audit"),
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model that was not trained on these faces; several, each trained "
                          "without another part of them, are used crosswise."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Look for this kind of error alone; may be given several times."),
    ] = None,
    fail_above: Annotated[
        float, typer.Option(help="Suspicion from which a label counts as wrong.")
    ] = 12.0,
    allow: Annotated[int, typer.Option(min=0, help="Wrong labels that are let pass.")] = 0,
    limit: Limit = None,
    skip_bad: SkipBad = False,
) -> None:  # fmt: skip
    """Look for labels that are shifted, scaled, of another face, swapped, with one landmark off
    or with wrong visibility.

    `luvli audit parquet FACES`, where FACES is what `luvli predict LABELS --engine ray` made of
    labelled Parquet, runs no model and takes labels of any number; it writes the folder `labels`
    beside the page, and to audit.csv the most suspicious alone.

    Exit code 1 when more labels than allowed are suspicious, for the checks of a labelling team.

    Example: `luvli audit folder my/faces --out audit`
    """
    from luvli.calibration.audit import ERROR_KINDS, check_kinds
    from luvli.calibration.audit import audit as audit_labels
    from luvli.calibration.audit_report import write_audit_page, write_suspects
    from luvli.calibration.label_batches import has_labels, parquet_sources

    kinds = check_kinds(kind or ERROR_KINDS)
    table, page = out / "audit.csv", out / "audit.html"
    if dataset == "parquet" and has_labels(folder):
        name, details = str(folder), out / "labels"
        result = audit_labels(parquet_sources(folder), kinds, fail_above, details)
    else:
        from luvli.data.sets import load_set

        faces = load_set(dataset, folder, skip_bad=skip_bad)
        name, details = faces.name, None
        sources = _predicted_source(faces[:limit], model or ["luvli-68"])
        result = audit_labels(sources, kinds, fail_above, listed=None)
    write_suspects(table, result.listed)
    audited = result.labels - result.without_face
    title = f"{name}: the {min(_SHOWN, audited)} most suspicious of {audited:,} labels"
    write_audit_page(page, title, result.listed[:_SHOWN], fail_above)
    wrong = [[kind, f"{result.wrong[kind]:,}"] for kind in kinds]
    print_table(["probably wrong", "labels"], [*wrong, ["all", f"{sum(result.wrong.values()):,}"]])
    if result.without_face:
        typer.echo(f"{result.without_face:,} of {result.labels:,} labels have no face found there.")
    print_paths(path for path in (details, table, page) if path is not None)
    if sum(result.wrong.values()) > allow:
        raise typer.Exit(1)


def _predicted_source(faces: FaceSet, models: list[str]) -> list[LabelSource]:
    """A set that fits into memory, predicted by models that were not trained on it."""
    from luvli.calibration.label_batches import LabelBatch, LabelSource, predict_unseen
    from luvli.prediction.predictor import load
    from luvli.progress import track

    predictors = [load(name) for name in models]
    watched = track(faces.records, "faces", unit="faces")
    predictions = list(predict_unseen(predictors, watched))
    trained = sum(trained for _, trained in predictions)
    if trained:
        warn(
            f"{trained:,} faces are on photographs that the model was trained on: it may agree "
            "with wrong labels there; give models that were trained without them."
        )
    batch = LabelBatch.of(faces.records, [face for face, _ in predictions])
    return [LabelSource(Path(), lambda: [batch])]
