"""Settings of the server: its limits, its models, and who may use it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from luvli.errors import InputError
from luvli.files import PathLike, read_text

PAGE = Path(__file__).parent / "page"
"""static files of the page"""
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""environment variable of prometheus_client: the folder where workers keep their counters"""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""hosts that mean this machine alone"""
MIN_TOKEN = 16
"""characters of a bearer token; shorter ones can be guessed"""


def about(words: str, **constraints: Any) -> Any:
    """A field with its description."""
    return Field(description=words, **constraints)


def first_problem(errors: Sequence[Any], options: type[BaseModel]) -> str:
    """The first of pydantic's errors about `options` as a sentence."""
    first = errors[0]
    name = str(first["loc"][-1])[:50] if first["loc"] else "the message"
    if first["type"] == "extra_forbidden":
        return f"there is no option {name!r}: choose from {', '.join(options.model_fields)}."
    return f"{name} cannot be used: {first['msg']}."


class Limits(BaseModel):
    """What one server process accepts. docs/serving.md says what happens beyond each limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_requests: int = about("Predictions that run or wait.", default=64, ge=1)
    max_connections: int = about("Open connections.", default=512, ge=1)
    max_streams: int = about("Open streams.", default=8, ge=0)
    max_bytes: int = about("Of a body, or of a frame of a stream.", default=20_000_000, ge=1)
    max_buffered_bytes: int = about("Of all bodies and answers.", default=256_000_000, ge=1)
    max_images: int = about("In one request.", default=16, ge=1)
    max_pixels: int = about("Of one image, by its header.", default=50_000_000, ge=1)
    max_faces: int = about("In one image.", default=100, ge=1)
    max_batch: int = about("Images that are predicted together.", default=16, ge=1)
    patience_ms: float = about("Wait for images of others.", default=0.0, ge=0, le=1000)
    request_seconds: float = about("For a prediction, with its queue.", default=30.0, gt=0)
    receive_seconds: float = about("For a body.", default=20.0, gt=0)
    send_seconds: float = about("For a client to read its answer.", default=20.0, gt=0)
    # longer than load balancers keep their connections
    idle_seconds: float = about("Of a connection without requests.", default=75.0, gt=0)
    stream_idle_seconds: float = about("Of a stream without frames.", default=60.0, gt=0)
    drain_seconds: float = about("For requests in flight after SIGTERM.", default=30.0, gt=0)

    @classmethod
    def parse(cls, words: Iterable[str]) -> Limits:
        """From `name=value` words of the command line.

        >>> Limits.parse(["max_faces=5"]).max_faces
        5
        """
        pairs = [word.partition("=") for word in words]
        try:
            return cls.model_validate({name: value for name, _, value in pairs})
        except ValidationError as error:
            problem = first_problem(error.errors(), cls)
            raise InputError(f"--limit takes NAME=NUMBER: {problem}") from error


class ServerSettings(BaseModel):
    """A server process: where it listens, what it serves, and to whom."""

    model_config = ConfigDict(frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    models: tuple[str, ...] = ("luvli-68",)  # shipped names or files; the first is the default
    tokens: tuple[str, ...] = ()  # accepted bearer tokens; none: no token is asked for
    threads: int = Field(default=1, ge=1)  # for images, and of each network
    limits: Limits = Limits()


def read_tokens(path: PathLike) -> tuple[str, ...]:
    """The tokens of a file: one on each line, `#` begins a remark."""
    lines = [line.partition("#")[0].strip() for line in read_text(path).splitlines()]
    tokens = tuple(line for line in lines if line)
    # printable ASCII without spaces
    if not tokens or not all(re.fullmatch(rf"[!-~]{{{MIN_TOKEN},}}", token) for token in tokens):
        raise InputError(
            f"{path} must have a token of {MIN_TOKEN} or more plain characters on each line: make "
            "one with python -c 'import secrets; print(secrets.token_urlsafe())'."
        )
    return tokens


def check_exposure(host: str, tokens: tuple[str, ...], open_to_all: bool) -> None:
    """Refuse to listen on other addresses without a token, unless `open_to_all`."""
    if not (host in LOOPBACK or tokens or open_to_all):
        raise InputError(
            f"listening on {host} would let everyone in: give --token-file FILE, or --open if "
            "something in front of the server checks who may ask."
        )
