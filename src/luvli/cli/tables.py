"""One way to print a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from luvli.files import one_line


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """First column to the left, the others to the right.

    On a terminal the first column folds where there is no room; in a pipe or a file nothing
    is folded or cut, however wide the table.
    """
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    shown = Text(one_line(title)) if title else None
    table = Table(title=shown, box=box.SIMPLE_HEAD, title_justify="left")
    for number, heading in enumerate(headings):
        if number == 0:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))  # names may hold [brackets]
    console = Console()
    if not console.is_terminal:
        needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
        console = Console(width=max(console.width, needed))
    console.print(table)
