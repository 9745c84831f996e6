"""Small images, and one Ray cluster for all tests that need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.image.write import write_image
from luvli.scale.cluster import PATIENT

pytest.importorskip("pyarrow", reason="needs pyarrow (extra scale)")

NODE = {"num_cpus": 1, "object_store_memory": 200 << 20, "include_log_monitor": False}
"""a node of the cluster, without what nobody reads"""
HEAD = {**NODE, "include_dashboard": False, "no_monitor": True}


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


def rows_of(target: Path) -> list[dict[str, Any]]:
    """All rows of a folder of parts, in an order that does not depend on files."""
    import pyarrow.dataset

    files = [str(file) for file in sorted(target.glob("part-*.parquet"))]
    rows = pyarrow.dataset.dataset(files, format="parquet").to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["image"], row["frame"] or 0, row["score"] or 0))
