"""Counters for Prometheus. With several workers, prometheus_client adds up their files."""

from __future__ import annotations

import os
from pathlib import Path

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess

from luvli import __version__
from luvli.serving.settings import METRICS_FOLDER

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
FACES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """What the server counts."""

    def __init__(self) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"luvli_{name}", words, labels, registry=registry)

        def gauge(name: str, words: str, *labels: str) -> Gauge:
            # summed over the workers that are alive
            return Gauge(
                f"luvli_{name}", words, labels, registry=registry, multiprocess_mode="livesum"
            )

        def histogram(name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"luvli_{name}", words, registry=registry, buckets=buckets)

        self.images = counter("images", "images searched for faces")
        self.faces = counter("faces", "faces predicted for requests")
        self.frames = counter("stream_frames", "stream frames answered")
        self.dropped = counter("stream_frames_dropped", "stream frames that a newer one replaced")
        self.requests = counter("requests", "answered requests", "path", "status")
        self.in_flight = gauge("requests_in_flight", "predictions running or queued")
        self.buffered = gauge("buffered_bytes", "bytes of bodies and answers held in memory")
        self.streams = gauge("streams", "open streams")
        self.request_seconds = histogram("request_seconds", "time of a prediction", SECONDS)
        self.network_seconds = histogram("network_seconds", "time of a network call", SECONDS)
        self.batch_faces = histogram("batch_faces", "faces in a network call", FACES)
        gauge("info", "processes of each version", "version").labels(__version__).set(1)
        if METRICS_FOLDER not in os.environ:
            prometheus_client.ProcessCollector(registry=registry)
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
