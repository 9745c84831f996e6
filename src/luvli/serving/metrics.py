"""Counters for Prometheus, in a flat array of numbers that worker processes can share.

Every series is known from the start, so a process needs no more than a row of an array; with
several workers each has its row in one memory-mapped file, and whichever of them is asked adds
the rows up.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luvli import __version__

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
FACES = (1, 2, 4, 8, 16, 32)
PATHS = ("/v1/predict", "/v1/models", "page", "other")
STATUSES = (200, 304, 400, 401, 403, 404, 405, 406, 408, 413, 415, 421, 422, 429, 499, 500, 503)

COUNTERS = {
    "luvli_images_total": "images that were searched for faces",
    "luvli_faces_total": "faces that went through the network for requests",
    "luvli_stream_frames_total": "frames of streams that were answered",
    "luvli_stream_frames_dropped_total": "frames of streams that a newer one overtook",
}
GAUGES = {
    "luvli_requests_in_flight": "predictions in work or waiting",
    "luvli_buffered_bytes": "bytes of bodies held in memory",
    "luvli_streams": "open streams",
}
HISTOGRAMS = {
    "luvli_request_seconds": ("time from the head of a prediction to its answer", SECONDS),
    "luvli_network_seconds": ("time of a call of the network", SECONDS),
    "luvli_batch_faces": ("faces in a call of the network", FACES),
}


def _layout() -> dict[str, int]:
    """series -> its place in the row"""
    names = [*COUNTERS, *GAUGES]
    names += [f"requests {path} {status}" for path in PATHS for status in STATUSES]
    for name, (_, bounds) in HISTOGRAMS.items():
        names += [f"{name} {i}" for i in range(len(bounds) + 1)] + [f"{name} sum"]
    return {name: place for place, name in enumerate(names)}


_PLACE = _layout()
SIZE = len(_PLACE)


class Metrics:
    """Counts what the server does. Safe to use from several threads."""

    def __init__(self, rows: NDArray[np.float64] | None = None, row: int = 0) -> None:
        """`rows` (workers, SIZE) is shared memory; this process writes to `row`."""
        self._rows = np.zeros((1, SIZE)) if rows is None else rows
        self._mine = self._rows[row]
        self._mine[:] = 0
        self._turn = threading.Lock()

    @classmethod
    def shared(cls, descriptor: int, workers: int, row: int) -> Metrics:
        """On an open file of `workers * SIZE` numbers."""
        path = f"/proc/self/fd/{descriptor}" if Path("/proc/self/fd").exists() else None
        if path is None:
            return cls()
        return cls(np.memmap(path, np.float64, "r+", shape=(workers, SIZE)), row)

    def add(self, name: str, amount: float = 1.0) -> None:
        """Count a counter or a gauge up, or a gauge down."""
        with self._turn:
            self._mine[_PLACE[name]] += amount

    def observe(self, name: str, value: float) -> None:
        """Put a value into a histogram."""
        bounds = HISTOGRAMS[name][1]
        with self._turn:
            self._mine[_PLACE[f"{name} {bisect_left(bounds, value)}"]] += 1
            self._mine[_PLACE[f"{name} sum"]] += value

    def request(self, path: str, status: int) -> None:
        """One answered request; paths nobody knows are `other`, so that strangers cannot make
        series."""
        known = path if path in PATHS else "other"
        place = _PLACE.get(f"requests {known} {status}")
        if place is not None:
            with self._turn:
                self._mine[place] += 1

    def value(self, name: str) -> float:
        """The sum over all workers."""
        return float(self._rows[:, _PLACE[name]].sum())

    def work_done(self) -> float:
        """Predictions asked for and frames that this process has answered."""
        places = [_PLACE[f"requests /v1/predict {status}"] for status in STATUSES]
        return float(self._mine[[*places, _PLACE["luvli_stream_frames_total"]]].sum())

    def text(self) -> str:
        """Everything in Prometheus' text format."""
        lines: list[str] = []

        def head(name: str, about: str, kind: str) -> None:
            lines.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}"))

        head("luvli_info", "the version of the software", "gauge")
        lines.append(f'luvli_info{{version="{__version__}"}} 1')
        for kind, table in (("counter", COUNTERS), ("gauge", GAUGES)):
            for name, about in table.items():
                head(name, about, kind)
                lines.append(f"{name} {self.value(name):g}")
        head("luvli_requests_total", "answered requests", "counter")
        for path in PATHS:
            for status in STATUSES:
                count = self.value(f"requests {path} {status}")
                if count:
                    lines.append(
                        f'luvli_requests_total{{path="{path}",status="{status}"}} {count:.0f}'
                    )
        for name, (about, bounds) in HISTOGRAMS.items():
            head(name, about, "histogram")
            total = 0.0
            for i, bound in enumerate([*bounds, "+Inf"]):
                total += self.value(f"{name} {i}")
                lines.append(f'{name}_bucket{{le="{bound}"}} {total:.0f}')
            lines.append(f"{name}_sum {self.value(f'{name} sum'):.6f}")
            lines.append(f"{name}_count {total:.0f}")
        head("process_resident_memory_bytes", "memory of the process that answers", "gauge")
        lines.append(f"process_resident_memory_bytes {resident_bytes()}")
        return "\n".join(lines) + "\n"


def resident_bytes(process: int | str = "self") -> int:
    """Memory of a process as the system counts it; 0 where it does not tell."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
