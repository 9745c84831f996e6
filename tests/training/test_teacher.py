"""Distillation: a teacher's labels in the crop, in the loss and in a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from luvli.data.dataset import CropDataset
from luvli.errors import InputError
from luvli.faces import FaceLandmarks
from luvli.likelihood import Teacher, distillation_loss, luvli_loss
from luvli.likelihood.covariance import to_cholesky
from luvli.models import find_model, read_card
from luvli.network import build, load_model, save_model
from luvli.network.pixels import crop_to_heatmap
from luvli.training.batch import TrainingFaces, make_batch
from luvli.training.checkpoint import list_checkpoints
from luvli.training.distributed import RunOptions
from luvli.training.log import read_run_metrics
from luvli.training.loop import train
from luvli.training.losses import network_input, stage_losses
from luvli.training.recipe import Recipe, Stage
from luvli.training.recipe_data import Source
from luvli.training.recipe_files import make_recipe
from luvli.training.relabel import label_faces, relabel, teacher_labels
from luvli.training.sources import check_version, load_source, model_file

MakeRecipe = Callable[..., Recipe]
MINE = Source(set="folder", box_noise="none")


def teacher_label(points: np.ndarray, covariance: np.ndarray, seen: np.ndarray) -> FaceLandmarks:
    return FaceLandmarks(
        points=np.nan_to_num(points), covariance=covariance, visibility=seen, box=[0, 0, 9, 9]
    )


@pytest.fixture
def crops(small_recipe: MakeRecipe) -> CropDataset:
    """Augmented, half of them mirrored; a tenth of the landmarks is hidden."""
    recipe = small_recipe()
    part = load_source("mine", recipe.data.sources["mine"], recipe.data)
    augmentation = recipe.stages["luvli"].augmentation
    return CropDataset(part.train, 64, enlarge=1.3, augmentation=augmentation)


def test_a_teachers_labels_move_with_the_crop(crops: CropDataset, rng: np.random.Generator) -> None:
    labels = {}
    for record in crops.records:
        spread = rng.uniform(1, 3, (68, 1, 1)) * np.diag([4.0, 1.0])
        labels[record.face_id] = teacher_label(record.points, spread, rng.random(68))
    faces = TrainingFaces([crops], [Source(set="folder")], [labels])
    turned = 0
    for turn in range(4):
        sample = faces[0, turn, 1]
        record = crops.records[1]
        np.testing.assert_allclose(sample["teacher_points"], sample["points"], atol=1e-4)
        linear = sample["affine"][:, :2]
        mirrored = np.linalg.det(linear) < 0
        turned += mirrored
        names = crops.flip if mirrored else np.arange(68)
        known = labels[record.face_id]
        assert np.array_equal(sample["teacher_visibility"], known.visibility[names])
        expected = linear @ known.covariance[names] @ linear.T
        assert np.allclose(sample["teacher_covariance"], expected, rtol=1e-5)
    assert 0 < turned < 4


def test_labels_and_teacher_share_the_loss(crops: CropDataset, small_recipe: MakeRecipe) -> None:
    records = [r for r in crops.records if r.visible.all()][:2]
    plain = CropDataset(records, 64, enlarge=1.3)
    labels = {
        r.face_id: teacher_label(r.points + 2, np.tile(np.eye(2) * 3, (68, 1, 1)), np.full(68, 0.7))
        for r in records
    }
    batch = make_batch(
        [TrainingFaces([plain], [Source(set="folder")], [labels])[0, 0, i] for i in range(2)]
    )
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
    crops: CropDataset, small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    config = small_recipe().network.model_copy(update={"visibility_trained": False})
    torch.manual_seed(0)
    save_model(tmp_path / "m.safetensors", build(config), {"enlarge": 1.3})
    faces = crops.records[:2]
    labels = teacher_labels(faces, tmp_path / "m.safetensors", MINE, str(tmp_path))
    assert all((label.visibility == 1).all() for label in labels.values())
    assert (
        label_faces(faces, tmp_path / "m.safetensors", MINE, str(tmp_path))[1].visibility < 1
    ).all()
    same = [replace(face, face_id="one") for face in faces]
    with pytest.raises(InputError, match="ids of their own"):
        teacher_labels(same, tmp_path / "m.safetensors", MINE, str(tmp_path))


def test_only_the_luvli_loss_has_a_teacher(small_recipe: MakeRecipe) -> None:
    content = small_recipe().model_dump()
    content["stages"]["heatmaps"]["teacher"] = "luvli-68"
    with pytest.raises(InputError, match=r"stages\.heatmaps\.teacher"):
        make_recipe(content, "it")


@pytest.mark.slow
def test_a_student_learns_from_its_teacher_and_resumes(
    small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    """The teacher's labels alone teach; a run in two halves ends in the same weights."""
    teacher = tmp_path / "teacher.safetensors"
    torch.manual_seed(0)
    save_model(teacher, build(small_recipe().network), {"enlarge": 1.3})
    stage = {"teacher": str(teacher), "teacher_weight": 1.0, "epochs": 8}
    recipe = small_recipe(seed=5, stages={"heatmaps": None, "luvli": stage})
    student = train(recipe, tmp_path / "student")
    learnt = load_model(student)[0].state_dict()
    lines = read_run_metrics(tmp_path / "student")
    costs = [line["teacher"] for line in lines if line["kind"] == "train"]
    assert costs[-1] < costs[0] - 0.2  # of the last U-net, and the total is this alone

    halves = shutil.copytree(tmp_path / "student", tmp_path / "halves")
    (halves / "model.safetensors").unlink()
    list_checkpoints(halves / "checkpoints")[-1].unlink()
    train(recipe, halves, RunOptions(resume=True))
    again = load_model(halves / "model.safetensors")[0].state_dict()
    assert all(torch.equal(again[name], t) for name, t in learnt.items())


