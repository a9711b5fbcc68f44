"""Writes reference.json and reference.f32: inputs, and onnxruntime's logits at each exit.

    python reference.py DATA/test

reference.f32 is little-endian float32 without padding: first `inputs`
[images][channel][row][column] (already normalised), then each exit's logits [images][classes].
"""

import json
import sys
from pathlib import Path

import numpy
import onnxruntime

from network import CLASSES, EXITS, SIDE

HERE = Path(__file__).parent
IMAGES = 8
MEAN, STD = 0.45, 0.25  # as in signs.toml


def load(folder: Path, count: int | None = None) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Normalised images and labels of a data set, or of its first samples."""
    images = numpy.fromfile(folder / "images.u8", "u1").reshape(-1, 3, SIDE, SIDE)[:count]
    labels = numpy.fromfile(folder / "labels.u16", "<u2")[:count]
    return (images.astype("f4") / 255 - MEAN) / STD, labels


def session() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        HERE / "signs.onnx", options, providers=["CPUExecutionProvider"]
    )


def write_reference(folder: Path) -> None:
    images, labels = load(folder, IMAGES)
    logits = session().run(list(EXITS), {"image": images})
    header = {
        "engine": f"onnxruntime {onnxruntime.__version__}",
        "images": len(images),
        "input": [3, SIDE, SIDE],
        "exits": list(EXITS),
        "classes": CLASSES,
        "labels": labels.tolist(),
    }
    (HERE / "reference.json").write_text(json.dumps(header, indent=1) + "\n")
    with open(HERE / "reference.f32", "wb") as file:
        for array in (images, *logits):
            file.write(numpy.ascontiguousarray(array, "<f4").tobytes())
    for name, array in zip(EXITS, logits):
        print(name, "right:", int((array.argmax(1) == labels).sum()), "of", len(labels))


if __name__ == "__main__":
    write_reference(Path(sys.argv[1]))
