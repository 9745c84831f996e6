"""`luvli evaluate`: run a model over a data set and report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model to run.")],
    data: Annotated[
        tuple[str, Path],
        typer.Option(metavar="NAME PATH", help="Data set and its folder; see `luvli data`."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report.")],
    subset: Annotated[
        str | None, typer.Option(help="Only this part, e.g. common, challenge, profile.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="test, unless you say otherwise.")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Which of several published splits, e.g. split2 of w300.")
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
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out faces with broken files.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many faces, to try it out.")
    ] = None,
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

    Example: `luvli evaluate model --data w300 data/300w --protocol split2 --out report`
    """
    from luvli.evaluation.evaluate_model import evaluate_set
    from luvli.evaluation.labelled_faces import crop_name
    from luvli.evaluation.report import write_report
    from luvli.evaluation.summary import heading, summary
    from luvli.files import folder_lock
    from luvli.progress import track

    dataset, root = data
    with folder_lock(out):
        faces = evaluate_set(
            model, dataset, root, subset=subset, split=split, protocol=protocol,
            skip_bad=skip_bad, limit=limit, device=device, crop_by=crop_name(crop_by),
            boxes=boxes, method=name, given_boxes=given_boxes, mean_estimator=mean_estimator,
            covariance_estimator=covariance_estimator,
            progress=lambda records: track(records, "evaluating", unit="faces"),
        )  # fmt: skip
        metrics = write_report(out, faces)
    typer.echo(f"{heading(metrics)}: {summary(metrics)}")
    typer.echo(f"report written to {out / 'report.html'}")
