"""`luvli audit`: which labels of a data set are probably wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def audit(
    dataset: Annotated[str, typer.Argument(help="Data set; see `luvli data`.")],
    folder: Annotated[Path, typer.Argument(help="Its folder.")],
    out: Annotated[Path, typer.Option(help="Folder for audit.csv and audit.html.")] = Path("audit"),
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model that was not trained on these faces; several, each trained "
                          "without another part of them, are used crosswise."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of the data set.")] = None,
    subset: Annotated[str | None, typer.Option(help="Only this part.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Which of several splits.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Look for this kind of error alone; may be given several times."),
    ] = None,
    worst: Annotated[int, typer.Option(min=1, help="Faces shown on the page.")] = 50,
    fail_above: Annotated[
        float, typer.Option(help="Suspicion from which a label counts as wrong.")
    ] = 12.0,
    allow: Annotated[int, typer.Option(min=0, help="Wrong labels that are let pass.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many faces.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out faces with broken files.")
    ] = False,
) -> None:  # fmt: skip
    """Look for labels that are shifted, scaled, of another face, swapped, with one landmark off
    or with wrong visibility.

    Exit code 1 when more labels than allowed are suspicious, for the checks of a labelling team.

    Example: `luvli audit folder my/faces --out audit`
    """
    from luvli.cli.tables import print_table
    from luvli.data.sets import load_set
    from luvli.prediction.predictor import load
    from luvli.progress import track
    from luvli.trust.audit import ERROR_KINDS, check_kinds
    from luvli.trust.audit import audit as find_suspects
    from luvli.trust.audit_report import predict_unseen, report_files, write_page, write_suspects

    kinds = check_kinds(kind or ERROR_KINDS)
    predictors = [load(name) for name in model or ["luvli-68"]]
    records = load_set(
        dataset, folder, split, subset=subset, protocol=protocol, skip_bad=skip_bad
    ).records[:limit]
    watched = track(records, "faces", unit="faces")
    faces, seen = zip(*predict_unseen(predictors, watched), strict=True) if records else ((), ())
    suspects = find_suspects(records, faces, kinds)
    table, page = report_files(out)
    write_suspects(table, suspects, records)
    title = (
        f"{dataset}: the {min(worst, len(suspects))} most suspicious of {len(suspects):,} labels"
    )
    write_page(page, title, suspects[:worst], records, faces)
    wrong = [suspect for suspect in suspects if suspect.suspicion >= fail_above]
    rows = [[name, f"{sum(s.kind == name for s in wrong):,}"] for name in kinds]
    print_table(["probably wrong", "labels"], [*rows, ["all", f"{len(wrong):,}"]])
    if any(seen):
        typer.secho(
            f"luvli: {sum(seen):,} faces are on photographs that the model was trained on: it may "
            "agree with wrong labels there; give models that were trained without them.",
            fg="yellow",
            err=True,
        )
    typer.echo(f"{table}\n{page}")
    if len(wrong) > allow:
        raise typer.Exit(1)
