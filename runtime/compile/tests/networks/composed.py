"""Writes composed.onnx and composed.f32: operators that the compiler makes of others (pads, means, sums, norms and
extremes over any dimensions, transposed convolutions, instance normalisation, activations with a slope below zero), and
what onnxruntime makes of two images.

    pip install numpy onnx onnxruntime && python composed.py
"""

import numpy as np

from graph import CLASSES, constant, conv, fixed, head, ints, node, write


def up(x, inputs, outputs, kernel, **attributes):
    bound = (3 / (inputs * kernel[0] * kernel[1])) ** 0.5
    each = outputs // attributes.get("group", 1)
    weights = constant(inputs, each, *kernel, low=-bound, high=bound)
    return node("ConvTranspose", x, weights, constant(outputs), **attributes)


def normalised(x, channels):
    parts = [constant(channels, low=low, high=1.5) for low in (0.5, -0.5, -0.5, 0.5)]
    return node("BatchNormalization", x, *parts)


# Of every kernel and stride: as large as the stride, larger, smaller, odd, in groups, with everything cut or added.
x = node("Relu", conv("image", 3, 10, 3, 4))  # 6x5
x = node("Relu", normalised(up(x, 10, 8, (2, 2), strides=[2, 2]), 8))  # 12x10
wide = up(x, 8, 6, (4, 3), strides=[2, 3], pads=[1, 0, 1, 1], output_padding=[0, 2], group=2)  # 24x31
wide = node("LeakyRelu", normalised(wide, 6), alpha=0.1)
narrow = up(wide, 6, 5, (1, 3), strides=[3, 2], pads=[0, 2, 0, 1])  # 70x60
narrow = node("LeakyRelu", narrow, alpha=1.5)
same = node("Elu", up(narrow, 5, 4, (3, 3), pads=[1, 1, 1, 1]), alpha=0.7)  # 70x60
head(node("MaxPool", same, kernel_shape=[7, 7], strides=[7, 7]), 4, "exit_0")

# Borders of all kinds, larger on one side, cut on the other; further channels.
x = node("Pad", x, ints(0, 0, 1, 2, 0, 0, 3, 0), fixed(np.float32(0.25)))  # 16x12
x = node("Pad", conv(x, 8, 8, 3), ints(0, 0, 2, 0, 0, 0, 0, 3), mode="reflect")  # 18x15
x = node("Pad", x, ints(0, 0, -1, 2, 0, 0, 1, -3), mode="edge")  # 18x14
x = node("Pad", x, ints(0, 1, 0, 0, 0, 3, 0, 0))  # 12 channels
x = node("PRelu", conv(x, 12, 12, 1), constant(12, 1, 1, low=-0.5, high=0.9))
x = node("PRelu", conv(x, 12, 12, 1), constant(12, 1, 1, low=0.5, high=1.5))
x = node("InstanceNormalization", x, constant(12, low=0.5, high=1.5), constant(12))
groups = node("Reshape", conv(x, 12, 12, 1), ints(0, 3, -1))
groups = node("InstanceNormalization", groups, fixed(np.ones(3, np.float32)), fixed(np.zeros(3, np.float32)))
groups = node("Reshape", groups, ints(0, 12, 18, 14))
x = node("Add", node("Mul", groups, constant(12, 1, 1)), x)

# Over each dimension, several, and those of a view, kept and not.
length = node("ReduceL2", x, axes=[1], keepdims=1)
x = node("Div", x, node("Max", length, fixed(np.float32(1e-12))))
tokens = node("Transpose", node("Reshape", x, ints(0, 12, -1)), perm=[0, 2, 1])
largest = node("Reshape", node("ReduceMax", tokens, axes=[2], keepdims=0), ints(0, 1, 18, 14))
smallest = node("Reshape", node("ReduceMin", tokens, axes=[-1], keepdims=1), ints(0, 1, 18, 14))
x = node("Sub", node("Add", x, largest), smallest)
lines = node("ReduceMean", x, axes=[3], keepdims=1)
columns = node("ReduceSum", node("Mul", x, constant(1, 18, 1, low=-0.1, high=0.1)), ints(1, 2), keepdims=1)
x = node("Add", node("Add", x, lines), columns)
total = node("ReduceSum", node("Mul", x, constant(12, 18, 14, low=-0.01, high=0.01)), ints(-2, -1), keepdims=0)
total = node("Add", total, node("ReduceL2", x, axes=[2, 3], keepdims=0))
total = node("Add", total, node("ReduceMax", x, axes=[2, 3], keepdims=0))
total = node("Add", total, node("ReduceSum", total, ints(1), keepdims=1))
node("Gemm", node("LeakyRelu", total), constant(CLASSES, 12, low=-0.001, high=0.001), constant(CLASSES), output="exit_1", transB=1)

write("composed")
