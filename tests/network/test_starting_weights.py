"""Training starts from the weights of another network: what fits is taken, the rest is said."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from small_networks import same_weights, small, write_official

from luvli.errors import InputError
from luvli.network import (
    LUVLi,
    build,
    load_official,
    load_weights_into,
    save_model,
    to_official,
)


def plain_dunet(path: Path, network: LUVLi) -> Path:
    """A heat-map checkpoint: the same without CEN and VEN."""
    state = OrderedDict(
        (name, tensor)
        for name, tensor in to_official(network).items()
        if "cholesky" not in name and "probability" not in name
    )
    torch.save({"state_dict": state}, path)
    return path


def test_plain_dunet_checkpoint_loads_and_says_what_is_missing(tmp_path: Path) -> None:
    source = build(small(input_size=256))
    path = plain_dunet(tmp_path / "dunet.pth.tar", source)
    network, info = load_official(path, visibility_trained=True)
    assert info["kind"] == "DU-Net heat maps"
    assert info["missing"] == ["CEN", "VEN"]
    assert not network.config.visibility_trained
    assert same_weights(network.trunk, source.trunk)
    assert load_weights_into(build(small(input_size=256)), path) == ["CEN", "VEN"]


def test_fine_tuning_with_another_number_of_landmarks(tmp_path: Path) -> None:
    source = build(small())
    path = write_official(tmp_path / "source.pth.tar", source)
    network = build(small(landmarks=7, markup="points7"))
    assert load_weights_into(network, path) == ["CEN", "VEN", "heat-map heads"]
    assert same_weights(network.trunk.unets, source.trunk.unets)
    # the normalisation of a head does not depend on the number of landmarks and is kept
    assert torch.equal(network.trunk.heads[0].norm.weight, source.trunk.heads[0].norm.weight)


def test_fewer_unets_are_the_first_ones(tmp_path: Path) -> None:
    source = build(small(unets=3, order=2)).eval()
    save_model(tmp_path / "three.safetensors", source)
    network = build(small(unets=2, order=2)).eval()
    assert load_weights_into(network, tmp_path / "three.safetensors") == []
    images = torch.rand(1, 3, 64, 64)
    for a, b in zip(network(images), source(images)[:2], strict=True):
        assert torch.equal(a.mean, b.mean)


def test_more_unets_begin_as_copies_of_the_last(tmp_path: Path) -> None:
    source = build(small(unets=2, order=1)).eval()
    save_model(tmp_path / "two.safetensors", source)
    network = build(small(unets=4, order=1)).eval()
    assert load_weights_into(network, tmp_path / "two.safetensors") == []
    for unet in network.trunk.unets[2:]:
        assert same_weights(unet, source.trunk.unets[1])
    images = torch.rand(1, 3, 64, 64)
    for a, b in zip(network(images)[:2], source(images), strict=True):
        assert torch.equal(a.mean, b.mean)
    # a first U-net remembers nothing before it: it cannot stand for one that does
    save_model(tmp_path / "one.safetensors", build(small(unets=1, order=1)))
    with pytest.raises(InputError, match="more than `order`"):
        load_weights_into(network, tmp_path / "one.safetensors")


def test_heads_of_another_crop_size_are_resized(tmp_path: Path) -> None:
    source = build(small(input_size=128))
    save_model(tmp_path / "small.safetensors", source)
    network = build(small(input_size=192))
    assert load_weights_into(network, tmp_path / "small.safetensors") == []
    even = torch.rand(1, source.config.channels, 1, 1)  # a bottleneck that is the same everywhere
    for head in ("cholesky", "visibility"):
        before = getattr(source, head)(even.expand(-1, -1, 2, 2))
        after = getattr(network, head)(even.expand(-1, -1, 3, 3))
        assert torch.allclose(before, after, atol=1e-5)


def test_fine_tuning_from_another_architecture_is_refused(tmp_path: Path) -> None:
    path = write_official(tmp_path / "source.pth.tar", build(small()))
    for changes in ({"order": 0}, {"channels": 16}, {"growth": 8}):
        with pytest.raises(InputError, match="another architecture"):
            load_weights_into(build(small(**changes)), path)
