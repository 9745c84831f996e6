"""`luvli paper`: the paper's tables and figures, with our own rows and predictions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from luvli.cli.options import Verbs
from luvli.cli.output import face_progress, print_names, print_result, say, warn
from luvli.errors import InputError, unknown_choice
from luvli.files import whole_file

if TYPE_CHECKING:
    from luvli.evaluation.paper_tables import PublishedTable

paper = Verbs(name="paper", help="Tables and figures of the paper, with our rows.")
_IMAGES = (".png", ".pdf", ".svg")


@paper.command()
def table(
    which: str | None = Argument(
        None, help="Number in the paper (1 to 13) or name, e.g. split2; none lists all."
    ),
    reports: list[Path] = Option([], help="Report folder, searched at any depth; repeatable."),
    polyline: bool = Option(False, "--polyline", help="Our AUC as the published code computes it."),
    model: list[str] = Option([], help="Evaluate this model on --data first; may be repeated."),
    data: list[str] = Option([], metavar="NAME=FOLDER", help="Data set for --model; repeatable."),
) -> None:
    """Print a table of the paper or its supplement, with rows for your reports.

    A row of ours (marked †) appears for each report of one of the table's data sets, with the
    number of faces that it was measured on. With --model and --data the rows are measured now:
    reports go to the first --reports folder, and are not made again if they are there.

    Examples: `luvli paper table split2 --reports reports`,
    `luvli paper table split2 --model luvli-68 --data w300=data/300w --reports reports`
    """
    from luvli.evaluation import paper_tables as tables

    if which is None:
        print_names({e.name: f"{e.number:>2}  {e.title}" for e in tables.published_tables()})
        return
    plain = tables.published_table(which)
    if model:
        if not data or not reports:
            raise InputError("--model needs --data NAME=FOLDER and --reports FOLDER.")
        _evaluate(plain, model, data, reports[0])
    read = tables.read_reports(reports)
    chosen = tables.with_reports(plain, read, "polyline" if polyline else "step")
    if sentence := tables.without_column(plain, read):
        warn(sentence)
    print_result(*tables.printed_tables(chosen), value=asdict(chosen))


def _evaluate(plain: PublishedTable, models: list[str], sets: list[str], reports: Path) -> None:
    """Reports of the models on the data sets, by the protocol that the table is about."""
    from luvli.evaluation.evaluate_model import evaluate_set
    from luvli.evaluation.paper_tables import table_protocol
    from luvli.evaluation.report import write_report

    for model in models:
        for pair in sets:
            name, _, root = pair.partition("=")
            if not root:
                raise InputError(f"--data {pair} names no folder: write {name}=FOLDER.")
            protocol = table_protocol(plain, name)
            part = f"{name}/{protocol}" if protocol else name
            folder = reports / f"{Path(model).stem}-{part.replace('/', '-')}"
            if not (folder / "metrics.json").is_file():
                progress = face_progress("evaluating")
                write_report(folder, evaluate_set(model, part, root, progress=progress))


@paper.command()
def figure(
    name: str | None = Argument(
        None, help="Name, or number in the paper, e.g. residuals or 4; none lists all."
    ),
    predictions: list[Path] = Option(
        [],
        help="predictions.parquet of a report, or any file with labels that `luvli score` reads; "
        "several for ced, coverage, rank and risk-coverage.",
    ),
    out: Path | None = Option(None, help="Image to write: .png, .pdf or .svg."),
    per_bin: int = Option(734, min=1, help="Landmarks in a bin of figure 4 (paper: 734 or 36)."),
    published: bool = Option(False, "--published", help="As the published code draws it."),
    annotators: Path | None = Option(None, help="Labels by several people, for the figure human."),
    images: Path | None = Option(None, help="Folder with the images, for faces and labels."),
) -> None:
    """Draw a figure of the paper or of a report.

    Example: `luvli paper figure residuals --predictions report/predictions.parquet --out fig4.png`
    """
    from luvli.evaluation import plots
    from luvli.evaluation.annotators import comparison, human_table
    from luvli.evaluation.match import read_faces
    from luvli.evaluation.plot_style import PlotOptions

    if name is None:
        numbers = {key: ", ".join(map(str, entry.numbers)) for key, entry in plots.PLOTS.items()}
        print_names({key: f"{n or '-':<5} {plots.PLOTS[key].title}" for key, n in numbers.items()})
        return
    name = plots.plot_name(name)
    if out is None or not (predictions or name == "overview"):
        raise InputError("a figure needs --predictions FILE and --out IMAGE.")
    if out.suffix.lower() not in _IMAGES:
        raise unknown_choice("kind of image", out.suffix, _IMAGES)
    options = PlotOptions(
        per_bin=per_bin, published=published, annotators=annotators, images=images
    )
    sets = [read_faces(path) for path in predictions]
    drawn = plots.draw_plot(name, sets, options)
    with whole_file(out) as temporary:
        drawn.savefig(temporary)
    if name == "human":
        print_result(human_table(comparison(sets[0], annotators)))
    say(f"figure written to {out}")
