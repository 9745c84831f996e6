"""TensorBoard's event file, written in the thread of whoever has something to write.

PyTorch's `SummaryWriter` hands everything to a thread of its own. Where the disk is full, that
thread ends with a traceback on the terminal, and the run learns of it late or not at all. A few
events a minute need no thread.
"""

from __future__ import annotations

import io
import socket
import time
from pathlib import Path
from typing import Any

from PIL import Image

from luvli.image.read import ImageArray


class EventFile:
    """A new file of events in `folder`; TensorBoard forgets older events from `first_step` on.

    Every event is in the file when its method returns; `OSError` where the disk does not take it.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names
        now = f"{time.time():017.6f}"
        self.path = folder / f"events.out.tfevents.{now}.{socket.gethostname()}"
        self._write(first_step, file_version="brain.Event:2")
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(first_step, session_log=start)

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Numbers by their tags."""
        self._values(step, [{"tag": tag, "simple_value": value} for tag, value in values.items()])

    def image(self, tag: str, image: ImageArray, step: int) -> None:
        """An RGB image, (height, width, 3)."""
        encoded = io.BytesIO()
        Image.fromarray(image).save(encoded, "PNG")
        height, width, channels = image.shape
        content = self._summary.Image(
            height=height,
            width=width,
            colorspace=channels,
            encoded_image_string=encoded.getvalue(),
        )
        self._values(step, [{"tag": tag, "image": content}])

    def _values(self, step: int, values: list[dict[str, Any]]) -> None:
        self._write(step, summary=self._summary(value=[self._summary.Value(**v) for v in values]))

    def _write(self, step: int, **content: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        event = self._event(wall_time=time.time(), step=step, **content)
        with self.path.open("ab") as stream:
            RecordWriter(stream).write(event.SerializeToString())
