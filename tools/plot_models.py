"""Accuracy against time: the shipped models beside public ones, as an image for the docs.

python tools/plot_models.py docs/models.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from luvli.files import whole_file
from luvli.models import model_names, read_card

PEERS = {
    "dlib": (3.33, 1.9),
    "PFLD": (3.42, 4.0),
    "MobileFaceNet": (3.42, 6.5),
    "PFLD-GhostOne": (4.51, 2.9),
    "face-api": (4.74, 12.4),
    "MediaPipe": (5.22, 6.3),
    "3DDFA_V2": (5.29, 1.5),
    "OpenSeeFace": (5.39, 7.8),
}
"""NME (% of inter-ocular, LFPW's test photographs, given boxes) and milliseconds on one thread,
measured in one run beside luvli-68 1.0. Ours are of other photographs of the same set, held out
of its training part: for orientation"""

SLOWER = 6.05 / 1.95
"""How much slower the machine of that run was than that of our cards: the bare call of luvli-68's
network, whose size has not changed, took 6.05 ms there and takes 1.95 here"""


def own_figures() -> dict[str, tuple[float, float]]:
    """NME on held-out LFPW photographs by given boxes, and milliseconds on the others' machine."""
    figures = {}
    for name in model_names():
        card = read_card(name)
        accuracy = next(table for table in card.tables if table.title.startswith("Accuracy"))
        given = accuracy.headings.index("given boxes")
        lfpw = next(row for row in accuracy.rows if row[0] == "lfpw")
        if card.headline is not None:
            time = SLOWER * card.headline.milliseconds
            figures[f"{name} {card.version}"] = (float(lfpw[given]), time)
    return figures


def main() -> None:
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for points, colour, label in (
        (PEERS, "0.45", "public models, LFPW test"),
        (own_figures(), "tab:blue", "this project, held-out LFPW"),
    ):
        times, errors = ([value[i] for value in points.values()] for i in (1, 0))
        axes.plot(times, errors, "o", color=colour, label=label)
        for name, (error, time) in points.items():
            side, place = ("center", (0, 9)) if name.startswith("luvli") else ("left", (5, 4))
            if name.startswith("luvli-68 "):
                place = (0, -16)  # no name over another
            axes.annotate(
                name, (time, error), place, textcoords="offset points", color=colour, ha=side
            )
    axes.set(
        xscale="log",
        xlabel="milliseconds a face, one thread",
        ylabel="NME, % of inter-ocular",
        title="Accuracy against time, boxes given",
    )
    axes.set_xticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"])
    axes.set_xlim(0.8, 45)
    axes.margins(y=0.12)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(loc="center right")
    with whole_file(out) as temporary:
        figure.savefig(temporary, dpi=130, format="png")


if __name__ == "__main__":
    main()
