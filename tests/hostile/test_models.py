"""Model files that lie: refused with a sentence when they are loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from luvli.errors import InputError
from luvli.image.write import write_image
from luvli.network.calibration import Calibration
from luvli.network.model_info import ModelInfo
from luvli.prediction.onnx_backend import refuse_external_data
from luvli.prediction.predictor import load

onnx = pytest.importorskip("onnx", reason="needs the package onnx to build such files")

Command = Callable[..., Result]


def changed(source: Path, target: Path, change: Callable[[Any], None]) -> Path:
    """A copy of an ONNX file with something changed."""
    model = onnx.load(source)
    change(model)
    target.write_bytes(model.SerializeToString())
    return target


def described(model: Any, **fields: Any) -> None:
    """Other words in the model's description."""
    for entry in model.metadata_props:
        if entry.key == "luvli":
            content = json.loads(entry.value)
            for name, value in fields.items():
                place = content["config"] if name in content["config"] else content
                place[name] = value
            entry.value = json.dumps(content)


def move_out(tensor: Any, name: str) -> None:
    """The values of a tensor stand in another file from now on."""
    Path(name).write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", name


def test_weights_in_another_file_are_not_read(
    luvli: Command, tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the runtime would look for them
    path = changed(
        tiny["onnx"], tmp_path / "out.onnx",
        lambda m: move_out(max(m.graph.initializer, key=lambda t: len(t.raw_data)), "secret.bin"),
    )  # fmt: skip
    write_image("a.png", np.zeros((64, 64, 3), np.uint8))
    done = luvli("predict", "a.png", "--model", path, "--out", "out")
    assert done.exit_code == 2 and "keeps weights in another file" in done.output
    assert not Path("out").exists()


def test_such_weights_are_found_wherever_they_stand(tmp_path: Path) -> None:
    """In a constant inside the branch of a node, for instance."""
    helper, kind = onnx.helper, onnx.TensorProto
    tensor = helper.make_tensor("x", kind.FLOAT, [1], b"\0\0\0\0", raw=True)
    info = helper.make_tensor_value_info("y", kind.FLOAT, [1])
    constant = helper.make_node("Constant", [], ["y"], value=tensor)
    branch = helper.make_graph([constant], "branch", [], [info])
    outer = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    model = helper.make_model(helper.make_graph([outer], "g", [], [info]))
    refuse_external_data(model.SerializeToString(), "a good one")
    inner = model.graph.node[0].attribute[0].g.node[0].attribute[0].t
    move_out(inner, str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match="another file"):
        refuse_external_data(model.SerializeToString(), "m.onnx")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"landmarks": 67, "markup": "mine67", "calibration": None}, "describes another model"),
        ({"input_size": 128}, "describes another model"),
        ({"occlusion": True}, "another model than it holds .compare its occlusion."),
        ({"calibration": {"scale": [1.0] * 5}}, "calibration of tiny is for 5 landmarks"),
        ({"calibration": {"scale": [-1.0] * 68}}, "description that this version cannot read"),
        ({"enlarge": -1.0}, "description that this version cannot read"),
        ({"landmarks": 10**9}, "description that this version cannot read"),
    ],
)
def test_a_description_that_contradicts_the_graph(
    tiny: dict[str, Path], tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    path = changed(tiny["onnx"], tmp_path / "bad.onnx", lambda m: described(m, **fields))
    with pytest.raises(InputError, match=sentence):
        load(path)


@pytest.mark.parametrize("factor", [-1.0, 0.0, float("nan"), float("inf"), 1e300, 1e-300])
def test_calibrations_are_positive_numbers(factor: float) -> None:
    with pytest.raises(ValueError, match=r"scale\.1"):
        Calibration(scale=[1.0, factor])
    with pytest.raises(InputError, match="scale"):
        config = ModelInfo.model_fields["config"].annotation()
        ModelInfo.from_training("m", config, {"calibration": {"scale": [factor] * 68}})


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("spoil", ["overflow", "negative variance"])
def test_weights_that_give_no_numbers(
    tiny: dict[str, Path], tmp_path: Path, kind: str, spoil: str
) -> None:
    """Every weight is a finite number, and what comes out is none."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    from luvli.network import load_model, save_model
    from luvli.network.onnx_graph import build_graph
    from luvli.network.weights import network_weights

    network, info = load_model(tiny["torch"])
    with torch.no_grad():
        if spoil == "overflow":
            network.cholesky.linear.bias.fill_(1e30)
        else:
            next(m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)) \
                .running_var.fill_(-1.0)  # fmt: skip
    path = tmp_path / "bad.safetensors"
    save_model(path, network, info)
    if kind == "onnx":
        graph = build_graph(
            network_weights(network), ModelInfo.from_training("bad", network.config, info)
        )
        path = tmp_path / "bad.onnx"
        path.write_bytes(graph.SerializeToString())
    with pytest.raises(InputError, match="are not numbers"):
        load(path)
