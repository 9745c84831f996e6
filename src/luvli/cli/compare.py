"""`luvli compare`: several reports side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Json


def compare(
    reports: Annotated[
        list[Path], typer.Argument(help="Report folders; the first is what others differ from.")
    ],
    normalizer: Annotated[
        str | None,
        typer.Option(help="box, interocular, interpupil or diagonal; by default what papers quote "
                          "of the data set."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.html, compare.md, compare.json.")
    ] = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Put several reports side by side, with confidence intervals and paired differences.

    Example: `luvli compare reports/a reports/b --out comparison`
    """
    import json as json_module

    from luvli.cli.tables import show
    from luvli.evaluation import compare as comparing
    from luvli.evaluation.accuracy import normalizer_name

    kind = normalizer_name(normalizer) if normalizer else ""
    read = comparing.distinct([comparing.read_report(folder) for folder in reports], reports)
    if out is not None:
        comparing.write_comparison(out, read, kind)
    if json:
        typer.echo(json_module.dumps(comparing.comparison_json(read, kind)))
        return
    for table in comparing.comparison_tables(read, kind):
        show(table)
    if out is not None:
        typer.echo(f"comparison written to {out / 'compare.html'}")
