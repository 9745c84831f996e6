"""Audit: errors of every kind that are put in are found and named, in memory and in Parquet."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luvli.calibration import audit as module
from luvli.calibration import label_batches
from luvli.calibration.audit import RARE, Suspect, audit, fit_tail, suspicion
from luvli.calibration.label_batches import LabelSource, parquet_source
from luvli.calibration.label_differences import ERROR_KINDS
from luvli.data.formats import write_pts
from luvli.data.formats.label_parquet import row_of_record
from luvli.data.formats.parquet import face_schema
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.evaluation import labelled_parquet
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.faces import FaceLandmarks, Faces
from luvli.image.write import write_image
from luvli.markup import get_markup
from luvli.prediction.rows import Row, rounded
from luvli.prediction.writers import face_table

from .drawn_faces import labelled_points, predicted_face, record

HIDDEN = np.arange(68) < 8


def suspects_of(records: list[FaceRecord], faces: list[FaceLandmarks]) -> list[Suspect]:
    """All suspects of a set in memory, the most suspicious first."""
    labelled = LabelledFaces.from_records(records, Faces.stack(faces))
    return audit(LabelSource(len(records), lambda: [labelled])).listed


def names(suspects: list[Suspect]) -> list[str]:
    return [suspect.name for suspect in suspects]


@pytest.fixture(scope="module")
def labelled() -> tuple[list[FaceRecord], list[FaceLandmarks]]:
    """Right labels; every fourth face is turned and hides part of the jaw."""
    rng = np.random.default_rng(0)
    records, faces = [], []
    for i in range(400):
        points = labelled_points(rng)
        face = predicted_face(points, 2.0, rng)
        made = record(points + rng.normal(0, 0.5, 2), f"face{i}")
        if i % 4 == 0:
            made = made.with_changes(visibility=np.where(HIDDEN, 0, 1).astype(np.int8))
            face = FaceLandmarks(
                points=face.points, covariance=face.covariance,
                visibility=np.where(HIDDEN, 0.03, 0.98), box=face.box, score=0.9,
            )  # fmt: skip
        records.append(made)
        faces.append(face)
    return records, faces


def wrong(made: FaceRecord, kind: str, size: float = 0.1) -> FaceRecord:
    """The label with an error of this kind; shifts in parts of the box."""
    points, classes = made.points.copy(), made.visibility.copy()
    middle, extent = np.nanmean(points, axis=0), np.nanmax(np.ptp(points[20:], axis=0))
    if kind == "shifted":
        points += [0.6 * size * extent, 0.8 * size * extent]
    elif kind == "scaled":
        points = middle + 1.3 * (points - middle)
    elif kind == "wrong face":
        points = middle + 0.9 * (points - middle) + 0.8 * extent
    elif kind == "swapped":
        flip = get_markup("ibug68").flip
        points, classes = points[flip], classes[flip]
    elif kind == "one landmark":
        points[30] += 0.2 * extent
    else:  # half of a visible face called hidden
        classes[points[:, 0] < middle[0]] = 0
    return made.with_changes(points=points, visibility=classes)


@pytest.mark.parametrize("kind", ERROR_KINDS)
def test_each_kind_is_found_and_named(labelled, kind: str) -> None:
    records, faces = labelled
    made = list(records)
    for i in (9, 101, 203):
        made[i] = wrong(records[i], kind)
    first = suspects_of(made, faces)[:4]
    assert {"face9", "face101", "face203"} <= set(names(first))
    named = [s.kind == kind for s in first if s.name in ("face9", "face101", "face203")]
    assert sum(named) >= 2 and all(suspect.sentence for suspect in first)


def test_a_clean_set_has_no_far_outlier(labelled) -> None:
    clean = suspects_of(*labelled)
    assert len(clean) == 400 and clean[0].suspicion < 25
    assert np.median([suspect.suspicion for suspect in clean]) < 3


def test_uncertain_predictions_accuse_nobody(labelled) -> None:
    """The same disagreement weighs less where the model says that it is unsure."""
    records, faces = labelled
    moved = [
        FaceLandmarks(
            points=face.points + 8.0, covariance=face.covariance * growth,
            visibility=face.visibility, box=face.box,
        )
        for face, growth in zip(faces[1:3], (100, 1), strict=True)
    ]  # fmt: skip
    suspects = {s.name: s for s in suspects_of(records, [faces[0], *moved, *faces[3:]])}
    assert suspects["face2"].suspicion > 3 * suspects["face1"].suspicion
    assert suspects["face2"].kind == "shifted"


def test_tail_scores_are_tail_probabilities() -> None:
    """-log of the share above a value on an exponential sample; wrong labels move it little."""
    rng = np.random.default_rng(0)
    values = np.sort(rng.exponential(2.0, 20_000))
    more = np.append(values, np.full(600, 500.0))
    nothing = np.zeros(len(more))
    scores = suspicion(values, nothing[: len(values)], fit_tail(values))
    moved = suspicion(more, nothing, fit_tail(more))
    for level in (0.9, 0.99, 0.999):
        place = round(level * len(values))
        assert scores[place] == pytest.approx(-np.log(1 - level), rel=0.1)
        assert moved[place] == pytest.approx(-np.log(1 - level), rel=0.3)
    assert moved[-1] == RARE


def test_a_label_that_is_wrong_as_a_whole_stands_before_one_landmark(labelled) -> None:
    """Whole labels are moved by 6 % of the box, single landmarks by much more."""
    records, faces = labelled
    made = list(records)
    for i in (13, 113, 214):
        made[i] = wrong(records[i], "shifted", 0.06)
    for i in (33, 134, 235):
        points = records[i].points.copy()
        points[30] += 0.5 * np.nanmax(np.ptp(points[20:], axis=0))
        made[i] = records[i].with_changes(points=points)
    ranked = names(suspects_of(made, faces)[:6])
    assert set(ranked[:3]) == {"face13", "face113", "face214"}
    assert set(ranked[3:]) == {"face33", "face134", "face235"}


def test_command_reports_and_fails_for_ci(tmp_path, monkeypatch, luvli) -> None:
    """One label of sixty is swapped: page, table and exit code say so."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "set"
    folder.mkdir()
    image = rng.integers(0, 255, (400, 400, 3), dtype=np.uint8)
    truths = {}
    for i in range(60):
        points = labelled_points(rng)
        truths[f"f{i:02d}"] = points
        label = points[get_markup("ibug68").flip] if i == 7 else points
        write_image(folder / f"f{i:02d}.png", image)
        write_pts(folder / f"f{i:02d}.pts", label, np.ones(68, np.int8))

    def answers(predictor, records, *args, **options) -> LabelledFaces:
        faces = [predicted_face(truths[made.face_id], 1.5, rng) for made in records]
        return LabelledFaces.from_records(records, Faces.stack(faces))

    monkeypatch.setattr(label_batches, "predict_records", answers)
    out = tmp_path / "out"
    ran = luvli("audit", "folder", folder, "--out", out)
    assert ran.exit_code == 1, ran.output
    rows = list(csv.DictReader((out / "audit.csv").open()))
    assert len(rows) == 60
    assert (rows[0]["face"], rows[0]["kind"]) == ("f07", "swapped")
    page = (out / "audit.html").read_text()
    assert page.count("<figure>") == page.count("data:image/jpeg") == 50
    accused = sum(float(row["suspicion"]) >= 12 for row in rows[:50])
    captions = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert sum("no error found" in words for words in captions) == 50 - accused < 50
    assert captions[0].startswith("f07: swapped")
    assert luvli("audit", "folder", folder, "--out", out, "--fail-above", "1e9").exit_code == 0
    assert "swapped" not in (out / "audit.html").read_text()
    assert luvli("audit", "folder", tmp_path / "none").exit_code == 2


