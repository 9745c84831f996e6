"""The server on Ray: a cluster of two nodes with one core each, one of which dies under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import SECONDS

import luvli as library
from luvli.errors import InputError
from luvli.scale.ray_serve import build_app, pack_models, replica_options
from luvli.serving import Client
from luvli.serving.settings import ServerSettings

from .conftest import NODE

pytest.importorskip("fastapi", reason="needs the extra serve")

COMMAND = [sys.executable, "-m", "luvli", "serve", "--engine", "ray", "--port", "0"]
CLIENTS = 6


def test_replicas_are_fixed_or_follow_the_load() -> None:
    assert replica_options("3") == replica_options("3:3") == {"num_replicas": 3}
    scaled = replica_options("1:4")["autoscaling_config"]
    assert (scaled["min_replicas"], scaled["max_replicas"]) == (1, 4)
    for wrong in ("2:1", "0", "many"):
        with pytest.raises(InputError, match=f"--replicas {wrong} cannot be"):
            replica_options(wrong)


def test_the_command_names_what_does_not_go_together(luvli: Any) -> None:
    unknown = luvli("serve", "--engine", "dask")
    both = luvli("serve", "--engine", "ray", "--workers", "2")
    alone = luvli("serve", "--replicas", "2")
    assert (unknown.exit_code, both.exit_code, alone.exit_code) == (2, 2, 2)
    assert "is not one of" in unknown.stderr and "--replicas" in both.stderr
    assert "--replicas" in alone.stderr


def test_a_model_file_travels_with_its_bytes(tmp_path: Path) -> None:
    from luvli.models import find_model

    mine = tmp_path / "mine.onnx"
    mine.write_bytes(find_model("luvli-68", "onnx").read_bytes())
    settings = ServerSettings(models=(str(mine),), threads=1)
    packed = pack_models(settings)
    mine.unlink()  # as on a machine that never had it
    assert packed == {str(mine): find_model("luvli-68", "onnx").read_bytes()}
    assert build_app(settings, packed).title == "LUVLi"
    with pytest.raises(InputError, match=r"gone\.onnx"):
        pack_models(ServerSettings(models=(str(tmp_path / "gone.onnx"),)))


@pytest.mark.slow
@pytest.mark.seconds(20)
@pytest.mark.skipif(sys.platform == "win32", reason="kills processes by POSIX signals")
def test_a_node_dies_under_load_and_every_request_is_answered(cluster: Any) -> None:
    pytest.importorskip("ray.serve", reason="needs Ray Serve (extra serve-ray)")
    import luvli.serving

    examples = Path(luvli.serving.__file__).parent / "page/examples"
    image = (examples / "front.jpg").read_bytes()
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    process = subprocess.Popen(
        [*COMMAND, "--replicas", "2"], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    words = process.stderr.readline().split()
    assert words and words[0] == "luvli:", f"{words} {process.stderr.read()}"
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        # retries enough for a machine that is slow to replace what died
        client = Client(words[1], timeout=SECONDS, retries=60)
        expected = library.predict(image)[0].points

        def ask(number: int) -> float:
            if number == 40:
                _kill_node(cluster, cluster.worker_nodes.copy().pop())
            answer = client.predict(image)  # raises what was not answered
            return float(np.abs(answer.faces[0].points - expected).max())

        with ThreadPoolExecutor(CLIENTS) as pool:
            differences = list(pool.map(ask, range(120)))
        assert max(differences) < 1e-3  # JSON rounds
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(SECONDS)
        if len(cluster.worker_nodes) == 0:
            cluster.add_node(**NODE)
    assert code == 0


def _kill_node(cluster: Any, node: Any) -> None:
    """Everything of a node at once, as if its plug were pulled."""
    import psutil

    for started in node.all_processes["raylet"]:
        for process in psutil.Process(started.process.pid).children(recursive=True):
            process.kill()
    cluster.remove_node(node, allow_graceful=False)
