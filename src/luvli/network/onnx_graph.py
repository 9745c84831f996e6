"""A network as an ONNX graph, written node by node.

PyTorch's own exporter takes half a minute, needs one more package, and changes from version
to version. This network has one kind of layer, so its graph is written by hand, from arrays and
without PyTorch, and `luvli.prediction.export` compares it with PyTorch before a file appears. Only
what the last U-net's prediction needs is written. _Weights keep their names (`Weights`), so that
`luvli calibrate` finds them in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.errors import InputError
from luvli.network.backend import CROPS, input_types, network_outputs, output_shapes
from luvli.network.config import POOLINGS, NetworkConfig
from luvli.network.description import metadata
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_outputs import final_outputs
from luvli.network.pixels import STRIDE, heatmap_to_crop

_Weights = Mapping[str, NDArray[Any]]
"""a network's weights by their names in a safetensors file"""

OPSET = 17
BOTTLENECKS = "bottlenecks"
"""name of the (N, U C h w) tensor that the failure head reads"""
COVARIANCE_UNIT = "covariance_unit"
"""name of the (k, 1) constant that Cholesky entries are multiplied by, calibration included"""
STEM = "trunk.stem.0.weight"
BATCH_NORM_EPSILON = 1e-5
IR_VERSION = 8
"""old enough for every ONNX Runtime that pyproject.toml allows"""


