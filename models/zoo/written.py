"""Networks written node by node, for `record.py`: operators that no exporter of PyTorch writes.

onnxruntime's optimiser and its quantiser write those of the domain `com.microsoft` and of bytes; exporters
write branches and functions where they do not inline them.
"""

from dataclasses import dataclass

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
OURS = "punctual.example"


@dataclass(frozen=True)
class Written:
    name: str
    model: onnx.ModelProto
    bytes: bool = False  # each operator is computed as it stands: fused ones on bytes round differently


class Graph:
    """One under construction. Weights are drawn as they are named."""

    def __init__(self, opset: int, inputs: dict[str, list[int]], seed: int = 7):
        self.opset, self.random = opset, numpy.random.default_rng(seed)
        self.inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
                       for name, shape in inputs.items()]
        self.nodes, self.constants, self.outputs = [], [], []

    def weights(self, *names: str, shape: tuple[int, ...], scale: float = 0.4) -> None:
        for name in names:
            self.constant(name, (self.random.standard_normal(shape) * scale).astype("f4"))

    def constant(self, name: str, values: object) -> None:
        self.constants.append(numpy_helper.from_array(numpy.asarray(values), name))

    def node(self, operator: str, inputs: str, outputs: str, domain: str = "", **attributes: object) -> None:
        """Operands and results are one word each; a dash stands for one that is left out."""
        words = [["" if word == "-" else word for word in names.split()] for names in (inputs, outputs)]
        self.nodes.append(helper.make_node(operator, *words, domain=domain, **attributes))

    def output(self, value: str, name: str) -> None:
        self.node("Identity", value, name)
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def branch(self, name: str) -> onnx.GraphProto:
        outputs = [helper.make_tensor_value_info(self.nodes[-1].output[0], TensorProto.FLOAT, None)]
        return helper.make_graph(self.nodes, name, [], outputs, self.constants)

    def model(self, *functions: onnx.FunctionProto) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "written", self.inputs, self.outputs, self.constants)
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid(OURS, 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=10, functions=functions)


def fused() -> onnx.ModelProto:
    """What onnxruntime's optimiser makes of a convolution, of activations and of a layer of tokens."""
    graph = Graph(17, {"image": [3, 6, 6]})
    graph.weights("kernel", shape=(8, 3, 3, 3))
    graph.weights("point", shape=(8, 3, 1, 1))
    graph.weights("square", "square_2", shape=(8, 8))
    graph.weights("bias", "gain", "shift", shape=(8,))
    graph.constant("tokens", [0, 8, 36])
    graph.node("Conv", "image point", "shortcut")
    graph.node("FusedConv", "image kernel bias shortcut", "sum", MICROSOFT, activation="Relu", pads=[1] * 4)
    graph.node("FusedConv", "image kernel bias", "hard", MICROSOFT, activation="HardSigmoid",
               activation_params=[0.2, 0.4], pads=[1] * 4)
    graph.node("Reshape", "sum tokens", "rows")
    graph.node("FusedMatMul", "rows square", "mixed", MICROSOFT, transA=1, transB=1, alpha=0.5)
    graph.node("BiasGelu", "mixed bias", "bent", MICROSOFT)
    graph.node("SkipLayerNormalization", "bent mixed gain shift bias", "normal - - skipped", MICROSOFT, epsilon=1e-5)
    graph.node("FastGelu", "normal bias", "fast", MICROSOFT)
    graph.node("MatMul", "fast square_2", "again")
    graph.node("SkipSimplifiedLayerNormalization", "again skipped gain", "simple", MICROSOFT, epsilon=1e-5)
    graph.node("QuickGelu", "simple", "quick", MICROSOFT, alpha=1.5)
    graph.node("FusedMatMul", "quick normal", "likeness", MICROSOFT, transB=1, alpha=0.25)
    graph.node("Softmax", "likeness", "shares")
    graph.node("FusedMatMul", "shares quick", "seen", MICROSOFT)
    graph.node("Flatten", "seen", "flat")
    graph.weights("dense", shape=(5, 288), scale=0.1)
    graph.weights("dense_bias", shape=(5,))
    graph.node("FusedGemm", "flat dense dense_bias", "five", MICROSOFT, activation="LeakyRelu", activation_alpha=0.1,
               transB=1)
    graph.output("hard", "exit_0/hard")
    graph.output("seen", "exit_0/tokens")
    graph.output("five", "exit_0/scores")
    return graph.model()


