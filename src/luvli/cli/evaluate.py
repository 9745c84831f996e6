"""`luvli evaluate`: run a model over a data set and report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typer import Argument, Option

from luvli.cli.options import SKIP_BAD
from luvli.cli.output import face_progress, print_result, say, warn
from luvli.files import folder_lock

if TYPE_CHECKING:
    from luvli.evaluation.metrics import Evaluation
    from luvli.evaluation.table import Table


def evaluate(
    model: Path = Argument(help="Model to run."),
    data: tuple[str, Path] = Option(
        metavar="NAME PATH",
        help="Data set (`luvli data list`), or a part such as w300/split2/indoor or "
        "merl_rav/test/profile, and its folder. By default its test split.",
    ),
    out: Path = Option(help="Folder for the report."),
    name: str | None = Option(None, help="Name of the method; the model's name by default."),
    crop_by: Literal["paper", "reference", "tight", "detector", "predict"] = Option(
        "paper",
        help="Boxes to crop by: paper (the data set's, else tight ones with 5 % noise), "
        "reference (noise as in the published code), tight, detector, or predict (the detector's, "
        "refined where they do not fit, as predict does).",
    ),
    boxes: Literal["set", "tight"] = Option(
        "set", help="set: the data set's own; tight: around the landmarks."
    ),
    given_boxes: bool = Option(False, "--given-boxes", help="Normalise by the data set's boxes."),
    annotators: Path | None = Option(
        None, help="JSON of labels by several people, to compare with."
    ),
    skip_bad: bool = SKIP_BAD,
    mean_estimator: str | None = Option(
        None, help="How to read heat maps: relu, softmax, tau-softmax or argmax."
    ),
) -> None:
    """Run a model over a test set; write report.html, report.md, metrics.json, predictions.

    Example: `luvli evaluate model --data w300/split2 data/300w --out report`
    """
    from luvli.evaluation.annotators import comparison, human_table
    from luvli.evaluation.evaluate_model import evaluate_set
    from luvli.evaluation.report import report_folder, write_report

    with folder_lock(out):
        faces = evaluate_set(
            model, *data, skip_bad=skip_bad, boxes=boxes, method=name,
            crop_by="detector" if crop_by == "predict" else crop_by,
            refine_boxes=crop_by == "predict",
            given_boxes=given_boxes, mean_estimator=mean_estimator,
            progress=face_progress("evaluating"),
        )  # fmt: skip
        out = report_folder(out, faces)
        evaluation = write_report(out, faces, annotators=annotators)
    human = [] if annotators is None else [human_table(comparison(faces, annotators))]
    print_evaluation(evaluation, out, human)


def print_evaluation(
    evaluation: Evaluation, report: Path | None = None, more: Sequence[Table] = ()
) -> None:
    """The notes, then what papers quote and every other metric, then where the report is."""
    from luvli.evaluation.report import heading, quoted_table, summary, value_table

    say(f"{heading(evaluation)}: {summary(evaluation)}")
    for note in evaluation.notes:
        warn(note) if note.startswith("WARNING") else say(note)
    tables = quoted_table(evaluation, intervals=False), value_table(evaluation), *more
    print_result(*tables, value=json.loads(evaluation.to_json()))
    if report is not None:
        say(f"report written to {report / 'report.html'}")
