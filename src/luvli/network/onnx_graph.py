"""A network as an ONNX graph, written node by node.

PyTorch's own exporter takes half a minute, needs one more package, and changes from version
to version. This network has one kind of layer, so its graph is written by hand, and
`luvli.prediction.export` compares it with PyTorch before a file appears. Only what the last
U-net's prediction needs is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from luvli.errors import InputError
from luvli.network.backend import INPUT, output_shapes
from luvli.network.dunet import Block, DUNet, NormReluConv, UNet
from luvli.network.model import LUVLi
from luvli.network.model_info import ModelInfo
from luvli.network.pixels import STRIDE, heatmap_to_crop

OPSET = 17
BOTTLENECKS = "bottlenecks"
"""name of the (N, U C h w) tensor in a graph that tells alignments gone astray"""
IR_VERSION = 8
"""old enough for every ONNX Runtime that pyproject.toml allows"""


def build_graph(network: LUVLi, info: ModelInfo) -> Any:
    """The `onnx.ModelProto` of a network in eval mode, calibration and metadata included."""
    import onnx

    config = network.config
    graph = _Graph()
    with torch.no_grad():
        heatmaps, bottlenecks = _trunk(graph, network, _images(graph, network))
        made = _predictions(graph, network, info, heatmaps, bottlenecks)
    shapes = output_shapes(config)
    for result, name in zip(made, shapes, strict=True):
        graph.node("Identity", [result], name=name)
    side = config.input_size
    kind = onnx.TensorProto
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            info.name,
            [onnx.helper.make_tensor_value_info(INPUT, kind.UINT8, ["faces", side, side, 3])],
            [
                onnx.helper.make_tensor_value_info(name, kind.FLOAT, ["faces", *shape])
                for name, shape in shapes.items()
            ],
            graph.constants,
        ),
        producer_name="luvli",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.helper.set_model_props(proto, info.to_metadata())
    onnx.checker.check_model(proto, full_check=True)
    return proto


class _Graph:
    """Collects nodes and constants; every method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def node(self, kind: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        import onnx

        self._count += 1
        name = name or f"{kind}_{self._count}"
        self.nodes.append(onnx.helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: Tensor | np.ndarray[Any, Any] | Sequence[float] | float) -> str:
        from onnx import numpy_helper

        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        self._count += 1
        name = f"constant_{self._count}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def conv(self, x: str, layer: nn.Conv2d, factor: float = 1.0) -> str:
        height, width = (int(side) for side in layer.kernel_size)
        return self.node(
            "Conv",
            [x, self.constant(layer.weight * factor)],
            kernel_shape=[height, width],
            strides=[int(step) for step in layer.stride],
            pads=[int(edge) for edge in layer.padding] * 2,
        )

    def norm_relu(self, x: str, norm: nn.BatchNorm2d) -> str:
        tensors = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        inputs = [self.constant(t) for t in tensors if t is not None]
        return self.node("Relu", [self.node("BatchNormalization", [x, *inputs], epsilon=norm.eps)])

    def layer(self, x: str, layer: NormReluConv) -> str:
        return self.conv(self.norm_relu(x, layer.norm), layer.conv)

    def join(self, parts: Sequence[str], axis: int = 1) -> str:
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, axis=axis)

    def halve(self, x: str) -> str:
        return self.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])

    def double(self, x: str) -> str:
        scales = self.constant([1.0, 1.0, 2.0, 2.0])
        return self.node(
            "Resize",
            [x, "", scales],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def linear(self, x: str, layer: nn.Linear) -> str:
        flat = self.node("Flatten", [x], axis=1)
        weights = [self.constant(layer.weight), self.constant(layer.bias)]
        return self.node("Gemm", [flat, *weights], transB=1)

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", [x, self.constant(np.array(shape, np.int64))])

    def columns(self, x: str, first: int, last: int) -> str:
        """x[..., first:last] of a tensor (N, k, m)."""
        limits = [self.constant(np.array([i], np.int64)) for i in (first, last, 2)]
        return self.node("Slice", [x, *limits])

    def add(self, x: str, y: str | float) -> str:
        return self.node("Add", [x, y if isinstance(y, str) else self.constant(y)])

    def times(self, x: str, y: str | float) -> str:
        return self.node("Mul", [x, y if isinstance(y, str) else self.constant(y)])


def _images(graph: _Graph, network: LUVLi) -> str:
    """uint8 (N, S, S, 3) -> float (N, 3, S, S), 0..255, or 0..1 where contrast is stretched."""
    x = graph.node("Cast", [INPUT], to=1)
    x = graph.node("Transpose", [x], perm=[0, 3, 1, 2])
    if not network.config.contrast_stretch:
        return x
    low = graph.node("ReduceMin", [x], axes=[1, 2, 3])
    high = graph.node("ReduceMax", [x], axes=[1, 2, 3])
    same = graph.node("Cast", [graph.node("Equal", [high, low])], to=1)
    span = graph.add(graph.node("Sub", [high, low]), same)
    return graph.node("Div", [graph.node("Sub", [x, low]), span])


def _trunk(graph: _Graph, network: LUVLi, images: str) -> tuple[str, list[str]]:
    """Heat maps of the last U-net and bottlenecks of all: the way of `DUNet.forward`."""
    trunk, order = network.trunk, network.config.order
    assert isinstance(trunk, DUNet)
    conv, norm = trunk.stem[0], trunk.stem[1]
    assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
    factor = 1.0 if network.config.contrast_stretch else 1 / 255
    x = graph.halve(graph.norm_relu(graph.conv(images, conv, factor), norm))
    inputs: list[str] = []
    history: list[list[str]] = []
    bottlenecks: list[str] = []
    for i, unet in enumerate(trunk.unets):
        assert isinstance(unet, UNet)
        if i > 0:
            between = trunk.between[i - 1]
            assert isinstance(between, NormReluConv)
            x = graph.layer(graph.join([x, *_last(inputs, order)]), between)
        inputs.append(x)
        memory = list(zip(*_last(history, order), strict=True)) if _last(history, order) else []
        x, before, after, features = _unet(graph, unet, x, memory)
        bottlenecks.append(before if network.config.bottleneck == "before" else after)
        history.append(features)
    head = trunk.heads[-1]
    assert isinstance(head, NormReluConv)
    return graph.layer(x, head), bottlenecks


def _unet(
    graph: _Graph, unet: UNet, x: str, memory: Sequence[Sequence[str]]
) -> tuple[str, str, str, list[str]]:
    def block(module: nn.Module, parts: Sequence[str], place: int) -> tuple[str, str, str]:
        assert isinstance(module, Block)
        seen = graph.join([*parts, *(memory[place] if memory else ())])
        new = graph.layer(graph.layer(seen, module.layer.squeeze), module.layer.grow)
        everything = graph.join([seen, new])
        skip = graph.layer(everything, module.skip) if module.skip is not None else ""
        return new, graph.layer(everything, module.ahead), skip

    depth = len(unet.down)
    features: list[str] = []
    skips: list[str] = []
    for j, down in enumerate(unet.down):
        new, ahead, skip = block(down, [x], j)
        features.append(new)
        skips.append(skip)
        x = graph.halve(ahead)
    before = x
    new, x, _ = block(unet.neck, [x], depth)
    features.append(new)
    after = x
    rising: list[str] = []
    for j in reversed(range(depth)):
        new, x, _ = block(unet.up[j], [graph.double(x), skips[j]], depth + 1 + j)
        rising.insert(0, new)
    return x, before, after, features + rising


def _predictions(
    graph: _Graph, network: LUVLi, info: ModelInfo, heatmaps: str, bottlenecks: Sequence[str]
) -> list[str]:
    """Points, covariances, visibilities and, where the network has them, occlusions and log-odds
    of having gone astray, in crop pixels: the way of `LUVLi` and `CropPredictor`."""
    config = network.config
    bottleneck = bottlenecks[-1]
    if config.mean_estimator == "argmax" or config.covariance_estimator == "heatmap":
        raise InputError(
            f"{info.name} reads its heat maps by argmax or moments, which runs in PyTorch alone: "
            "evaluate the .safetensors file."
        )
    direct = config.mean_estimator == "direct"
    raw = graph.reshape(
        graph.linear(bottleneck, network.cholesky.linear), -1, config.landmarks, 5 if direct else 3
    )
    mean = graph.columns(raw, 3, 5) if direct else _mean(graph, network, heatmaps)
    points = graph.add(
        graph.times(mean, float(STRIDE)), float(heatmap_to_crop(0.0, config.pixel_grid))
    )
    unit = graph.constant(STRIDE * info.cholesky_factors[:, None])  # (k, 1), for N x k x 1
    rest = 1.0 + config.cholesky_floor
    diagonal = graph.add(graph.node("Elu", [graph.columns(raw, 0, 3)]), rest)
    l11 = graph.times(graph.columns(diagonal, 0, 1), unit)
    l21 = graph.times(graph.columns(raw, 1, 2), unit)
    l22 = graph.times(graph.columns(diagonal, 2, 3), unit)
    xx, xy = graph.times(l11, l11), graph.times(l11, l21)
    yy = graph.add(graph.times(l21, l21), graph.times(l22, l22))
    covariance = graph.reshape(graph.join([xx, xy, xy, yy], axis=2), -1, config.landmarks, 2, 2)
    estimators = [network.visibility, network.occlusion]
    logits = [graph.linear(bottleneck, e.linear) for e in estimators if e is not None]
    made = [points, covariance, *(graph.node("Sigmoid", [logit]) for logit in logits)]
    if network.astray is not None:
        flat = graph.join([graph.node("Flatten", [each], axis=1) for each in bottlenecks])
        seen = graph.node("Identity", [flat], name=BOTTLENECKS)
        hidden = graph.node("Relu", [graph.linear(seen, network.astray.hidden)])
        made.append(graph.reshape(graph.linear(hidden, network.astray.linear), -1))
    return made


def _mean(graph: _Graph, network: LUVLi, heatmaps: str) -> str:
    """(N, k, 2) in heat-map pixels: `spatial_mean` (eq. 16)."""
    config = network.config
    side = config.heatmap_size
    y, x = np.mgrid[:side, :side].reshape(2, -1)
    basis = graph.constant(np.stack([x, y, np.ones_like(x)], axis=1).astype(np.float32))
    flat = graph.reshape(heatmaps, -1, config.landmarks, side * side)
    if config.mean_estimator == "relu":
        moments = graph.node("MatMul", [graph.node("Relu", [flat]), basis])
        if config.mean_epsilon == 0.0:
            low = graph.node("ReduceMin", [flat], axes=[2])
            lifted = graph.node("MatMul", [graph.node("Sub", [flat, low]), basis])
            even = graph.constant([side**2 * (side - 1) / 2] * 2 + [side**2])
            moments = _first_alive(graph, moments, _first_alive(graph, lifted, even))
    else:
        high = graph.node("ReduceMax", [flat], axes=[2])
        above = graph.node("Sub", [flat, high])
        if config.mean_estimator == "tau-softmax":
            above = graph.times(above, 1 / config.tau)
        moments = graph.node("MatMul", [graph.node("Exp", [above]), basis])
    first, total = graph.columns(moments, 0, 2), graph.columns(moments, 2, 3)
    if config.mean_epsilon == 0.0:
        return graph.node("Div", [first, total])
    more = graph.add(total, config.mean_epsilon)
    share = graph.add(graph.node("Div", [total, more]), config.mean_epsilon)
    return graph.node("Div", [graph.node("Div", [first, more]), share])


def _first_alive(graph: _Graph, moments: str, otherwise: str) -> str:
    """`moments` where their total weight is above 0."""
    alive = graph.node("Greater", [graph.columns(moments, 2, 3), graph.constant(0.0)])
    return graph.node("Where", [alive, moments, otherwise])


def _last(items: list[Any], n: int) -> list[Any]:
    return items[-n:] if n else []
