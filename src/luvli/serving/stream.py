"""`WS /v1/stream`: frames in, faces out; followed and smoothed for each connection.

The client sends JPEG (or PNG, WebP) frames as binary messages, and, whenever it likes, options
as a JSON text message. Every answer is a JSON text message with `frame`, the number of the
binary message it belongs to, from 0. While a frame is in work, only the newest of those that
arrive is kept.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from luvli.image.detect import MIN_SCORE
from luvli.prediction.tracking import TrackedFrame, Tracker, TrackSmoother
from luvli.prediction.video import Frame
from luvli.serving.describe import face_fields, to_json
from luvli.serving.engine import Engine
from luvli.serving.errors import Refused, unusable
from luvli.serving.upload import decode

TRY_LATER = 1013
PROTOCOL = "luvli"
NAMES = ("model", "smooth", "regions", "min_score")
"""options of a stream"""


@dataclass
class _Viewer:
    """What is remembered of one connection: followed faces and their smoothers."""

    engine: Engine
    model: str | None = None
    smooth: bool = True
    regions: bool = False
    min_score: float = MIN_SCORE
    smoother: TrackSmoother = field(default_factory=lambda: TrackSmoother(offline=False))
    tracker: Tracker | None = None

    def choose(self, options: Any) -> None:
        """Options of a text message; unknown ones are refused."""
        if not isinstance(options, dict) or set(options) - {*NAMES}:
            raise unusable(f"options are a JSON object with {', '.join(NAMES)}.")
        model = options.get("model", self.model)
        smooth, regions = options.get("smooth", self.smooth), options.get("regions", self.regions)
        score = options.get("min_score", self.min_score)
        if not (model is None or isinstance(model, str)):
            raise unusable("model must be a name.")
        if not isinstance(smooth, bool) or not isinstance(regions, bool):
            raise unusable("smooth and regions must be true or false.")
        if not isinstance(score, int | float) or not 0 <= score <= 1:
            raise unusable("min_score must be a number from 0 to 1.")
        self.engine.model(model)
        self.model, self.smooth, self.regions = model, smooth, regions
        self.min_score = float(score)
        self.tracker, self.smoother = None, TrackSmoother(offline=False)

    def look(self, data: bytes, arrived: float) -> dict[str, Any]:
        """One frame; runs in a thread."""
        start = time.monotonic()
        predictor = self.engine.model(self.model).predictor
        image = decode(data, self.engine.settings.limits, "the frame")
        if self.tracker is None:
            self.tracker = Tracker(predictor, self.min_score)
        faces = self.tracker(image)[: self.engine.settings.limits.max_faces]
        tracks = [] if faces.track is None else faces.track.tolist()
        if self.smooth:
            frame = Frame(0, arrived, image)
            faces = self.smoother.push(TrackedFrame(frame, faces))[0].faces
        faces = replace(faces, track=None)
        return {
            "faces": [face_fields(face, self.regions) for face in faces],
            "tracks": tracks,
            "width": image.shape[1],
            "height": image.shape[0],
            "model": predictor.info.name,
            "timings": {"total": round((time.monotonic() - start) * 1e3, 3)},
        }


class _Newest:
    """A slot for one frame: a newer one takes the place of the one that waits."""

    def __init__(self) -> None:
        self.dropped = 0
        self._frame: tuple[int, bytes, float] | None = None
        self._there = asyncio.Event()

    def put(self, number: int, data: bytes) -> None:
        self.dropped += self._frame is not None
        self._frame = number, data, time.monotonic()
        self._there.set()

    async def take(self) -> tuple[int, bytes, float]:
        await self._there.wait()
        self._there.clear()
        frame, self._frame = self._frame, None
        assert frame is not None
        return frame


async def serve_stream(websocket: WebSocket, engine: Engine) -> None:
    """One connection, from its handshake to its end."""
    offered = websocket.scope.get("subprotocols", [])
    await websocket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
    if engine.streams >= engine.settings.limits.max_streams:
        await websocket.close(TRY_LATER, "all streams are taken: try again later.")
        return
    engine.streams += 1
    engine.metrics.add("luvli_streams", 1)
    viewer, newest = _Viewer(engine), _Newest()
    worker = asyncio.ensure_future(_work(websocket, viewer, newest))
    reader = asyncio.ensure_future(_read(websocket, viewer, newest))
    try:
        done, _ = await asyncio.wait({worker, reader}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    except (WebSocketDisconnect, RuntimeError):
        pass  # the client is gone
    except TimeoutError:
        await websocket.close(1000, "no frame came for a while.")
    finally:
        for task in (worker, reader):
            task.cancel()
        await asyncio.gather(worker, reader, return_exceptions=True)
        engine.streams -= 1
        engine.metrics.add("luvli_streams", -1)


async def _read(websocket: WebSocket, viewer: _Viewer, newest: _Newest) -> None:
    number = 0
    while True:
        async with asyncio.timeout(viewer.engine.settings.limits.stream_idle_seconds):
            message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        if message.get("bytes") is not None:
            newest.put(number, message["bytes"])
            number += 1
            continue
        try:
            viewer.choose(_parsed(message.get("text") or ""))
        except Refused as refused:
            await websocket.send_text(to_json(refused.body()).decode())


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if len(text) < 10_000 else None
    except (ValueError, RecursionError):
        return None


async def _work(websocket: WebSocket, viewer: _Viewer, newest: _Newest) -> None:
    metrics = viewer.engine.metrics
    dropped = 0
    while True:
        number, data, arrived = await newest.take()
        try:
            answer = await viewer.engine.in_thread(viewer.look, data, arrived)
        except Refused as refused:
            answer = refused.body()
        metrics.add("luvli_stream_frames_total")
        metrics.add("luvli_stream_frames_dropped_total", newest.dropped - dropped)
        dropped = newest.dropped
        body = to_json({"frame": number, "dropped": dropped, **answer})
        async with asyncio.timeout(viewer.engine.settings.limits.send_seconds):
            await websocket.send_text(body.decode())
