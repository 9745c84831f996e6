"""Small images in every kind of source, and a job over them that needs no cluster.

`in_this_process` sends parts through the two steps that a cluster with graphics cards has, one
after the other. The one step of processors is tested in test_isolated.py, and what Ray adds
(retries, back-pressure, several machines) in test_cluster.py.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.image.write import write_image
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import Predictor, load
from luvli.prediction.video import Frame
from luvli.scale.cluster import PATIENT
from luvli.scale.landmarks import Landmarks
from luvli.scale.output import PartCounts
from luvli.scale.parts import Part
from luvli.scale.plan import Plan, open_plan, undone
from luvli.scale.prepare import PictureReader, ReadSettings
from luvli.scale.ray_predict import count_chunk
from luvli.scale.settings import WorkerSettings
from luvli.scale.sources import SourceOptions, plan_parts
from luvli.scale.stages import Network, Read, written
from luvli.scale.video_source import read_video_part

pytest.importorskip("pyarrow", reason="needs pyarrow (extra scale)")

NODE = {"num_cpus": 1, "object_store_memory": 200 << 20, "include_log_monitor": False}
"""a node of the cluster, without what nobody reads"""
HEAD = {**NODE, "include_dashboard": False, "no_monitor": True}


@pytest.fixture(scope="session")
def predictor() -> Predictor:
    return load("luvli-68", threads=1)


@pytest.fixture(scope="session")
def photos(astronaut: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five images of a face, one without, one that is none; in two folders."""
    folder = tmp_path_factory.mktemp("photos")
    for number in range(5):
        view = astronaut[0:260, 120 + 6 * number : 380 + 6 * number]
        name = f"{'ab'[number % 2]}/{number}.jpg"
        write_image(folder / name, np.ascontiguousarray(view))
    write_image(folder / "blank.png", np.full((64, 64, 3), 90, np.uint8))
    (folder / "broken.jpg").write_bytes(b"nonsense")
    return folder


@pytest.fixture(scope="session")
def picture_bytes(photos: Path) -> list[tuple[str, bytes]]:
    """The same images by name."""
    files = sorted(p for p in photos.rglob("*") if p.is_file())
    return [(p.relative_to(photos).as_posix(), p.read_bytes()) for p in files]


@pytest.fixture(scope="session")
def tar(picture_bytes: list[tuple[str, bytes]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WebDataset shard: each image with a label beside it."""
    path = tmp_path_factory.mktemp("tars") / "shard-000.tar"
    with tarfile.open(path, "w") as out:
        for number, (name, content) in enumerate(picture_bytes):
            key = f"{number:04d}"
            for member, data in ((f"{key}{Path(name).suffix}", content), (f"{key}.cls", b"1")):
                about = tarfile.TarInfo(member)
                about.size = len(data)
                out.addfile(about, io.BytesIO(data))
    return path


@pytest.fixture(scope="package")  # an idle cluster takes processor time
def cluster() -> Iterator[Any]:
    """A Ray cluster of two nodes with one core each, in this machine."""
    pytest.importorskip("ray", reason="needs Ray (extra scale)")
    from ray.cluster_utils import Cluster

    patient = {**PATIENT, "RAY_worker_register_timeout_seconds": "120"}
    before = {name: os.environ.get(name) for name in patient}
    os.environ.update(patient)
    try:
        made = Cluster(initialize_head=True, head_node_args=HEAD)
        made.add_node(**NODE)
    except Exception as error:
        pytest.skip(f"Ray could not start here: {str(error)[:120]}")
    yield made
    made.shutdown()
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def worker(predictor: Predictor, target: Path | str, **job: Any) -> WorkerSettings:
    """Settings of a job with the shipped model."""
    from luvli.models import find_model

    model = find_model("luvli-68", "onnx")
    settings = JobSettings(Path(), "parquet", **job)
    read = ReadSettings(predictor.info, settings.min_score, try_rotations=settings.try_rotations)
    return WorkerSettings(str(target), model.read_bytes(), model.suffix, read, settings)


class PlainReader(PictureReader):
    """Reads in this process: isolation has tests of its own."""

    def frames(self, part: Part) -> Iterator[Frame]:
        return read_video_part(part)


class LocalRead(Read):
    """The readers' step without a cluster."""

    reader: Any = None

    def __init__(self, settings: WorkerSettings) -> None:
        self.reader = PlainReader(settings.read)


class LocalNetwork(Network):
    """The network's step without a cluster to get its settings from."""

    def __init__(self, settings: WorkerSettings, predictor: Predictor) -> None:
        self.settings = settings
        self.landmarks = Landmarks(predictor, settings.job)
        self.reader: Any = PlainReader(settings.read)


InThisProcess = Callable[..., tuple[Plan, PartCounts]]


@pytest.fixture(scope="session")
def in_this_process(predictor: Predictor) -> InThisProcess:
    """Run a job part by part: sources, target -> plan and what was counted at the end."""

    def run(
        sources: list[str],
        target: Path | str,
        limit: int | None = None,
        options: SourceOptions | None = None,
        identity: dict[str, Any] | None = None,
        **job: Any,
    ) -> tuple[Plan, PartCounts]:
        settings = worker(predictor, target, **job)
        parts = plan_parts(sources, options or SourceOptions(part_size=3))
        plan = open_plan(str(target), identity or {"model": "x"}, parts)
        read, network = LocalRead(settings), LocalNetwork(settings, predictor)
        parts_left = [p for chunk in range(plan.chunks) for p in undone(str(target), chunk)]
        for part in parts_left[:limit]:
            written(network(read({"part": part.to_json()})))
        if limit is not None:
            return plan, PartCounts()
        total = PartCounts()
        for chunk in range(plan.chunks):
            total.add(count_chunk(str(target), chunk))
        return plan, total

    return run


def rows_of(target: Path | str | list[str]) -> list[dict[str, Any]]:
    """All rows of a target, in an order that does not depend on files."""
    import pyarrow.dataset

    place = target if isinstance(target, list) else str(target)

    rows = pyarrow.dataset.dataset(place, format="parquet").to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["image"], row["frame"] or 0, row["score"] or 0))
