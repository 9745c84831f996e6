"""`luvli serve --engine ray`: the same application on several machines behind one address.

Ray Serve mounts the FastAPI application in every replica (`serve.ingress`), starts replicas,
spreads requests over them and replaces those that die. A request that a dying replica held is lost;
`luvli.serving.Client` sends it again.
"""

from __future__ import annotations

import logging
import re
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from luvli.errors import InputError, require
from luvli.models import SUFFIXES, find_model
from luvli.prediction.predictor import load
from luvli.scale.cluster import connected
from luvli.serving.settings import LOOPBACK, ServerSettings

NAME = "luvli"
"""the application's name on the cluster, which has one of it"""
QUIET = {"enable_access_log": False, "log_level": "WARNING"}
"""Ray logs nothing about single requests"""


TARGET_REQUESTS = 8
"""requests in flight at each replica beyond which another is started"""


def replica_options(text: str) -> dict[str, Any]:
    """Of a Ray deployment: `2` replicas, or `2:8` for two to eight, by the load.

    >>> replica_options("2")
    {'num_replicas': 2}
    """
    numbers = re.fullmatch(r"([1-9]\d{0,4})(?::([1-9]\d{0,4}))?", text)
    low, high = map(int, numbers.groups(numbers[1])) if numbers else (1, 0)
    if high < low:
        raise InputError(f"--replicas {text} cannot be: write a number (2) or a range (2:8).")
    if high == low:
        return {"num_replicas": low}
    limits = {"min_replicas": low, "max_replicas": high}
    return {"autoscaling_config": {**limits, "target_ongoing_requests": TARGET_REQUESTS}}


def pack_models(settings: ServerSettings) -> dict[str, bytes | None]:
    """Models by name, files with their bytes, so that no other machine needs them; each is opened
    once, so that a model that cannot be used is refused before the cluster is asked."""
    packed: dict[str, bytes | None] = {}
    for model in settings.models:
        load(model, threads=1)
        is_file = Path(model).suffix in SUFFIXES.values()
        packed[model] = find_model(model).read_bytes() if is_file else None
    return packed


def build_app(settings: ServerSettings, models: dict[str, bytes | None]) -> Any:
    """The application, in the replica that will run it."""
    from luvli.serving.app import create_app
    from luvli.serving.engine import Engine

    with tempfile.TemporaryDirectory() as folder:
        names = []
        for number, (model, content) in enumerate(models.items()):
            path = Path(folder) / str(number) / Path(model).name
            if content is not None:
                path.parent.mkdir()
                path.write_bytes(content)
            names.append(model if content is None else str(path))
        return create_app(Engine(settings.model_copy(update={"models": tuple(names)})))


def application(settings: ServerSettings, replicas: dict[str, Any]) -> Any:
    """The application for `ray.serve.run`; `replicas` as `replica_options` gives them."""
    serve: Any = require("ray.serve", "serve-ray")
    models, limits = pack_models(settings), settings.limits

    def make_app() -> Any:
        return build_app(settings, models)

    deployment = serve.deployment(
        serve.ingress(make_app)(),
        name=NAME,
        # more than the application accepts: it refuses itself, with Retry-After
        max_ongoing_requests=limits.max_connections,
        max_queued_requests=limits.max_connections,
        graceful_shutdown_timeout_s=limits.drain_seconds,
        ray_actor_options={"num_cpus": settings.threads},
        logging_config=QUIET,
        **replicas,
    )
    return deployment.bind()


def serve_on_ray(
    settings: ServerSettings,
    replicas: dict[str, Any],
    address: str | None,
    started: Callable[[int], None],
) -> None:
    """Serve until SIGTERM or SIGINT, on the cluster at `address` or on one of this machine.

    Ray's proxy listens on this machine alone where the host is a loopback address, and on every
    machine of the cluster otherwise. `started` gets the port once requests are answered.
    """
    from luvli.serving.run import open_socket

    serve: Any = require("ray.serve", "serve-ray")
    limits = settings.limits
    with open_socket(settings.host, settings.port) as listening:  # Ray needs a number
        port = int(listening.getsockname()[1])
    app = application(settings, replicas)
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    stop = threading.Event()
    with connected(address, extra="serve-ray") as ray:
        for number in (signal.SIGTERM, signal.SIGINT):  # now, because Ray has set its own
            signal.signal(number, lambda *_: stop.set())
        status = serve.status()
        if others := set(status.applications) - {NAME}:
            raise InputError(
                f"the Ray cluster serves {', '.join(sorted(others))} already, with a port of its "
                "own: end that with serve shutdown, or set RAY_ADDRESS to that of another cluster."
            )
        if status.applications or status.proxies:
            serve.shutdown()  # what an earlier command that was killed has left
        try:
            serve.start(
                proxy_location="HeadOnly" if settings.host in LOOPBACK else "EveryNode",
                http_options={
                    "host": settings.host,
                    "port": port,
                    "request_timeout_s": limits.receive_seconds + limits.request_seconds,
                    "keep_alive_timeout_s": max(1, int(limits.idle_seconds)),
                },
                logging_config=QUIET,
            )
            serve.run(app, name=NAME)
            started(port)
            stop.wait()
        except (RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
            raise InputError(
                "the server did not start on the cluster: see serve status, and whether every "
                "machine of the cluster has luvli[serve-ray] of this version."
            ) from error
        finally:
            serve.shutdown()
