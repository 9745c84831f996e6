"""Triage of Parquet gives what triage of JSON gives, in memory that does not grow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result as Ran

from luvli.faces import FaceLandmarks, Faces
from luvli.prediction.parts import Row
from luvli.prediction.writers import write_results
from luvli.trust import triage_parquet
from luvli.trust.even_sample import EvenSample
from luvli.trust.triage_parquet import face_of_row, judge_parquet

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def results() -> list[Row]:
    """Ninety faces with known confidences, an image without one between them."""
    rng = np.random.default_rng(3)
    made = []
    for number in range(90):
        points = rng.uniform(20, 200, (68, 2))
        face = FaceLandmarks(
            points=points,
            covariance=np.tile(np.eye(2) * rng.uniform(1, 9), (68, 1, 1)),
            visibility=rng.uniform(0, 1, 68),
            box=[*points.min(0), *points.max(0)],
            score=0.9,
            confidence=float(rng.uniform()),
            expected_error=3.0,
        )
        made.append(Row(f"{number:02d}.jpg", Faces.stack([face])))
    made.insert(40, Row("none.jpg", Faces.empty("ibug68")))
    return made


def test_a_folder_of_parquet_is_judged_as_one_json_file(
    results: list[Row], tmp_path: Path, luvli: Callable[..., Ran]
) -> None:
    write_results(tmp_path / "faces.json", results, "json")
    (tmp_path / "many/part-00000").mkdir(parents=True)
    for number, start in enumerate(range(0, 91, 30)):
        part = results[start : start + 30]
        write_results(tmp_path / f"many/part-00000/{number}.parquet", part, "parquet")
    first = luvli("triage", tmp_path / "faces.json", "--out", tmp_path / "a")
    second = luvli("triage", tmp_path / "many", "--out", tmp_path / "b")
    assert first.exit_code == second.exit_code == 0, second.output
    of_json = json.loads((tmp_path / "a/faces.json").read_text())["faces"]
    expected = {face["image"]: face["accepted"] for face in of_json}
    files = sorted((tmp_path / "b/faces/part-00000").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert len(rows) == 91
    assert {r["image"]: r["accepted"] for r in rows if r["status"] == "face"} == expected
    assert 0 < sum(expected.values()) < 90
    table = [line for line in first.output.splitlines() if "accepted" in line or "review" in line]
    assert all(line in second.output for line in table)


def test_a_row_is_the_face_that_was_written(results: list[Row], tmp_path: Path) -> None:
    write_results(tmp_path / "f.parquet", results[:1], "parquet")
    (row,) = pq.read_table(tmp_path / "f.parquet").to_pylist()
    face, original = face_of_row(row), results[0].faces[0]
    np.testing.assert_allclose(face.points, original.points, atol=5e-4)
    np.testing.assert_allclose(face.covariance, original.covariance, rtol=1e-5)
    assert face.confidence == pytest.approx(original.confidence, abs=5e-5)


def test_samples_are_even_and_bounded() -> None:
    sample = EvenSample[int](10)
    for number in range(100):
        sample.add(number)
    assert 5 <= len(sample.kept) <= 10 and sample.kept == list(range(0, 100, sample.step))


def test_the_least_confident_are_kept(
    results: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import luvli

    monkeypatch.setattr(triage_parquet, "SHOWN", 3)
    trust = luvli.load("luvli-68", threads=1).info.trust
    assert trust is not None
    write_results(tmp_path / "f.parquet", results, "parquet")
    found = judge_parquet(tmp_path / "f.parquet", tmp_path / "out", trust, 0.5)
    sure = sorted(round(face.confidence or 0, 4) for result in results for face in result.faces)
    assert [item.face.confidence for item in found.rejected] == sure[:6]
    assert found.accepted == sum(value >= 0.5 for value in sure)
