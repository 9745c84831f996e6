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

from luvli.network.backend import INPUT, output_shapes
from luvli.network.inference import CropPredictor
from luvli.network.onnx_graph import OPSET


def trace_graph(model: CropPredictor) -> Any:
    """The `onnx.ModelProto` of a network in eval mode, calibration and metadata included."""
    import onnx

    names = list(output_shapes(model.info.config))
    side = model.info.config.input_size
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's, about Python's own conditions
        torch.onnx.export(
            _Outputs(model),
            (torch.zeros(2, side, side, 3, dtype=torch.uint8),),
            content,  # type: ignore[arg-type]
            input_names=[INPUT],
            output_names=names,
            dynamic_axes={name: {0: "faces"} for name in (INPUT, *names)},
            opset_version=OPSET,
            dynamo=False,  # the other exporter needs one more package
        )
    proto = onnx.load_from_string(content.getvalue())
    onnx.helper.set_model_props(proto, model.info.to_metadata())
    return proto


class _Outputs(nn.Module):
    """Crops to the outputs of the graph, as a module."""

    def __init__(self, model: CropPredictor) -> None:
        super().__init__()
        self.model, self.network = model, model.network

    def forward(self, crops: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.predict(crops).values())
