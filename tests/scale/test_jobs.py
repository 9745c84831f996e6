"""Jobs part by part, without a cluster: the same numbers, every row accounted for, going on."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result as Ran

from luvli.errors import InputError, OutputError
from luvli.scale.output import read_counts
from luvli.scale.parts import Part
from luvli.scale.plan import open_plan, read_chunk
from luvli.scale.sources import SourceOptions, plan_parts

from .conftest import InThisProcess, rows_of

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def alone(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Rows of the single-machine command."""
    from typer.testing import CliRunner

    from luvli.cli import app

    out = tmp_path_factory.mktemp("alone")
    ran = CliRunner().invoke(
        app, ["predict", str(photos), "--format", "parquet", "--out", str(out), "--quiet"]
    )
    assert ran.exit_code == 1
    return rows_of(out / "faces.parquet")


@pytest.fixture(scope="module")
def whole(
    photos: Path, in_this_process: InThisProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The target of an undisturbed job."""
    target = tmp_path_factory.mktemp("whole")
    plan, counts = in_this_process([str(photos)], target)
    assert (plan.rows, counts.images, counts.faces) == (7, 7, 5)
    assert (counts.without_face, counts.failed) == (1, 1)
    return target


def test_every_number_is_that_of_the_single_machine_command(
    whole: Path, alone: list[dict[str, Any]]
) -> None:
    assert rows_of(whole) == alone
    assert [row["status"] for row in alone].count("face") == 5


def test_what_a_crowd_has_beyond_the_budget_is_read_later(
    whole: Path,
    photos: Path,
    in_this_process: InThisProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row carries so many bytes of crops; the network's process reads the rest."""
    monkeypatch.setattr("luvli.scale.stages.BUDGET", 1)
    monkeypatch.setattr("luvli.scale.stages.AT_A_TIME", 1)
    in_this_process([str(photos)], tmp_path)
    assert rows_of(tmp_path) == rows_of(whole)


def test_a_part_is_named_after_its_input_and_appears_once(whole: Path, photos: Path) -> None:
    files = sorted(p.relative_to(whole).as_posix() for p in whole.rglob("*.parquet"))
    assert files == [
        "part-00000/0000000-blank.parquet",
        "part-00000/0000001-2.parquet",
        "part-00000/0000002-3.parquet",
    ]


def test_an_interrupted_job_goes_on_and_ends_the_same(
    whole: Path, photos: Path, in_this_process: InThisProcess, tmp_path: Path
) -> None:
    in_this_process([str(photos)], tmp_path, limit=1)
    (first,) = tmp_path.rglob("*.parquet")
    before = first.stat().st_mtime_ns
    (first.parent / ".luvli-tmp-1-aaaaaaaaaaaa.parquet").write_bytes(b"half")
    plan, counts = in_this_process([str(photos)], tmp_path)
    assert plan.resumed and counts.images == 7
    assert first.stat().st_mtime_ns == before, "a finished part is not done again"
    assert rows_of(tmp_path) == rows_of(whole)


def test_what_was_planned_stays_when_the_folder_changes(
    photos: Path, in_this_process: InThisProcess, tmp_path: Path
) -> None:
    import shutil

    source, target = tmp_path / "photos", tmp_path / "target"
    shutil.copytree(photos, source)
    in_this_process([str(source)], target, limit=1)
    shutil.copy(source / "a/0.jpg", source / "a/9.jpg")
    plan, counts = in_this_process([str(source)], target)
    assert plan.rows == counts.images == 7


def test_a_uri_may_have_odd_names(
    photos: Path, alone: list[dict[str, Any]], in_this_process: InThisProcess, tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(photos / "a", tmp_path / "my photos")
    (tmp_path / "my photos/0.jpg").rename(tmp_path / "my photos/ü & 100%.jpg")
    _, counts = in_this_process([f"file://{tmp_path}/my%20photos"], f"file://{tmp_path}/my%20out")
    assert (counts.images, counts.faces, counts.failed) == (3, 3, 0)
    expected = [row["points"] for row in alone if "/a/" in row["image"]]
    found = {row["image"]: row["points"] for row in rows_of(tmp_path / "my out")}
    assert sorted(found.values()) == sorted(expected)
    assert f"file://{tmp_path}/my%20photos/ü & 100%.jpg" in found


def test_a_video_that_cannot_be_read_is_a_failure_among_others(
    photos: Path, in_this_process: InThisProcess, tmp_path: Path
) -> None:
    """As on one machine, where the command goes on and ends with exit code 1."""
    pytest.importorskip("av", reason="needs PyAV")
    (tmp_path / "clip.mp4").write_bytes(b"nonsense")
    out = tmp_path / "out"
    _, counts = in_this_process([str(photos), str(tmp_path / "clip.mp4")], out)
    assert (counts.images, counts.failed) == (8, 2)
    (row,) = (row for row in rows_of(out) if row["image"].endswith("clip.mp4"))
    assert row["status"] == "failed" and "clip.mp4 is not a readable video" in row["error"]


def test_another_job_does_not_mix_with_it(whole: Path, photos: Path) -> None:
    parts = plan_parts([str(photos)], SourceOptions())
    with pytest.raises(InputError, match=r'another job \(model: "x", now "y"\).*--overwrite'):
        open_plan(str(whole), {"model": "y"}, parts)


def test_a_part_that_lacks_rows_is_noticed(whole: Path, tmp_path: Path) -> None:
    import shutil

    from luvli.scale.ray_predict import count_chunk

    shutil.copytree(whole, tmp_path / "copy")
    target = str(tmp_path / "copy")
    parts = read_chunk(target, 0)
    shutil.copy(tmp_path / "copy" / parts[2].output, tmp_path / "copy" / parts[0].output)
    with pytest.raises(InputError, match="accounts for 1 of 3 rows"):
        count_chunk(target, 0)
    (tmp_path / "copy" / parts[0].output).write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match=r"0000000-blank\.parquet is damaged"):
        count_chunk(target, 0)


def test_tars_are_read_in_pieces(
    tar: Path, alone: list[dict[str, Any]], in_this_process: InThisProcess, tmp_path: Path
) -> None:
    plan, counts = in_this_process([str(tar)], tmp_path)
    assert (plan.parts, counts.images, counts.faces, counts.failed) == (3, 7, 5, 1)
    rows = rows_of(tmp_path)
    assert all(row["image"].startswith(f"{tar}#000") for row in rows)
    assert sorted(tuple(r["points"] or ()) for r in rows) == sorted(
        tuple(r["points"] or ()) for r in alone
    )


@pytest.mark.parametrize("kind", ["bytes", "paths", "both"])
def test_parquet_with_pictures_or_paths_carries_its_columns(
    kind: str,
    photos: Path,
    picture_bytes: list[tuple[str, bytes]],
    alone: list[dict[str, Any]],
    in_this_process: InThisProcess,
    tmp_path: Path,
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [name for name, _ in picture_bytes]
    images: list[Any] = {
        "bytes": [content for _, content in picture_bytes],
        "paths": [str(photos / name) for name in names],
        "both": [{"bytes": content, "path": name} for name, content in picture_bytes],
    }[kind]
    table = pa.table({"image": images, "key": names, "year": list(range(7)), "score": ["x"] * 7})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=4)
    out = tmp_path / "out"
    options = SourceOptions(name_column="key")
    plan, counts = in_this_process([str(tmp_path / "in.parquet")], out, options=options)
    assert (plan.parts, counts.images, counts.faces, counts.failed) == (2, 7, 5, 1)
    rows = rows_of(out)
    assert {row["image"]: row["year"] for row in rows} == dict(zip(names, range(7), strict=True))
    assert {row["source_score"] for row in rows} == {"x"}
    found = {row["image"]: row["points"] for row in rows}
    expected = {Path(r["image"]).relative_to(photos).as_posix(): r["points"] for r in alone}
    assert found == expected


def test_a_full_target_is_one_sentence_and_the_job_goes_on(
    photos: Path, in_this_process: InThisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    plain = Path.write_bytes

    def write(self: Path, data: bytes) -> int:
        if len(list(out.rglob("part-*/0*.parquet"))) == 1:
            plain(self, data[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        with pytest.raises(OutputError, match=r"No space left on device.*free some space"):
            in_this_process([str(photos)], out)
    names = [path.name for path in out.rglob("*") if path.is_file()]
    assert len([name for name in names if name.endswith(".parquet")]) == 1
    assert not [name for name in names if name.startswith(".")], names
    _, counts = in_this_process([str(photos)], out)
    assert counts.images == 7


def test_a_target_that_cannot_be_written(
    photos: Path, tmp_path: Path, luvli: Callable[..., Ran]
) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = luvli("predict", photos, "--engine", "ray", "--out", tmp_path / "file/out")
    assert ran.exit_code == 2, ran.output
    assert "cannot be written" in " ".join(ran.output.split())


def test_only_sure_faces_are_kept_and_the_rest_is_counted(
    photos: Path, in_this_process: InThisProcess, tmp_path: Path
) -> None:
    _, counts = in_this_process([str(photos)], tmp_path, max_uncertainty=0.01)
    assert (counts.faces, counts.filtered, counts.without_face) == (0, 5, 6)


def test_score_reads_a_target(whole: Path, photos: Path, alone: list[dict[str, Any]]) -> None:
    from luvli.evaluation.prediction_files import read_predictions

    faces, _ = read_predictions(whole, signs=False)
    assert faces.points.shape == (5, 68, 2)
    expected = {row["image"]: row["points"] for row in alone if row["points"]}
    for image, points in zip(faces.images, faces.points, strict=True):
        assert points.ravel().tolist() == expected[image]


def test_bad_sources_are_one_sentence(
    tmp_path: Path, photos: Path, luvli: Callable[..., Ran]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def refused(pattern: str, *arguments: object) -> None:
        ran = luvli("predict", *arguments, "--engine", "ray", "--out", tmp_path / "out")
        assert ran.exit_code == 2, ran.output
        assert pattern in ran.output.replace("\n", " "), ran.output
        assert not (tmp_path / "out").exists()

    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": [b"x"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"image": ["x"]}), tmp_path / "c.parquet")
    (tmp_path / "empty").mkdir()
    (tmp_path / "t.tar").write_bytes(b"x" * 2000)
    refused("does not exist", tmp_path / "nowhere")
    refused("holds no image, Parquet, tar or video", tmp_path / "empty")
    refused("name the column of the images", tmp_path / "a.parquet")
    refused("has no column 'pic': it has image", tmp_path / "b.parquet", "--image-column", "pic")
    refused("image: string and binary", tmp_path / "b.parquet", tmp_path / "c.parquet")
    refused("t.tar is not a whole tar", tmp_path / "t.tar")
    refused("writes parquet, not csv", photos, "--format", "csv")
    refused("--draw cannot be used here", photos, "--draw")
    ran = luvli("predict", photos, "--address", "auto", "--out", tmp_path / "out")
    assert ran.exit_code == 2 and "--address cannot be used here" in ran.output
    ran = luvli("predict", photos, "--engine", "spark", "--out", tmp_path / "out")
    assert ran.exit_code == 2 and "one of local, ray" in ran.output


def test_names_of_outputs_are_safe_and_differ() -> None:
    odd = Part(3, "parquet", "s3://b/a dir/ü %.parquet?region=x", 4, about={"row_group": 2})
    assert odd.output == "part-00000/0000003-ü-0002.parquet"
    assert Part.from_json(odd.to_json()) == odd
    assert Part(4, "files", "/x/...", 1, ["/x/..."]).output == "part-00000/0000004-part.parquet"


def test_counts_are_kept_in_the_file_itself(whole: Path) -> None:
    part = read_chunk(str(whole), 0)[0]
    counts = read_counts(str(whole), part)
    assert (counts.images, counts.failed) == (3, 1)
    assert counts.errors and "broken.jpg" in counts.errors[0]