def test_a_shipped_model_is_known_by_its_digest(tmp_path: Path) -> None:
    card = read_card("luvli-68")
    assert model_file(f"luvli-68@{card.version}") == find_model("luvli-68", "torch")
    with pytest.raises(InputError, match=rf"luvli-68 0\.9 is needed.*version {card.version}"):
        model_file("luvli-68@0.9")
    other = tmp_path / "luvli-68.safetensors"
    other.write_bytes(find_model("luvli-68", "torch").read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="version unknown"):
        check_version("luvli-68", card.version, other)
    with pytest.raises(InputError, match="unknown model"):
        model_file("luvli-86@1.0")


def test_lids_of_closed_eyes_meet(
    crops: CropDataset, small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    config = small_recipe().network.model_copy(update={"visibility_trained": False})
    torch.manual_seed(0)
    save_model(tmp_path / "m.safetensors", build(config), {"enlarge": 1.3})
    open_, shut = [record for record in crops.records if record.visible.all()][:2]
    shut = replace(shut, attributes={"eyes": "closed"})
    plain = relabel([open_, shut], tmp_path / "m.safetensors", MINE, str(tmp_path))
    upper, lower = [37, 38, 43, 44], [41, 40, 47, 46]
    _, as_predicted = label_faces([open_, shut], tmp_path / "m.safetensors", MINE, str(tmp_path))
    assert np.linalg.norm(plain[0].points[upper] - plain[0].points[lower], axis=1).min() > 0
    np.testing.assert_array_equal(plain[1].points[upper], plain[1].points[lower])
    between = as_predicted.points[1][lower] * 2 / 3 + as_predicted.points[1][upper] / 3
    np.testing.assert_allclose(plain[1].points[upper], between)
    rest = [i for i in range(68) if i not in upper + lower]
    np.testing.assert_array_equal(plain[1].points[rest], as_predicted.points[1][rest])
