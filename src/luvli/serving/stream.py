"""`WS /v1/stream`: frames in, faces out, tracked and smoothed for each connection.

The client sends JPEG (or PNG, WebP) frames as binary messages and, at any time, `StreamOptions`
as a JSON text message. Every answer is a JSON text message with `frame`, the number of the binary
message it belongs to, from 0. While a frame is processed, only the newest of those that arrive is
kept.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from luvli.errors import InputError
from luvli.image.read import read_image
from luvli.prediction.smooth import TrackSmoother
from luvli.prediction.tracking import TrackedFrame, Tracker
from luvli.prediction.video import Frame
from luvli.serving.answers import face_fields, to_json
from luvli.serving.engine import Engine
from luvli.serving.errors import Refused, refusal
from luvli.serving.schema import StreamOptions
from luvli.serving.settings import first_problem
from luvli.serving.upload import header_size

TRY_LATER = 1013
PROTOCOL = "luvli"


class StreamSession:
    """One connection."""

    def __init__(self, websocket: WebSocket, engine: Engine) -> None:
        self._websocket = websocket
        self._engine = engine
        self._limits = engine.settings.limits
        self._frames: asyncio.Queue[tuple[int, bytes, float]] = asyncio.Queue(1)
        self._dropped = 0
        self._set_options("{}")

    async def run(self) -> None:
        """Receive and answer frames until the client leaves."""
        try:
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(self._answer())
                await self._receive()
                answering.cancel()
        except* (WebSocketDisconnect, RuntimeError):
            pass  # the client is gone
        except* TimeoutError:
            await self._websocket.close(1000, "no frame came for a while.")

    async def _receive(self) -> None:
        number = 0
        while True:
            async with asyncio.timeout(self._limits.stream_idle_seconds):
                message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if message.get("bytes") is None:
                try:
                    self._set_options(message.get("text") or "")
                except Refused as error:
                    await self._send(error.body)
                continue
            if self._frames.full():  # the newest frame replaces the one that waits
                self._frames.get_nowait()
                self._dropped += 1
                self._engine.metrics.dropped.inc()
            self._frames.put_nowait((number, message["bytes"], time.monotonic()))
            number += 1

    async def _answer(self) -> None:
        while True:
            number, data, arrived = await self._frames.get()
            try:
                answer = await self._engine.in_thread(self._track, data, arrived)
            except InputError as error:
                answer = refusal(error).body
            self._engine.metrics.frames.inc()
            await self._send({"frame": number, "dropped": self._dropped, **answer})

    async def _send(self, body: dict[str, Any]) -> None:
        async with asyncio.timeout(self._limits.send_seconds):
            await self._websocket.send_text(to_json(body).decode())

    def _set_options(self, text: str) -> None:
        """Start anew with the options of a text message."""
        try:
            self._options = StreamOptions.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise Refused("unusable", first_problem(error.errors(), StreamOptions)) from None
        self._model = self._engine.model(self._options.model)
        self._tracker = Tracker(
            self._model.predictor, self._options.min_score, self._limits.max_faces
        )
        self._smoother = TrackSmoother[TrackedFrame]()

    def _track(self, data: bytes, arrived: float) -> dict[str, Any]:
        """The answer to one frame; runs in a thread. `arrived` in seconds."""
        start = time.monotonic()
        width, height = header_size(data, self._limits, "the frame")
        image = read_image(data)
        faces = self._tracker(image)
        tracks = [] if faces.track is None else faces.track.tolist()
        if self._options.smooth:
            faces = replace(faces, time=np.full(len(faces), arrived))
            faces = self._smoother.push(TrackedFrame(Frame(0, arrived, image), faces)).faces
        return {
            "faces": face_fields(replace(faces, track=None, time=None), self._options),
            "tracks": tracks,
            "width": width,
            "height": height,
            "model": self._model.name,
            "timings": {"total": round((time.monotonic() - start) * 1e3, 3)},
        }


async def serve_stream(websocket: WebSocket, engine: Engine) -> None:
    """One connection, from its handshake to its end."""
    offered = websocket.scope.get("subprotocols", [])
    await websocket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
    with engine.streams.share() as take:
        try:
            take(1)
        except Refused:
            await websocket.close(TRY_LATER, "all streams are taken: try again later.")
            return
        await StreamSession(websocket, engine).run()
