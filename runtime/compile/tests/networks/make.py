"""Makes the small networks of ../onnxruntime.rs and onnxruntime's answers to them.

    python -m venv .venv && .venv/bin/pip install -r requirements.txt && .venv/bin/python make.py [NAME ...]

Names of networks as arguments make only these; `resizes` was made so, without those before it.
NAME.onnx are the networks, random weights inside. NAME.f32 is little-endian float32: first the
images [IMAGES][3][HEIGHT][WIDTH], then the logits of each exit [IMAGES][CLASSES].
"""

import sys
from pathlib import Path

import numpy
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

HERE = Path(__file__).parent
IMAGES, HEIGHT, WIDTH, CLASSES = 2, 23, 18, 5
EXITS = ["exit_0", "exit_1"]
RANDOM = numpy.random.default_rng(1)


class Graph:
    """An ONNX graph, node by node. Each result is named after its operator and place."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, array, dtype=numpy.float32) -> str:
        name = f"constant_{len(self.constants)}"
        array = numpy.asarray(array, dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape: int) -> str:
        """Weights of a size that keeps the results near one."""
        fan_in = max(1, int(numpy.prod(shape[1:])))
        return self.constant(RANDOM.normal(0, (1.5 / fan_in) ** 0.5, shape))

    def __call__(self, operator: str, *inputs: str, **attributes) -> str:
        output = f"{operator.lower()}_{len(self.nodes)}"
        node = helper.make_node(operator, list(inputs), [output], name=output, **attributes)
        self.nodes.append(node)
        return output

    def exit(self, x: str, name: str) -> None:
        self.nodes.append(helper.make_node("Identity", [x], [name], name=name))

    def save(self, path: Path, opset: int) -> None:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, HEIGHT, WIDTH])
        outputs = [helper.make_tensor_value_info(e, TensorProto.FLOAT, ["n", CLASSES]) for e in EXITS]
        graph = helper.make_graph(self.nodes, path.stem, [image], outputs, self.constants)
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def windows(path: Path) -> None:
    """Convolutions and pools whose windows do not fit evenly."""
    g = Graph()
    x = g("Conv", "image", g.random(8, 3, 5, 4), strides=[2, 3], pads=[2, 0, 1, 3])
    x = g("MaxPool", x, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 1])
    x = g("Conv", x, g.random(12, 4, 2, 4), g.random(12), group=2, auto_pad="SAME_LOWER")
    x = g("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=0)
    y = g("GlobalAveragePool", x)
    y = g("Flatten", y, axis=1)
    y = g("Gemm", y, g.random(12, CLASSES), g.random(CLASSES), alpha=0.5, beta=2.0)
    g.exit(y, "exit_0")
    x = g("Conv", x, g.random(12, 1, 3, 3), group=12, auto_pad="SAME_UPPER", strides=[2, 2])
    x = g("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    x = g("MaxPool", x, kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    x = g("Flatten", x)
    inputs = 12 * 2 * 1
    x = g("Relu", g("Gemm", x, g.random(7, inputs), g.random(7), transB=1))
    x = g("Add", g("MatMul", x, g.random(7, CLASSES)), g.random(CLASSES))
    g.exit(x, "exit_1")
    g.save(path, 17)


def elements(path: Path) -> None:
    """Additions, normalisations and activations in every place where fusing looks at them."""
    g = Graph()

    def norm(x: str, channels: int) -> str:
        vector = lambda low, high: g.constant(RANDOM.uniform(low, high, channels))
        parts = vector(0.5, 1.5), vector(-1, 1), vector(-1, 1), vector(0.2, 2)
        return g("BatchNormalization", x, *parts, epsilon=1e-3)

    def clip(x: str, low: float, high: float) -> str:
        return g("Clip", x, g.constant(low), g.constant(high))

    x = norm("image", 3)  # Nothing before it to be taken into.
    x = g("Relu", norm(g("Conv", x, g.random(6, 3, 3, 3), strides=[2, 2]), 6))
    a = g("Conv", x, g.random(6, 6, 1, 1))
    b = norm(g("Conv", x, g.random(6, 6, 3, 3), g.random(6), pads=[1, 1, 1, 1]), 6)
    x = clip(g("Add", b, a), -0.5, 2.0)  # Two convolutions.
    x = g("Relu", g("Add", x, g("Conv", x, g.random(6, 6, 1, 1))))  # The residual first.
    x = g("Add", x, g.constant(RANDOM.normal(0, 1, (1, 6, 1, 1))))  # A constant a channel.
    x = g("Add", g.constant(0.25), x)  # A constant for all, behind an activation.
    p = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g("Relu", g("Add", p, g("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])))
    y = g("ReduceMean", x, axes=[-1, 2], keepdims=0)
    y = g("Gemm", y, g.random(CLASSES, 6), g.constant([0.5]), transB=1)
    g.exit(y, "exit_0")
    x = clip(g("Relu", g("Conv", x, g.random(6, 6, 1, 1))), -1.0, 0.7)
    x = g("Add", x, x)
    y = g("Conv", x, g.random(6, 6, 1, 1))
    x = g("Add", norm(y, 6), g("Relu", y))  # `y` is read twice: its normalisation stays alone.
    x = g("GlobalAveragePool", x)
    x = g("Squeeze", x, g.constant([2, 3], numpy.int64))
    x = g("Gemm", x, g.random(6, CLASSES))
    g.exit(x, "exit_1")
    g.save(path, 17)


def resizes(path: Path) -> None:
    """Resizes in every mode, sizes computed as exporters compute them, and dilated convolutions."""
    g = Graph()

    def ints(*values: int) -> str:
        return g.constant(values, numpy.int64)

    def by_size(x: str, rows: int, columns: int, **attributes) -> str:
        """As the dynamo exporter has it: batch and channels of the tensor, sizes constant."""
        front = g("Shape", x, start=0, end=2)
        sizes = g("Concat", front, ints(rows, columns), axis=0)
        return g("Resize", x, "", "", sizes, **attributes)

    def like(x: str, other: str, **attributes) -> str:
        """As the TorchScript exporter has `interpolate(x, size=other.shape[-2:])`."""
        last = g("Slice", g("Shape", other), ints(-2), ints(2**63 - 1), ints(0))
        last = g("Cast", last, to=TensorProto.INT64)
        front = g("Slice", g("Shape", x), ints(0), ints(2), ints(0))
        sizes = g("Concat", front, last, axis=0)
        empty = g.constant([])
        return g("Resize", x, "", empty, sizes, **attributes)

    def scales(down: float, along: float) -> str:
        return g.constant([1, 1, down, along])

    def mode(coordinates: str, filter: str, rounding: str = "floor") -> dict:
        all = {"coordinate_transformation_mode": coordinates, "mode": filter}
        return all | ({"nearest_mode": rounding} if filter == "nearest" else {})

    stem = g("Relu", g("Conv", "image", g.random(20, 3, 3, 3), g.random(20), pads=[1] * 4))
    x = g("Conv", stem, g.random(20, 20, 3, 3), strides=[2, 2], pads=[1] * 4)  # 12x9
    a = g("Resize", x, "", scales(2, 2), **mode("asymmetric", "nearest"))
    b = by_size(x, 24, 18, **mode("pytorch_half_pixel", "linear"))
    c = by_size(x, 24, 18, **mode("align_corners", "linear"))
    d = g("Resize", x, "", scales(2.05, 2.03), **mode("half_pixel", "linear"))
    e = by_size(x, 24, 18, **mode("half_pixel", "nearest", "round_prefer_ceil"))
    x = g("Concat", a, b, c, d, e, axis=1)
    x = like(x, stem, **mode("half_pixel", "nearest", "round_prefer_floor"))  # 23x18
    x = g("Relu", g("Conv", x, g.random(24, 100, 1, 1), g.random(24)))
    y = like(x, "image", **mode("half_pixel", "linear"))  # Of the same size: nothing to do.
    y = by_size(y, 7, 5, **mode("asymmetric", "linear"))
    y = by_size(y, 19, 29, **mode("align_corners", "nearest", "ceil"))
    y = g("Flatten", g("GlobalAveragePool", y), axis=1)
    y = g("Gemm", y, g.random(24, CLASSES), g.random(CLASSES))
    g.exit(y, "exit_0")
    # As in DeepLab's head: dilations as wide as the image, padded by as much.
    parts = [g("Conv", x, g.random(16, 24, 1, 1))]
    for dilation in [2, 6, 12, 24]:
        pads, dilations = [dilation] * 4, [dilation, dilation]
        part = g("Conv", x, g.random(16, 24, 3, 3), g.random(16), pads=pads, dilations=dilations)
        parts.append(g("Relu", part))
    pooled = g("Conv", g("GlobalAveragePool", x), g.random(16, 24, 1, 1), g.random(16))
    parts.append(like(pooled, x, **mode("half_pixel", "linear")))
    x = g("Conv", g("Concat", *parts, axis=1), g.random(20, 96, 1, 1))
    wide = {"dilations": [3, 5], "pads": [3, 5, 3, 5], "group": 20}
    x = g("Relu", g("Add", x, g("Conv", x, g.random(20, 1, 3, 3), **wide)))
    x = g("Conv", x, g.random(12, 5, 2, 3), dilations=[2, 3], pads=[1, 3, 1, 3], group=4)
    x = g("Conv", x, g.random(12, 12, 3, 3), dilations=[4, 7], strides=[2, 3], pads=[5, 0, 1, 6])
    x = g("Flatten", g("GlobalAveragePool", x), axis=1)
    x = g("Gemm", x, g.random(12, CLASSES), g.random(CLASSES))
    g.exit(x, "exit_1")
    g.save(path, 17)


class Mobile(nn.Module):
    """Inverted residuals with ReLU6, and the ways PyTorch code flattens."""

    def __init__(self):
        super().__init__()

        def conv(inputs, outputs, kernel=1, stride=1, groups=1, relu=True):
            layers = [
                nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                nn.BatchNorm2d(outputs),
            ]
            return nn.Sequential(*layers, *([nn.ReLU6()] if relu else []))

        self.stem = conv(3, 8, 3, 2)
        self.block = nn.Sequential(conv(8, 24), conv(24, 24, 3, 1, 24), conv(24, 8, relu=False))
        self.first = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(8, CLASSES))
        self.deep = nn.Sequential(conv(8, 16, 3, 2), nn.MaxPool2d(3, 2, 1, ceil_mode=True))
        self.second = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.block(x)
        exit_0 = self.first(x)
        x = self.deep(x).mean([2, 3], keepdim=True)
        x = x.view(x.size(0), -1)
        return exit_0, torch.softmax(self.second(x), 1)


class Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels: int, activation: nn.Module, gate: nn.Module):
        super().__init__()
        self.squeeze, self.activation = nn.Conv2d(channels, 4, 1), activation
        self.excite, self.gate = nn.Conv2d(4, channels, 1), gate

    def forward(self, x):
        mean = torch.nn.functional.adaptive_avg_pool2d(x, 1)
        return self.gate(self.excite(self.activation(self.squeeze(mean)))) * x


class Shuffle(nn.Module):
    """ShuffleNet's unit: one half of the channels passes, both are shuffled together."""

    def __init__(self, channels: int):
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(channels // 2, channels // 2, 1), nn.ReLU())

    def forward(self, x):
        passing, other = x.chunk(2, dim=1)
        x = torch.cat((passing, self.branch(other)), dim=1)
        batch, channels, height, width = x.size()
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        return x.view(batch, channels, height, width)


class Dense(nn.Module):
    """DenseNet's layers: each reads all features before it, normalised before the convolution."""

    def __init__(self, channels: int, growth: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, growth, 3, padding=1))
            for inputs in range(channels, channels + layers * growth, growth)
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