def attention() -> onnx.ModelProto:
    """Attention and rotary embeddings as operators of their own, those of ONNX and those of onnxruntime."""
    graph = Graph(24, {"tokens": [6, 16]})
    graph.weights("of_query", "of_key", "of_value", shape=(16, 16))
    graph.weights("of_two", shape=(16, 8))
    graph.weights("of_mask", shape=(16, 6))
    graph.weights("added", shape=(1, 4, 6, 6))
    graph.weights("bias", shape=(48,))
    graph.weights("all", shape=(16, 48))
    angles = numpy.outer(numpy.arange(9), [1.0, 0.3]).astype("f4")
    graph.constant("cosines", numpy.cos(angles))
    graph.constant("sines", numpy.sin(angles))
    graph.constant("first", [2])
    graph.constant("least", numpy.float32(-1.0))
    graph.constant("one", [1])
    for part in ("query", "key", "value"):
        graph.node("MatMul", f"tokens of_{part}", part)
    graph.node("MatMul", "tokens of_two", "two")
    heads = {"q_num_heads": 4, "kv_num_heads": 4}
    graph.node("Attention", "query key value", "causal", is_causal=1, scale=0.4, **heads)
    graph.node("Attention", "query two two added", "grouped", q_num_heads=4, kv_num_heads=2)
    graph.node("MatMul", "tokens of_mask", "numbers")
    graph.node("Greater", "numbers least", "seen")
    graph.node("Unsqueeze", "seen one", "mask")
    graph.node("Attention", "query key value mask", "masked", softcap=2.0, **heads)
    graph.node("RotaryEmbedding", "query first cosines sines", "turned", MICROSOFT, num_heads=4)
    graph.node("RotaryEmbedding", "key first cosines sines", "pairs", MICROSOFT, num_heads=4, interleaved=1)
    graph.node("MultiHeadAttention", "turned pairs value bias", "rotated", MICROSOFT, num_heads=4, unidirectional=1)
    graph.node("Attention", "tokens all bias", "weighted", MICROSOFT, num_heads=4)
    graph.node("Swish", "weighted", "gated", alpha=1.5)
    for name in ("causal", "grouped", "masked", "rotated", "gated"):
        graph.output(name, f"exit_0/{name}")
    return graph.model()


