"""A network as an ONNX graph, written node by node.

PyTorch's own exporter takes half a minute, needs one more package, and changes from version
to version. This network has one kind of layer, so its graph is written by hand, from arrays and
without PyTorch, and `luvli.prediction.export` compares it with PyTorch before a file appears. Only
what the last U-net's prediction needs is written. Weights keep their names, so that
`luvli calibrate` finds them in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.network.backend import CROPS, input_types, network_outputs, output_shapes
from luvli.network.config import POOLINGS, NetworkConfig
from luvli.network.description import metadata
from luvli.network.model_info import ModelInfo
from luvli.network.onnx_nodes import Graph, Node
from luvli.network.onnx_outputs import final_outputs
from luvli.network.pixels import STRIDE, heatmap_to_crop

OPSET = 17
BOTTLENECKS = "bottlenecks"
"""name of the (N, U C h w) tensor that the failure head reads"""
STEM = "trunk.stem.0.weight"
BATCH_NORM_EPSILON = 1e-5
IR_VERSION = 8
"""old enough for every ONNX Runtime that pyproject.toml allows"""


def build_graph(weights: Mapping[str, NDArray[Any]], info: ModelInfo) -> Any:
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


def finish_graph(proto: Any, graph: Graph, info: ModelInfo, raw: Mapping[str, Node]) -> None:
    """Add nodes from the network's outputs, by name, to the file's; its inputs, outputs and
    metadata."""
    import onnx

    describe = onnx.helper.make_tensor_value_info
    outputs = final_outputs(graph, info, raw)
    del proto.graph.input[:], proto.graph.output[:]
    for name, (kind, shape) in input_types(info.config).items():
        number = getattr(onnx.TensorProto, kind.upper())
        proto.graph.input.append(describe(name, number, ["faces", *shape]))
    for name, shape in output_shapes(info).items():
        outputs[name].apply("Identity", name=name)
        proto.graph.output.append(describe(name, onnx.TensorProto.FLOAT, ["faces", *shape]))
    proto.graph.node.extend(graph.nodes)
    proto.graph.initializer.extend(graph.constants)
    onnx.helper.set_model_props(proto, metadata(info))


def _conv(x: Node, kernel: Node, side: int, stride: int = 1) -> Node:
    """Convolution with the constant `kernel` (out, in, side, side), padded to keep the size."""
    sides = {"kernel_shape": [side, side], "strides": [stride, stride], "pads": [side // 2] * 4}
    return x.apply("Conv", kernel, **sides)


def _norm_relu(x: Node, norm: str) -> Node:
    parts = ("weight", "bias", "running_mean", "running_var")
    weights = [x.graph.weight(f"{norm}.{part}") for part in parts]
    return x.apply("BatchNormalization", *weights, epsilon=BATCH_NORM_EPSILON).relu()


def _layer(x: Node, prefix: str) -> Node:
    """`NormReluConv`"""
    name = f"{prefix}.conv.weight"
    side = x.graph.weights[name].shape[2]
    return _conv(_norm_relu(x, f"{prefix}.norm"), x.graph.weight(name), side)


def _halved(x: Node) -> Node:
    return x.apply("MaxPool", kernel_shape=[2, 2], strides=[2, 2])


def _doubled(x: Node) -> Node:
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    return x.apply("Resize", "", [1.0, 1.0, 2.0, 2.0], nearest_mode="floor", **how)


def _linear(x: Node, prefix: str) -> Node:
    weights = [x.graph.weight(f"{prefix}.{part}") for part in ("weight", "bias")]
    return x.apply("Flatten", axis=1).apply("Gemm", *weights, transB=1)


def _images(graph: Graph, config: NetworkConfig) -> Node:
    """uint8 (N, S, S, 3) -> float (N, 3, S, S), 0..255, or 0..1 where contrast is stretched."""
    x = graph.node("Cast", CROPS, to=1).apply("Transpose", perm=[0, 3, 1, 2])
    if not config.contrast_stretch:
        return x
    low, high = (x.reduced(how, 1, 2, 3) for how in ("Min", "Max"))
    same = high.apply("Equal", low).apply("Cast", to=1)
    return (x - low) / (high - low + same)


def _trunk(graph: Graph, config: NetworkConfig, images: Node) -> tuple[Node, list[Node]]:
    """Heat maps of the last U-net and bottlenecks of all: the way of `DUNet.forward`."""
    if config.contrast_stretch:
        stem = graph.weight(STEM)
    else:
        stem = graph.constant(graph.weights[STEM] * np.float32(1 / 255), f"{STEM}/255")
    x = _halved(_norm_relu(_conv(images, stem, 7, stride=2), "trunk.stem.1"))
    inputs: list[Node] = []
    history: list[list[Node]] = []
    bottlenecks: list[Node] = []
    for i in range(config.unets):
        if i > 0:
            joined = graph.join([x, *_last(inputs, config.order)])
            x = _layer(joined, f"trunk.between.{i - 1}")
        inputs.append(x)
        memory = list(zip(*_last(history, config.order), strict=True))
        x, before, after, features = _unet(graph, f"trunk.unets.{i}", x, memory)
        bottlenecks.append(before if config.bottleneck == "before" else after)
        history.append(features)
    return _layer(x, f"trunk.heads.{config.unets - 1}"), bottlenecks


def _unet(
    graph: Graph, prefix: str, x: Node, memory: Sequence[Sequence[Node]]
) -> tuple[Node, Node, Node, list[Node]]:
    """The features that go on, those before and after the bottleneck block, and the dense features
    of each block, from the top down and up again."""
    features: list[Node] = []

    def block(name: str, *parts: Node) -> tuple[Node, Node]:
        """What goes ahead, and all that this block knows."""
        inputs = graph.join([*parts, *(memory[len(features)] if memory else ())])
        squeezed = _layer(inputs, f"{prefix}.{name}.layer.squeeze")
        new = _layer(squeezed, f"{prefix}.{name}.layer.grow")
        features.append(new)
        everything = graph.join([inputs, new])
        return _layer(everything, f"{prefix}.{name}.ahead"), everything

    skips: list[Node] = []
    for j in range(POOLINGS):
        ahead, everything = block(f"down.{j}", x)
        skips.append(_layer(everything, f"{prefix}.down.{j}.skip"))
        x = _halved(ahead)
    before = x
    after, _ = block("neck", x)
    x = after
    for j in reversed(range(POOLINGS)):
        x, _ = block(f"up.{j}", _doubled(x), skips[j])
    return x, before, after, features


def _last(items: list[Any], n: int) -> list[Any]:
    return items[-n:] if n else []


def _predictions(
    graph: Graph, info: ModelInfo, heatmaps: Node, bottlenecks: Sequence[Node]
) -> dict[str, Node]:
    """Points, covariances, visibilities and, where the network has them, occlusions and failure
    logits, in crop pixels: as `LUVLi` and `CropPredictor.predict`."""
    config, bottleneck = info.config, bottlenecks[-1]
    if config.mean_estimator == "argmax":
        raise InputError(
            f"{info.name} reads its heat maps by argmax, which runs in PyTorch alone: "
            "evaluate the .safetensors file."
        )
    direct = config.mean_estimator == "direct"
    raw = _linear(bottleneck, "cholesky.linear").reshape(-1, config.landmarks, 5 if direct else 3)
    mean = raw.columns(3, 5) if direct else _mean(config, heatmaps)
    points = mean * float(STRIDE) + float(heatmap_to_crop(0.0, config.pixel_grid))
    diagonal = raw.columns(0, 3).apply("Elu") + (1.0 + config.cholesky_floor)
    l11, l21, l22 = (
        entries.column(i) * float(STRIDE) for i, entries in enumerate((diagonal, raw, diagonal))
    )
    entries = [l11 * l11, l11 * l21, l11 * l21, l21 * l21 + l22 * l22]
    covariance = graph.join(entries, axis=2).reshape(-1, config.landmarks, 2, 2)
    estimators = ["visibility", "occlusion"] if config.occlusion else ["visibility"]
    results = [points, covariance]
    results += [_linear(bottleneck, f"{name}.linear").sigmoid() for name in estimators]
    if config.failure_head:
        flat = graph.join([each.apply("Flatten", axis=1) for each in bottlenecks])
        hidden = _linear(flat.apply("Identity", name=BOTTLENECKS), "failure.hidden").relu()
        results.append(_linear(hidden, "failure.linear").reshape(-1))
    return dict(zip(network_outputs(config), results, strict=True))


def _mean(config: NetworkConfig, heatmaps: Node) -> Node:
    """(N, k, 2) in heat-map pixels: `spatial_mean` (eq. 16)."""
    side = config.heatmap_size
    y, x = np.mgrid[:side, :side].reshape(2, -1).astype(np.float32)
    basis = np.stack([x, y, np.ones_like(x)], axis=1)
    flat = heatmaps.reshape(-1, config.landmarks, side * side)
    if config.mean_estimator == "relu":
        moments = flat.relu() @ basis
        if config.mean_epsilon == 0.0:
            lifted = (flat - flat.reduced("Min", 2)) @ basis
            even = flat.graph.constant([side**2 * (side - 1) / 2] * 2 + [side**2])
            moments = _first_alive(moments, _first_alive(lifted, even))
    else:
        above = flat - flat.reduced("Max", 2)
        if config.mean_estimator == "tau-softmax":
            above = above * (1 / config.tau)
        moments = above.exp() @ basis
    first, total = moments.columns(0, 2), moments.column(2)
    if config.mean_epsilon == 0.0:
        return first / total
    more = total + config.mean_epsilon
    return first / more / (total / more + config.mean_epsilon)


def _first_alive(moments: Node, otherwise: Node) -> Node:
    """`moments` where their total weight is above 0."""
    return moments.column(2).apply("Greater", 0.0).apply("Where", moments, otherwise)