# -- Parquet ----------------------------------------------------------------------------------


def write_faces(path: Path, pairs: list[tuple[FaceRecord, list[FaceLandmarks]]]) -> None:
    """Predictions of labelled images with the labels beside them, as a cluster writes them."""
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow (extra scale)")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows: list[dict[str, Any]] = []
    ours = {"points", "visibility", "box", "markup"}
    for number, (made, faces) in enumerate(pairs):
        label = row_of_record(made)
        label.pop("image")
        carried = {("source_" if k in ours else "") + k: v for k, v in label.items()}
        row = Row(f"l.parquet#{number}", rounded(Faces.stack(faces)))
        rows += [each | carried for each in face_table([row])[0].to_pylist()]
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = face_schema()
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    table = arrow.table(columns, schema=schema)
    for name in [name for name in rows[0] if name not in table.column_names]:
        kind = arrow.list_(arrow.float64()) if name in ("source_points", "source_box") else None
        table = table.append_column(name, arrow.array([row[name] for row in rows], kind))
    parquet.write_table(table, path)


@pytest.fixture(scope="module")
def folder(labelled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three parts of 50 labels, two of them wrong; beside some faces others were found in the
    image, and one label has none."""
    rng = np.random.default_rng(5)
    place = tmp_path_factory.mktemp("faces")
    pairs = []
    for i, (made, face) in enumerate(zip(*(part[:150] for part in labelled), strict=True)):
        made = {33: wrong(made, "scaled"), 101: wrong(made, "shifted")}.get(i, made)
        found = [face]
        if i % 7 == 0:  # somebody else, before or after
            found.insert(i % 2, predicted_face(labelled_points(rng) + 5000, 2.0, rng))
        pairs.append((made, found))
    pairs.append((record(labelled_points(rng), "nobody"), []))
    for part, start in enumerate((0, 50, 100)):
        end = None if start == 100 else start + 50
        write_faces(place / f"part-00000/{part}.parquet", pairs[start:end])
    return place


def test_files_give_what_the_set_in_memory_gives(
    labelled, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelled_parquet, "ROWS", 7)  # labels with two rows lie across the cuts
    found = audit(parquet_source(folder))
    assert (found.labels, found.without_face, len(found.listed)) == (151, 1, 150)
    assert set(names(found.listed[:2])) == {"face33", "face101"}
    # files hold rounded decimals: the audit in memory sees the same
    records = list(labelled[0][:150])
    records[33], records[101] = wrong(records[33], "scaled"), wrong(records[101], "shifted")
    suspects = {suspect.name: suspect for suspect in found.listed}
    for suspect in suspects_of(records, list(rounded(Faces.stack(labelled[1][:150])))):
        other = suspects[suspect.name]
        assert (other.kind, other.sentence) == (suspect.kind, suspect.sentence)
        assert other.scores == suspect.scores
    # and a sample is enough for what is usual
    monkeypatch.setattr(module, "SAMPLE", 80)
    monkeypatch.setattr(module, "LISTED", 5)
    part = audit(parquet_source(folder))
    assert part.labels == 151 and len(part.listed) == 5
    assert set(names(part.listed[:2])) == {"face33", "face101"}


def test_the_predictions_of_a_report_are_audited_too(labelled, tmp_path: Path) -> None:
    records, faces = (part[:80] for part in labelled)
    records = [*records[:-1], wrong(records[-1], "shifted")]
    both = LabelledFaces.from_records(records, Faces.stack(faces))
    labelled_parquet.write_predictions(tmp_path / "p.parquet", both)
    found = audit(parquet_source(tmp_path / "p.parquet")).listed
    assert [(s.name, s.kind, s.suspicion) for s in found] == [
        (s.name, s.kind, s.suspicion) for s in suspects_of(records, faces)
    ]


def test_the_command_on_parquet_and_its_bad_input(folder: Path, tmp_path: Path, luvli: Any) -> None:
    import pyarrow.parquet as pq

    ran = luvli("audit", "parquet", folder, "--out", tmp_path / "out")
    assert ran.exit_code == 1, ran.output
    assert "1 of 151 labels have no face found there" in " ".join(ran.output.split())
    assert len(list(csv.DictReader((tmp_path / "out/audit.csv").open()))) == 150
    page = (tmp_path / "out/audit.html").read_text()  # the images are gone: words alone
    assert page.count("<figure>") == 0 and page.count('<p class="note">face') == 50
    assert luvli("audit", "parquet", folder, "--out", tmp_path / "o", "--allow", 9).exit_code == 0
    broken = tmp_path / "broken"
    broken.mkdir()
    (file, *_) = sorted(folder.rglob("*.parquet"))
    (broken / "a.parquet").write_bytes(file.read_bytes())
    pq.write_table(pq.read_table(file).drop_columns(["source_points"]), broken / "b.parquet")
    refused = luvli("audit", "parquet", broken, "--out", tmp_path / "o3")
    assert refused.exit_code == 2 and "has no labels beside" in " ".join(refused.output.split())
    assert not (tmp_path / "o3/audit.csv").exists()
    with pytest.raises(InputError, match="at least 50 labels"):
        write_faces(tmp_path / "few/a.parquet", [(record(np.ones((68, 2)), "a"), [])])
        audit(parquet_source(tmp_path / "few"))
