"""A Ray cluster to work on: the one at an address, or one of this machine's cores."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from luvli.errors import InputError, brief, require

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
"""no usage statistics; and Ray's core warns on the terminal about what Ray Data does"""
PATIENT = {
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_idle_worker_killing_time_threshold_ms": "600000",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
}
"""for a cluster of this machine: a busy one takes longer to start a cluster, or its proxy, than Ray
waits; a worker that Ray ends after a second without work costs more to start again, with its
reader, than a small job; and what Ray keeps for its dashboard about each task that ever ran, in
every process, is memory that only grows"""
KNOCK_SECONDS = 10.0
"""how long a cluster may take to accept a connection"""


@contextmanager
def connected(address: str | None, cpus: int | None = None, extra: str = "scale") -> Iterator[Any]:
    """The module `ray`, connected; what was started here ends with the block.

    Without `address` a cluster of `cpus` cores (all by default) is started in this machine.
    Someone who is connected already stays so. `extra` is what to install where Ray is missing.
    """
    # Ray's ports are open to the network: with a password that only its processes know, they are
    # closed to everyone else. Ray reads it when it is imported.
    ours = address is None and "ray" not in sys.modules
    password = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)} if ours else {}
    for name, value in (QUIET | password | ({} if address else PATIENT)).items():
        os.environ.setdefault(name, value)
    before = signal.getsignal(signal.SIGTERM)
    ray = require("ray", extra)
    if extra == "scale":
        require("ray.data", extra)
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # its plans are of no use to our users
    if ray.is_initialized():
        yield ray
        return
    if address is not None:
        knock(address)
    # "local": never a cluster that somebody else started and RAY_ADDRESS or a file names
    own = {"address": "local", "num_cpus": cpus, "include_dashboard": False}
    begin = own if address is None else {"address": address}
    try:
        with _still():
            ray.init(**begin, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # ConnectionError, RuntimeError, ValueError, by the address
        if address is not None:
            raise _no_cluster(address, error) from error
        raise InputError(
            f"a Ray cluster could not be started on this machine ({brief(error)}): set "
            "RAY_BACKEND_LOG_LEVEL=info, try again and see the logs in /tmp/ray."
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray's own ends the program without a word
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _still() -> Iterator[None]:
    """Nothing on the terminal meanwhile: Ray's core prints there that its log level is set."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def knock(address: str) -> None:
    """Fail at once where nobody listens: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> InputError:
    return InputError(
        f"there is no Ray cluster at {address} ({brief(error)}): start one with ray start --head, "
        "or unset RAY_ADDRESS to use this machine alone."
    )


def cores(ray: Any) -> int:
    """Cores of the whole cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
