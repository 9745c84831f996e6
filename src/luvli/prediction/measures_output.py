"""Measures of the faces in a video over time: a table with standard deviations, and a plot."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from luvli.arrays import Floats
from luvli.data.formats.tables import write_rows
from luvli.errors import require
from luvli.files import whole_file
from luvli.measures.measure import Measure
from luvli.prediction.events import MIN_CONFIDENCE
from luvli.prediction.parts import Row
from luvli.prediction.writers import Write, face_dicts, measure_cells, text_file

INTERVAL = 0.95
"""share of the true values that the plotted bands should hold"""


@contextmanager
def measures_writer(table: Path, plot: Path) -> Iterator[Write]:
    """Writes one line for each face of each frame; the plot shows the face that was tracked
    longest."""
    header: list[str] = []
    series: dict[int, dict[str, array[float]]] = {}
    kinds: dict[str, Measure] = {}
    with text_file(table) as stream:

        def write(row: Row) -> None:
            for face in face_dicts(row.faces, measures=True):
                kinds.update(row.faces.measures)
                about = {name: face.get(name) for name in ("track", "confidence", "eyes_closed")}
                cells = {"frame": row.frame, "time": row.time} | about | measure_cells(face)
                if not header:
                    header.extend(cells)
                    write_rows(stream, [header])
                write_rows(stream, [["" if cell is None else cell for cell in cells.values()]])
                one = series.setdefault(face.get("track", 0), {})
                for name, value in cells.items():
                    one.setdefault(name, array("d")).append(np.nan if value is None else value)

        yield write
    if series:
        longest = max(series.values(), key=lambda one: len(one["time"]))
        with whole_file(plot) as temporary:
            _plot({name: np.array(v) for name, v in longest.items()}, kinds, temporary)


def _plot(series: Mapping[str, Floats], kinds: Mapping[str, Measure], path: Path) -> None:
    """A panel for each measure: its value, and the interval that holds the true one with 95 %."""
    figures = require("matplotlib.figure", "evaluate")
    time = series["time"]
    figure = figures.Figure(figsize=(9, 1.5 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), sharex=True, squeeze=False)[:, 0]
    unsure = series["confidence"] < MIN_CONFIDENCE
    for axes, (name, kind) in zip(panels, kinds.items(), strict=True):
        value = np.where(unsure, np.nan, series[name])
        measure = Measure(value, series[f"{name}_std"], 1.0, kind.unit, kind.likelihood)
        low, high = measure.interval(INTERVAL)
        axes.fill_between(time, low, high, alpha=0.3, linewidth=0)
        axes.plot(time, value, linewidth=1)
        axes.set_ylabel(f"{name}\n{kind.unit}".replace("_", " ").strip(), fontsize=8)
    panels[0].set_title(f"with {INTERVAL:.0%} intervals", fontsize=9)
    panels[-1].set_xlabel("seconds")
    figure.savefig(path, dpi=100)
