"""Two processes (gloo) against one: the same global batch must give the same weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from patience import wait_until

from luvli.errors import InputError
from luvli.network import build, load_model
from luvli.training.checkpoint import list_checkpoints
from luvli.training.loop import train
from luvli.training.optimizer import prepare_norms, set_training_mode
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import write_recipe
from luvli.training.run import RunOptions

MakeRecipe = Callable[..., Recipe]
LUVLI = str(Path(sys.executable).with_name("luvli"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def command(recipe: Recipe, out: Path, *flags: str) -> list[str]:
    path = out.with_suffix(".yaml")
    path.write_text(write_recipe(recipe))
    return [LUVLI, "train", str(path), "--out", str(out), "--accelerator", "cpu", *flags]


def run(recipe: Recipe, out: Path, *flags: str) -> dict[str, torch.Tensor]:
    subprocess.run(command(recipe, out, *flags), check=True, env=ENVIRONMENT, capture_output=True)
    return load_model(out / "model.safetensors")[0].state_dict()


def furthest(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return max(float((a[name].double() - b[name].double()).abs().max()) for name in a)


@pytest.mark.slow
@pytest.mark.seconds(10)
def test_two_processes_learn_what_one_learns(small_recipe: MakeRecipe, tmp_path: Path) -> None:
    """Batch norms are frozen: local statistics of half a batch are other statistics.

    Adam's eps is larger than usual, because Adam blows rounding up wherever a gradient is
    nearly zero, and the rate is small, because without norms a network soon turns chaotic.
    """
    stage = {"batch_norm": "frozen", "optimizer": {"kind": "adamw", "lr": 2e-4, "eps": 1e-3}}
    recipe = small_recipe(stages={"heatmaps": stage, "luvli": stage})
    done = train(recipe, tmp_path / "one", RunOptions(accelerator="cpu"))
    one = load_model(done)[0].state_dict()
    two = run(recipe, tmp_path / "two", "--devices", "2")
    torch.manual_seed(recipe.seed * 1000)  # as the first stage begins
    start = build(recipe.network).state_dict()
    learnt = furthest({k: v for k, v in one.items() if k.startswith("trunk.")}, start)
    assert learnt > 1e-3
    assert furthest(one, two) < 1e-3 * learnt


@pytest.mark.slow
@pytest.mark.seconds(10)
def test_two_processes_of_torchrun_stop_together(small_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = small_recipe(stages={"heatmaps": {"epochs": 10_000}, "luvli": None})
    out = tmp_path / "run"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    job = subprocess.Popen(
        [*torchrun, *command(recipe, out, "--devices", "2")],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until(lambda: list_checkpoints(out / "checkpoints") or job.poll() is not None)
        job.send_signal(signal.SIGTERM)
        text, _ = job.communicate()
    finally:
        job.kill()
    assert "stopped by a signal" in text
    assert list_checkpoints(out / "checkpoints")


def test_batch_norms_are_local_synchronised_or_frozen(small_recipe: MakeRecipe) -> None:
    network = build(small_recipe().network)
    assert prepare_norms(network, "sync", processes=1, on_cpu=True) is network
    with pytest.raises(InputError, match="needs GPUs"):
        prepare_norms(network, "sync", processes=2, on_cpu=True)
    converted = prepare_norms(network, "sync", processes=2, on_cpu=False)
    kinds = {type(module).__name__ for module in converted.modules()}
    assert "SyncBatchNorm" in kinds and "BatchNorm2d" not in kinds
    for choice, changed in (("frozen", False), ("local", True)):
        network = build(small_recipe().network)
        before = network.state_dict()["trunk.stem.1.running_mean"].clone()
        set_training_mode(network, choice)  # type: ignore[arg-type]
        network(torch.rand(2, 3, 64, 64))
        after = network.state_dict()["trunk.stem.1.running_mean"]
        assert torch.equal(before, after) != changed
