"""Writes arithmetic.onnx and arithmetic.f32: functions of two tensors with everything repeated that can be, of one
tensor and constants of any shape, of each value, softmaxes along every axis, and what onnxruntime makes of two images.

    pip install numpy onnx onnxruntime && python arithmetic.py
"""

import numpy as np

from graph import CLASSES, constant, conv, fixed, head, ints, node, write

x = conv("image", 3, 20, 3, 2)  # 12x9
gate = node("Sigmoid", conv(node("GlobalAveragePool", x), 20, 20, 1))
rows = conv(x, 20, 1, 1)
x = node("Relu", node("Add", x, rows))  # one channel for all
x = node("Sub", x, gate)  # one value a channel
x = node("Add", x, constant(20, 12, 9))  # every value its own
x = node("Mul", x, constant(1, 12, 1, low=0.5, high=1.5))
x = node("Sub", constant(9), x)
x = node("Max", x, constant(20, 1, 9, low=-1, high=0))
x = node("Min", x, fixed(np.float32(1.5)))
one = conv(x, 20, 1, 3)  # (N, 1, 12, 9)
grid = node("Add", one, constant(4, 1, 1))  # becomes four channels
distance = node("Sqrt", node("Add", node("Pow", grid, fixed(np.float32(2.0))), fixed(np.float32(0.1))))
ratio = node("Div", grid, distance)
ratio = node(
    "Div",
    fixed(np.array([[[1.0]], [[2.0]], [[3.0]], [[4.0]]], np.float32)),
    node("Add", node("Abs", ratio), fixed(np.float32(1.0))),
)
ratio = node("Reciprocal", node("Exp", node("Neg", ratio)))
head(node("Mul", ratio, node("Softmax", grid, axis=1)), 4, "exit_0")
# A distribution of 16 for each of four sides, as detectors have it: the expected value of each.
boxes = conv(x, 20, 64, 1)
boxes = node("Reshape", boxes, ints(0, 4, 16, 108))
boxes = node("Softmax", boxes, axis=2)
boxes = node("Mul", boxes, fixed(np.arange(16, dtype=np.float32).reshape(16, 1) / 8))
boxes = node("Reshape", boxes, ints(0, 64, 12, 9))
columns = node("Softmax", x, axis=-1)
lines = node("LogSoftmax", x, axis=2)
channels = node("Softmax", x, axis=1)
x = node("Add", node("Mul", columns, channels), node("Mul", lines, fixed(np.float32(0.1))))
# A softmax of features that is read, and one that is an exit.
weighed = node("Flatten", node("GlobalAveragePool", conv(boxes, 64, 20, 1)))
weighed = node("Softmax", weighed, axis=1)
weighed = node("Reshape", weighed, ints(0, 20, 1, 1))
x = node("Mul", x, weighed)
x = node("Add", node("GlobalAveragePool", x), node("GlobalAveragePool", conv(boxes, 64, 20, 1)))
scores = node("Gemm", node("Flatten", x), constant(CLASSES, 20), constant(CLASSES), transB=1)
node("Softmax", scores, output="exit_1", axis=1)

write("arithmetic")
