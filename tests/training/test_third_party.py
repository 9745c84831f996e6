"""A trunk and a loss from user code: trained, exported by PyTorch's exporter, used without it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

import luvli as package
from luvli.likelihood import LIKELIHOODS, Laplace
from luvli.network import NetworkConfig, build
from luvli.network.trunks import TRUNKS
from luvli.training.losses import LOSSES
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import write_recipe

MODULE = """
import torch.nn.functional as F
from torch import nn
from luvli.network.dunet import UNetFeatures
from luvli.network.trunks import register_trunk
from luvli.training.losses import StageLosses, register_loss

class Plain(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = int(config.trunk_options.get("width", 4))
        self.stem = nn.Conv2d(3, width, 7, stride=4, padding=3)
        self.maps = nn.Conv2d(width, config.landmarks, 3, padding=1)
        self.neck = nn.Conv2d(width, config.channels, 3, padding=1)

    def forward(self, images):
        x = F.relu(self.stem(images))
        return [UNetFeatures(self.maps(x), self.neck(F.avg_pool2d(x, 16)))]

def distance(inputs):
    visible = (inputs.batch.visibility > 0)[..., None]
    error = (inputs.outputs[-1].mean - inputs.target) * visible
    return StageLosses(error.square().mean())

register_trunk("plain", Plain)
register_loss("distance", distance)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_trunk.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "my_trunk", raising=False)
    for registry in (TRUNKS, LOSSES):
        for name in ("plain", "distance"):
            monkeypatch.delitem(registry, name, raising=False)  # type: ignore[arg-type]
    return "my_trunk"


def test_a_trunk_and_a_loss_of_ones_own(
    small_recipe: Callable[..., Recipe],
    luvli: Callable[..., Result],
    faces_folder: Path,
    tmp_path: Path,
    module: str,
) -> None:
    text = write_recipe(small_recipe(network={"trunk": "plain", "unets": 1}))
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(text.replace("loss: heatmap", "loss: distance"))
    words = ("train", recipe, "--out", tmp_path / "run", "--set", "network.trunk_options.width=6")
    missing = luvli(*words, "--import", "no_such_module")
    assert missing.exit_code == 2 and "--import no_such_module failed" in missing.output
    without = luvli(*words)
    assert without.exit_code == 2 and "unknown loss 'distance': choose from" in without.output
    done = luvli(*words, "--import", module)
    assert done.exit_code == 0, done.output

    model, exported = tmp_path / "run/model.safetensors", tmp_path / "mine.onnx"
    TRUNKS.pop("plain")
    refused = luvli("export", model, "--onnx", exported)
    assert refused.exit_code == 2 and "unknown trunk 'plain'" in refused.output
    sys.modules.pop(module)
    done = luvli("export", model, "--onnx", exported, "--import", module)
    assert done.exit_code == 0, done.output  # compared with PyTorch before it appears
    image, boxes = faces_folder / "face01.png", [[8, 8, 72, 72]]
    (by_torch,) = package.load(model, backend="torch").predict(image, boxes)
    TRUNKS.pop("plain")  # ONNX needs no trunk
    (face,) = package.load(exported).predict(image, boxes)
    assert np.abs(face.points - by_torch.points).max() < 0.01


@pytest.mark.parametrize("unets", [1, 2])
def test_features_of_a_wrong_shape_are_refused(unets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import nn

    from luvli.network.dunet import DUNet

    def narrow(config: NetworkConfig) -> nn.Module:
        return DUNet(config.model_copy(update={"channels": 4, "unets": 1}))

    monkeypatch.setitem(TRUNKS, "narrow", narrow)
    config = NetworkConfig(trunk="narrow", unets=unets, channels=8, input_size=64)
    with pytest.raises(package.errors.InputError, match=r"should give heat maps \(1, 68, 16, 16\)"):
        build(config)


LIKELIHOOD = """
from math import gamma, log, pi
from luvli.likelihood import Elliptical, register_likelihood

P = 1.5
S = (2 * gamma(2 / P) / gamma(4 / P)) ** 0.5  # so that the covariance is Sigma: E[r^2] = 2

class Power(Elliptical):
    log_constant = log(2 * pi * S**2 * gamma(2 / P) / P)

    @classmethod
    def radius_energy(cls, radius):
        return (radius / S) ** P

register_likelihood("power", Power)
"""


def test_a_likelihood_of_ones_own(
    small_recipe: Callable[..., Recipe],
    luvli: Callable[..., Result],
    faces_folder: Path,
    tmp_path: Path,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A density alone can be trained and evaluated; what needs more refuses it by name."""
    (tmp_path / f"{module}.py").write_text(LIKELIHOOD)
    monkeypatch.setitem(LIKELIHOODS, "power", Laplace)  # so that none is left at the end
    LIKELIHOODS.pop("power")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(write_recipe(small_recipe()))
    words = ("--import", module)
    run = ("train", recipe, "--out", tmp_path / "run", "--set", "network.likelihood=power")
    done = luvli(*run, *words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run/validation.png").is_file()

    sys.modules.pop(module)
    LIKELIHOODS.pop("power")
    model, report = tmp_path / "run/model.safetensors", tmp_path / "report"
    words = ("--data", "folder", faces_folder, "--crop-by", "tight", *words)
    done = luvli("evaluate", model, "--out", report, *words)
    assert done.exit_code == 0, done.output
    assert "the likelihood Power has no radius_quantile" in done.output
    assert '"nll"' in (report / "metrics.json").read_text()
    likelihoods = dict(LIKELIHOODS)
    LIKELIHOODS.pop("power")
    sys.modules.pop(module)
    table = luvli("compare", report, report, "--out", tmp_path / "compared", "--import", module)
    assert table.exit_code == 0 and LIKELIHOODS.keys() == likelihoods.keys(), table.output
    done = luvli("export", model, "--onnx", tmp_path / "mine.onnx")
    assert done.exit_code == 2 and "Power has no radius_quantile" in done.output
