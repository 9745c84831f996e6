"""`luvli audit`: which labels of a data set are probably wrong."""

from __future__ import annotations

from pathlib import Path

import typer
from typer import Option

from luvli.cli.options import SET_FOLDER, SET_NAME, SKIP_BAD
from luvli.cli.output import face_progress, print_paths, print_result, say, warn
from luvli.evaluation.table import Table

_SHOWN = 50
"""faces on the page"""


def audit(
    dataset: str = SET_NAME,
    folder: Path = SET_FOLDER,
    out: Path = Option("audit", help="Folder for audit.csv and audit.html."),
    model: list[str] = Option(
        ["luvli-68"],
        help="Model that was not trained on these faces; several, each trained without another "
        "part of them, are used crosswise.",
    ),
    fail_above: float = Option(12.0, help="Suspicion from which a label counts as wrong."),
    allow: int = Option(0, min=0, help="How many suspicious labels to accept."),
    skip_bad: bool = SKIP_BAD,
) -> None:
    """Look for labels that are shifted, scaled, of another face, swapped, with one landmark off
    or with wrong visibility.

    `luvli audit parquet FACES` checks any number of labels without running a model: FACES is
    the output of `luvli predict LABELS --engine ray` for labelled Parquet files. audit.csv then
    has the 10,000 most suspicious labels.

    The exit code is 1 if more labels than allowed are suspicious.

    Example: `luvli audit folder my/faces --out audit`
    """
    from luvli.calibration import audit as auditing
    from luvli.calibration.label_batches import has_labels, parquet_source, predicted_source
    from luvli.data.sets import load_set
    from luvli.prediction.predictor import load

    table, page = out / "audit.csv", out / "audit.html"
    if dataset == "parquet" and has_labels(folder):
        name, source = str(folder), parquet_source(folder)
    else:
        faces = load_set(dataset, folder, skip_bad=skip_bad)
        predictors = [load(each) for each in model]
        name = faces.name
        source, trained = predicted_source(predictors, faces, face_progress("faces"))
        if trained:
            warn(
                f"{trained:,} faces are on photographs that the model was trained on: it may agree "
                "with wrong labels there; give models that were trained without them."
            )
    result = auditing.audit(source, fail_above)
    auditing.write_suspects(table, result.listed)
    audited = result.labels - result.without_face
    title = f"{name}: the {min(_SHOWN, audited)} most suspicious of {audited:,} labels"
    auditing.write_audit_page(page, title, result.listed[:_SHOWN], fail_above)
    wrong = sum(result.wrong.values())
    counts = [*result.wrong.items(), ("all", wrong)]
    rows = [[kind, f"{count:,}"] for kind, count in counts]
    print_result(Table("", ["probably wrong", "labels"], rows), value=dict(counts))
    if result.without_face:
        say(f"{result.without_face:,} of {result.labels:,} labels have no face found there.")
    print_paths([table, page])
    if wrong > allow:
        raise typer.Exit(1)
