"""`luvli evaluate`: run a model over a data set and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from luvli.cli.options import Limit, Protocol, SkipBad, Split, set_part

if TYPE_CHECKING:
    from luvli.evaluation.metrics import Evaluation


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model to run.")],
    data: Annotated[
        tuple[str, Path],
        typer.Option(metavar="NAME PATH", help="Data set (`luvli data list`), or a part such as "
                     "w300/split2/indoor, and its folder. By default its test split."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report.")],
    protocol: Protocol = None,
    split: Split = None,
    subset: Annotated[
        str | None, typer.Option(help="Only this part, e.g. common, challenge, profile.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the method; the model's name by default.")
    ] = None,
    crop_by: Annotated[
        str,
        typer.Option(
            help="Boxes to crop by: paper (the data set's, else tight ones with 5 % noise), "
            "reference (noise as in the published code), tight, or detector."
        ),
    ] = "paper",
    boxes: Annotated[
        str,
        typer.Option(help="set: the data set's own boxes, where it has them; tight: those of the "
                          "landmarks instead (the paper's COFW-68)."),
    ] = "set",
    given_boxes: Annotated[
        bool, typer.Option("--given-boxes", help="Normalise by the data set's boxes, not tight "
                                                 "ones.")
    ] = False,
    refine_boxes: Annotated[
        bool, typer.Option("--refine-boxes", help="Crop faces again where a detector's box does "
                                                  "not fit them, as predict does.")
    ] = False,
    annotators: Annotated[
        Path | None,
        typer.Option(help="JSON of labels by several people: their disagreement beside the "
                          "model's ellipses (human.png, human.md)."),
    ] = None,
    skip_bad: SkipBad = False,
    limit: Limit = None,
    mean_estimator: Annotated[
        str | None,
        typer.Option(help="Read locations off a .safetensors network's heat maps in another way: "
                          "relu, softmax, tau-softmax or argmax (the paper's DU-Net rows)."),
    ] = None,
    covariance_estimator: Annotated[
        str | None,
        typer.Option(help="Where covariances come from: cen, or heatmap (which the paper found to "
                          "fail)."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:  # fmt: skip
    """Run a model over a test set; write report.html, report.md, metrics.json, predictions.

    Example: `luvli evaluate model --data w300/split2 data/300w --out report`
    """
    from luvli.cli.tables import show
    from luvli.evaluation.annotators import write_human
    from luvli.evaluation.evaluate_model import evaluate_set
    from luvli.evaluation.report import report_folder, write_report
    from luvli.files import folder_lock
    from luvli.progress import track

    dataset, root = set_part(data[0], protocol, split), data[1]
    with folder_lock(out):
        faces = evaluate_set(
            model, dataset, root, subset=subset, skip_bad=skip_bad,
            limit=limit, device=device, crop_by=crop_by,
            refine_boxes=refine_boxes, boxes=boxes, method=name, given_boxes=given_boxes,
            mean_estimator=mean_estimator, covariance_estimator=covariance_estimator,
            progress=lambda records: track(records, "evaluating", unit="faces"),
        )  # fmt: skip
        out = report_folder(out, faces)
        evaluation = write_report(out, faces)
        human = None if annotators is None else write_human(out, faces, annotators)
    print_evaluation(evaluation)
    if human is not None:
        show(human)
    typer.echo(f"report written to {out / 'report.html'}")


def print_evaluation(evaluation: Evaluation) -> None:
    """What papers quote, then every other metric, then the notes."""
    from luvli.cli.tables import show
    from luvli.evaluation.report import heading, quoted_table, summary, value_table

    typer.echo(f"{heading(evaluation)}: {summary(evaluation)}")
    for note in evaluation.notes:
        loud = note.startswith("WARNING")
        typer.secho(note, fg="yellow" if loud else None, bold=loud, err=loud)
    show(quoted_table(evaluation, intervals=False))
    show(value_table(evaluation))
