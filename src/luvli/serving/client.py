"""`Client`: a server's predictions as the library's own types; needs no extra.

    from luvli.serving import Client

    with Client("http://127.0.0.1:8000") as client:
        faces = client.predict("photo.jpg").faces

When the server is busy (429, 503), going away or cut off in the middle, the same request is sent
again after a pause; predictions change nothing, so that is safe.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.files import PathLike, unreadable

ImageFile = PathLike | bytes
"""a path, or the bytes of a file"""

AGAIN = (408, 429, 502, 503, 504)
"""statuses after which the same request may be sent again"""
LONGEST_PAUSE = 10.0


class ServerError(RuntimeError):
    """The server refused, and trying again did not help; the message is its own sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Prediction:
    """The faces of one image, as the server answered."""

    faces: list[FaceLandmarks]
    width: int
    height: int
    model: str
    version: str
    timings: dict[str, float]
    """milliseconds spent in the server"""
    faces_left_out: int

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Prediction:
        """From the JSON object."""
        faces = [FaceLandmarks.from_dict(face) for face in fields["faces"]]
        names = ("width", "height", "model", "version", "timings", "faces_left_out")
        return cls(faces, **{name: fields[name] for name in names})


class Client:
    """Talks to one server. Safe to share between threads; each has its own connection."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 5,
    ) -> None:
        """`timeout` in seconds for each attempt; `retries` after the first attempt."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{url!r} is not the address of a server: write http://host:port.")
        self._secure = parts.scheme == "https"
        self._address = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._retries = retries
        self._local = threading.local()
        self._all: list[http.client.HTTPConnection] = []

    # -- what the server offers ------------------------------------------------------------

    def predict(
        self,
        image: ImageFile,
        boxes: Sequence[Sequence[float]] | None = None,
        model: str | None = None,
        min_score: float | None = None,
    ) -> Prediction:
        """The faces of one image."""
        query = _query(boxes=boxes, model=model, min_score=min_score)
        body = self._ask("POST", f"/v1/predict{query}", read_source(image))
        return Prediction.from_fields(json.loads(body))

    def predict_many(
        self,
        images: Sequence[ImageFile],
        boxes: Sequence[Sequence[Sequence[float]]] | None = None,
        model: str | None = None,
        min_score: float | None = None,
    ) -> list[Prediction]:
        """The faces of several images in one request, in their order."""
        if len(images) == 1:
            return [self.predict(images[0], boxes[0] if boxes else None, model, min_score)]
        query = _query(boxes=boxes, model=model, min_score=min_score)
        body, kind = _multipart([read_source(image) for image in images])
        answer = json.loads(self._ask("POST", f"/v1/predict{query}", body, kind))
        return [Prediction.from_fields(fields) for fields in answer]

    def draw(self, image: ImageFile, coverage: float | None = None) -> bytes:
        """The image with its faces drawn, as PNG."""
        query = _query(coverage=coverage)
        return self._ask("POST", f"/v1/predict{query}", read_source(image), accept="image/png")

    def table(self, image: ImageFile) -> str:
        """The faces of an image as CSV."""
        return self._ask("POST", "/v1/predict", read_source(image), accept="text/csv").decode()

    def models(self) -> list[dict[str, Any]]:
        """The served models, each with its name, landmarks, licence and more."""
        found: list[dict[str, Any]] = json.loads(self._ask("GET", "/v1/models"))["models"]
        return found

    def ready(self) -> bool:
        """Whether the server takes requests; never raises."""
        try:
            status, _, _ = self._once("GET", "/readyz", None, {})
        except (OSError, http.client.HTTPException):
            return False
        return status == 200

    # -- how -------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str = "application/octet-stream",
        accept: str = "application/json",
    ) -> bytes:
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = kind
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                status, answered, data = self._once(method, path, body, headers)
            except (OSError, http.client.HTTPException) as error:
                self.close_mine()
                if last:
                    raise ServerError(
                        0, "unreachable", f"no answer from the server: {error}."
                    ) from error
                time.sleep(_pause(attempt, None))
                continue
            if status == 200:
                return data
            refusal = _error(status, data)
            # a 500 that is not in our words comes from something in front, such as Ray's proxy,
            # when the process that held the request died
            lost = status == 500 and refusal.code == "unknown"
            if last or not (lost or status in AGAIN):
                raise refusal
            time.sleep(_pause(attempt, answered.get("Retry-After")))
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self._connection()
        connection.request(method, self._prefix + path, body, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()

    def _connection(self) -> http.client.HTTPConnection:
        mine: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if mine is None:
            host, port = self._address
            if self._secure:
                context = ssl.create_default_context()
                mine = http.client.HTTPSConnection(
                    host, port, timeout=self._timeout, context=context
                )
            else:
                mine = http.client.HTTPConnection(host, port, timeout=self._timeout)
            self._local.connection = mine
            self._all.append(mine)
        return mine

    def close_mine(self) -> None:
        """Close this thread's connection; the next request opens another."""
        mine: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if mine is not None:
            mine.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_source(source: ImageFile) -> bytes:
    """The bytes of a file, or the bytes given."""
    if isinstance(source, bytes):
        return source
    path = Path(os.fspath(source))
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def _query(**options: Any) -> str:
    given = {name: value for name, value in options.items() if value is not None}
    if "boxes" in given:
        given["boxes"] = json.dumps(_plain(given["boxes"]), separators=(",", ":"))
    return f"?{urlencode(given)}" if given else ""


def _plain(rows: Any) -> Any:
    """Arrays and boxes as nested lists of numbers."""
    if isinstance(rows, int | float):
        return float(rows)
    return [_plain(row) for row in rows]


def _multipart(files: Sequence[bytes]) -> tuple[bytes, str]:
    boundary = uuid4().hex
    parts = []
    for number, data in enumerate(files):
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="image"; '
            f'filename="{number}"\r\nContent-Type: application/octet-stream\r\n\r\n'
        )
        parts += [head.encode(), data, b"\r\n"]
    parts.append(f"--{boundary}--\r\n".encode())
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def _pause(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next attempt: what the server asks for, or twice as long each time;
    never the same for all clients, which would come back together."""
    wanted = 0.1 * 2.0**attempt
    if retry_after and retry_after.isdecimal():
        wanted = max(wanted, float(retry_after))
    return float(min(wanted, LONGEST_PAUSE) * random.uniform(0.75, 1.25))


def _error(status: int, data: bytes) -> ServerError:
    try:
        words = json.loads(data)["error"]
        return ServerError(status, str(words["code"]), str(words["message"]))
    except (ValueError, KeyError, TypeError):
        return ServerError(status, "unknown", f"the server answered with status {status}.")