class Blocks(nn.Module):
    """What the networks of 2015 to 2021 brought, one after the other."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.gate = Gate(8, nn.SiLU(), nn.Sigmoid())
        self.wide = nn.Sequential(nn.Conv2d(8, 20, 1), nn.Hardswish())
        self.hard_gate = Gate(20, nn.ReLU(), nn.Hardsigmoid())
        self.first = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(20, CLASSES))
        self.shuffles = nn.Sequential(Shuffle(20), Shuffle(20), Shuffle(20))
        self.small, self.pooled = nn.Conv2d(20, 3, 1), nn.Conv2d(20, 5, 1)
        self.dense = Dense(28, 2, 9)
        self.second = nn.Sequential(nn.Conv2d(46, CLASSES, 1), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten())

    def forward(self, x):
        red = x[:, 0].unsqueeze(1) * 0.9 - 0.1
        green = torch.unsqueeze(x[:, 1], 1) * 1.1 + 0.2
        x = torch.cat((red, green, torch.unsqueeze(x[:, 2], 1) / 0.8 + 0.3), 1)
        x = self.hard_gate(self.wide(self.gate(self.stem(x))))
        exit_0 = self.first(x)
        x = self.shuffles(x)
        pooled = torch.nn.functional.avg_pool2d(x, 3, 1, 1)
        x = torch.cat((self.small(x).tanh(), self.pooled(pooled), x), 1)
        x = x * torch.clamp(x + 3, 0, 6) / 6
        return exit_0, self.second(self.dense(x))


def settled(module: nn.Module) -> nn.Module:
    """With normalisations that do something."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.5, 0.5)
            nn.init.uniform_(part.running_var, 0.3, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.5, 0.5)
    return module.eval()


