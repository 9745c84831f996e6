"""`luvli paper figure`: the paper's figures from predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Normalizer


def figure(
    name: Annotated[
        str | None,
        typer.Argument(help="Name, or number in the paper, e.g. residuals or 4; none lists all."),
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(help="predictions.parquet of a report, or any file `luvli score` reads; "
                          "several for ced, coverage, rank and risk-coverage."),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Labels, when the predictions do not hold them.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Image to write: .png, .pdf or .svg.")
    ] = None,
    normalizer: Normalizer = "box",
    per_bin: Annotated[
        int, typer.Option(min=1, help="Landmarks in one bin of figure 4 (734 or 36 in the paper).")
    ] = 734,
    published: Annotated[
        bool, typer.Option("--published", help="Figure 4 as published: without the largest tenth.")
    ] = False,
    annotators: Annotated[
        Path | None, typer.Option(help="Labels by several people, for the figure human.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder with the images, for faces and labels.")
    ] = None,
) -> None:  # fmt: skip
    """Draw a figure of the paper, or one of the others a report has.

    Example: `luvli paper figure residuals --predictions report/predictions.parquet --out fig4.png`
    """
    from luvli.errors import InputError, unknown_choice
    from luvli.evaluation import plots
    from luvli.evaluation.accuracy import normalizer_name
    from luvli.evaluation.match import read_faces
    from luvli.evaluation.plot_style import PlotOptions
    from luvli.files import whole_file

    if name is None:
        for key, entry in plots.PLOTS.items():
            numbers = ", ".join(map(str, entry.numbers)) or "-"
            typer.echo(f"{key:<20} {numbers:<6} {entry.title}")
        return
    plots.plot_name(name)
    options = PlotOptions(
        normalizer=normalizer_name(normalizer),
        per_bin=per_bin,
        published=published,
        annotators=annotators,
        images=images,
    )
    if out is None or not (predictions or plots.plot_name(name) == "overview"):
        raise InputError("a figure needs --predictions FILE and --out IMAGE.")
    if out.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise unknown_choice("kind of image", out.suffix, (".png", ".pdf", ".svg"))
    sets = [read_faces(path, truth) for path in predictions or []]
    drawn = plots.draw_plot(name, sets, options)
    with whole_file(out) as temporary:
        drawn.savefig(temporary)
    if plots.plot_name(name) == "human":
        from luvli.cli.tables import show
        from luvli.evaluation.annotators import comparison, human_table

        show(human_table(comparison(sets[0], annotators)))
    typer.echo(f"figure written to {out}")
