"""Jobs over many files: what is written in which format, and what of others is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luvli.data.formats import read_labels, read_pts
from luvli.errors import InputError
from luvli.files import folder_lock
from luvli.image.box import Box
from luvli.image.read import read_image
from luvli.image.write import write_image
from luvli.prediction.inputs import Input
from luvli.prediction.parts import ImagesPart
from luvli.prediction.plan import OutputStems
from luvli.prediction.predictor import Predictor
from luvli.prediction.rows import pack_rows, unpack_rows
from luvli.prediction.settings import JobSettings
from luvli.prediction.worker import part_rows

from .conftest import SHAPE, DiscDetector, disc_image
from .jobs import contents, faces_in, names, run, tally


def test_folder_in_json(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    summary = run(discs, folder, tmp_path / "out")
    assert tally(summary) == (6, 6, 1) and summary.counts["without_face"] == 2
    (sentence,) = summary.failed
    assert "broken.png is damaged or truncated" in sentence
    rows = faces_in(tmp_path / "out/faces.json")
    images = [Path(row["image"]).name for row in rows]
    assert images == ["p1.png", "p2.png", "p2.png", "p4.png", "p5.png", "p5.png"]
    np.testing.assert_allclose(rows[0]["points"], [81, 90] + 30 * SHAPE, atol=0.8)
    assert rows[0]["image_size"] == [320, 240]
    assert names(tmp_path / "out") == ["faces.json", "failed.txt"]
    assert "broken.png" in (tmp_path / "out/failed.txt").read_text()
    summary = run(discs, folder, tmp_path / "sure", min_confidence=0.01)
    assert (summary.counts["faces"], summary.counts["filtered"]) == (0, 6)  # it has no confidence


@pytest.mark.parametrize("format", ["json", "csv", "coco"])
def test_label_formats_read_back(
    format: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    run(discs, folder, tmp_path / "out", format=format)
    suffix = "csv" if format == "csv" else "json"
    records = read_labels(tmp_path / f"out/faces.{suffix}", format)
    assert len(records) == 6
    np.testing.assert_allclose(records[0].points, [81, 90] + 30 * SHAPE, atol=0.8)
    images = [r.image.name for r in records if r.image]
    assert images == ["p1.png", "p2.png", "p2.png", "p4.png", "p5.png", "p5.png"]
    if format != "coco":
        assert records[0].covariance is not None
        assert records[0].visibility_probability == pytest.approx(0.95, abs=1e-6)
    else:
        listed = json.loads((tmp_path / "out/faces.json").read_text())["images"]
        assert len(listed) == 6 and (listed[0]["width"], listed[0]["height"]) == (320, 240)


@pytest.mark.parametrize("format", ["parquet", "parts"])
def test_parquet_accounts_for_every_image(
    format: str, discs: Predictor, folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.dataset

    run(discs, folder, tmp_path / "out", format=format, part_size=2)
    place = tmp_path / "out" / ("faces.parquet" if format == "parquet" else "")
    rows = pyarrow.dataset.dataset(
        place if format == "parquet" else sorted(map(str, place.glob("*.parquet")))
    ).to_table().to_pylist()  # fmt: skip
    kinds = [row["status"] for row in rows]
    assert [kinds.count(kind) for kind in ("face", "no face", "failed")] == [6, 2, 1]
    (failed,) = [row for row in rows if row["status"] == "failed"]
    assert failed["image"].endswith("broken.png") and "broken.png is damaged" in failed["error"]
    rows = [row for row in rows if row["status"] == "face"]
    points = np.reshape(rows[0]["points"], (68, 2))
    np.testing.assert_allclose(points, [81, 90] + 30 * SHAPE, atol=0.8)
    assert np.shape(rows[0]["covariance"]) == (272,) and rows[0]["frame"] is None
    assert (rows[0]["width"], rows[0]["height"]) == (320, 240)


def test_pts_and_drawings_keep_the_folders(discs: Predictor, folder: Path, tmp_path: Path) -> None:
    run(discs, folder, tmp_path / "out", format="pts", draw=True)
    made = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("[!.]*.*"))
    assert made == [
        "failed.txt", "more/p5-landmarks.png", "more/p5.pts", "more/p5~2.pts", "p1-landmarks.png",
        "p1.pts",
        "p2-landmarks.png", "p2.pts", "p2~2.pts", "p4-landmarks.png", "p4.pts",
    ]  # fmt: skip
    labelled = read_pts(tmp_path / "out/p1.pts", points=68)
    np.testing.assert_allclose(labelled.points, [81, 90] + 30 * SHAPE, atol=0.8)
    drawn, plain = read_image(tmp_path / "out/p1-landmarks.png"), read_image(folder / "p1.png")
    assert drawn.shape[0] % plain.shape[0] == 0  # a small face: enlarged, to be looked at


def test_a_part_comes_back_from_its_file(discs: Predictor, folder: Path) -> None:
    paths = [str(folder / name) for name in ("p2.png", "broken.png", "p0.png")]
    rows = part_rows(discs, JobSettings("out"), ImagesPart(paths[0], 3, "", paths, []))
    assert unpack_rows(pack_rows(rows), "x") == rows
    with pytest.raises(InputError, match="x is damaged"):
        unpack_rows(pack_rows(rows)[:-9], "x")


@pytest.mark.parametrize(("tried", "faces"), [(True, 1), ("auto", 1), (False, 0)])
def test_images_on_their_head_are_found_where_that_is_asked_for(
    tried: Any, faces: int, discs: Predictor, tmp_path: Path
) -> None:
    class Upright(DiscDetector):
        """Finds the disc only where a blue mark stands above it."""

        def __call__(self, image: Any, name: str = "") -> list[Box]:
            mark = np.argwhere(image[:, :, 2] == 255)[:, 0].max()
            return [box for box in super().__call__(image, name) if mark < box.y0]

    image = disc_image([(100, 120, 30)])
    image[20:24, 98:102] = (0, 0, 255)
    write_image(tmp_path / "turned.png", np.ascontiguousarray(image[::-1, ::-1]))
    discs.detector = Upright()
    run(discs, tmp_path / "turned.png", tmp_path / "out", try_rotations=tried)
    found = faces_in(tmp_path / "out/faces.json")
    assert len(found) == faces
    for face in found:  # and in pixels of the image as it is: its chin is above its brows
        assert face["points"][8][1] < face["points"][19][1]
        np.testing.assert_allclose(np.mean(face["box"][::2]), 219, atol=1)


# -- what OUT holds ---------------------------------------------------------------------------


def test_output_names_never_collide() -> None:
    made = []
    stems = OutputStems()
    for i, name in enumerate(
        ["x.jpg", "x.jpg", "x.jpg", "x.png", "x~2.jpg", "v/000003.jpg", "v.mp4", "faces.mp4"]
    ):
        item = Input(f"/{i}/{name}", name)
        stem = stems.stem(item)
        made += [f"{stem}.pts", f"{stem}~2.pts", f"{stem}-landmarks", f"{stem}.json"]
        made += [f"{stem}-frames/000003.pts"] if item.kind == "video" else []
    assert len(set(made)) == len(made) and "faces.json" not in made


def test_results_of_another_run_are_not_replaced(discs: Predictor, tmp_path: Path) -> None:
    write_image(tmp_path / "a/x.png", disc_image([(100, 80, 30)]))
    write_image(tmp_path / "b/x.png", disc_image([(200, 80, 30)]))
    out = tmp_path / "out"
    run(discs, tmp_path / "a", out, draw=True)
    before = contents(out)
    run(discs, tmp_path / "a", out, draw=True)  # the same again is no harm
    assert contents(out) == before
    with pytest.raises(InputError, match="results of another run"):
        run(discs, tmp_path / "b", out)
    assert contents(out) == before
    run(discs, tmp_path / "b", out, overwrite=True)
    assert faces_in(out / "faces.json")[0]["image"].endswith("b/x.png")


def test_a_run_that_could_read_nothing_does_not_block_its_folder(
    discs: Predictor, tmp_path: Path
) -> None:
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30)]))
    out = tmp_path / "out"
    assert run(discs, tmp_path / "y.png", out).failed
    assert names(out) == ["failed.txt"]
    done = run(discs, tmp_path / "x.png", out)
    assert done.counts["faces"] == 1 and not done.failed
    assert not (out / "failed.txt").exists()  # of the run before, which is replaced
    with pytest.raises(InputError, match="results of another run"):
        run(discs, tmp_path / "y.png", out)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("x-landmarks.png", {"draw": True}),
        ("x.pts", {"format": "pts"}),
        ("faces.json", {}),
        ("failed.txt", {}),
        ("part-7.parquet", {"format": "parts"}),
    ],
)
def test_files_of_others_are_not_replaced(
    name: str, settings: dict[str, Any], discs: Predictor, tmp_path: Path
) -> None:
    """OUT is the user's own folder, with a file called as one of ours would be."""
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30), (220, 120, 40)]))
    (tmp_path / name).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"was there before|of somebody else"):
        run(discs, tmp_path / "x.png", tmp_path, **settings)
    assert contents(tmp_path) == before
    done = run(discs, tmp_path / "x.png", tmp_path, overwrite=True, **settings)
    assert done.counts["faces"] == 2 and not done.failed


def test_two_runs_at_once_are_kept_apart(discs: Predictor, tmp_path: Path) -> None:
    write_image(tmp_path / "x.png", disc_image([(100, 80, 30)]))
    with folder_lock(tmp_path / "out"), pytest.raises(InputError, match="another run"):
        run(discs, tmp_path / "x.png", tmp_path / "out")
