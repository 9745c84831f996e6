"""Models as labellers: distillation from a teacher, self-training, and which version is meant."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_faces import face_record

from luvli.data.dataset import CropDataset
from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces
from luvli.likelihood import Teacher, distillation_loss, luvli_loss
from luvli.likelihood.covariance import to_cholesky
from luvli.models import find_model, read_card
from luvli.network import build, load_model, save_model
from luvli.network.pixels import crop_to_heatmap
from luvli.training.batch import TrainingFaces, make_batch
from luvli.training.checkpoint import list_checkpoints
from luvli.training.ingredients import model_file
from luvli.training.log import read_run_metrics
from luvli.training.loop import train
from luvli.training.losses import network_input, stage_losses
from luvli.training.recipe import Recipe, Stage
from luvli.training.recipe_data import Source
from luvli.training.relabel import label_faces, mean_of_views, relabel, teacher_labels
from luvli.training.run import RunOptions

MakeRecipe = Callable[..., Recipe]
MINE = Source(set="folder", box_noise="none")


def teacher_label(points: np.ndarray, covariance: np.ndarray, seen: np.ndarray) -> FaceLandmarks:
    return FaceLandmarks(
        points=np.nan_to_num(points), covariance=covariance, visibility=seen, box=[0, 0, 9, 9]
    )


def test_labels_of_models_move_with_the_crop(crops: CropDataset, rng: np.random.Generator) -> None:
    """Points, covariances and visibilities of a teacher, and covariances of relabelled faces."""
    spreads = rng.uniform(1, 3, (len(crops), 68, 1, 1)) * np.diag([4.0, 1.0])
    labels = {
        record.face_id: teacher_label(record.points, spread, rng.random(68))
        for record, spread in zip(crops.records, spreads, strict=True)
    }
    pairs = zip(crops.records, spreads, strict=True)
    crops.records = [record.with_changes(covariance=spread) for record, spread in pairs]
    faces = TrainingFaces([crops], [MINE], [labels])
    turned = 0
    for turn in range(4):
        sample, known = faces[0, turn, 1], labels[crops.records[1].face_id]
        np.testing.assert_allclose(sample["teacher_points"], sample["points"], atol=1e-4)
        linear = sample["affine"][:, :2]
        mirrored = np.linalg.det(linear) < 0
        turned += mirrored
        names = crops.flip if mirrored else np.arange(68)
        seen = known.visibility[names].astype(np.float32)
        assert np.array_equal(sample["teacher_visibility"], seen)
        expected = linear @ known.covariance[names] @ linear.T
        assert np.allclose(sample["teacher_covariance"], expected, rtol=1e-5)
        assert np.allclose(make_batch([sample]).covariance[0], expected, rtol=1e-5)  # type: ignore
    assert 0 < turned < 4


def test_labels_and_teacher_share_the_loss(crops: CropDataset, small_recipe: MakeRecipe) -> None:
    records = [r for r in crops.records if r.visible.all()][:2]
    plain = CropDataset(records, 64, enlarge=1.3)
    labels = {
        r.face_id: teacher_label(r.points + 2, np.tile(np.eye(2) * 3, (68, 1, 1)), np.full(68, 0.7))
        for r in records
    }
    batch = make_batch([TrainingFaces([plain], [MINE], [labels])[0, 0, i] for i in range(2)])
    torch.manual_seed(0)
    network = build(small_recipe().network).eval()
    outputs = network(network_input(batch.images, network.config))
    stage = Stage(loss="luvli", teacher="anyone", teacher_weight=0.3)
    losses = stage_losses(stage, network.config, outputs, batch)
    own = luvli_loss(outputs, crop_to_heatmap(batch.points, "centres"), batch.visibility)
    assert batch.teacher_points is not None and batch.teacher_covariance is not None
    taught = distillation_loss(
        outputs,
        Teacher(
            (batch.teacher_points - 1.5) / 4,
            to_cholesky(batch.teacher_covariance / 16),
            torch.full((2, 68), 0.7),
        ),
    )
    expected = 0.7 * own.total + 0.3 * taught.total
    assert losses.total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert losses.logged()["teacher"].item() == pytest.approx(
        (taught.location + taught.visibility)[-1].item(), rel=1e-5
    )


def test_a_teacher_that_knows_no_visibility_teaches_none(
    crops: CropDataset, untrained: Path, tmp_path: Path
) -> None:
    faces = crops.records[:2]
    labels = teacher_labels(faces, untrained, MINE, str(tmp_path))
    assert all((label.visibility == 1).all() for label in labels.values())
    assert (label_faces(faces, untrained, MINE, str(tmp_path))[1].visibility < 1).all()
    same = [replace(face, face_id="one") for face in faces]
    with pytest.raises(InputError, match="ids of their own"):
        teacher_labels(same, untrained, MINE, str(tmp_path))


@pytest.mark.slow
def test_a_student_learns_from_its_teacher_and_resumes(
    small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    """The teacher's labels alone teach, and in the next stage the student's own (self-training); a
    run in two halves ends in the same weights."""
    teacher = tmp_path / "teacher.safetensors"
    torch.manual_seed(0)
    save_model(teacher, build(small_recipe().network), {"enlarge": 1.3})
    stage = {"teacher": str(teacher), "teacher_weight": 1.0, "epochs": 8}
    own = small_recipe().stages["luvli"].model_dump() | {"relabel": ["mine"]}
    recipe = small_recipe(seed=5, stages={"heatmaps": None, "luvli": stage, "own": own})
    student = train(recipe, tmp_path / "student")
    learnt = load_model(student)[0].state_dict()
    lines = read_run_metrics(tmp_path / "student")
    costs = [line["teacher"] for line in lines if "teacher" in line]
    assert costs[-1] < costs[0] - 0.2  # of the last U-net, and the total is this alone

    halves = shutil.copytree(tmp_path / "student", tmp_path / "halves")
    (halves / "model.safetensors").unlink()
    list_checkpoints(halves / "checkpoints")[-1].unlink()
    train(recipe, halves, RunOptions(resume=True))
    again = load_model(halves / "model.safetensors")[0].state_dict()
    assert all(torch.equal(again[name], t) for name, t in learnt.items())


def test_a_shipped_model_is_known_by_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = read_card("luvli-68")
    assert model_file(f"luvli-68@{card.version}") == find_model("luvli-68", "torch")
    with pytest.raises(InputError, match=rf"luvli-68 0\.9 is needed.*version {card.version}"):
        model_file("luvli-68@0.9")
    with pytest.raises(InputError, match="unknown model"):
        model_file("luvli-86@1.0")
    other = tmp_path / "luvli-68.safetensors"
    other.write_bytes(find_model("luvli-68", "torch").read_bytes()[:-1] + b"x")
    monkeypatch.setattr("luvli.training.ingredients.find_model", lambda *_: other)
    with pytest.raises(InputError, match="version unknown"):
        model_file(f"luvli-68@{card.version}")


def test_relabelled_faces_are_kept_and_their_closed_lids_meet(
    crops: CropDataset, untrained: Path, tmp_path: Path
) -> None:
    open_, shut = [record for record in crops.records if record.visible.all()][:2]
    faces = [open_, replace(shut, attributes={"eyes": "closed"})]
    plain, again = (relabel(faces, untrained, MINE, str(tmp_path)) for _ in range(2))
    assert len(list(tmp_path.glob("labels-*.npz"))) == 1
    for a, b in zip(plain, again, strict=True):
        assert np.array_equal(a.points, b.points)
        assert np.array_equal(a.covariance, b.covariance)  # type: ignore[arg-type]
    upper, lower = [37, 38, 43, 44], [41, 40, 47, 46]
    _, as_predicted = label_faces(faces, untrained, MINE, str(tmp_path))
    assert np.linalg.norm(plain[0].points[upper] - plain[0].points[lower], axis=1).min() > 0
    np.testing.assert_array_equal(plain[1].points[upper], plain[1].points[lower])
    between = as_predicted.points[1][lower] * 2 / 3 + as_predicted.points[1][upper] / 3
    np.testing.assert_allclose(plain[1].points[upper], between)
    rest = [i for i in range(68) if i not in upper + lower]
    np.testing.assert_array_equal(plain[1].points[rest], as_predicted.points[1][rest])
    with pytest.raises(InputError, match="markup ibug68"):
        other = face_record("x", markup="aflw19", points=np.zeros((19, 2)), visibility=np.ones(19))
        relabel([other], untrained, MINE, str(tmp_path))


def test_the_scatter_of_views_adds_to_the_covariance() -> None:
    points = [np.full((1, 1, 2), place) for place in (0.0, 4.0)]
    spread, seen = np.diag([1.0, 9.0])[None, None], np.ones((1, 1))
    views = [Faces(p, spread, seen, markup="mine1") for p in points]
    mean = mean_of_views(views)
    assert np.allclose(mean.points, 2.0)
    assert np.allclose(mean.covariance, np.diag([1.0, 9.0]) + 4.0)
