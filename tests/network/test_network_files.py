"""Model files and published checkpoints: there and back, every architecture, and refusals."""

from __future__ import annotations

import json
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from small_networks import SMALL, same_weights, small, write_official

import luvli
from luvli.errors import InputError
from luvli.network import (
    NetworkConfig,
    build,
    load_model,
    load_official,
    save_model,
    to_official,
)

GOLDEN = Path(__file__).parent.parent / "data_golden" / "tiny_k3_o1_c5.pth.tar"


def test_model_file_there_and_back(tmp_path: Path) -> None:
    network = build(small(mean_estimator="tau-softmax", tau=0.1, likelihood="gauss"))
    network = network.to(memory_format=torch.channels_last)
    save_model(tmp_path / "m.safetensors", network, {"note": "hello", "nme": 2.1})
    again, info = load_model(tmp_path / "m.safetensors")
    assert again.config == network.config
    assert info == {"note": "hello", "nme": 2.1}
    assert same_weights(again, network)
    assert not again.training
    with safe_open(tmp_path / "m.safetensors", framework="np") as file:
        assert NetworkConfig.model_validate_json(file.metadata()["config"]) == network.config


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x10\0\0\0\0\0\0\0{broken", b"PK\x03\x04 no", None]
)
def test_broken_model_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.safetensors"
    if content is None:
        save_model(path, build(small()))
        content = path.read_bytes()[:-100]
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.safetensors"):
        load_model(path)


def test_missing_files(tmp_path: Path) -> None:
    for load in (load_model, load_official):
        with pytest.raises(InputError, match="does not exist"):
            load(tmp_path / "nothing")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"unets": 1, "order": 0},
        {"unets": 4, "order": 3},
        {"channels": 6, "growth": 7, "bn_size": 5, "landmarks": 19, "markup": "aflw19"},
        {"landmarks": 98, "markup": "wflw98"},
        {"input_size": 256},
        {"mean_estimator": "direct"},
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_any_architecture_is_recognised(
    tmp_path: Path, changes: dict[str, Any], zipped: bool
) -> None:
    network = build(small(reference=True, visibility_trained=True, **changes))
    path = write_official(tmp_path / "lr-0.00002-49.pth.tar", network, zipped=zipped)
    again, info = load_official(path, visibility_trained=True)
    assert again.config == network.config
    assert same_weights(again, network)
    assert info["kind"] == "LUVLi"
    assert info["epoch"] == 49


def test_names_of_the_published_code() -> None:
    state = to_official(build(small(unets=2)))
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name, shape in {
        "module.features.conv0.weight": (8, 3, 7, 7),
        "module.hg.down_blocks.3.layers.1.bottleneck.conv_weight": (8, 12, 1, 1),
        "module.hg.down_blocks.0.layers.0.norm.2.running_var": (8,),
        "module.hg.down_blocks.0.layers.0.conv.2.weight": (4, 8, 3, 3),
        "module.hg.down_blocks.2.adapters_skip.1.norm_running_mean": (16,),
        "module.hg.up_blocks.0.adapters_ahead.1.conv_weight": (8, 24, 1, 1),
        "module.hg.neck_block.adapters_ahead.0.norm_weight": (12,),
        "module.linears.1.conv.weight": (5, 8, 1, 1),
        "module.intermedia.adapters.0.conv_weight": (8, 16, 1, 1),
        "module.cholesky.fc_1.weight": (15, 8),
        "module.probability.bias": (5,),
    }.items():
        assert shapes[name] == shape


def test_file_of_pytorch_0_3(tmp_path: Path) -> None:
    """Written byte by byte as PyTorch 0.3 under Python 2 did: pickle protocol 2, byte strings,
    `_rebuild_tensor` instead of `_rebuild_tensor_v2`, CUDA storages after the pickle."""
    network = build(small(reference=True, visibility_trained=False))
    tensors = to_official(network)

    def text(value: str) -> bytes:
        raw = value.encode()
        return b"U" + bytes([len(raw)]) + raw  # SHORT_BINSTRING

    def integer(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(integer(v) for v in values) + b"t"

    body = b"\x80\x02}(" + text("state_dict") + b"ccollections\nOrderedDict\n)R("
    for key, (name, tensor) in enumerate(tensors.items()):
        storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(key))
        storage += text("cuda:0") + integer(tensor.numel()) + b"Nt"
        body += text(name) + b"ctorch._utils\n_rebuild_tensor\n(" + storage + b"Q" + integer(0)
        body += numbers(tuple(tensor.shape)) + numbers(tensor.stride()) + b"tR"
    body += b"uu."
    header = b"".join(
        pickle.dumps(part, protocol=2)
        for part in (
            0x1950A86A20F9469CFC6C,
            1001,
            {
                "protocol_version": 1001,
                "little_endian": True,
                "type_sizes": {"short": 2, "int": 4, "long": 4},
            },
        )
    )
    path = tmp_path / "old.pth.tar"
    with path.open("wb") as stream:
        stream.write(header + body)
        stream.write(pickle.dumps([str(key) for key in range(len(tensors))], protocol=2))
        for tensor in tensors.values():
            stream.write(struct.pack("<q", tensor.numel()) + tensor.contiguous().numpy().tobytes())
    again, _ = load_official(path)
    assert again.config == network.config
    assert same_weights(again, network)


