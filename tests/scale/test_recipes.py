"""The cluster recipes of the documentation: they parse, and say what their programs ask for."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "docs/scale"


def _read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def test_the_cluster_file_fits_rays_own_schema() -> None:
    autoscaler = pytest.importorskip("ray.autoscaler", reason="needs Ray (extra scale)")
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(_read("cluster.yaml"), schema)


def test_the_kubernetes_job_has_what_kuberay_requires() -> None:
    job = _read("rayjob.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"] and container["resources"]["limits"]
        assert "rayStartParams" in group
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_their_commands_are_ours() -> None:
    from typer.main import get_command

    from luvli.cli import app

    words = shlex.split(_read("rayjob.yaml")["spec"]["entrypoint"])
    assert words[:2] == ["luvli", "predict"]
    command: Any = get_command(app)
    known = {option for p in command.commands["predict"].params for option in p.opts}
    assert {word for word in words if word.startswith("--")} <= known
