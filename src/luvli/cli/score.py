"""`luvli score`: how good are predictions made by any program."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from luvli.cli.evaluate import print_evaluation


def score(
    predictions: Path = Argument(
        help="npz, npy, csv, tsv, json, txt, xml, mat or parquet file, or a folder of .pts, .npy "
        "or .csv; docs/evaluation.md lists the layouts."
    ),
    truth: Path | None = Option(
        None,
        help="Labels: the same formats, also cvat and labelme. Not needed when the predictions "
        "hold them.",
    ),
    data: tuple[str, Path] | None = Option(
        None,
        metavar="NAME FOLDER",
        help="A data set as the labels (`luvli data list`), or a part such as w300/split2. Its "
        "images need not be there.",
    ),
    out: Path | None = Option(None, help="Folder for the report; without it only a summary."),
    name: str | None = Option(None, help="Name of the method; the file's name by default."),
    dataset: str | None = Option(
        None,
        help="Data set of the labels, or a part: w300/common, merl_rav/frontal. The paper's "
        "tables of w300, menpo, cofw68, aflw19, wflw and merl_rav then stand in the report.",
    ),
    given_boxes: bool = Option(False, "--given-boxes", help="Normalise by the labels' boxes."),
    one_based: bool = Option(
        False, "--one-based", help="Predictions count pixels from 1 (.pts do)."
    ),
    truth_one_based: bool = Option(False, "--truth-one-based", help="Labels count pixels from 1."),
    by_order: bool = Option(
        False, "--by-order", help="Match by order even if it looks implausible."
    ),
) -> None:
    """Score predicted landmarks against labels.

    Points are enough. Covariances (`covariance` or `cholesky`) and visibilities
    (`visibility`) are evaluated if the file has them. Faces are matched by name, or by their
    order if one side has no names; an implausible order is refused. A face without a
    prediction counts as a failure.

    Examples: `luvli score mine.npz --truth labels/ --dataset w300/test --out report`,
    `luvli score results.json --data cofw68 data/cofw`
    """
    from luvli.evaluation.match import read_faces
    from luvli.evaluation.metrics import compute_metrics
    from luvli.evaluation.report import report_folder, write_report

    if name is None and predictions.suffix != ".parquet":  # a report's knows the method
        name = predictions.stem
    dataset, _, subset = (dataset or "").partition("/")
    faces = read_faces(
        predictions, truth, data=data, one_based=one_based, truth_one_based=truth_one_based,
        given_boxes=given_boxes, by_order=by_order, method=name, dataset=dataset or None,
        subset=subset or None,
    )  # fmt: skip
    if out is not None:
        out = report_folder(out, faces)
        evaluation = write_report(out, faces)
    else:
        evaluation = compute_metrics(faces)
    print_evaluation(evaluation, out)
