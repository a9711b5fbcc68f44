"""Exports and measures a trained network: python export.py DATA WEIGHTS

Writes signs.onnx, calibration.json (DATA/calibrate), accuracy.json (DATA/test) and, by
reference.py, the reference outputs (DATA/test). Everything is measured on the exported file by
onnxruntime, not on the weights.
"""

import json
import sys
from pathlib import Path

import numpy
import onnxruntime
import torch

from network import EXITS, Signs, export, multiplications
from reference import HERE, load, session, write_reference


def run(folder: Path) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Confidence and correctness: [sample][exit]."""
    images, labels = load(folder)
    network = session()
    confidence, correct = [], []
    for start in range(0, len(images), 128):
        part = slice(start, start + 128)
        logits = numpy.stack(network.run(list(EXITS), {"image": images[part]}), 1)
        odds = numpy.exp(logits - logits.max(2, keepdims=True))
        confidence.append(1.0 / odds.sum(2))
        correct.append(logits.argmax(2) == labels[part, None])
    return numpy.concatenate(confidence), numpy.concatenate(correct)


def write_calibration(folder: Path) -> None:
    """One line a sample, in the form that `punctual_model::Calibration` reads."""
    samples = [
        json.dumps({"exits": [
            {"confidence": int(share * 65535 + 0.5), "correct": bool(right)}
            for share, right in zip(*sample)
        ]}, separators=(",", ":"))
        for sample in zip(*run(folder))
    ]
    (HERE / "calibration.json").write_text('{"samples":[\n' + ",\n".join(samples) + "\n]}\n")


def at_threshold(confidence: numpy.ndarray, correct: numpy.ndarray, threshold: float) -> dict:
    """Each sample leaves at its first exit that reaches the threshold, or at the last."""
    sure = confidence >= threshold
    sure[:, -1] = True
    leaving = sure.argmax(1)
    right = numpy.take_along_axis(correct, leaving[:, None], 1)
    counts = numpy.bincount(leaving, minlength=len(EXITS))
    return {
        "threshold": threshold,
        "accuracy": round(float(right.mean()), 4),
        "leaving": [round(float(share), 4) for share in counts / len(leaving)],
    }


def write_accuracy(folder: Path, model: Signs) -> None:
    confidence, correct = run(folder)
    measured = {
        "samples": len(correct),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "multiplications": multiplications(model),
        "accuracy": dict(zip(EXITS, numpy.round(correct.mean(0), 4).tolist())),
        "thresholds": [at_threshold(confidence, correct, t) for t in (0.5, 0.7, 0.8, 0.9, 0.95)],
        "engine": f"onnxruntime {onnxruntime.__version__}",
    }
    text = json.dumps(measured, indent=1)
    (HERE / "accuracy.json").write_text(text + "\n")
    print(text)


def main() -> None:
    data = Path(sys.argv[1])
    model = Signs()
    model.load_state_dict(torch.load(sys.argv[2], map_location="cpu"))
    export(model, str(HERE / "signs.onnx"))
    write_reference(data / "test")
    write_accuracy(data / "test", model)
    write_calibration(data / "calibrate")


if __name__ == "__main__":
    main()
