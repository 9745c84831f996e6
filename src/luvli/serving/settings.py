"""Every number that bounds the server, and who may talk to it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike, read_text

LEAST_TOKEN = 16
"""characters of a bearer token; shorter ones can be guessed"""


class Limits(BaseModel):
    """What one server process takes on; beyond it the answer is 413, 429 or 503, at once.

    >>> Limits().max_requests
    64
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_requests: int = Field(default=64, ge=1)
    """predictions in work or waiting at the same time; one more gets 503"""
    max_client_requests: int = Field(default=0, ge=0)
    """of them, from one address; one more gets 429. 0: no limit, because behind a load balancer
    everyone has the same address"""
    max_connections: int = Field(default=512, ge=1)
    """open connections; one more gets 503 and is closed"""
    max_streams: int = Field(default=8, ge=0)
    """WebSocket streams at the same time"""
    max_bytes: int = Field(default=20_000_000, ge=1)
    """of one request's body, or of one frame of a stream; more gets 413"""
    max_buffered_bytes: int = Field(default=256_000_000, ge=1)
    """of all bodies that are held in memory together; one more gets 503"""
    max_images: int = Field(default=16, ge=1)
    """in one request; more get 413"""
    max_pixels: int = Field(default=50_000_000, ge=4)
    """of one image, read from its header before it is decoded; more get 413"""
    max_faces: int = Field(default=100, ge=1)
    """in one image: of more, those with the best scores are kept and the rest counted"""
    max_batch: int = Field(default=16, ge=1)
    """faces in one call of the network"""
    patience_ms: float = Field(default=3.0, ge=0, le=1000)
    """longest wait for faces of other requests before a call of the network; none when idle"""
    request_seconds: float = Field(default=30.0, gt=0)
    """for one prediction, waiting included; then 503"""
    receive_seconds: float = Field(default=20.0, gt=0)
    """for the whole body to arrive; then 408. Headers get half of it"""
    send_seconds: float = Field(default=20.0, gt=0)
    """for a client to take its answer; then it is cut off"""
    idle_seconds: float = Field(default=75.0, gt=0)
    """that an idle connection is kept open: longer than load balancers keep theirs, which would
    otherwise send requests into a closing one"""
    stream_idle_seconds: float = Field(default=60.0, gt=0)
    """without a frame after which a stream is closed"""
    drain_seconds: float = Field(default=30.0, gt=0)
    """after SIGTERM for requests in work to finish"""

    @classmethod
    def parse(cls, given: Iterable[str]) -> Limits:
        """From `name=value` words of the command line.

        >>> Limits.parse(["max_faces=5"]).max_faces
        5
        """
        values: dict[str, Any] = {}
        for word in given:
            name, equals, value = word.partition("=")
            if name not in cls.model_fields:
                raise unknown_choice("limit", name, cls.model_fields)
            if not equals:
                raise InputError(f"the limit {name} has no value: write --limit {name}=NUMBER.")
            values[name] = value
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(
                f"the limit {first['loc'][0]} cannot be {first['input']!r}: {first['msg']}."
            ) from error


class ServerSettings(BaseModel):
    """A server process: where it listens, what it serves, and to whom."""

    model_config = ConfigDict(frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    models: tuple[str, ...] = ("luvli-68",)
    """shipped names or model files; the first is the default"""
    tokens: tuple[str, ...] = ()
    """any one of them opens the door; none: it is open"""
    threads: int | None = None
    """processor threads; all cores by default"""
    limits: Limits = Limits()

    @cached_property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


@lru_cache(64)  # asked for every request; strangers choose what is asked
def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine alone.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_tokens(path: PathLike) -> tuple[str, ...]:
    """The tokens of a file: one on each line, `#` begins a remark."""
    lines = [line.partition("#")[0].strip() for line in read_text(path).splitlines()]
    tokens = tuple(line for line in lines if line)
    if not tokens:
        raise InputError(f"{path} has no token: write one of at least {LEAST_TOKEN} characters.")
    for token in tokens:
        if len(token) < LEAST_TOKEN or not token.isascii() or any(c.isspace() for c in token):
            raise InputError(
                f"{path} has a token that is not {LEAST_TOKEN} or more plain characters: make one "
                "with python -c 'import secrets; print(secrets.token_urlsafe())'."
            )
    return tokens


def check_exposure(host: str, tokens: tuple[str, ...], open_to_all: bool) -> None:
    """Refuse to listen beyond this machine without a token, unless told to."""
    if is_loopback(host) or tokens or open_to_all:
        return
    raise InputError(
        f"listening on {host} would let everyone in: give --token-file FILE, or --open if "
        "something in front of the server checks who may ask."
    )


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
