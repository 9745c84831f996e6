"""`luvli compare`: several reports side by side."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from luvli.cli.output import print_result, say


def compare(
    reports: list[Path] = Argument(help="Report folders; the first is what others differ from."),
    out: Path | None = Option(None, help="Folder for compare.html, compare.md, compare.json."),
) -> None:
    """Put several reports side by side, with confidence intervals and paired differences.

    Example: `luvli compare reports/a reports/b --out comparison`
    """
    from luvli.evaluation import compare as comparing

    read = comparing.distinct([comparing.read_report(folder) for folder in reports], reports)
    comparison = comparing.Comparison(read)
    if out is not None:
        comparison.write(out)
        say(f"comparison written to {out / 'compare.html'}")
    print_result(*comparison.tables(), value=comparison.to_json())
