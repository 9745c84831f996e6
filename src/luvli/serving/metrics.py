"""Counters for Prometheus. With several workers, prometheus_client adds up their files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess

from luvli import __version__
from luvli.serving.settings import METRICS_FOLDER

FACES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """What the server counts."""

    def __init__(self) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        here: dict[str, Any] = {"namespace": "luvli", "registry": self._registry}
        alive = {**here, "multiprocess_mode": "livesum"}  # summed over the workers that are alive
        self.images = Counter("images", "images searched for faces", **here)
        self.faces = Counter("faces", "faces predicted for requests", **here)
        self.frames = Counter("stream_frames", "stream frames answered", **here)
        self.dropped = Counter("stream_frames_dropped", "frames that a newer one replaced", **here)
        self.requests = Counter("requests", "answered requests", ("path", "status"), **here)
        self.in_flight = Gauge("requests_in_flight", "predictions running or queued", **alive)
        self.buffered = Gauge("buffered_bytes", "bytes of bodies and answers in memory", **alive)
        self.streams = Gauge("streams", "open streams", **alive)
        self.request_seconds = Histogram("request_seconds", "time of a prediction", **here)
        self.batch_seconds = Histogram("batch_seconds", "time of a call of the model", **here)
        self.batch_faces = Histogram("batch_faces", "faces in a call", buckets=FACES, **here)
        Gauge("info", "processes by version", ("version",), **alive).labels(__version__).set(1)
        if METRICS_FOLDER not in os.environ:
            prometheus_client.ProcessCollector(registry=self._registry)
            return
        for path in Path(os.environ[METRICS_FOLDER]).glob("gauge_live*_*.db"):
            worker = int(path.stem.rpartition("_")[2])
            try:
                os.kill(worker, 0)
            except ProcessLookupError:  # killed, and this process takes its place
                multiprocess.mark_process_dead(worker)  # type: ignore[no-untyped-call]

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, of all workers together."""
        registry = self._registry
        if METRICS_FOLDER in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            prometheus_client.ProcessCollector(registry=registry)
        return prometheus_client.generate_latest(registry)
