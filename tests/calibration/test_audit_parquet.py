"""Audit of Parquet gives what the audit in memory gives, in memory that does not grow."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luvli.calibration import audit as module
from luvli.calibration import label_batches
from luvli.calibration.audit import AuditResult, audit
from luvli.calibration.label_batches import LabelBatch, LabelSource, parquet_sources
from luvli.calibration.label_errors import inject_errors
from luvli.data.formats.label_parquet import row_of_record
from luvli.data.formats.parquet import face_schema
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces
from luvli.prediction.parts import Row, rounded
from luvli.prediction.writers import face_table

from .drawn_faces import labelled_points, predicted_face, record

pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (extra scale)")
arrow = pytest.importorskip("pyarrow")


def audit_parquet(folder: Path, out: Path) -> AuditResult:
    return audit(parquet_sources(folder), out=out)


def _rows(record: FaceRecord, faces: list[FaceLandmarks], number: int) -> list[dict[str, Any]]:
    """Predictions of a labelled image with the label beside them, as a cluster writes them."""
    label = row_of_record(record)
    label.pop("image")
    carried = {("source_" if k in _OURS else "") + k: v for k, v in label.items()}
    row = Row(f"l.parquet#{number}", rounded(Faces.stack(faces)))
    return [row | carried for row in face_table([row])[0].to_pylist()]


def rounded_face(face: FaceLandmarks) -> FaceLandmarks:
    return rounded(Faces.stack([face]))[0]


_OURS = {"points", "visibility", "box", "markup"}


def write_faces(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = face_schema()
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    table = arrow.table(columns, schema=schema)
    others = [name for name in rows[0] if name not in table.column_names]
    for name in others:
        values = [row[name] for row in rows]
        kind = arrow.list_(arrow.float64()) if name in ("source_points", "source_box") else None
        table = table.append_column(name, arrow.array(values, kind))
    pq.write_table(table, path)


@pytest.fixture(scope="module")
def labelled() -> tuple[list[FaceRecord], list[FaceLandmarks], dict[int, str]]:
    rng = np.random.default_rng(4)
    truths = [labelled_points(rng) for _ in range(230)]
    faces = [predicted_face(points, 2.0, rng) for points in truths]
    records = [record(points, f"face{i:03d}") for i, points in enumerate(truths)]
    wrong, kinds = inject_errors(records, 0.05, seed=2, shift=(0.1, 0.15))
    return wrong, faces, kinds


@pytest.fixture(scope="module")
def folder(
    labelled: tuple[list[FaceRecord], list[FaceLandmarks], dict[int, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Three parts; beside some faces others were found in the image, and one label has none."""
    records, faces, _ = labelled
    rng = np.random.default_rng(5)
    place = tmp_path_factory.mktemp("faces")
    rows: list[list[dict[str, Any]]] = [[], [], []]
    for i, (label, face) in enumerate(zip(records, faces, strict=True)):
        found = [face]
        if i % 7 == 0:  # somebody else, before or after
            found.insert(i % 2, predicted_face(labelled_points(rng) + 5000, 2.0, rng))
        rows[i // 80] += _rows(label, found, i)
    rows[1] += _rows(record(labelled_points(rng), "nobody"), [], 999)
    for part, some in enumerate(rows):
        write_faces(place / f"part-00000/{part}.parquet", some)
    return place


def test_files_give_what_the_set_in_memory_gives(
    labelled: tuple[list[FaceRecord], list[FaceLandmarks], dict[int, str]],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(label_batches, "ROWS", 7)  # labels with two rows lie across the cuts
    found = audit_parquet(folder, tmp_path / "labels")
    assert found.labels == 231
    written = [pq.read_table(f).to_pylist() for f in sorted((tmp_path / "labels").rglob("*.par*"))]
    rows = {row["face"]: row for part in written for row in part}
    assert len(rows) == 231
    assert rows["nobody"]["suspicion"] is None and "no face" in rows["nobody"]["what"]
    records, faces, kinds = labelled
    alone = {i for i, label in enumerate(records) if rows[label.name]["suspicion"] is None}
    assert found.without_face == len(alone) + 1
    assert {kinds[i] for i in alone} <= {"wrong face"}  # the label of a face that is elsewhere
    # files hold rounded decimals: the audit in memory sees the same
    predictions = [None if i in alone else rounded_face(face) for i, face in enumerate(faces)]
    memory = LabelSource(Path(), lambda: [LabelBatch.of(records, predictions)])
    expected = {s.name: s for s, *_ in audit([memory], listed=None).listed}
    for name, suspect in expected.items():
        row = rows[name]
        assert (row["suspicion"], row["kind"]) == (suspect.suspicion, suspect.kind), name
        assert row["what"] == suspect.sentence
        assert {kind: row[kind] for kind in suspect.scores} == suspect.scores
    first = {item.suspect.name for item in found.listed[: len(kinds)]}
    assert len(first & {records[i].name for i in kinds}) >= 0.8 * len(kinds)


def test_a_sample_is_enough_for_what_is_usual(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a third of the faces the same labels come first; no more than allowed are kept."""
    whole = audit_parquet(folder, tmp_path / "whole")
    monkeypatch.setattr(module, "SAMPLE", 80)
    part = audit(parquet_sources(folder), listed=5)
    assert part.labels == whole.labels and len(part.listed) == 5
    ten = {item.suspect.name for item in whole.listed[:10]}
    assert {item.suspect.name for item in part.listed} <= ten


def test_the_command_and_its_bad_input(folder: Path, tmp_path: Path, luvli: Any) -> None:
    ran = luvli("audit", "parquet", folder, "--out", tmp_path / "out")
    assert ran.exit_code == 1, ran.output
    assert "of 231 labels have no face found there" in " ".join(ran.output.split())
    rows = list(csv.DictReader((tmp_path / "out/audit.csv").open()))
    assert 225 <= len(rows) <= 230
    assert (tmp_path / "out/audit.html").read_text().count("<figure>") == 50
    again = luvli("audit", "parquet", folder, "--out", tmp_path / "o2", "--allow", 230)
    assert again.exit_code == 0

    broken = tmp_path / "broken"
    (broken / "part").mkdir(parents=True)
    for file in sorted(folder.rglob("*.parquet"))[:1]:
        (broken / "part/a.parquet").write_bytes(file.read_bytes())
    plain = pq.read_table(broken / "part/a.parquet").drop_columns(["source_points"])
    pq.write_table(plain, broken / "part/b.parquet")
    refused = luvli("audit", "parquet", broken, "--out", tmp_path / "o3")
    assert refused.exit_code == 2 and "has no labels beside" in " ".join(refused.output.split())
    assert not (tmp_path / "o3/audit.csv").exists()


def test_too_few_faces(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    points = labelled_points(rng)
    rows = _rows(record(points, "a"), [predicted_face(points, 1.0, rng)], 0)
    write_faces(tmp_path / "in/a.parquet", rows)
    with pytest.raises(InputError, match="at least 50 labels"):
        audit_parquet(tmp_path / "in", tmp_path / "out")
