"""Quantises the network to int8 and measures it: python int8.py DATA [--engine 1000]

Writes signs.int8.onnx, its ranges from the first pictures of DATA/train, and int8.json: on DATA/test
the accuracy of each exit in f32 and in int8, by onnxruntime, and how often the two agree. With
`--engine N` also what the engine's int8 says of the first N pictures.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import onnxruntime

from network import EXITS
from reference import HERE, load

sys.path.append(str(HERE.parent / "zoo"))
from quantise import quantise  # noqa: E402

RANGES = 512
BATCH = 8
EXAMPLE = ["cargo", "run", "--quiet", "--release", "-p", "punctual-networks", "--example", "scores"]


def scores(model: Path, images: numpy.ndarray) -> numpy.ndarray:
    """Class scores by onnxruntime: [exit][sample][class]."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    parts = [
        session.run(list(EXITS), {"image": images[start : start + 128]})
        for start in range(0, len(images), 128)
    ]
    return numpy.stack([numpy.concatenate(exit) for exit in zip(*parts)])


def by_the_engine(model: Path, images: numpy.ndarray) -> numpy.ndarray:
    """Class scores by the engine: [exit][sample][class]."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "images.f32"
        for start in range(0, len(images), BATCH):
            images[start : start + BATCH].astype("<f4").tofile(file)
            command = [*EXAMPLE, "--", str(model), str(file), "cpu"]
            ran = subprocess.run(command, check=True, cwd=HERE.parent.parent, capture_output=True)
            # A line of the report, then one of scores.
            parts.append(json.loads(ran.stdout.splitlines()[1]))
    return numpy.concatenate([numpy.array(part) for part in parts], 1)


def compared(name: str, first: numpy.ndarray, second: numpy.ndarray) -> dict:
    agree = first.argmax(2) == second.argmax(2)
    return {
        "of": name,
        "same class": [round(float(share), 4) for share in agree.mean(1)],
        "largest difference of scores": round(float(numpy.abs(first - second).max()), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--engine", type=int, default=0)
    arguments = parser.parse_args()
    model, int8 = HERE / "signs.onnx", HERE / "signs.int8.onnx"
    quantise(model, int8, load(arguments.data / "train", RANGES)[0])
    images, labels = load(arguments.data / "test")
    engines = {"f32": scores(model, images), "int8": scores(int8, images)}
    measured = {
        "samples": len(labels),
        "accuracy": {
            name: [round(float(share), 4) for share in (found.argmax(2) == labels).mean(1)]
            for name, found in engines.items()
        },
        "differences": [compared("f32 and int8", *engines.values())],
        "bytes": {file.name: file.stat().st_size for file in (model, int8)},
        "engine": f"onnxruntime {onnxruntime.__version__}",
    }
    if arguments.engine:
        first = slice(0, arguments.engine)
        ours = by_the_engine(int8, images[first])
        name = f"int8 by onnxruntime and by the engine, {len(images[first])} pictures"
        measured["differences"].append(compared(name, engines["int8"][:, first], ours))
        right = (ours.argmax(2) == labels[first]).mean(1)
        measured["accuracy"][name] = [round(float(share), 4) for share in right]
    text = json.dumps(measured, indent=1)
    (HERE / "int8.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
