"""Exports the trained detector and measures it: python export.py DATA WEIGHTS

Writes streets.onnx, and accuracy.json: what onnxruntime makes of the test set in DATA.
"""

import argparse
import json
from pathlib import Path

import numpy
import onnxruntime
import torch

from measure import f1, mean_average_precision, suppressed
from network import EXITS, Streets, export
from train import SURE_SCORE, load, normalised

HERE = Path(__file__).parent
THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95)


def answers(images: torch.Tensor) -> list[list]:
    """Of each exit, of each image: detections, and the confidence."""
    session = onnxruntime.InferenceSession(HERE / "streets.onnx")
    found = [[] for _ in range(EXITS)]
    sure = [[] for _ in range(EXITS)]
    for part in images.split(16):
        outputs = session.run(None, {"image": normalised(part).numpy()})
        for exit in range(EXITS):
            boxes, scores, confidence = (torch.from_numpy(output) for output in outputs[3 * exit : 3 * exit + 3])
            best, kind = scores.max(2)
            found[exit] += [suppressed(*one) for one in zip(boxes, best, kind)]
            sure[exit] += confidence[:, 0].tolist()
    return [found, sure]


def measured(found: list, sure: list, truths: list) -> dict:
    mean, each = zip(*(mean_average_precision(part, truths) for part in found))
    quality = numpy.array([[f1(*pair, SURE_SCORE) for pair in zip(part, truths)] for part in found])
    sure = numpy.array(sure)
    by_threshold = []
    for threshold in THRESHOLDS:
        reaches = sure >= threshold
        reaches[-1] = True
        leaving = reaches.argmax(0)
        left = [found[exit][index] for index, exit in enumerate(leaving)]
        by_threshold.append({
            "threshold": threshold,
            "map50": round(mean_average_precision(left, truths)[0], 4),
            "f1": round(float(quality[leaving, range(len(leaving))].mean()), 4),
            "leaving": [round(float((leaving == exit).mean()), 4) for exit in range(EXITS)],
        })
    return {
        "frames": len(truths),
        "signs": int(sum(len(truth) for truth in truths)),
        "map50": [round(value, 4) for value in mean],
        "average_precision": [[round(value, 4) for value in part] for part in each],
        "f1": quality.mean(1).round(4).tolist(),
        "confidence": sure.mean(1).round(4).tolist(),
        "correlation": [round(float(numpy.corrcoef(sure[exit], quality[exit])[0, 1]), 4) for exit in range(EXITS)],
        "by_threshold": by_threshold,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    options = parser.parse_args()
    streets = Streets()
    streets.load_state_dict(torch.load(options.weights))
    export(streets, str(HERE / "streets.onnx"))
    images, truths = load(options.data / "test")
    found, sure = answers(images)
    result = measured(found, sure, truths)
    (HERE / "accuracy.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