def on_bytes() -> onnx.ModelProto:
    """Operators on bytes, as onnxruntime's quantiser writes them in its format of operators."""
    graph = Graph(17, {"image": [3, 8, 8]})
    signed = lambda *shape: graph.random.integers(-127, 128, shape).astype("i1")
    graph.constant("kernel", signed(8, 3, 3, 3))
    graph.constant("kernel_scale", (graph.random.random(8) * 0.004 + 0.002).astype("f4"))
    graph.constant("kernel_zero", numpy.zeros(8, "i1"))
    graph.constant("bias", graph.random.integers(-500, 500, 8).astype("i4"))
    graph.constant("columns", signed(16, 5))
    graph.constant("columns_scale", (graph.random.random(5) * 0.004 + 0.002).astype("f4"))
    graph.constant("columns_zero", numpy.zeros(5, "i1"))
    for name, scale, zero in [("in", 0.03, 128), ("a", 0.05, 120), ("b", 0.04, 100), ("c", 0.09, 110), ("d", 0.004, 0)]:
        graph.constant(f"{name}_s", numpy.float32(scale))
        graph.constant(f"{name}_z", numpy.uint8(zero))
    weights = "kernel kernel_scale kernel_zero"
    graph.node("QuantizeLinear", "image in_s in_z", "bytes")
    graph.node("QLinearConv", f"bytes in_s in_z {weights} a_s a_z bias", "first", pads=[1] * 4)
    graph.node("QLinearConv", f"bytes in_s in_z {weights} b_s b_z", "second", pads=[1] * 4)
    graph.node("QLinearAdd", "first a_s a_z second b_s b_z c_s c_z", "sum", MICROSOFT)
    graph.node("QLinearLeakyRelu", "sum c_s c_z a_s a_z", "bent", MICROSOFT, alpha=0.1)
    graph.node("QLinearSigmoid", "bent a_s a_z d_s d_z", "share", MICROSOFT)
    graph.node("QLinearMul", "share d_s d_z sum c_s c_z b_s b_z", "product", MICROSOFT)
    graph.node("QLinearConcat", "a_s a_z product b_s b_z bent a_s a_z", "both", MICROSOFT, axis=1)
    graph.node("MaxPool", "both", "largest", kernel_shape=[2, 2], strides=[2, 2])
    graph.node("QLinearGlobalAveragePool", "largest a_s a_z c_s c_z", "mean", MICROSOFT)
    graph.node("Flatten", "mean", "flat")
    graph.node("QLinearMatMul", "flat c_s c_z columns columns_scale columns_zero a_s a_z", "five")
    graph.node("QGemm", "flat c_s c_z columns columns_scale columns_zero", "floats", MICROSOFT)
    graph.node("DequantizeLinear", "largest a_s a_z", "map")
    graph.node("DequantizeLinear", "five a_s a_z", "scores")
    for name in ("map", "scores", "floats"):
        graph.output(name, f"exit_0/{name}")
    return graph.model()


def wide() -> onnx.ModelProto:
    """Quantised to 16 bits, and to bytes with a scale for each channel: no tensor of bytes holds them."""
    graph = Graph(21, {"image": [3, 8, 8]})
    graph.constant("in_s", numpy.float32(0.0002))
    graph.constant("in_z", numpy.uint16(32768))
    graph.constant("out_s", numpy.float32(0.0005))
    graph.constant("out_z", numpy.int16(-5))
    graph.constant("kernel", graph.random.integers(-32767, 32767, (8, 3, 3, 3)).astype("i2"))
    graph.constant("kernel_s", (graph.random.random(8) * 2e-5).astype("f4"))
    graph.constant("kernel_z", numpy.zeros(8, "i2"))
    # No multiple of 1/64, as inputs are recorded, lies in the middle of two steps, where engines round differently.
    graph.constant("channel_s", numpy.array([5 / 256, 3 / 128, 3 / 256], "f4"))
    graph.constant("channel_z", numpy.array([128, 100, 120], "u1"))
    graph.node("QuantizeLinear", "image in_s in_z", "q")
    graph.node("DequantizeLinear", "q in_s in_z", "d")
    graph.node("DequantizeLinear", "kernel kernel_s kernel_z", "weights", axis=0)
    graph.node("Conv", "d weights", "c", pads=[1] * 4)
    graph.node("QuantizeLinear", "c out_s out_z", "r")
    graph.node("Transpose", "r", "turned", perm=[0, 2, 3, 1])
    graph.node("DequantizeLinear", "turned out_s out_z", "floats")
    graph.node("QuantizeLinear", "image channel_s channel_z", "by_channel", axis=1)
    graph.node("DequantizeLinear", "by_channel channel_s channel_z", "back", axis=1)
    graph.output("floats", "exit_0/floats")
    graph.output("back", "exit_0/back")
    return graph.model()


