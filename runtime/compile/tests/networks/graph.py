"""A graph of ONNX that is written node by node, for the scripts beside this one, and what onnxruntime makes of it."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

IMAGES, HEIGHT, WIDTH, CLASSES = 2, 23, 18, 5
rng = np.random.default_rng(17)
nodes, weights = [], []


def constant(*shape, low=-1.0, high=1.0):
    return fixed(rng.uniform(low, high, shape).astype(np.float32))


def fixed(array):
    name = f"w{len(weights)}"
    weights.append(numpy_helper.from_array(np.asarray(array), name))
    return name


def ints(*values):
    return fixed(np.array(values, np.int64))


def node(operator, *inputs, output=None, **attributes):
    count = len(nodes) + 1
    output = output or f"t{count}"
    nodes.append(helper.make_node(operator, list(inputs), [output], name=f"{operator}_{count}", **attributes))
    return output


def conv(x, inputs, outputs, kernel, stride=1):
    bound = (3 / (inputs * kernel * kernel)) ** 0.5
    return node(
        "Conv",
        x,
        constant(outputs, inputs, kernel, kernel, low=-bound, high=bound),
        constant(outputs, low=-0.3, high=0.3),
        strides=[stride] * 2,
        pads=[kernel // 2] * 4,
    )


def head(x, channels, name):
    flat = node("Flatten", node("GlobalAveragePool", x))
    return node("Gemm", flat, constant(CLASSES, channels), constant(CLASSES), output=name, transB=1)


def write(name):
    """Writes NAME.onnx, and NAME.f32: random images and both exits of onnxruntime for them."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info(f"exit_{at}", TensorProto.FLOAT, ["N", CLASSES]) for at in range(2)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, f"{name}.onnx")
    images = rng.normal(size=(IMAGES, 3, HEIGHT, WIDTH)).astype(np.float32)
    session = onnxruntime.InferenceSession(f"{name}.onnx")
    with open(f"{name}.f32", "wb") as file:
        file.write(images.tobytes())
        for exit in session.run(["exit_0", "exit_1"], {"image": images}):
            print(exit)
            file.write(exit.astype(np.float32).tobytes())
