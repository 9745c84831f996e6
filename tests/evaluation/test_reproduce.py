"""docs/reproduce.md, followed to the letter on miniature copies of every data set.

Only the size is changed: a small network, one epoch, a step or two. Commands of `recipes run` are
tested in tests/training/test_folder_of_recipes.py.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from typer.testing import Result

from luvli.evaluation.metrics import Evaluation
from luvli.network import NetworkConfig, build, load_model
from luvli.network.official import to_official
from luvli.training.recipe_files import read_recipe

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/data"))
from set_trees import (  # noqa: E402
    aflw19,
    cofw68,
    menpo,
    merl_rav_organised,
    multipie,
    w300,
    w300lp,
    wflw_hrnet,
)

PAGE = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
RECIPES = sorted(path for path in (ROOT / "recipes/paper").rglob("*.yaml") if path.stem != "base")
SMALL = {"unets": 2, "channels": 8, "bn_size": 1, "growth": 4, "input_size": 64}


FOLDERS = {"300w": w300, "300w_lp": w300lp, "menpo": menpo, "cofw": cofw68, "aflw19": aflw19,
           "wflw": wflw_hrnet, "multipie": multipie, "": merl_rav_organised}  # fmt: skip


def write_all(root: Path) -> None:
    """Every data set of the page, with enough training faces for a batch."""
    for name, write in FOLDERS.items():
        write(root / name)
    for table in root.rglob("face_landmarks_*_train.csv"):
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([head, *(4 * rows)]) + "\n")


def printed_commands() -> list[list[str]]:
    """The arguments of every `luvli` command in the page's blocks, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    assert all(line[0] == "luvli" for line in words if line)
    return [line[1:] for line in words if line and line[1:3] != ["recipes", "run"]]


def smaller(recipe: Path, without: Sequence[str] = ()) -> list[str]:
    """The same training in seconds, `without` stages that the command leaves out."""
    settings = [f"network.{key}={value}" for key, value in SMALL.items()]
    for stage in read_recipe(recipe, without).stages:
        settings += [f"stages.{stage}.epochs=1", f"stages.{stage}.batch_size=3"]
    return [word for setting in settings for word in ("--set", setting)]


def test_every_recipe_table_and_figure_has_its_command() -> None:
    assert len(RECIPES) == 19
    assert not [path.name for path in RECIPES if path.name not in PAGE]
    commands = [" ".join(words) for words in printed_commands()]
    for kind, last in (("table", 13), ("figure", 11)):
        for number in range(1, last + 1):
            wanted = f"paper {kind} {number}"
            assert any(f"{command} ".startswith(f"{wanted} ") for command in commands), wanted


@pytest.mark.slow
@pytest.mark.seconds(60)
def test_a_researcher_who_follows_the_page_gets_every_table_and_figure(
    tmp_path: Path, luvli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUVLI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    write_all(tmp_path / "DATA")
    config = NetworkConfig(**SMALL, order=1, reference=True)
    torch.save({"state_dict": to_official(build(config))}, "DUNET.pth.tar")
    trained = set()
    for words in printed_commands():
        more: list[str] = []
        if words[0] == "train":
            trained.add(Path(words[1]))
            more = smaller(Path(words[1]), without=[w for w in words if w.endswith("=null")])
        done = luvli(*words, *more)
        allowed = (
            (0, 1) if words[:2] == ["data", "check"] else (0,)
        )  # 1: fewer faces than there are
        assert done.exit_code in allowed, f"{words}: {done.output[-1500:]} {done.exception!r}"
    for recipe in RECIPES:  # those that a table of the page lists
        name = recipe.relative_to(ROOT)
        if name not in trained:
            more = ["--set", "data.root=DATA", "--set", "data.cache_crops=false", *smaller(recipe)]
            done = luvli("train", name, "--out", f"runs/{recipe.stem}", *more)
            assert done.exit_code == 0, f"{name}: {done.output[-1500:]}"
    for folder in Path("runs").iterdir():
        network, info = load_model(folder / "model.safetensors")
        assert info["steps"] > 0
        assert network.config.visibility_trained == (folder.name == "merl-rav"), folder
        trains_covariance = not folder.name.endswith(("mse", "300w-lp"))
        assert network.config.covariance_trained == trains_covariance, folder
    evaluations = [Evaluation.read(path) for path in Path("reports").rglob("metrics.json")]
    assert {each.dataset for each in evaluations} == {
        "w300", "menpo", "cofw68", "aflw19", "wflw", "merl_rav", "multipie",
    }  # fmt: skip
    for number in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13):
        printed = luvli("paper", "table", number, "--reports", "reports").output
        assert "†" in printed, f"table {number} has no row of ours"
    assert len(list(Path("figures").iterdir())) == 15
