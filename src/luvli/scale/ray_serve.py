"""`luvli serve --engine ray`: the same application on several machines behind one address.

    client -> Ray's proxy -> a replica: guard, limits, shared calls of the network

Every replica is a process of its own with the whole application in it. Ray starts replicas,
spreads requests over them, starts more when many are in work, and replaces those that die. What
a dying replica held is lost; `luvli.serving.Client` sends it again.
"""

from __future__ import annotations

import logging
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luvli.errors import InputError, require
from luvli.models import SUFFIXES, find_model
from luvli.prediction.predictor import load
from luvli.scale.cluster import connected
from luvli.serving.settings import ServerSettings

NAME = "luvli"
"""the application's name on the cluster, which has one of it"""
QUIET = {"enable_access_log": False, "log_level": "WARNING"}
"""of Ray's own log: nothing about single requests, as without Ray"""


@dataclass(frozen=True)
class Replicas:
    """How many copies of the application run."""

    least: int = 1
    most: int | None = None
    """as many as the load asks for, up to this; None: always `least`"""
    target_requests: int = 8
    """requests in work at each beyond which another is started: enough to share calls"""

    def __post_init__(self) -> None:
        if self.least < 1 or (self.most is not None and self.most < self.least):
            raise InputError(
                f"there cannot be {self.least} to {self.most} replicas: give --replicas 1 or "
                "more, and --max-replicas no smaller."
            )
        if self.target_requests < 1:
            raise InputError("--target-requests must be 1 or more.")

    def options(self) -> dict[str, Any]:
        """As a Ray deployment wants it.

        >>> Replicas(2).options()
        {'num_replicas': 2}
        """
        if self.most is None or self.most == self.least:
            return {"num_replicas": self.least}
        return {
            "autoscaling_config": {
                "min_replicas": self.least,
                "max_replicas": self.most,
                "target_ongoing_requests": self.target_requests,
            }
        }


@dataclass(frozen=True)
class ModelFile:
    """A model that goes to the replicas with its bytes, so that no machine needs the file."""

    name: str
    content: bytes


def pack_models(settings: ServerSettings) -> tuple[ModelFile | str, ...]:
    """Shipped models by name, others by their bytes; each is opened once, so that a model that
    cannot be used is refused before the cluster is asked for anything."""
    packed: list[ModelFile | str] = []
    for model in settings.models:
        load(model, threads=1)
        if Path(model).suffix in SUFFIXES.values():
            path = find_model(model)
            packed.append(ModelFile(path.name, path.read_bytes()))
        else:
            packed.append(model)
    return tuple(packed)


def build_app(settings: ServerSettings, models: tuple[ModelFile | str, ...]) -> Any:
    """The application, in the replica that will run it."""
    from luvli.serving.app import create_app
    from luvli.serving.engine import Engine

    with tempfile.TemporaryDirectory() as folder:
        names: list[str] = []
        for number, model in enumerate(models):
            if isinstance(model, ModelFile):
                path = Path(folder) / str(number) / model.name
                path.parent.mkdir()
                path.write_bytes(model.content)
                names.append(str(path))
            else:
                names.append(model)
        return create_app(Engine(settings.model_copy(update={"models": tuple(names)})))


def application(settings: ServerSettings, replicas: Replicas) -> Any:
    """The application for `ray.serve.run`."""
    serve: Any = require("ray.serve", "serve-ray")
    models = pack_models(settings)
    limits = settings.limits

    def make_app() -> Any:
        return build_app(settings, models)

    deployment = serve.deployment(
        serve.ingress(make_app)(),
        name=NAME,
        # More than the application takes on: it says no itself, at once and with Retry-After,
        # and still answers /readyz.
        max_ongoing_requests=limits.max_connections,
        max_queued_requests=limits.max_connections,
        graceful_shutdown_timeout_s=limits.drain_seconds,
        ray_actor_options={"num_cpus": settings.threads or 1},
        logging_config=QUIET,
        **replicas.options(),
    )
    return deployment.bind()


def serve_on_ray(
    settings: ServerSettings,
    replicas: Replicas,
    address: str | None,
    tell: Callable[[int], None],
) -> None:
    """Serve until SIGTERM or SIGINT, on the cluster at `address` or on one of this machine.

    Ray's proxy listens on this machine alone where the host is a loopback address, and on every
    machine of the cluster otherwise. `tell` gets the port once requests are answered.
    """
    serve: Any = require("ray.serve", "serve-ray")
    limits = settings.limits
    port = free_port(settings.host, settings.port)
    app = application(settings, replicas)
    logging.getLogger("ray.serve").setLevel(logging.ERROR)  # its progress is of no use to users
    stop = threading.Event()
    with connected(address, extra="serve-ray"):
        for number in (signal.SIGTERM, signal.SIGINT):  # now, because Ray has set its own
            signal.signal(number, lambda *_: stop.set())
        found = serve.status()
        others = set(found.applications) - {NAME}
        if others:
            raise InputError(
                f"the Ray cluster serves {', '.join(sorted(others))} already, with a port of its "
                "own: end that with serve shutdown, or give the --address of another cluster."
            )
        if found.applications or found.proxies:
            serve.shutdown()  # what an earlier command that was killed has left
        serve.start(
            proxy_location="HeadOnly" if settings.is_local else "EveryNode",
            http_options={
                "host": settings.host,
                "port": port,
                "request_timeout_s": limits.receive_seconds + limits.request_seconds,
                "keep_alive_timeout_s": max(1, int(limits.idle_seconds)),
            },
            logging_config=QUIET,
        )
        try:
            try:
                serve.run(app, name=NAME)
            except RuntimeError as error:
                raise InputError(
                    "the replicas did not start: see serve status, and whether every machine of "
                    "the cluster has luvli[serve-ray] of this version."
                ) from error
            tell(port)
            stop.wait()
        finally:
            serve.shutdown()


def free_port(host: str, port: int) -> int:
    """The port if nobody has it, or any free one for 0: Ray wants to know it beforehand."""
    from luvli.serving.run import open_socket

    listening: socket.socket = open_socket(host, port)
    with listening:
        return int(listening.getsockname()[1])
