#!/usr/bin/env python3
"""Writes small networks whose answers can be worked out by hand, one for each kind of truth: python make.py

Each takes a picture of 32 x 32 pixels, red, green and blue in 0..1; r, g and b are their means over the picture. It needs onnx
(models/zoo/requirements.txt). The files are committed: tests/command/calibrate_kinds.rs compiles them.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

FOLDER = Path(__file__).parent


class Graph:
    def __init__(self) -> None:
        self.nodes, self.constants, self.outputs = [], [], []
        self.inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])]

    def constant(self, value: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, operator: str, inputs: list[str], output: str = "", **attributes) -> str:
        output = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def vector(self, name: str, length: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", length]))
        return name

    def means(self) -> str:
        """r, g, b: (batch, 3)."""
        return self.node("Flatten", [self.node("GlobalAveragePool", ["image"])])

    def linear(self, value: str, weights: list, bias: list, output: str = "") -> str:
        weights, bias = np.array(weights, np.float32), np.array(bias, np.float32)
        return self.node("Gemm", [value, self.constant(weights), self.constant(bias)], output, transB=1)

    def output(self, name: str, shape: list, kind: int = TensorProto.FLOAT) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, kind, ["batch", *shape]))

    def write(self, name: str) -> None:
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        checker.check_model(model, full_check=True)
        save(model, FOLDER / f"{name}.onnx")


def boxes() -> None:
    """Detections of two classes. Exit 0 has its box g * 16 pixels too far to the right, exit 1 has it where it is: from
    (8, 8) to (24, 24), class 0. A second row is behind the count. Confidence is 1 - g at both."""
    graph = Graph()
    for exit, shift in enumerate([16, 0]):
        means = graph.means()
        rows = np.zeros((12, 3))
        rows[0, 1] = rows[2, 1] = shift
        bias = [8, 8, 24, 24, 0.75, 0, 1, 1, 9, 9, 0.5, 1]
        flat = graph.linear(means, rows, bias)
        graph.node("Reshape", [flat, graph.constant(np.array([0, 2, 6]))], f"exit_{exit}/detections")
        # The first of two equal values: 0. One more is the count.
        best = graph.node("ArgMax", [graph.linear(means, np.zeros((2, 3)), [1, 0])], axis=1, keepdims=1)
        graph.node("Add", [best, graph.constant(np.array([1]))], f"exit_{exit}/count")
        graph.linear(means, [[0, -1, 0]], [1], f"exit_{exit}/confidence")
        graph.output(f"exit_{exit}/detections", [2, 6])
        graph.output(f"exit_{exit}/count", [1], TensorProto.INT64)
        graph.output(f"exit_{exit}/confidence", [1])
    graph.write("boxes")


def masks() -> None:
    """Class 1 where red is above 0.5: as scores of 4 x 4 pixels, and as the class of each of 32 x 32. No confidence."""
    for name, shape in [("mask-scores", [2, 4, 4]), ("mask-classes", [32, 32])]:
        graph = Graph()
        weights = graph.constant(np.array([[0, 0, 0], [1, 0, 0]], np.float32).reshape(2, 3, 1, 1))
        scores = graph.node("Conv", ["image", weights, graph.constant(np.array([0.5, 0], np.float32))])
        if len(shape) == 3:
            graph.node("AveragePool", [scores], "exit_0/mask", kernel_shape=[8, 8], strides=[8, 8])
            graph.output("exit_0/mask", shape)
        else:
            graph.node("ArgMax", [scores], "exit_0/mask", axis=1, keepdims=0)
            graph.output("exit_0/mask", shape, TensorProto.INT64)
        graph.write(name)


def angle() -> None:
    """Two numbers: at exit 0 r and g, at exit 1 r plus the speed, and g. Confidence is 1 - b, then 1."""
    graph = Graph()
    speed = graph.vector("speed", 1)
    means = graph.means()
    graph.linear(means, [[1, 0, 0], [0, 1, 0]], [0, 0], "exit_0/angle")
    graph.linear(means, [[0, 0, -1]], [1], "exit_0/confidence")
    both = graph.node("Concat", [graph.means(), speed], axis=1)
    graph.linear(both, [[1, 0, 0, 1], [0, 1, 0, 0]], [0, 0], "exit_1/angle")
    graph.linear(both, [[0, 0, 0, 0]], [1], "exit_1/confidence")
    for exit in range(2):
        graph.output(f"exit_{exit}/angle", [2])
        graph.output(f"exit_{exit}/confidence", [1])
    graph.write("angle")


def colours() -> None:
    """Labels: a logit of 20 times each mean less 10."""
    graph = Graph()
    graph.linear(graph.means(), np.eye(3) * 20, [-10] * 3, "exit_0")
    graph.output("exit_0", [3])
    graph.write("colours")


if __name__ == "__main__":
    boxes()
    masks()
    angle()
    colours()
