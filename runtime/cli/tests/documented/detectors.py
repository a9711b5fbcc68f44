"""Writes yolo11n.onnx and ssd.onnx beside this file, for the commands of docs/detectors.md: python detectors.py

The first is a network of the structure that Ultralytics exports, written by us (models/zoo/yolo.py) and far smaller, with
weights from a seed: one image, one output (1, 84, places) of boxes in pixels and probabilities. The second takes its picture as
exports of TensorFlow do: bytes, channels last, normalised by itself. It needs torch and onnx (models/zoo/requirements.txt).
The files are committed: tests/command/documented_commands.rs compiles them.
"""

import sys
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[3] / "models/zoo"))

import record  # noqa: E402
import yolo  # noqa: E402


class Exported(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = yolo.Yolo((64, 96), width=0.03, depth=0.34)
        channels = self.heads.features.channels
        for name, outputs in (("boxes", 4 * yolo.BINS), ("classes", 80)):
            branches = (yolo.branch(each, 8, outputs) for each in channels)
            setattr(self.heads, name, torch.nn.ModuleList(branches))

    def forward(self, images):
        return torch.cat(self.heads(images), 1)


def ssd(path):
    constants = {"half": torch.tensor(127.5), "last": torch.tensor([0, -1, 4]), "classes": torch.tensor([0, -1, 3]),
                 "w": torch.randn(16, 3, 8, 8) / 14, "b": torch.randn(16), "w_boxes": torch.randn(8, 16, 1, 1) / 4,
                 "w_scores": torch.randn(6, 16, 1, 1) / 4}
    node = helper.make_node
    nodes = [
        node("Cast", ["images"], ["floats"], to=TensorProto.FLOAT),
        node("Sub", ["floats", "half"], ["centred"]),
        node("Div", ["centred", "half"], ["normalised"]),
        node("Transpose", ["normalised"], ["planes"], perm=[0, 3, 1, 2]),
        node("Conv", ["planes", "w", "b"], ["features"], strides=[8, 8]),
        node("Relu", ["features"], ["active"]),
    ]
    for output, shape in (("boxes", "last"), ("scores", "classes")):
        nodes += [
            node("Conv", ["active", f"w_{output}"], [f"{output}_planes"]),
            node("Transpose", [f"{output}_planes"], [f"{output}_last"], perm=[0, 2, 3, 1]),
            node("Reshape", [f"{output}_last", shape], [output]),
        ]
    image = helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", 64, 96, 3])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 192, sides])
               for name, sides in (("boxes", 4), ("scores", 3))]
    weights = [numpy_helper.from_array(value.numpy(), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "ssd", [image], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


if __name__ == "__main__":
    torch.manual_seed(0)
    path = FOLDER / "yolo11n.onnx"
    torch.onnx.export(Exported().eval(), torch.zeros(1, 3, 64, 96), path, dynamo=False, opset_version=17,
                      input_names=["images"], output_names=["output0"])
    record.drop_notes(path)
    print(f"{path.name}  {path.stat().st_size / 1024:.1f} KiB")
    torch.manual_seed(0)
    ssd(FOLDER / "ssd.onnx")
