"""`luvli compare`: several reports side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    reports: Annotated[
        list[Path], typer.Argument(help="Report folders; the first is what others differ from.")
    ],
    normalizer: Annotated[
        str, typer.Option(help="box, interocular, interpupil or diagonal.")
    ] = "box",
    cutoff: Annotated[float, typer.Option(help="Percent for AUC and FR: 7, 8 or 10.")] = 7.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.html, compare.md, compare.json.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Put several reports side by side, with confidence intervals and paired differences.

    Example: `luvli compare reports/a reports/b --out comparison`
    """
    import json as json_module

    from luvli.cli.tables import print_table
    from luvli.errors import unknown_choice
    from luvli.evaluation import compare as comparing
    from luvli.evaluation.accuracy import normalizer_name
    from luvli.evaluation.metrics import CUTOFFS

    kind = normalizer_name(normalizer)
    if cutoff not in CUTOFFS:
        raise unknown_choice("cutoff", f"{cutoff:g}", [f"{value:g}" for value in CUTOFFS])
    read = comparing.distinct([comparing.read_report(folder) for folder in reports], reports)
    if out is not None:
        comparing.write_comparison(out, read, kind, cutoff)
    if json:
        typer.echo(json_module.dumps(comparing.comparison_json(read, kind, cutoff)))
        return
    for table in comparing.comparison_tables(read, kind, cutoff):
        print_table(list(table.head), [list(row) for row in table.rows], table.title)
        typer.echo(table.note)
    if out is not None:
        typer.echo(f"\ncomparison written to {out / 'compare.html'}")
