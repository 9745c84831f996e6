"""The occlusion head: what teaches it, and how it is added to a finished network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from luvli.data.augment import Augmentation
from luvli.data.dataset import CropDataset
from luvli.data.record import Visibility
from luvli.network import build, load_model
from luvli.training.batch import TrainingFaces, make_batch, occlusion_labels
from luvli.training.loop import train
from luvli.training.losses import network_input, stage_losses
from luvli.training.recipe import Recipe, Stage
from luvli.training.recipe_data import Source

MakeRecipe = Callable[..., Recipe]
UNLABELLED, HIDDEN, SEEN, COVERED = -1, 0, 1, 2


@pytest.mark.parametrize(
    ("use", "after", "teaches"),
    [
        ("labelled", [UNLABELLED, HIDDEN, SEEN, COVERED, SEEN], [0, 0, 1, 1, 1]),
        ("labelled", [UNLABELLED, HIDDEN, SEEN, COVERED, COVERED], [0, 0, 1, 1, 1]),
        ("pasted", [UNLABELLED, HIDDEN, SEEN, COVERED, SEEN], [0, 0, 0, 0, 0]),
        ("pasted", [UNLABELLED, HIDDEN, SEEN, COVERED, COVERED], [0, 0, 1, 0, 1]),
        ("ignore", [UNLABELLED, HIDDEN, SEEN, COVERED, COVERED], [0, 0, 0, 0, 0]),
    ],
)
def test_what_labels_teach_about_occlusion(use: str, after: list[int], teaches: list[int]) -> None:
    before = np.array([UNLABELLED, HIDDEN, SEEN, COVERED, SEEN], np.int8)
    found = occlusion_labels(before, np.array(after, np.int8), use)  # type: ignore[arg-type]
    assert found.tolist() == teaches  # type: ignore[comparison-overlap]


def changed(crops: CropDataset, **augmentation: object) -> CropDataset:
    config = Augmentation.recipe("none").model_copy(update={"flip": 1.0, **augmentation})
    return CropDataset(crops.records, 64, enlarge=1.3, augmentation=config)


def test_pasted_things_are_positives(crops: CropDataset) -> None:
    plain, pasted = changed(crops), changed(crops, occluder=1.0)
    source = Source(set="folder", occlusion="pasted")
    assert TrainingFaces([pasted], [source]).any_covered()
    assert not TrainingFaces([plain], [source]).any_covered()
    assert not TrainingFaces([pasted], [Source(set="folder")]).any_covered()
    faces = TrainingFaces([plain, pasted], [source, source])
    covered = 0
    for index in range(8):
        assert not faces[0, 0, index]["occlusion_labelled"].any()
        sample = faces[1, 0, index]
        hit = sample["visibility"] == Visibility.EXTERNALLY_OCCLUDED
        covered += int(hit.sum())
        # the image changed where a landmark is said to be covered
        x, y = np.rint(sample["points"][hit]).astype(int).T
        assert (sample["image"][y, x] != plain[0, index]["image"][y, x]).any(axis=1).all()
        teaches = sample["occlusion_labelled"]
        assert teaches[hit].all() and teaches.any() == hit.any()
        assert not teaches[sample["visibility"] == Visibility.SELF_OCCLUDED].any()
    assert covered > 10


def test_the_head_is_added_to_the_loss(small_recipe: MakeRecipe, crops: CropDataset) -> None:
    recipe = small_recipe(network={"occlusion": True})
    source = Source(set="folder", occlusion="labelled")
    faces = TrainingFaces([changed(crops, occluder=1.0)], [source])
    batch = make_batch([faces[0, 0, i] for i in range(4)])
    torch.manual_seed(0)
    network = build(recipe.network).eval()
    outputs = network(network_input(batch.images, network.config))
    plain = stage_losses(Stage(loss="luvli"), recipe.network, outputs, batch)
    more = stage_losses(Stage(loss="luvli", occlusion_weight=0.5), recipe.network, outputs, batch)
    assert plain.occlusion is None
    expected = 0.0
    for output in outputs:
        p = output.occlusion_logit.sigmoid()
        chosen = torch.where(batch.visibility == 2, p, 1 - p)[batch.visibility > 0]
        expected -= chosen.log().sum().item() / (4 * 68)
    assert (more.total - plain.total).item() == pytest.approx(0.5 * expected, rel=1e-4)


def test_a_head_is_added_to_a_finished_network(
    small_recipe: MakeRecipe, untrained: Path, tmp_path: Path
) -> None:
    """Everything but the new layer stays, bit for bit, and so does what is known of it."""
    stage = {
        **small_recipe().stages["luvli"].model_dump(),
        "train_only": ["occlusion"],
        "occlusion_weight": 1.0,
        "augmentation": {"recipe": "A", "occluder": 1.0},
    }
    recipe = small_recipe(
        init=str(untrained),
        network={"occlusion": True},
        data={"sources": {"mine": {"occlusion": "pasted"}}},
        stages={"heatmaps": None, "luvli": None, "add": stage},
    )
    network, _ = load_model(train(recipe, tmp_path / "run"))
    config = network.config
    assert config.occlusion and config.occlusion_trained and config.covariance_trained
    assert not config.visibility_trained  # as before, although these labels have visibility
    before, after = load_model(untrained)[0].state_dict(), network.state_dict()
    assert {name.split(".")[0] for name in after.keys() - before.keys()} == {"occlusion"}
    assert all(torch.equal(after[name], t) for name, t in before.items())
    torch.manual_seed(0)  # as the stage began: the layer has learnt
    fresh = build(recipe.network).state_dict()
    assert not torch.equal(after["occlusion.linear.weight"], fresh["occlusion.linear.weight"])