def nested() -> onnx.ModelProto:
    """A branch that is chosen by a size, functions that call each other, and a recurrent layer's last state alone."""
    yes, no = Graph(17, {}), Graph(17, {})
    yes.constant("half", numpy.float32(0.5))
    yes.node("Mul", "rows half", "halves")
    no.node("RandomNormalLike", "rows", "never")
    slope = helper.make_node("LeakyRelu", ["x"], ["y"])
    slope.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(OURS, 1)]
    leaky = helper.make_function(
        OURS, "Leaky", ["x"], ["y"], [slope], sets, attribute_protos=[helper.make_attribute("slope", 0.5)])
    twice = helper.make_function(
        OURS, "Twice", ["y"], ["z"],
        [helper.make_node("Leaky", ["y"], ["x"], domain=OURS),
         helper.make_node("Leaky", ["x"], ["z"], domain=OURS, slope=0.25)], sets)
    graph = Graph(17, {"steps": [5, 8]})
    graph.constant("at", 1)
    graph.constant("five", 5)
    graph.weights("w", shape=(1, 16, 8))
    graph.weights("u", shape=(1, 16, 4))
    graph.constant("zero", [0])
    graph.node("Twice", "steps", "rows", OURS)
    graph.node("Shape", "rows", "sizes")
    graph.node("Gather", "sizes at", "count")
    graph.node("Equal", "count five", "is_five")
    graph.node("If", "is_five", "chosen", then_branch=yes.branch("yes"), else_branch=no.branch("no"))
    graph.node("Transpose", "chosen", "in_time", perm=[1, 0, 2])
    graph.node("LSTM", "in_time w u", "- last", hidden_size=4)
    graph.node("Squeeze", "last zero", "state")
    graph.output("state", "exit_0/state")
    graph.output("chosen", "exit_0/chosen")
    return graph.model(leaky, twice)


def dynamic() -> onnx.ModelProto:
    """Ranges that are measured when running: each product as onnxruntime's quantiser writes it, and as its optimiser does."""
    graph = Graph(17, {"image": [3, 8, 8]})
    signed = lambda *shape: graph.random.integers(-127, 128, shape).astype("i1")
    graph.constant("kernel", signed(8, 3, 3, 3))
    graph.constant("kernel_s", numpy.float32(0.004))
    graph.constant("kernel_z", numpy.int8(3))
    graph.constant("columns", signed(8, 6))
    graph.constant("columns_s", (graph.random.random(6) * 0.004 + 0.002).astype("f4"))
    graph.constant("columns_z", numpy.zeros(6, "i1"))
    graph.constant("square", graph.random.integers(0, 256, (6, 6)).astype("u1"))
    graph.constant("square_s", numpy.float32(0.003))
    graph.constant("square_z", numpy.uint8(121))
    graph.weights("bias", shape=(6,))
    graph.constant("rows", [0, 8, 64])
    floats = {"to": TensorProto.FLOAT}
    graph.node("DynamicQuantizeLinear", "image", "image_q image_s image_z")
    graph.node("ConvInteger", "image_q kernel image_z kernel_z", "sums", pads=[1] * 4)
    graph.node("Cast", "sums", "whole", **floats)
    graph.node("Mul", "image_s kernel_s", "first_s")
    graph.node("Mul", "whole first_s", "first")
    graph.node("Reshape", "first rows", "channels")
    graph.node("Transpose", "channels", "tokens", perm=[0, 2, 1])
    graph.node("DynamicQuantizeLinear", "tokens", "tokens_q tokens_s tokens_z")
    graph.node("MatMulInteger", "tokens_q columns tokens_z columns_z", "products")
    graph.node("Cast", "products", "products_f", **floats)
    graph.node("Mul", "tokens_s columns_s", "second_s")
    graph.node("Mul", "products_f second_s", "second")
    graph.node("DynamicQuantizeMatMul", "second square square_s square_z bias", "third", MICROSOFT)
    graph.node("DynamicQuantizeLinear", "third", "third_q third_s third_z")
    graph.node("MatMulIntegerToFloat", "third_q square third_s square_s third_z square_z", "fourth", MICROSOFT)
    graph.node("DequantizeLinear", "third_q third_s third_z", "rounded")
    for name in ("first", "second", "third", "fourth", "rounded"):
        graph.output(name, f"exit_0/{name}")
    return graph.model()


