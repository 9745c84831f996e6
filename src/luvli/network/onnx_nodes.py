"""ONNX nodes written like array code: `((a - b) * 2.0).exp()` adds three nodes to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Graph:
    """Collects nodes and constants."""

    def __init__(self, weights: Mapping[str, NDArray[Any]] | None = None) -> None:
        """`weights`: those of a network, by their names in a safetensors file."""
        self.weights = weights or {}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, *inputs: Operand, name: str = "", **attributes: Any) -> Node:
        """The result of an operator; an input "" is one that is left out."""
        import onnx

        name = name or f"{kind}_{len(self.nodes)}"
        names = [self.tensor(each).name for each in inputs]
        self.nodes.append(onnx.helper.make_node(kind, names, [name], name=name, **attributes))
        return Node(self, name)

    def tensor(self, value: Operand) -> Node:
        """A node, one that is named, or a new constant."""
        if isinstance(value, Node):
            return value
        return Node(self, value) if isinstance(value, str) else self.constant(value)

    def constant(self, value: ArrayLike, name: str = "") -> Node:
        """Decimal numbers are float32, whole ones int64."""
        from onnx import numpy_helper

        array = np.asarray(value)
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64, order="C")
        name = name or f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return Node(self, name)

    def weight(self, name: str) -> Node:
        """A weight of the network, under its own name."""
        return self.constant(self.weights[name], name)

    def join(self, parts: Sequence[Node], axis: int = 1) -> Node:
        """The parts beside each other."""
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=axis)


class Node:
    """A tensor of a graph; what is done with it adds nodes to the graph."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def apply(self, kind: str, *others: Operand, **attributes: Any) -> Node:
        """The result of an operator whose first input this is."""
        return self.graph.node(kind, self, *others, **attributes)

    def __add__(self, other: Operand) -> Node:
        return self.apply("Add", other)

    def __sub__(self, other: Operand) -> Node:
        return self.apply("Sub", other)

    def __rsub__(self, other: Operand) -> Node:
        return self.graph.node("Sub", other, self)

    def __mul__(self, other: Operand) -> Node:
        return self.apply("Mul", other)

    def __truediv__(self, other: Operand) -> Node:
        return self.apply("Div", other)

    def __matmul__(self, other: Operand) -> Node:
        return self.apply("MatMul", other)

    def columns(self, first: int, last: int) -> Node:
        """x[..., first:last]"""
        return self.apply("Slice", *(np.array([place]) for place in (first, last, -1)))

    def column(self, place: int) -> Node:
        """x[..., place:place + 1]"""
        return self.columns(place, place + 1)

    def reshape(self, *shape: int) -> Node:
        return self.apply("Reshape", np.array(shape))

    def reduced(self, how: str, *axes: int, keep: bool = True) -> Node:
        """Min, Max, Mean, Sum, Prod or L2 (length) over axes, which stay with one entry."""
        if how == "Sum":
            return self.apply("ReduceSum", np.array(axes), keepdims=int(keep))
        return self.apply(f"Reduce{how}", axes=list(axes), keepdims=int(keep))

    def clip(self, low: float, high: float) -> Node:
        return self.apply("Clip", low, high)

    def maximum(self, other: Operand) -> Node:
        return self.apply("Max", other)

    def minimum(self, other: Operand) -> Node:
        return self.apply("Min", other)

    def log(self) -> Node:
        return self.apply("Log")

    def exp(self) -> Node:
        return self.apply("Exp")

    def root(self) -> Node:
        return self.apply("Sqrt")

    def relu(self) -> Node:
        return self.apply("Relu")

    def sigmoid(self) -> Node:
        return self.apply("Sigmoid")


Operand = Node | str | ArrayLike
