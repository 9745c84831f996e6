"""`luvli audit`: which labels of a data set are probably wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from luvli.data.sets import FaceSet
    from luvli.trust.audit import ErrorKind


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

    `luvli audit parquet FACES`, where FACES is what `luvli predict LABELS --engine ray` made of
    labelled Parquet, runs no model and takes labels of any number; it writes the folder `labels`
    beside the page, and to audit.csv the most suspicious alone.

    Exit code 1 when more labels than allowed are suspicious, for the checks of a labelling team.

    Example: `luvli audit folder my/faces --out audit`
    """
    from luvli.trust.audit import ERROR_KINDS, check_kinds
    from luvli.trust.audit_parquet import has_labels

    kinds = check_kinds(kind or ERROR_KINDS)
    if dataset == "parquet" and has_labels(folder):
        wrong = _audit_parquet(folder, out, kinds, worst, fail_above)
    else:
        from luvli.data.sets import load_set

        found = load_set(
            dataset, folder, split, subset=subset, protocol=protocol, skip_bad=skip_bad
        )
        wrong = _audit_set(found[:limit], out, model or ["luvli-68"], kinds, worst, fail_above)
    if wrong > allow:
        raise typer.Exit(1)


def _audit_set(
    found: FaceSet,
    out: Path,
    models: list[str],
    kinds: Sequence[ErrorKind],
    worst: int,
    fail_above: float,
) -> int:
    """Predict and judge a set that fits into memory -> labels that are probably wrong."""
    from luvli.prediction.predictor import load
    from luvli.progress import track
    from luvli.trust.audit import audit as find_suspects
    from luvli.trust.audit_report import predict_unseen, report_files, write_page, write_suspects

    predictors = [load(name) for name in models]
    records = found.records
    watched = track(records, "faces", unit="faces")
    faces, seen = zip(*predict_unseen(predictors, watched), strict=True) if records else ((), ())
    suspects = find_suspects(records, faces, kinds)
    table, page = report_files(out)
    write_suspects(table, suspects, records)
    write_page(page, _title(found.name, worst, len(suspects)), suspects[:worst], records, faces)
    wrong = [suspect.kind for suspect in suspects if suspect.suspicion >= fail_above]
    _print_counts({name: wrong.count(name) for name in kinds})
    if any(seen):
        typer.secho(
            f"luvli: {sum(seen):,} faces are on photographs that the model was trained on: it may "
            "agree with wrong labels there; give models that were trained without them.",
            fg="yellow",
            err=True,
        )
    typer.echo(f"{table}\n{page}")
    return len(wrong)


def _audit_parquet(
    folder: Path, out: Path, kinds: Sequence[ErrorKind], worst: int, fail_above: float
) -> int:
    """Judge labels that stand beside predictions in Parquet, of any number."""
    from luvli.data.formats.label_parquet import image_at
    from luvli.trust.audit_parquet import audit_parquet
    from luvli.trust.audit_report import report_files, write_page, write_suspects

    found = audit_parquet(folder, out / "labels", kinds, fail_above)
    table, page = report_files(out)
    suspects = [judged.suspect for judged in found.worst]
    pairs = {judged.suspect.index: judged.pair for judged in found.worst}
    write_suspects(table, suspects, {i: pair.record for i, pair in pairs.items()})
    shown = suspects[:worst]
    write_page(
        page,
        _title(str(folder), worst, found.labels - found.without_face),
        shown,
        {i: pair.record for i, pair in pairs.items()},
        {i: pair.face for i, pair in pairs.items() if pair.face is not None},
        {suspect.index: image_at(pairs[suspect.index].image) for suspect in shown},
    )
    _print_counts({name: found.wrong[name] for name in kinds})
    if found.without_face:
        typer.echo(f"{found.without_face:,} of {found.labels:,} labels have no face found there.")
    typer.echo(f"{out / 'labels'}\n{table}\n{page}")
    return sum(found.wrong.values())


def _title(name: str, worst: int, labels: int) -> str:
    return f"{name}: the {min(worst, labels)} most suspicious of {labels:,} labels"


def _print_counts(wrong: dict[ErrorKind, int]) -> None:
    from luvli.cli.tables import print_table

    rows = [[name, f"{count:,}"] for name, count in wrong.items()]
    print_table(["probably wrong", "labels"], [*rows, ["all", f"{sum(wrong.values()):,}"]])
