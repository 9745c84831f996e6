"""`luvli score`: how good are predictions made by any program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Json


def score(
    predictions: Annotated[
        Path,
        typer.Argument(help="npz, npy, csv, tsv, json, txt, xml, mat or parquet file, or a folder "
                            "of .pts, .npy or .csv; docs/evaluation.md lists the layouts."),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(help="Labels: the same formats, also cvat and labelme. Not needed when the "
                          "predictions hold them."),
    ] = None,
    data: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="NAME FOLDER", help="A data set as the labels (`luvli data list`), or "
                     "a part such as w300/split2. Its images need not be there."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; without it only a summary.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the method; the file's name by default.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Data set (w300, menpo, cofw68, aflw19, wflw, merl_rav): its tables of "
                          "the paper then stand in the report."),
    ] = None,
    subset: Annotated[
        str | None, typer.Option(help="Part of it, e.g. full, common, challenge, test, frontal.")
    ] = None,
    markup: Annotated[
        str | None, typer.Option(help="Point set, if the number of points does not tell.")
    ] = None,
    likelihood: Annotated[
        str | None, typer.Option(help="Density that covariances belong to: laplace or gauss.")
    ] = None,
    given_boxes: Annotated[
        bool, typer.Option("--given-boxes", help="Normalise by the label file's boxes, not tight "
                                                 "ones.")
    ] = False,
    one_based: Annotated[
        bool, typer.Option("--one-based", help="The predictions count pixels from 1 (.pts always "
                                               "do).")
    ] = False,
    truth_one_based: Annotated[
        bool, typer.Option("--truth-one-based", help="The labels of --truth count pixels from 1.")
    ] = False,
    signs: Annotated[
        bool, typer.Option(help="Read negative coordinates in .pts as occlusion (MERL-RAV).")
    ] = True,
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Match faces by their order even if it looks wrong.")
    ] = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Score predicted landmarks against labels, with everything that applies.

    Points are enough. Covariances (`covariance` or `cholesky`) and visibilities
    (`visibility`) are evaluated where the file has them. Faces are matched by name, or by
    their order when one side has no names (said aloud, and refused where the errors are
    absurd); a face without a prediction counts as a failure.

    Examples: `luvli score mine.npz --truth labels/ --dataset w300 --subset test --out report`,
    `luvli score results.json --data cofw68 data/cofw`
    """
    from luvli.cli.evaluate import print_evaluation
    from luvli.evaluation.match import read_faces
    from luvli.evaluation.metrics import compute_metrics
    from luvli.evaluation.report import report_folder, write_report

    faces = read_faces(
        predictions, truth, data=data, one_based=one_based,
        truth_one_based=truth_one_based, signs=signs, given_boxes=given_boxes, by_order=by_order,
        method=name or _method_name(predictions),
        dataset=dataset, subset=subset, markup=markup, likelihood=likelihood,
    )  # fmt: skip
    if out is not None:
        out = report_folder(out, faces)
        evaluation = write_report(out, faces)
    else:
        evaluation = compute_metrics(faces)
    if json:
        typer.echo(evaluation.to_json(), nl=False)
        for note in evaluation.notes:
            if note.startswith("WARNING"):
                typer.secho(note, fg="yellow", err=True)
        return
    print_evaluation(evaluation)
    if out is not None:
        typer.echo(f"report written to {out / 'report.html'}")


def _method_name(predictions: Path) -> str | None:
    """The file's name, of `semifrontal.mat#yang` the participant's; None: as the report has it."""
    participant = predictions.name.partition("#")[2]
    return None if predictions.suffix == ".parquet" else participant or predictions.stem
