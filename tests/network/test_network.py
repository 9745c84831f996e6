"""The network as a whole: shapes, sizes, training modes, compile and export."""

from __future__ import annotations

import itertools

import pytest
import torch

from luvli.errors import InputError
from luvli.network import DUNet, NetworkConfig, build, to_official
from luvli.network.pixels import contrast_stretch, crop_to_heatmap, heatmap_to_crop

TINY = {"channels": 8, "bn_size": 2, "growth": 4, "landmarks": 5, "markup": "mine5"}


def tiny(**changes: object) -> NetworkConfig:
    return NetworkConfig.model_validate({"unets": 2, "input_size": 64, **TINY, **changes})


@pytest.mark.parametrize(
    ("unets", "order", "size"), [(1, 0, 64), (1, 1, 128), (3, 2, 64), (2, 5, 128), (4, 1, 256)]
)
def test_shapes(unets: int, order: int, size: int) -> None:
    network = build(tiny(unets=unets, order=order, input_size=size)).eval()
    outputs = network(torch.rand(2, 3, size, size))
    assert len(outputs) == unets
    for output in outputs:
        assert output.heatmaps.shape == (2, 5, size // 4, size // 4)
        assert output.mean.shape == (2, 5, 2)
        assert output.cholesky.shape == (2, 5, 3)
        assert output.visibility.shape == (2, 5)
        assert torch.equal(output.visibility, output.visibility_logit.sigmoid())
        assert (output.cholesky[..., [0, 2]] >= network.config.cholesky_floor).all()


def test_size_of_the_published_network() -> None:
    with torch.device("meta"):
        network = build(NetworkConfig())
    assert sum(p.numel() for p in network.parameters()) == 8_620_560
    assert len(to_official(network)) == 1_324


@pytest.mark.parametrize(("unets", "parameters"), [(4, 4_536_080), (2, 2_493_840), (1, 1_472_720)])
def test_size_of_smaller_networks(unets: int, parameters: int) -> None:
    with torch.device("meta"):
        network = build(NetworkConfig(unets=unets))
    assert sum(p.numel() for p in network.parameters()) == parameters


def test_trunk_gives_both_bottlenecks() -> None:
    sizes = {k: v for k, v in TINY.items() if k != "markup"}
    after = DUNet(unets=2, input_size=128, **sizes).eval()
    before = DUNet(unets=2, input_size=128, bottleneck="before", **sizes).eval()
    before.load_state_dict(after.state_dict())
    images = torch.rand(1, 3, 128, 128)
    for a, b in zip(after(images), before(images), strict=True):
        assert a.bottleneck.shape == b.bottleneck.shape == (1, 8, 2, 2)
        assert torch.equal(a.heatmaps, b.heatmaps)
        assert not torch.allclose(a.bottleneck, b.bottleneck)


def test_coupling_reaches_back_as_far_as_the_order_says() -> None:
    """A dense layer is wider by the features of each U-net it looks back to."""
    for order in (0, 1, 2):
        network = DUNet(unets=3, order=order, input_size=64, channels=8, bn_size=1, growth=4)
        widths = [unet.down[0].layer.squeeze.norm.num_features for unet in network.unets]
        assert widths == [8 + 4 * min(i, order) for i in range(3)]


def test_wrong_input_is_named() -> None:
    network = build(tiny())
    with pytest.raises(InputError, match=r"\(B, 3, 64, 64\), got \(1, 3, 64, 32\)"):
        network(torch.rand(1, 3, 64, 32))
    with pytest.raises(InputError, match="multiple of 64 pixels, got 100"):
        DUNet(unets=1, input_size=100)


def test_recomputation_changes_nothing_but_memory() -> None:
    torch.manual_seed(0)
    plain = build(tiny(unets=3, order=2)).train()
    saving = build(tiny(unets=3, order=2), activation_checkpointing=True).train()
    saving.load_state_dict(plain.state_dict())
    images = torch.rand(2, 3, 64, 64)
    for network in (plain, saving):
        outputs = network(images)
        sum(
            field.square().mean() for output in outputs for field in output if field is not None
        ).backward()
    for (name, a), (_, b) in zip(plain.named_parameters(), saving.named_parameters(), strict=True):
        assert torch.equal(a.grad, b.grad), name
    # running statistics must count the batch once
    for (name, a), (_, b) in zip(plain.named_buffers(), saving.named_buffers(), strict=True):
        assert torch.equal(a, b), name


def test_memory_format_makes_no_difference() -> None:
    network = build(tiny()).eval()
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        plain = network(images)
        network = network.to(memory_format=torch.channels_last)
        other = network(images.contiguous(memory_format=torch.channels_last))
    for a, b in zip(itertools.chain(*plain), itertools.chain(*other), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "estimator",
    [
        "relu",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("tau-softmax", "direct")),
    ],
)
def test_export_with_any_batch_size(estimator: str) -> None:
    # the trunk is the same for all three, so one of them shows how U-nets are coupled
    unets = 2 if estimator == "relu" else 1
    network = build(tiny(mean_estimator=estimator, unets=unets)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    images = torch.rand(2, 3, 64, 64)
    exported = torch.export.export(network, (images,), dynamic_shapes=({0: batch},)).module()
    more = torch.rand(5, 3, 64, 64)
    with torch.no_grad():
        for a, b in zip(
            itertools.chain(*network(more)), itertools.chain(*exported(more)), strict=True
        ):
            torch.testing.assert_close(a, b)


@pytest.mark.slow
def test_compile() -> None:
    network = build(tiny(unets=1)).eval()
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        compiled = torch.compile(network, fullgraph=True, backend="aot_eager")(images)
        for a, b in zip(itertools.chain(*network(images)), itertools.chain(*compiled), strict=True):
            torch.testing.assert_close(a, b)


def test_mixed_precision_keeps_the_heads_in_float32() -> None:
    network = build(tiny()).eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        output = network(torch.rand(1, 3, 64, 64))[-1]
    assert output.mean.dtype == output.cholesky.dtype == output.visibility.dtype == torch.float32


def test_pixels_there_and_back() -> None:
    points = torch.rand(4, 2, dtype=torch.float64) * 64
    for grid in ("centres", "corners"):
        torch.testing.assert_close(crop_to_heatmap(heatmap_to_crop(points, grid), grid), points)
    # the centre of the map is the centre of the crop, wherever pixels are counted from
    centre = torch.tensor([31.5])
    assert heatmap_to_crop(centre, "centres").item() == 127.5
    with pytest.raises(InputError, match="centres, corners"):
        heatmap_to_crop(points, "centers")  # type: ignore[arg-type]


def test_contrast_stretch_is_per_crop_and_joint_over_colours() -> None:
    images = torch.rand(3, 3, 8, 8) * torch.tensor([0.2, 0.5, 0.0]).view(3, 1, 1, 1) + 0.1
    stretched = contrast_stretch(images)
    assert stretched[:2].amin((1, 2, 3)).tolist() == [0.0, 0.0]
    assert stretched[:2].amax((1, 2, 3)).tolist() == [1.0, 1.0]
    assert not stretched[2].any()
    scale = stretched[0] / (images[0] - images[0].min())
    assert torch.allclose(scale[scale.isfinite()], scale[scale.isfinite()][0].clone())
    assert (contrast_stretch(images.numpy()) == stretched.numpy()).all()
