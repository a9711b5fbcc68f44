"""Writes reference.json and reference.f32: inputs, and onnxruntime's logits at each exit.

    python reference.py IMAGES.f32 LABELS.u16

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


def main() -> None:
    images = numpy.fromfile(sys.argv[1], "<f4").reshape(-1, 3, SIDE, SIDE)[:IMAGES]
    labels = numpy.fromfile(sys.argv[2], "<u2")[:IMAGES]
    session = onnxruntime.InferenceSession(
        HERE / "signs.onnx", providers=["CPUExecutionProvider"]
    )
    logits = session.run(list(EXITS), {"image": images})
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
    main()
