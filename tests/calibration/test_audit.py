"""Audit: errors of every kind that are put in are found, and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from luvli.calibration import audit as module
from luvli.calibration.audit import ERROR_KINDS, RARE, fit_tail, suspicion
from luvli.calibration.label_batches import LabelBatch, LabelSource
from luvli.calibration.label_errors import corrupt_label, inject_errors
from luvli.errors import InputError
from luvli.faces import FaceLandmarks

from .drawn_faces import labelled_points, predicted_face, record


def audit(records, faces, kinds=ERROR_KINDS):
    """All suspects of a set in memory, the most suspicious first."""
    batch = LabelBatch.of(records, faces)
    source = LabelSource(Path(), lambda: [batch])
    return [item.suspect for item in module.audit([source], kinds, listed=None).listed]


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    truths = [labelled_points(rng) for _ in range(400)]
    faces = [predicted_face(points, 2.0, rng) for points in truths]
    hidden = np.arange(68) < 8  # every fourth face is turned
    records = []
    for i, points in enumerate(truths):
        made = record(points + rng.normal(0, 0.5, 2), f"face{i}")
        if i % 4 == 0:
            made = made.with_changes(visibility=np.where(hidden, 0, 1).astype(np.int8))
            visibility = np.where(hidden, 0.03, 0.98)
            faces[i] = FaceLandmarks(
                points=faces[i].points, covariance=faces[i].covariance, visibility=visibility,
                box=faces[i].box, score=0.9,
            )  # fmt: skip
        records.append(made)
    return records, faces


def test_injected_errors_come_first_with_their_names(labelled) -> None:
    records, faces = labelled
    wrong_records, wrong = inject_errors(records, 0.03, seed=1, shift=(0.08, 0.15))
    suspects = audit(wrong_records, faces)
    assert len(suspects) == len(records)
    first = {suspect.index: suspect for suspect in suspects[: len(wrong)]}
    assert len(set(first) & set(wrong)) >= 0.9 * len(wrong)
    named = [first[i].kind == kind for i, kind in wrong.items() if i in first]
    assert np.mean(named) >= 0.8


@pytest.mark.parametrize("kind", ERROR_KINDS)
def test_each_kind_is_found(labelled, kind) -> None:
    records, faces = labelled
    rng = np.random.default_rng(7)
    made = list(records)
    places = [8, 101, 202]
    for i in places:
        made[i] = corrupt_label(records[i], kind, rng, records[5], (0.1, 0.1))
    found = {suspect.index for suspect in audit(made, faces)[:4]}
    assert found >= set(places)


def test_asked_for_one_kind_others_do_not_stand_before_it(labelled) -> None:
    records, faces = labelled
    rng = np.random.default_rng(8)
    made = list(records)
    shifted, off = {10, 111, 222}, {31, 132, 233}
    for i in shifted:
        made[i] = corrupt_label(records[i], "shifted", rng, records[5], (0.1, 0.1))
    for i in off:
        made[i] = corrupt_label(records[i], "one landmark", rng, records[5])
    for kind, first, last in (("shifted", shifted, off), ("one landmark", off, shifted)):
        asked = audit(made, faces, [kind])
        place = {suspect.index: rank for rank, suspect in enumerate(asked)}
        assert max(place[i] for i in first) < min(place[i] for i in last)
        assert {suspect.kind for suspect in asked} == {kind}
    with pytest.raises(InputError, match="shifted, scaled"):
        audit(made, faces, ["moved"])


def test_a_clean_set_has_no_far_outlier(labelled) -> None:
    records, faces = labelled
    clean = audit(records, faces)
    assert clean[0].suspicion < 25
    assert np.median([suspect.suspicion for suspect in clean]) < 3
    assert clean[0].sentence


def test_uncertain_predictions_accuse_nobody() -> None:
    """The same disagreement weighs less where the model says that it is unsure."""
    rng = np.random.default_rng(3)
    truths = [labelled_points(rng) for _ in range(120)]
    faces = [predicted_face(points, 1.5, rng) for points in truths]
    records = [record(points, f"face{i}") for i, points in enumerate(truths)]
    unsure = FaceLandmarks(
        points=faces[0].points + 8.0, covariance=faces[0].covariance * 100,
        visibility=faces[0].visibility, box=faces[0].box,
    )  # fmt: skip
    sure = FaceLandmarks(
        points=faces[1].points + 8.0, covariance=faces[1].covariance,
        visibility=faces[1].visibility, box=faces[1].box,
    )  # fmt: skip
    suspects = {s.index: s for s in audit(records, [unsure, sure, *faces[2:]])}
    assert suspects[1].suspicion > 3 * suspects[0].suspicion
    assert suspects[1].kind == "shifted"


def test_tail_scores_are_tail_probabilities() -> None:
    """-log of the share above a value on an exponential sample; wrong labels move it little."""
    rng = np.random.default_rng(0)
    values = np.sort(rng.exponential(2.0, 20_000))
    more = np.append(values, np.full(600, 500.0))
    nothing = np.zeros(len(more))
    scores = suspicion(values, nothing[: len(values)], fit_tail(values))
    wrong = suspicion(more, nothing, fit_tail(more))
    for level in (0.9, 0.99, 0.999):
        place = round(level * len(values))
        assert scores[place] == pytest.approx(-np.log(1 - level), rel=0.1)
        assert wrong[place] == pytest.approx(-np.log(1 - level), rel=0.3)
    assert wrong[-1] == RARE


def test_beyond_the_tail_of_a_set_evidence_counts() -> None:
    """Two kinds of equal rarity: above 1 in 3,000 the one that is worth more nats stands first,
    and suspicion is continuous and growing all along."""
    tail = (1.0, 0.5)
    values = np.linspace(0.0, 20.0, 4001)
    one, all_68 = (suspicion(values, np.full(4001, n), tail) for n in (1.0, 68.0))
    limit = 1.0 + 0.5 * (RARE + np.log(0.3))
    below = values <= limit
    assert np.array_equal(one[below], all_68[below])
    assert one[below].max() == pytest.approx(RARE, abs=0.02)
    above = values[~below] - limit
    assert np.allclose(one[~below], RARE + above) and np.allclose(all_68[~below], RARE + 68 * above)
    assert (np.diff(one) >= 0).all() and np.diff(all_68).max() < 68 * 0.0051
    assert suspicion(np.array([-np.inf]), np.ones(1), tail)[0] == 0.0


def test_a_label_that_is_wrong_as_a_whole_stands_before_one_landmark(labelled) -> None:
    """Whole labels are moved by 6 % of the box, single landmarks by much more."""
    records, faces = labelled
    rng = np.random.default_rng(9)
    made = list(records)
    whole, single = [12, 113, 214], [33, 134, 235]
    for i in whole:
        made[i] = corrupt_label(records[i], "shifted", rng, records[5], (0.06, 0.06))
    for i in single:
        points = records[i].points.copy()
        points[30] += 0.5 * np.ptp(points, axis=0)
        made[i] = records[i].with_changes(points=points)
    ranked = [suspect.index for suspect in audit(made, faces)[:6]]
    assert set(ranked[:3]) == set(whole) and set(ranked[3:]) == set(single)


def test_bad_input(labelled) -> None:
    records, faces = labelled
    with pytest.raises(InputError, match="do not fit"):
        audit(records, faces[:-1])
    with pytest.raises(InputError, match="at least 50"):
        audit(records[:20], faces[:20])
    with pytest.raises(InputError, match="share"):
        inject_errors(records, 0.0)


def test_command_reports_and_fails_for_ci(tmp_path, monkeypatch) -> None:
    """One label of sixty is swapped: page, table and exit code say so."""
    import csv

    from typer.testing import CliRunner

    from luvli.calibration import label_batches
    from luvli.cli.app import app
    from luvli.data.formats import write_pts
    from luvli.image.write import write_image
    from luvli.markup import get_markup

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

    def answers(predictors, records):
        for made in records:
            yield predicted_face(truths[made.face_id], 1.5, rng), False

    monkeypatch.setattr(label_batches, "predict_unseen", answers)
    out = tmp_path / "out"
    arguments = ["audit", "folder", str(folder), "--out", str(out)]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 1, ran.output
    rows = list(csv.DictReader((out / "audit.csv").open()))
    assert len(rows) == 60
    assert (rows[0]["face"], rows[0]["kind"]) == ("f07", "swapped")
    page = (out / "audit.html").read_text()
    assert page.count("<figure>") == page.count("data:image/jpeg") == 50
    wrong = sum(float(row["suspicion"]) >= 12 for row in rows[:50])
    assert page.count("class='wrong'") == wrong > 0  # errors are named where there are any
    assert page.count("no error found") == 50 - wrong
    assert CliRunner().invoke(app, [*arguments, "--fail-above", "1e9"]).exit_code == 0
    assert "<b>" not in (out / "audit.html").read_text()
    assert CliRunner().invoke(app, ["audit", "folder", str(tmp_path / "none")]).exit_code == 2