def export_torchscript(module: nn.Module, path: Path) -> None:
    image = torch.zeros(1, 3, HEIGHT, WIDTH)
    axes = {name: {0: "batch"} for name in ("image", *EXITS)}
    torch.onnx.export(
        module, (image,), path, dynamo=False, opset_version=17,
        input_names=["image"], output_names=EXITS, dynamic_axes=axes,
    )


def export_dynamo(module: nn.Module, path: Path, external_data: bool = False) -> None:
    image = torch.zeros(2, 3, HEIGHT, WIDTH)
    torch.onnx.export(
        module, (image,), path, dynamo=True, opset_version=18, external_data=external_data,
        input_names=["image"], output_names=EXITS,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
    )


def torchscript(path: Path) -> None:
    torch.manual_seed(1)
    export_torchscript(settled(Mobile()), path)


def dynamo(path: Path) -> None:
    torch.manual_seed(2)
    export_dynamo(settled(Mobile()), path)


def blocks_torchscript(path: Path) -> None:
    torch.manual_seed(3)
    export_torchscript(settled(Blocks()), path)


def blocks_dynamo(path: Path) -> None:
    torch.manual_seed(3)
    export_dynamo(settled(Blocks()), path)


def external(path: Path) -> None:
    """As dynamo's exporter writes unless told otherwise: the weights lie in external.onnx.data."""
    torch.manual_seed(4)
    export_dynamo(settled(Mobile()), path, external_data=True)


