"""The ONNX graph of a network whose trunk is not ours: traced by PyTorch's own exporter.

`luvli.network.onnx_graph` writes DU-Net's graph by hand. For trunks that are registered from
outside, `torch.onnx.export` does it; the comparison with PyTorch afterwards is the same.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from luvli.network.backend import CROPS, network_outputs
from luvli.network.inference import CropPredictor
from luvli.network.onnx_graph import OPSET, finish_graph
from luvli.network.onnx_nodes import Graph, Node


def trace_graph(model: CropPredictor) -> Any:
    """The `onnx.ModelProto` of a network in eval mode, calibration and metadata included."""
    import onnx

    outputs = list(network_outputs(model.info.config))
    names = [f"network_{name}" for name in outputs]
    side = model.info.config.input_size
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's, about Python's own conditions
        torch.onnx.export(
            _Outputs(model),
            (torch.zeros(2, side, side, 3, dtype=torch.uint8),),
            content,  # type: ignore[arg-type]
            input_names=[CROPS],
            output_names=names,
            dynamic_axes={name: {0: "faces"} for name in (CROPS, *names)},
            opset_version=OPSET,
            dynamo=False,  # the other exporter needs one more package
        )
    proto = onnx.load_from_string(content.getvalue())
    graph = Graph()
    raw = {output: Node(graph, name) for output, name in zip(outputs, names, strict=True)}
    finish_graph(proto, graph, model.info, raw)
    return proto


class _Outputs(nn.Module):
    """Crops to the outputs of the graph, as a module."""

    def __init__(self, model: CropPredictor) -> None:
        super().__init__()
        self.model, self.network = model, model.network

    def forward(self, crops: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.predict(crops).values())
