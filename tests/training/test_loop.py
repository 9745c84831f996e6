"""Whole runs: stopped, broken, resumed, diverging."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from luvli.errors import InputError
from luvli.image.read import read_image
from luvli.network import load_model
from luvli.training import loop as loop_module
from luvli.training import stages as data_module
from luvli.training.callbacks import Callback, Divergence
from luvli.training.checkpoint import list_checkpoints, load_checkpoint
from luvli.training.log import read_run_metrics
from luvli.training.loop import StageTrainer, train
from luvli.training.losses import StageLosses
from luvli.training.recipe import Recipe
from luvli.training.run import RunOptions, Stopped

MakeRecipe = Callable[..., Recipe]
STEPS = 8  # of each of the two stages: 16 faces, 4 in a batch, 2 epochs


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder / "model.safetensors")[0].state_dict()


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Terminate(Callback):
    """SIGTERM to this process before the step that is counted is called done."""

    def __init__(self, at: int) -> None:
        self.at = at

    def stage_begins(self, stage: StageTrainer) -> None:
        original = stage.step

        def step(batch: Any, lr: float) -> StageLosses:
            losses = original(batch, lr)
            if stage.counter.global_step + 1 == self.at:
                os.kill(os.getpid(), signal.SIGTERM)
            return losses

        stage.step = step  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def finished(small_recipe: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("runs") / "whole"
    train(small_recipe(), out)
    return out


@pytest.fixture
def whole(finished: Path, tmp_path: Path) -> Path:
    """A finished run, to be changed at will."""
    return shutil.copytree(finished, tmp_path / "whole")


def test_a_run_leaves_everything_it_promises(whole: Path, small_recipe: MakeRecipe) -> None:
    network, info = load_model(whole / "model.safetensors")
    assert network.config.visibility_trained
    assert info["recipe"] == small_recipe().model_dump(mode="json")
    assert info["steps"] == 2 * STEPS
    assert info["enlarge"] == 1.3
    assert info["validation"]["mine"]["nme_box"] > 0
    assert not load_model(whole / "heatmaps.safetensors")[0].config.visibility_trained
    for picture in ("validation.png", "learning_curve.png"):
        assert read_image(whole / picture).std() > 10
    lines = read_run_metrics(whole)
    watched = [line for line in lines if line["kind"] == "validation"]
    assert [(line["stage"], line["epoch"], line["step"]) for line in watched] == [
        ("heatmaps", 0, 4),
        ("heatmaps", 1, 8),
        ("luvli", 0, 12),
        ("luvli", 1, 16),
    ]
    assert {"loss", "T1", "T2", "visibility", "faces_per_second", "lr", "waiting"} <= set(
        next(line for line in lines if line["kind"] == "train" and line["stage"] == "luvli")
    )
    assert len(list_checkpoints(whole / "checkpoints")) == 3
    saved = load_checkpoint(list_checkpoints(whole / "checkpoints")[-1])
    assert saved["recipe"] == info["recipe"]


@pytest.mark.parametrize("at", [pytest.param(STEPS, marks=pytest.mark.slow), STEPS + 5])
def test_a_run_that_is_terminated_and_resumed_ends_in_the_same_weights(
    at: int, whole: Path, small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    out = tmp_path / "stopped"
    with pytest.raises(Stopped, match="--resume"):
        train(small_recipe(), out, callbacks=[Terminate(at)])
    last = load_checkpoint(list_checkpoints(out / "checkpoints")[-1])
    assert last["counter"]["global_step"] == at
    torch.manual_seed(99)  # whatever happened in between must not matter
    train(small_recipe(), out, RunOptions(resume=True))
    assert same(weights_of(whole), weights_of(out))
    watched = [
        [line for line in read_run_metrics(f) if line["kind"] != "train"] for f in (whole, out)
    ]
    assert watched[0] == watched[1]


def test_a_run_without_checkpoints_goes_on_after_its_last_finished_stage(
    whole: Path, small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    out = tmp_path / "moved"
    out.mkdir()
    shutil.copy(whole / "heatmaps.safetensors", out)
    torch.manual_seed(99)
    train(small_recipe(), out, RunOptions(resume=True))
    assert same(weights_of(whole), weights_of(out))
    assert {line["stage"] for line in read_run_metrics(out)} == {"luvli"}
    assert load_model(out / "model.safetensors")[1]["steps"] == 2 * STEPS


def test_the_stage_of_another_network_is_not_continued(
    whole: Path, small_recipe: MakeRecipe
) -> None:
    shutil.rmtree(whole / "checkpoints")
    with pytest.raises(InputError, match=r"heatmaps\.safetensors is of a recipe with another net"):
        train(small_recipe(network={"growth": 8}), whole, RunOptions(resume=True))


def test_a_second_training_in_one_folder_is_refused(
    small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    """While the first one runs; it goes on undisturbed, and its folder is free at the end."""
    refusals: list[str] = []

    class Rival(Callback):
        def stage_begins(self, stage: StageTrainer) -> None:
            for options in (RunOptions(), RunOptions(resume=True)):
                with pytest.raises(InputError, match="is being written by another run") as raised:
                    train(small_recipe(seed=1), stage.run.out, options)
                refusals.append(str(raised.value))

    out = tmp_path / "run"
    train(small_recipe(stages={"heatmaps": None}), out, callbacks=[Rival()])
    assert len(refusals) == 2 and f"process {os.getpid()}" in refusals[0]
    assert not (out / ".luvli-lock").exists()
    assert load_model(out / "model.safetensors")[1]["recipe"]["seed"] == 0


def test_a_signal_while_faces_are_drawn_ends_the_run_there(
    whole: Path, small_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawing takes minutes, in which a run must not be deaf."""
    original, drawn = data_module.load_source, []

    def draw(*args: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        drawn.append(args)  # never reached
        return original(*args, **options)

    out = tmp_path / "stopped"
    monkeypatch.setattr(data_module, "load_source", draw)
    with pytest.raises(Stopped, match="faces were read or drawn: continue with --resume"):
        train(small_recipe(), out)
    assert not drawn
    monkeypatch.undo()
    train(small_recipe(), out, RunOptions(resume=True))
    assert same(weights_of(whole), weights_of(out))


def test_a_second_run_does_not_write_over_the_first(whole: Path, small_recipe: MakeRecipe) -> None:
    with pytest.raises(InputError, match="already holds a run"):
        train(small_recipe(), whole)


def test_a_refused_run_leaves_nothing_behind(small_recipe: MakeRecipe, tmp_path: Path) -> None:
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    for out in (tmp_path / "runs/new", tmp_path / "empty", tmp_path / "full"):
        with pytest.raises(InputError, match=r"--set data\.sources\.mine\.hold_out=0\.1"):
            train(small_recipe(data={"sources": {"mine": {"hold_out": 500}}}), out)
    assert not (tmp_path / "runs").exists()
    assert list((tmp_path / "empty").iterdir()) == []
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"init": "luvli-86"}, "unknown model 'luvli-86': did you mean 'luvli-68'"),
        ({"init": "gone.safetensors"}, "gone.safetensors does not exist"),
        ({"stages": {"luvli": {"teacher": "gone.safetensors"}}}, "gone.safetensors does not exist"),
        (
            {"data": {"sources": {"mine": {"relabel": "gone.safetensors"}}}},
            "gone.safetensors does not exist",
        ),
        ({"data": {"root": "nowhere"}}, "nowhere does not exist.*data.sources.mine"),
        (
            {"data": {"validation": {"w": {"set": "folder", "path": "no"}}}},
            "no does not exist.*data.validation.w",
        ),
        (
            {"data": {"sources": {"drawn": {"synthetic": {"head": "head.npz"}}}}},
            "head.npz does not exist.*drawn.synthetic",
        ),
        ({"network": {"trunk": "unheard"}}, "unknown trunk 'unheard'.*--import"),
    ],
)
def test_what_is_missing_is_named_before_a_face_is_read(
    small_recipe: MakeRecipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    sentence: str,
) -> None:
    monkeypatch.setattr(data_module, "load_source", lambda *_, **__: pytest.fail("read faces"))
    with pytest.raises(InputError, match=sentence):
        train(small_recipe(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--threads", 0), "threads must be at least 1, got 0"),
        (("--workers", -1), "workers must be at least 0, got -1"),
        (("--log", "print"), "unknown log 'print'; choose one of wandb, mlflow"),
        (("--accelerator", "gpuu"), "unknown accelerator 'gpuu'.* auto, cpu, cuda, mps"),
        (("--precision", "16"), "unknown precision '16'.* 32-true, bf16-mixed, 16-mixed"),
        (("--devices", "x"), "--devices x cannot be used .*: give how many"),
        (("--devices", "0"), "--devices 0 cannot be used"),
        (("--devices", "0,1", "--accelerator", "cpu"), "--devices 0,1 cannot be used"),
    ],
)
def test_options_that_cannot_be_are_refused_first(
    luvli: Callable[..., Result], tmp_path: Path, options: tuple[object, ...], sentence: str
) -> None:
    done = luvli("train", "quick", "--out", tmp_path / "run", *options)
    said = re.sub(r"[\s│]+", " ", done.output)  # typer frames its own sentences
    assert done.exit_code == 2 and re.search(sentence, said), said
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_changed_recipe_is_said_aloud_and_a_changed_network_refused(
    whole: Path, small_recipe: MakeRecipe, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = small_recipe(stages={"luvli": {"epochs": 3}})
    train(longer, whole, RunOptions(resume=True))
    assert "stages.luvli.epochs was 2, is now 3" in capsys.readouterr().err
    assert load_model(whole / "model.safetensors")[1]["steps"] == 2 * STEPS + 4
    with pytest.raises(InputError, match="network differs"):
        train(small_recipe(network={"unets": 1}), whole, RunOptions(resume=True))


def test_divergence_stops_with_the_step_and_keeps_the_last_good_checkpoint(
    small_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = loop_module.stage_losses

    def breaks(*arguments: Any) -> StageLosses:
        losses = original(*arguments)
        breaks.calls += 1  # type: ignore[attr-defined]
        if breaks.calls == 6:  # type: ignore[attr-defined]
            return StageLosses(*(None if part is None else part * torch.nan for part in losses))
        return losses

    breaks.calls = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(loop_module, "stage_losses", breaks)
    with pytest.raises(Divergence, match=r"not a number any more at step 6\b.*rate"):
        train(small_recipe(), tmp_path / "run")
    (kept,) = list_checkpoints(tmp_path / "run/checkpoints")
    state = load_checkpoint(kept)
    assert state["counter"]["global_step"] == 4
    assert all(torch.isfinite(t).all() for t in state["network"].values())


@pytest.mark.slow
def test_how_a_run_is_carried_out_does_not_change_its_result(
    whole: Path, small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    train(small_recipe(), tmp_path / "workers", RunOptions(workers=2))
    train(small_recipe(activation_checkpointing=True), tmp_path / "checkpointing")
    for name in ("workers", "checkpointing"):
        assert same(weights_of(whole), weights_of(tmp_path / name)), name
    train(small_recipe(), tmp_path / "mixed", RunOptions(precision="bf16-mixed"))
    mixed = weights_of(tmp_path / "mixed").values()
    assert {t.dtype for t in mixed} == {torch.float32, torch.int64}
    assert all(torch.isfinite(t).all() for t in mixed)


@pytest.mark.slow
def test_a_run_begins_with_the_weights_of_init(
    whole: Path, small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    """With a rate of nearly nothing the trunk ends where `init` left it, at another crop size."""
    start = whole / "heatmaps.safetensors"
    still = {"epochs": 1, "ema": None, "optimizer": {"kind": "adamw", "lr": 1e-12}}
    changes = {"network": {"input_size": 128}, "stages": {"heatmaps": None, "luvli": still}}
    ended, _ = load_model(train(small_recipe(init=str(start), **changes), tmp_path / "run"))
    begun = dict(load_model(start)[0].trunk.named_parameters())
    assert ended.config.input_size == 128
    for name, weight in ended.trunk.named_parameters():
        assert torch.allclose(weight, begun[name], atol=1e-8, rtol=0), name


def test_a_stage_ends_between_its_start_and_what_it_learnt(
    whole: Path, small_recipe: MakeRecipe, tmp_path: Path
) -> None:
    """And the next one begins there, in the same run and in a run that goes on from its model."""
    start = dict(load_model(whole / "heatmaps.safetensors")[0].trunk.named_parameters())
    learnt = dict(load_model(whole / "model.safetensors")[0].trunk.named_parameters())
    (whole / "model.safetensors").unlink()
    more = small_recipe().stages["luvli"].model_dump() | {"epochs": 1}
    recipe = small_recipe(stages={"luvli": {"start_share": 0.25}, "more": more})
    train(recipe, whole, RunOptions(resume=True))
    ended, _ = load_model(whole / "luvli.safetensors")
    moved = 0.0
    for name, weight in ended.trunk.named_parameters():
        assert torch.allclose(weight, torch.lerp(learnt[name], start[name], 0.25), atol=1e-6), name
        moved += float((weight.detach() - learnt[name].detach()).abs().sum())
    assert moved > 0.1
    again = tmp_path / "again"
    again.mkdir()
    for name in ("heatmaps.safetensors", "luvli.safetensors"):
        shutil.copy(whole / name, again)
    train(recipe, again, RunOptions(resume=True))
    assert same(weights_of(whole), weights_of(again))