def build_graph(weights: _Weights, info: ModelInfo) -> Any:
    """The `onnx.ModelProto` of a network in eval mode, calibration and metadata included."""
    import onnx

    graph = Graph(weights)
    heatmaps, bottlenecks = _trunk(graph, info.config, _images(graph, info.config))
    raw = _predictions(graph, info, heatmaps, bottlenecks)
    proto = onnx.helper.make_model(
        onnx.helper.make_graph([], info.name, [], []),
        producer_name="luvli",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    finish_graph(proto, graph, info, raw)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def finish_graph(proto: Any, graph: Graph, info: ModelInfo, raw: Mapping[str, str]) -> None:
    """Add nodes from the network's outputs, by name, to the file's; its inputs, outputs and
    metadata."""
    import onnx

    describe = onnx.helper.make_tensor_value_info
    outputs = final_outputs(graph, info, raw)
    shapes = output_shapes(info)
    for name in shapes:
        graph.node("Identity", [outputs[name]], name=name)
    del proto.graph.input[:], proto.graph.output[:]
    for name, (kind, shape) in input_types(info.config).items():
        proto.graph.input.append(
            describe(name, getattr(onnx.TensorProto, kind.upper()), ["faces", *shape])
        )
    for name, shape in shapes.items():
        proto.graph.output.append(describe(name, onnx.TensorProto.FLOAT, ["faces", *shape]))
    proto.graph.node.extend(graph.nodes)
    proto.graph.initializer.extend(graph.constants)
    onnx.helper.set_model_props(proto, metadata(info))


class Graph:
    """Collects nodes and constants; every method returns the name of its result."""

    def __init__(self, weights: _Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def node(self, kind: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        import onnx

        self._count += 1
        name = name or f"{kind}_{self._count}"
        self.nodes.append(onnx.helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: ArrayLike, name: str = "") -> str:
        from onnx import numpy_helper

        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        self._count += 1
        name = name or f"constant_{self._count}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(self.weights[name], name)

    def conv(self, x: str, kernel: str, stride: int = 1) -> str:
        """Convolution with the constant `kernel` (out, in, h, w), padded to keep the size."""
        side = self.shape(kernel)[2]
        return self.node(
            "Conv",
            [x, kernel],
            kernel_shape=[side, side],
            strides=[stride, stride],
            pads=[side // 2] * 4,
        )

    def shape(self, constant: str) -> tuple[int, ...]:
        return tuple(next(c.dims for c in reversed(self.constants) if c.name == constant))

    def norm_relu(self, x: str, norm: str) -> str:
        parts = ("weight", "bias", "running_mean", "running_var")
        inputs = [self.weight(f"{norm}.{part}") for part in parts]
        scaled = self.node("BatchNormalization", [x, *inputs], epsilon=BATCH_NORM_EPSILON)
        return self.node("Relu", [scaled])

    def layer(self, x: str, prefix: str) -> str:
        """`NormReluConv`"""
        return self.conv(self.norm_relu(x, f"{prefix}.norm"), self.weight(f"{prefix}.conv.weight"))

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

    def linear(self, x: str, prefix: str) -> str:
        flat = self.node("Flatten", [x], axis=1)
        weights = [self.weight(f"{prefix}.weight"), self.weight(f"{prefix}.bias")]
        return self.node("Gemm", [flat, *weights], transB=1)

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", [x, self.constant(np.array(shape, np.int64))])

    def column(self, x: str, first: int, last: int | None = None) -> str:
        """x[..., first:last]; without `last` one column, which stays an axis."""
        limits = (first, first + 1 if last is None else last, -1)
        return self.node("Slice", [x, *map(self.axis, limits)])

    def axis(self, number: int) -> str:
        return self.constant(np.array([number], np.int64))

    def add(self, x: str, y: str | float) -> str:
        return self.node("Add", [x, y if isinstance(y, str) else self.constant(y)])

    def times(self, x: str, y: str | float) -> str:
        return self.node("Mul", [x, y if isinstance(y, str) else self.constant(y)])

    def clip(self, x: str, low: float, high: float) -> str:
        return self.node("Clip", [x, self.constant(low), self.constant(high)])

    def log(self, x: str) -> str:
        return self.node("Log", [x])

    def root(self, x: str) -> str:
        return self.node("Sqrt", [x])

    def product(self, x: str) -> str:
        """(n, m) -> (n, 1)"""
        return self.node("ReduceProd", [x], axes=[1])


def _images(graph: Graph, config: NetworkConfig) -> str:
    """uint8 (N, S, S, 3) -> float (N, 3, S, S), 0..255, or 0..1 where contrast is stretched."""
    x = graph.node("Cast", [CROPS], to=1)
    x = graph.node("Transpose", [x], perm=[0, 3, 1, 2])
    if not config.contrast_stretch:
        return x
    low = graph.node("ReduceMin", [x], axes=[1, 2, 3])
    high = graph.node("ReduceMax", [x], axes=[1, 2, 3])
    same = graph.node("Cast", [graph.node("Equal", [high, low])], to=1)
    span = graph.add(graph.node("Sub", [high, low]), same)
    return graph.node("Div", [graph.node("Sub", [x, low]), span])


def _trunk(graph: Graph, config: NetworkConfig, images: str) -> tuple[str, list[str]]:
    """Heat maps of the last U-net and bottlenecks of all: the way of `DUNet.forward`."""
    if config.contrast_stretch:
        stem = graph.weight(STEM)
    else:
        stem = graph.constant(graph.weights[STEM] * np.float32(1 / 255), f"{STEM}/255")
    x = graph.halve(graph.norm_relu(graph.conv(images, stem, stride=2), "trunk.stem.1"))
    inputs: list[str] = []
    history: list[list[str]] = []
    bottlenecks: list[str] = []
    for i in range(config.unets):
        if i > 0:
            joined = graph.join([x, *_last(inputs, config.order)])
            x = graph.layer(joined, f"trunk.between.{i - 1}")
        inputs.append(x)
        recent = _last(history, config.order)
        memory = list(zip(*recent, strict=True)) if recent else []
        x, before, after, features = _unet(graph, f"trunk.unets.{i}", x, memory)
        bottlenecks.append(before if config.bottleneck == "before" else after)
        history.append(features)
    return graph.layer(x, f"trunk.heads.{config.unets - 1}"), bottlenecks


def _unet(
    graph: Graph, prefix: str, x: str, memory: Sequence[Sequence[str]]
) -> tuple[str, str, str, list[str]]:
    def block(name: str, parts: Sequence[str], place: int) -> tuple[str, str, str]:
        inputs = graph.join([*parts, *(memory[place] if memory else ())])
        squeezed = graph.layer(inputs, f"{prefix}.{name}.layer.squeeze")
        new = graph.layer(squeezed, f"{prefix}.{name}.layer.grow")
        everything = graph.join([inputs, new])
        down = name.startswith("down")
        skip = graph.layer(everything, f"{prefix}.{name}.skip") if down else ""
        return new, graph.layer(everything, f"{prefix}.{name}.ahead"), skip

    features: list[str] = []
    skips: list[str] = []
    for j in range(POOLINGS):
        new, ahead, skip = block(f"down.{j}", [x], j)
        features.append(new)
        skips.append(skip)
        x = graph.halve(ahead)
    before = x
    new, x, _ = block("neck", [x], POOLINGS)
    features.append(new)
    after = x
    rising: list[str] = []
    for j in reversed(range(POOLINGS)):
        new, x, _ = block(f"up.{j}", [graph.double(x), skips[j]], POOLINGS + 1 + j)
        rising.insert(0, new)
    return x, before, after, features + rising


def _predictions(
    graph: Graph, info: ModelInfo, heatmaps: str, bottlenecks: Sequence[str]
) -> dict[str, str]:
    """Points, covariances times their factors, visibilities and, where the network has them,
    occlusions and failure logits, in crop pixels: as `LUVLi` and `CropPredictor.predict`."""
    config = info.config
    bottleneck = bottlenecks[-1]
    if config.mean_estimator == "argmax" or config.covariance_estimator == "heatmap":
        raise InputError(
            f"{info.name} reads its heat maps by argmax or moments, which runs in PyTorch alone: "
            "evaluate the .safetensors file."
        )
    direct = config.mean_estimator == "direct"
    raw = graph.reshape(
        graph.linear(bottleneck, "cholesky.linear"), -1, config.landmarks, 5 if direct else 3
    )
    mean = graph.column(raw, 3, 5) if direct else _mean(graph, config, heatmaps)
    points = graph.add(
        graph.times(mean, float(STRIDE)), float(heatmap_to_crop(0.0, config.pixel_grid))
    )
    unit = graph.constant(STRIDE * info.cholesky_factors[:, None], COVARIANCE_UNIT)
    rest = 1.0 + config.cholesky_floor
    diagonal = graph.add(graph.node("Elu", [graph.column(raw, 0, 3)]), rest)
    l11 = graph.times(graph.column(diagonal, 0, 1), unit)
    l21 = graph.times(graph.column(raw, 1, 2), unit)
    l22 = graph.times(graph.column(diagonal, 2, 3), unit)
    xx, xy = graph.times(l11, l11), graph.times(l11, l21)
    yy = graph.add(graph.times(l21, l21), graph.times(l22, l22))
    covariance = graph.reshape(graph.join([xx, xy, xy, yy], axis=2), -1, config.landmarks, 2, 2)
    estimators = ["visibility", "occlusion"] if config.occlusion else ["visibility"]
    logits = [graph.linear(bottleneck, f"{name}.linear") for name in estimators]
    results = [points, covariance, *(graph.node("Sigmoid", [logit]) for logit in logits)]
    if config.failure_head:
        flat = graph.join([graph.node("Flatten", [each], axis=1) for each in bottlenecks])
        features = graph.node("Identity", [flat], name=BOTTLENECKS)
        hidden = graph.node("Relu", [graph.linear(features, "failure.hidden")])
        results.append(graph.reshape(graph.linear(hidden, "failure.linear"), -1))
    return dict(zip(network_outputs(config), results, strict=True))


def _mean(graph: Graph, config: NetworkConfig, heatmaps: str) -> str:
    """(N, k, 2) in heat-map pixels: `spatial_mean` (eq. 16)."""
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
    first, total = graph.column(moments, 0, 2), graph.column(moments, 2, 3)
    if config.mean_epsilon == 0.0:
        return graph.node("Div", [first, total])
    more = graph.add(total, config.mean_epsilon)
    share = graph.add(graph.node("Div", [total, more]), config.mean_epsilon)
    return graph.node("Div", [graph.node("Div", [first, more]), share])


def _first_alive(graph: Graph, moments: str, otherwise: str) -> str:
    """`moments` where their total weight is above 0."""
    alive = graph.node("Greater", [graph.column(moments, 2, 3), graph.constant(0.0)])
    return graph.node("Where", [alive, moments, otherwise])


def _last(items: list[Any], n: int) -> list[Any]:
    return items[-n:] if n else []
