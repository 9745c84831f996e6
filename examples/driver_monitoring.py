"""Driver monitoring: are the eyes open, is the head turned, and can this frame be trusted at all?

    python examples/driver_monitoring.py clip.mp4

Prints blinks, yawns and nods, the share of time with closed eyes (PERCLOS), and how many frames
were left out because the alignment was not trusted; writes the trace of the eyes to clip-eyes.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import luvli
from luvli.prediction.events import Trace, face_trace, find_blinks, find_nods, find_yawns, perclos


def draw(trace: Trace, path: Path) -> None:
    """Openness of the eyes over time with one standard deviation, blinks marked."""
    from matplotlib.figure import Figure

    value, std = trace.openness()
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(trace.time, value - std, value + std, alpha=0.3, linewidth=0)
    axes.plot(trace.time, value, label="openness of the eyes, ± 1 standard deviation")
    for blink in find_blinks(trace):
        axes.axvspan(blink.start, blink.end, color="orange", alpha=0.4)
    axes.set(xlabel="seconds", ylabel="height / width", ylim=(0, None))
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def main(clip: str) -> None:
    trace = face_trace(luvli.load("luvli-68").track(clip))
    for event in sorted([*find_blinks(trace), *find_yawns(trace), *find_nods(trace)],
                        key=lambda event: event.start):  # fmt: skip
        print(f"{event.start:6.2f} to {event.end:6.2f} s  {event.kind} ({event.probability:.2f})")
    print(f"eyes closed {perclos(trace):.0%} of the time; {trace.untrusted} of {len(trace)} frames "
          "not trusted and left out")  # fmt: skip
    draw(trace, Path(clip).with_name(f"{Path(clip).stem}-eyes.png"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except luvli.InputError as error:  # one sentence that names the file and what to do
        sys.exit(str(error))
