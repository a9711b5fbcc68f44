"""Writes yolo11n.onnx beside this file, for the commands of docs/detectors.md: python detectors.py

A network of the structure that Ultralytics exports, written by us (models/zoo/yolo.py) and far smaller, with weights from a
seed: one image, one output (1, 84, places) of boxes in pixels and probabilities. It needs torch and onnx
(models/zoo/requirements.txt). The file is committed: tests/command/documented_commands.rs compiles it.
"""

import sys
from pathlib import Path

import torch

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


if __name__ == "__main__":
    torch.manual_seed(0)
    path = FOLDER / "yolo11n.onnx"
    torch.onnx.export(Exported().eval(), torch.zeros(1, 3, 64, 96), path, dynamo=False, opset_version=17,
                      input_names=["images"], output_names=["output0"])
    record.drop_notes(path)
    print(f"{path.name}  {path.stat().st_size / 1024:.1f} KiB")
