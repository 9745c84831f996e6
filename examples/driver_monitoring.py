"""Driver monitoring: are the eyes open, is the head turned, and can this frame be trusted at all?

    python examples/driver_monitoring.py clip.mp4

Prints blinks, yawns and nods, the share of time with closed eyes (PERCLOS), and how many frames
were left out because the alignment was not trusted; writes the trace of the eyes to clip-eyes.png.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

import luvli
from luvli.prediction.events import face_trace, find_blinks, find_nods, find_yawns, perclos


def main(clip: str) -> None:
    trace = face_trace(luvli.load("luvli-68").track(clip))
    blinks = find_blinks(trace)
    for event in [*blinks, *find_yawns(trace), *find_nods(trace)]:
        print(f"{event.start:6.2f} to {event.end:6.2f} s  {event.kind} ({event.probability:.2f})")
    print(f"eyes closed {perclos(trace):.0%} of the time; {trace.untrusted} of {len(trace)} frames "
          "not trusted and left out")  # fmt: skip

    value, std = trace.openness()
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(trace.time, value - std, value + std, alpha=0.3, linewidth=0)
    axes.plot(trace.time, value, label="openness of the eyes, ± 1 standard deviation")
    for blink in blinks:
        axes.axvspan(blink.start, blink.end, color="orange", alpha=0.4)
    axes.set(xlabel="seconds", ylabel="height / width", ylim=(0, None))
    axes.legend(loc="lower right")
    figure.savefig(Path(clip).with_name(f"{Path(clip).stem}-eyes.png"), dpi=120)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except luvli.InputError as error:  # one sentence that names the file and what to do
        sys.exit(str(error))