def forget_the_maker(path: Path) -> None:
    """Removes the stack traces and paths that exporters leave in a file."""
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    del graph.value_info[:]
    onnx.save(model, path)


def views(path: Path) -> None:
    """What only gives values other places: pixels shuffled, rows and columns taken and joined, windows, anchors."""
    global RANDOM
    RANDOM = numpy.random.default_rng(2)  # It can be made alone.
    g = Graph()
    ints = lambda *values: g.constant(values, numpy.int64)

    def part(x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        return g("Slice", x, ints(start), ints(end), ints(axis), ints(step))

    def reshaped(x: str, *sizes: int) -> str:
        return g("Reshape", x, ints(*sizes))

    def norm(x: str, channels: int) -> str:
        vector = lambda low, high: g.constant(RANDOM.uniform(low, high, channels))
        return g("LayerNormalization", x, vector(0.5, 1.5), vector(-1, 1), axis=-1)

    last = 1 << 62
    x = g("Relu", g("Conv", "image", g.random(8, 3, 4, 4), pads=[1, 2, 3, 3]))  # 8x24x20
    # The first layer of YOLOv5.
    corners = [part(part(x, 2, row, last, 2), 3, column, last, 2) for column in (0, 1) for row in (0, 1)]
    x = g("Relu", g("Conv", g("Concat", *corners, axis=1), g.random(16, 32, 3, 3), pads=[1] * 4))
    large = [g("DepthToSpace", x, blocksize=2, mode=mode) for mode in ("DCR", "CRD")]  # 4x24x20
    x = g("SpaceToDepth", g("Relu", g("Add", *large)), blocksize=2)
    x = g("Conv", x, g.random(16, 16, 3, 3), pads=[1] * 4)  # 16x12x10
    y = part(part(x, 2, 2, 9, 3), 3, -1, -last, -2)  # 16x3x5
    y = g("Gather", y, ints(5, 0, 1, 2, 9), axis=1)
    y = reshaped(y, -1, 15, 5)  # Across channels and rows.
    y = g("Flatten", g("Tanh", y))
    g.exit(g("Gemm", y, g.random(CLASSES, 75), transB=1), "exit_0")
    # A block of Swin: rows and columns rolled, windows, all of it back.
    tokens = g("Transpose", x, perm=[0, 2, 3, 1])
    rolled = g("Concat", part(tokens, 1, 3, last), part(tokens, 1, 0, 3), axis=1)
    rolled = g("Concat", part(rolled, 2, -4, last), part(rolled, 2, 0, -4), axis=2)
    windows = g("Transpose", reshaped(rolled, -1, 3, 4, 2, 5, 16), perm=[0, 1, 3, 2, 4, 5])
    windows = norm(reshaped(windows, -1, 20, 16), 16)
    windows = g("Add", g("MatMul", windows, g.random(16, 16)), g.random(16))
    back = g("Transpose", reshaped(windows, -1, 3, 2, 4, 5, 16), perm=[0, 1, 3, 2, 4, 5])
    back = reshaped(back, -1, 12, 10, 16)
    back = g("Concat", part(back, 2, 4, last), part(back, 2, 0, 4), axis=2)
    back = g("Concat", part(back, 1, -3, last), part(back, 1, 0, -3), axis=1)
    x = g("Add", tokens, back)
    # Its merging of patches.
    quarters = [part(part(x, 1, row, last, 2), 2, column, last, 2) for column in (0, 1) for row in (0, 1)]
    x = norm(g("Concat", *quarters, axis=-1), 64)
    x = g("MatMul", x, g.random(64, 24))
    x = g("Transpose", x, perm=[0, 3, 1, 2])  # 24x6x5
    # The head of a detector: two levels, three anchors, six values; a constant anchor.
    small = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    levels = []
    for level, height, width in ((x, 6, 5), (small, 3, 2)):
        y = g("Conv", level, g.random(18, 24, 3, 3), pads=[1] * 4)
        y = g("Transpose", reshaped(y, -1, 3, 6, height, width), perm=[0, 3, 4, 1, 2])
        levels.append(reshaped(y, -1, height * width * 3, 6))
    batch = part(g("Shape", "image"), 0, 0, 1)
    constant = g("Expand", g.random(1, 1, 6), g("Concat", batch, ints(1, 6), axis=0))
    anchors = g("Concat", levels[0], constant, levels[1], axis=1)  # 109x6
    boxes, scores = g("Relu", part(anchors, 2, 0, 4)), g("Sigmoid", part(anchors, -1, 4, last))
    anchors = g("Concat", scores, boxes, axis=2)
    some = part(g("Transpose", anchors, perm=[0, 2, 1]), 2, 50, 100, 7)  # 6x8
    y = g("Gather", g("Flatten", some), ints(*range(47, -1, -1)), axis=1)
    y = g("Gemm", y, g.random(CLASSES, 48), transB=1)
    g.exit(y, "exit_1")
    g.save(path, 17)


def main() -> None:
    makers = (
        windows,
        elements,
        torchscript,
        dynamo,
        blocks_torchscript,
        blocks_dynamo,
        external,
        views,
        resizes,
    )
    for make in makers:
        if sys.argv[1:] and make.__name__ not in sys.argv[1:]:
            continue
        path = HERE / f"{make.__name__}.onnx"
        make(path)
        forget_the_maker(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        images = RANDOM.normal(0, 1, (IMAGES, 3, HEIGHT, WIDTH)).astype("<f4")
        logits = session.run(EXITS, {"image": images})
        with open(path.with_suffix(".f32"), "wb") as file:
            for array in (images, *logits):
                file.write(numpy.ascontiguousarray(array, "<f4").tobytes())
        operators = sorted({node.op_type for node in onnx.load(path, load_external_data=False).graph.node})
        print(path.name, path.stat().st_size, "bytes:", ", ".join(operators))
        print("  largest logits", [float(abs(l).max()) for l in logits], [l.shape for l in logits])


if __name__ == "__main__":
    main()