class Bomb:
    """Unpickled the careless way, this makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.mkdir, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_checkpoint_is_not_run(tmp_path: Path, zipped: bool) -> None:
    target = tmp_path / "hacked"
    path = write_official(
        tmp_path / "bomb.pth.tar", build(small()), zipped=zipped, optimizer=Bomb(target)
    )
    with pytest.raises(InputError, match="without running code"):
        load_official(path)
    assert not target.exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.clear(), "holds no state dict"),
        (lambda s: s.pop("module.linears.1.conv.weight"), "not a published LUVLi"),
        (lambda s: s.pop("module.hg.neck_block.adapters_ahead.0.conv_weight"), "lacks hg.neck"),
        (lambda s: s.pop("module.cholesky.fc_1.bias"), "lacks cholesky.fc_1.bias"),
        (lambda s: s.update({"module.extra": torch.zeros(1)}), "unknown entry extra"),
        (lambda s: s.update({"module.features.norm0.bias": torch.zeros(3)}), "wrong shape"),
        (lambda s: s.update({"module.features.norm0.bias": 3}), "other than named tensors"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, spoil: Any, message: str) -> None:
    state = OrderedDict(to_official(build(small())))
    spoil(state)
    path = tmp_path / "other.pth.tar"
    torch.save({"state_dict": state}, path)
    with pytest.raises(InputError, match=message) as caught:
        load_official(path)
    assert "other.pth.tar" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x80\x02}q\x00.", GOLDEN.read_bytes()[:9999]])
def test_files_of_another_kind_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "thing.pth.tar"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"thing\.pth\.tar"):
        load_official(path)


def test_import_official_command(tmp_path: Path, luvli: Any) -> None:
    out = tmp_path / "model.safetensors"
    result = luvli("models", "import", GOLDEN, "--out", out)
    assert result.exit_code == 0, result.output
    for expected in ("3 U-nets of 32 channels", "5 landmarks (points5)", "204,484"):
        assert expected in result.output
    converted, info = load_model(out)
    direct, _ = load_official(GOLDEN)
    assert same_weights(converted, direct)
    assert info["source"] == GOLDEN.name

    assert luvli("models", "import", out, "--out", tmp_path / "x").exit_code == 2
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("change", [{"channels": 4000}, {"unets": 60}, {"landmarks": 9000}])
def test_a_configuration_for_a_giant_is_refused_before_it_is_built(
    tmp_path: Path, change: dict[str, int]
) -> None:
    """Weights of a tiny network under the configuration of one that takes gigabytes."""
    network = build(
        NetworkConfig(unets=1, channels=8, growth=4, input_size=64, landmarks=5, markup="points5")
    )
    path = tmp_path / "giant.safetensors"
    config = network.config.model_copy(update=change).model_dump_json()
    metadata = {"format": "luvli-model-1", "config": config, "info": "{}"}
    save_file(network.state_dict(), path, metadata=metadata)
    resource = pytest.importorskip("resource", reason="counts memory, where the system tells")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="do not fit its own configuration"):
        load_model(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB on Linux


def test_sizes_beyond_reason_are_refused_unbuilt(tmp_path: Path) -> None:
    path = tmp_path / "absurd.safetensors"
    config = NetworkConfig().model_dump() | {"unets": 10_000}
    metadata = {"format": "luvli-model-1", "config": json.dumps(config), "info": "{}"}
    save_file({"x": torch.zeros(1)}, path, metadata=metadata)
    with pytest.raises(InputError, match="configuration that this version cannot read"):
        load_model(path)


@pytest.mark.parametrize("info", ['"text"', "[1]", "3", "null", '{"calibration": "none"}'])
def test_a_description_that_is_another_json_is_refused(tmp_path: Path, info: str) -> None:
    network = build(NetworkConfig(unets=1, input_size=64, **SMALL))
    path = tmp_path / "odd.safetensors"
    config = network.config.model_dump_json()
    metadata = {"format": "luvli-model-1", "config": config, "info": info}
    save_file(network.state_dict(), path, metadata=metadata)
    with pytest.raises(InputError, match="odd"):
        luvli.load(path)


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    network = build(NetworkConfig(unets=1, input_size=64, **SMALL))
    with torch.no_grad():
        next(network.parameters()).view(-1)[0] = float("nan")
    save_model(tmp_path / "nan.safetensors", network)
    with pytest.raises(InputError, match="not numbers"):
        load_model(tmp_path / "nan.safetensors")
