"""What a job reads: folders, patterns, Parquet files, tars; and how much memory it takes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luvli.errors import InputError
from luvli.image.write import write_image
from luvli.prediction.inputs import Inputs
from luvli.prediction.plan import plan_parts
from luvli.prediction.predictor import Predictor
from luvli.prediction.settings import JobSettings

from .conftest import disc_image
from .jobs import faces_in, run


def test_patterns_files_and_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.jpg", "a/y.png", "b/x.jpg", "line\nbreak.png", "film.MP4", "odd[1].jpg"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert [i.name for i in Inputs(["*/x.jpg"])] == ["a/x.jpg", "b/x.jpg"]
    assert [i.path for i in Inputs(["odd[1].jpg"])] == ["odd[1].jpg"]  # a name, not a pattern
    kinds = {i.name: i.kind for i in Inputs(["."])}
    assert kinds.pop("film.MP4") == "video" and set(kinds.values()) == {"files"}
    assert sorted(kinds) == ["a/x.jpg", "a/y.png", "b/x.jpg", "line\nbreak.png", "odd[1].jpg"]
    (tmp_path / "a/again").symlink_to("../a")  # not followed
    for name in ("a/x.CR2", "a/y.cr2", "a/x-landmarks.png"):
        Path(name).touch()
    inputs = Inputs(["a"], out=".")  # drawings in OUT are no inputs
    assert [i.name for i in inputs] == ["x.jpg", "y.png"] and inputs.skipped == {".cr2": 2}
    (tmp_path / "empty").mkdir()
    for wrong in ("empty", "*.tiff"):
        with pytest.raises(InputError, match="holds no image or video"):
            list(Inputs([wrong]))


def tar_of(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as out:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            out.addfile(about, io.BytesIO(content))
    return path


def points_of(out: Path) -> list[Any]:
    return sorted(row["points"] for row in faces_in(out / "faces.json"))


def test_tars_are_read_in_pieces(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    members = [(p.name, p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()]
    tar = tar_of(tmp_path / "shard.tar", [m for m in members if not m[0].startswith(".")])
    summary = run(discs, tar, tmp_path / "out", part_size=3)
    assert (summary.parts, summary.counts["images"], summary.counts["failed"]) == (3, 6, 1)
    run(discs, folder, tmp_path / "plain")
    assert points_of(tmp_path / "out") == points_of(tmp_path / "plain")
    assert f"{tar}#p1.png" in {row["image"] for row in faces_in(tmp_path / "out/faces.json")}


@pytest.mark.parametrize("kind", ["bytes", "paths", "both"])
def test_parquet_with_pictures_or_paths_carries_its_columns(
    kind: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.dataset
    import pyarrow.parquet as pq

    files = sorted(p for p in folder.rglob("[!.]*.png"))
    keys = [p.relative_to(folder).as_posix() for p in files]
    images: list[Any] = {
        "bytes": [p.read_bytes() for p in files],
        "paths": [str(p.relative_to(tmp_path)) for p in files],  # from the table's folder
        "both": [{"bytes": p.read_bytes(), "path": p.name} for p in files],
    }[kind]
    table = pa.table({"image": images, "key": keys, "year": list(range(7)), "score": ["x"] * 7})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=4)
    out = tmp_path / "out"
    summary = run(discs, tmp_path / "in.parquet", out, format="parts", name_column="key")
    assert (summary.parts, summary.counts["images"], summary.counts["failed"]) == (2, 6, 1)
    rows = pyarrow.dataset.dataset(out, format="parquet", exclude_invalid_files=True)
    rows = rows.to_table().to_pylist()
    assert {row["image"]: row["year"] for row in rows} == dict(zip(keys, range(7), strict=True))
    assert {row["source_score"] for row in rows} == {"x"}
    run(discs, folder, tmp_path / "plain")
    points = sorted(np.reshape(row["points"], (-1, 2)).tolist() for row in rows if row["points"])
    assert points == points_of(tmp_path / "plain")


def test_bad_sources_are_one_sentence(discs: Predictor, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.parquet as pq

    def refused(pattern: str, *names: str, **settings: Any) -> None:
        with pytest.raises(InputError, match=pattern):
            run(discs, [str(tmp_path / name) for name in names], tmp_path / "out", **settings)
        assert not (tmp_path / "out").exists()

    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": [b"x"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"image": ["x"]}), tmp_path / "c.parquet")
    (tmp_path / "t.tar").write_bytes(b"x" * 2000)
    (tmp_path / "t.zip").write_bytes(b"x")
    refused("name the column of the images", "a.parquet")
    refused("has no column 'pic': it has image", "b.parquet", image_column="pic")
    refused("other columns than .*image: string", "b.parquet", "c.parquet")
    refused("t.tar is not a whole tar", "t.tar")
    refused("t.zip is packed", "t.zip")
    refused("need image files", "b.parquet", draw=True)


PREDICTING = """
import gc, sys
from prediction.conftest import DiscBackend, DiscDetector
from luvli.prediction.inputs import Inputs
from luvli.prediction.plan import plan_parts
from luvli.prediction.executors import InProcess, Processes
from luvli.prediction.job import PredictJob
from luvli.prediction.predictor import Predictor
from luvli.prediction.settings import JobSettings
def watch(items, *_):
    for number, item in enumerate(items, 1):
        yield item
        if number % 250 == 0:
            gc.collect()
            print(sys.getallocatedblocks())
job = PredictJob(Inputs([sys.argv[1]]), JobSettings(sys.argv[2], "csv", part_size=50))
job.run(InProcess(Predictor(DiscBackend(), DiscDetector())), watch)
gc.collect()
print(sys.getallocatedblocks())
"""


def test_planning_holds_names_and_no_more(tmp_path: Path) -> None:
    """The plan of ten times as many images takes little more memory for each: a line of the plan
    and the names of one folder, which are sorted."""
    write_image(tmp_path / "one.png", disc_image([(30, 30, 12)], (64, 64)))
    peaks = {}
    for count in (300, 3000):
        for i in range(count):
            (tmp_path / f"{count}/{i:06d}.png").parent.mkdir(exist_ok=True)
            (tmp_path / f"{count}/{i:06d}.png").symlink_to("../one.png")
        inputs, settings = Inputs([tmp_path / str(count)]), JobSettings("out", part_size=50)
        tracemalloc.start()
        assert sum(1 for _ in plan_parts(inputs, settings)) == count // 50
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (peaks[3000] - peaks[300]) / 2700 < 400, peaks  # bytes


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_done(tmp_path: Path) -> None:
    write_image(tmp_path / "in/000000.png", disc_image([(30, 30, 12)], (64, 64)))
    for i in range(1, 1250):
        (tmp_path / f"in/{i:06d}.png").symlink_to("000000.png")
    blocks = numbers_of(PREDICTING, tmp_path / "in", tmp_path / "out")
    assert len(blocks) == 6
    # Python's memory blocks; an image's result takes more than ten
    assert blocks[-1] - blocks[0] < 2000


def numbers_of(script: str, *arguments: object) -> list[int]:
    """What a script prints. A process of its own: what other threads allocate does not count."""
    root = Path(__file__).parents[1]
    places = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True, text=True, check=True, cwd=root,
        env=os.environ | {"PYTHONPATH": places},
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]
