"""The network as a whole: shapes, sizes, training modes."""

from __future__ import annotations

import itertools

import pytest
import torch
from small_networks import small

from luvli.errors import InputError
from luvli.network import DUNet, NetworkConfig, build, to_official
from luvli.network.pixels import contrast_stretch, crop_to_heatmap, heatmap_to_crop


@pytest.mark.parametrize(
    ("unets", "order", "size"), [(1, 0, 64), (1, 1, 128), (3, 2, 64), (2, 5, 128), (4, 1, 256)]
)
def test_shapes(unets: int, order: int, size: int) -> None:
    network = build(small(unets=unets, order=order, input_size=size)).eval()
    outputs = network(torch.rand(2, 3, size, size))
    assert len(outputs) == unets
    for output in outputs:
        assert output.heatmaps.shape == (2, 5, size // 4, size // 4)
        assert output.mean.shape == (2, 5, 2)
        assert output.cholesky.shape == (2, 5, 3)
        assert output.visibility.shape == (2, 5)
        assert torch.equal(output.visibility, output.visibility_logit.sigmoid())
        assert (output.cholesky[..., [0, 2]] >= network.config.cholesky_floor).all()
    with pytest.raises(InputError, match=rf"\(B, 3, {size}, {size}\), got \(1, 3, 64, 32\)"):
        network(torch.rand(1, 3, 64, 32))


@pytest.mark.parametrize(
    ("unets", "parameters"), [(8, 8_620_560), (4, 4_536_080), (2, 2_493_840), (1, 1_472_720)]
)
def test_sizes_are_the_published_ones(unets: int, parameters: int) -> None:
    with torch.device("meta"):
        network = build(NetworkConfig(unets=unets))
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert unets != 8 or len(to_official(network)) == 1_324


def test_trunk_gives_both_bottlenecks() -> None:
    after, before = (DUNet(small(input_size=128, bottleneck=b)).eval() for b in ("after", "before"))
    before.load_state_dict(after.state_dict())
    images = torch.rand(1, 3, 128, 128)
    for a, b in zip(after(images), before(images), strict=True):
        assert a.bottleneck.shape == b.bottleneck.shape == (1, 8, 2, 2)
        assert torch.equal(a.heatmaps, b.heatmaps)
        assert not torch.allclose(a.bottleneck, b.bottleneck)


def test_coupling_reaches_back_as_far_as_the_order_says() -> None:
    """A dense layer is wider by the features of each U-net it looks back to."""
    for order in (0, 1, 2):
        network = DUNet(small(unets=3, order=order))
        widths = [unet.down[0].layer.squeeze.norm.num_features for unet in network.unets]
        assert widths == [8 + 4 * min(i, order) for i in range(3)]


def test_recomputation_changes_nothing_but_memory() -> None:
    torch.manual_seed(0)
    plain = build(small(unets=3, order=2)).train()
    saving = build(small(unets=3, order=2), activation_checkpointing=True).train()
    saving.load_state_dict(plain.state_dict())
    images = torch.rand(2, 3, 64, 64)
    for network in (plain, saving):
        fields = itertools.chain(*network(images))
        sum(field.square().mean() for field in fields if field is not None).backward()
    for (name, a), (_, b) in zip(plain.named_parameters(), saving.named_parameters(), strict=True):
        assert torch.equal(a.grad, b.grad), name
    # running statistics must count the batch once
    for (name, a), (_, b) in zip(plain.named_buffers(), saving.named_buffers(), strict=True):
        assert torch.equal(a, b), name


def test_mixed_precision_keeps_the_heads_in_float32() -> None:
    network = build(small()).eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        output = network(torch.rand(1, 3, 64, 64))[-1]
    assert output.mean.dtype == output.cholesky.dtype == output.visibility.dtype == torch.float32


def test_pixels_there_and_back() -> None:
    points = torch.rand(4, 2, dtype=torch.float64) * 64
    for grid in ("centres", "corners"):
        torch.testing.assert_close(crop_to_heatmap(heatmap_to_crop(points, grid), grid), points)
    # the centre of the map is the centre of the crop, wherever pixels are counted from
    assert heatmap_to_crop(torch.tensor([31.5]), "centres").item() == 127.5


def test_contrast_stretch_is_per_crop_and_joint_over_colours() -> None:
    images = torch.rand(3, 3, 8, 8) * torch.tensor([0.2, 0.5, 0.0]).view(3, 1, 1, 1) + 0.1
    stretched = contrast_stretch(images)
    assert stretched[:2].amin((1, 2, 3)).tolist() == [0.0, 0.0]
    assert stretched[:2].amax((1, 2, 3)).tolist() == [1.0, 1.0]
    assert not stretched[2].any()
    scale = stretched[0] / (images[0] - images[0].min())
    assert torch.allclose(scale[scale.isfinite()], scale[scale.isfinite()][0].clone())
    assert (contrast_stretch(images.numpy()) == stretched.numpy()).all()