def states() -> onnx.ModelProto:
    """LSTMs of bytes whose input and states have measured ranges, as onnxruntime's quantiser writes them."""
    graph = Graph(17, {"tokens": [5, 6]})
    signed = lambda *shape: graph.random.integers(-127, 128, shape).astype("i1")
    drawn = lambda *shape: (graph.random.random(shape) * 0.004 + 0.002).astype("f4")
    for name, directions, lists in (("one", 1, (1,)), ("two", 2, (2, 16))):
        for part, values in (("w", 6), ("r", 4)):
            graph.constant(f"{name}_{part}", signed(directions, values, 16))
            graph.constant(f"{name}_{part}_s", drawn(*lists))
            graph.constant(f"{name}_{part}_z", numpy.zeros(lists, "i1"))
        graph.weights(f"{name}_b", shape=(directions, 32))
    graph.weights("of_state", "of_cells", shape=(6, 4))
    graph.constant("front", [0])
    graph.node("Transpose", "tokens", "steps", perm=[1, 0, 2])
    graph.node("ReduceMean", "tokens", "mean", axes=[1], keepdims=0)
    for name in ("state", "cells"):
        graph.node("MatMul", f"mean of_{name}", f"flat_{name}")
        graph.node("Unsqueeze", f"flat_{name} front", name)
    operands = "steps {0}_w {0}_r {0}_b - {1} - {0}_w_s {0}_w_z {0}_r_s {0}_r_z"
    graph.node("DynamicQuantizeLSTM", operands.format("one", "state cells"), "ahead - last", MICROSOFT, hidden_size=4)
    graph.node("DynamicQuantizeLSTM", operands.format("two", "- -"), "both end", MICROSOFT, hidden_size=4,
               direction="bidirectional")
    for name, order in (("ahead", [2, 0, 1, 3]), ("last", [1, 0, 2]), ("both", [2, 0, 1, 3]), ("end", [1, 0, 2])):
        graph.node("Transpose", name, f"turned_{name}", perm=order)
        graph.output(f"turned_{name}", f"exit_0/{name}")
    return graph.model()


def grouped() -> onnx.ModelProto:
    """Heads of queries that share keys, and keys of which only the first count."""
    graph = Graph(24, {"tokens": [6, 16]})
    graph.weights("packed", shape=(16, 128))
    graph.weights("of_key", shape=(16, 16))
    graph.weights("added", shape=(1, 4, 6, 6))
    angles = numpy.outer(numpy.arange(9), 1 / 10 ** numpy.linspace(0, 3, 8)).astype("f4")
    graph.constant("cosines", numpy.cos(angles))
    graph.constant("sines", numpy.sin(angles))
    graph.constant("last", numpy.array([5], "i4"))
    graph.constant("count", numpy.int32(6))
    graph.constant("first", [4])
    graph.node("MatMul", "tokens packed", "all")
    graph.node("MatMul", "tokens of_key", "key")
    groups = {"num_heads": 4, "kv_num_heads": 2}
    graph.node("GroupQueryAttention", "all - - - - last count cosines sines", "turned", MICROSOFT, do_rotary=1, **groups)
    graph.node("GroupQueryAttention", "all - - - - last count - - - added", "near", MICROSOFT, local_window_size=3,
               softcap=2.0, **groups)
    graph.node("GroupQueryAttention", "key key key - - last count", "shared kept_keys kept_values", MICROSOFT,
               num_heads=1, kv_num_heads=1)
    graph.node("Attention", "tokens key key - - - first", "counted", q_num_heads=4, kv_num_heads=4)
    for name in ("turned", "near", "shared", "kept_keys", "counted"):
        graph.output(name, f"exit_0/{name}")
    return graph.model()


WRITTEN = [
    Written("written_fused", fused()),
    Written("written_attention", attention()),
    Written("written_bytes", on_bytes(), bytes=True),
    Written("written_wide", wide(), bytes=True),
    Written("written_nested", nested()),
    Written("written_dynamic", dynamic(), bytes=True),
    Written("written_states", states(), bytes=True),
    Written("written_grouped", grouped()),
]
