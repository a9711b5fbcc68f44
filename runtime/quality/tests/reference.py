#!/usr/bin/env python3
"""Records what COCO's own evaluation says of random frames: reference.json.

Needs numpy and pycocotools. The record was made with the Python files of pycocotools 2.0, `mask.iou` (C, boxes only) written
again in Python. The scenes have objects of three classes that overlap, crowds, equal scores, boxes of whole
pixels (whose overlaps are often exactly a limit), frames without objects, frames without detections, and one with more
than a hundred detections of a class.
"""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

CLASSES = 3
FRAMES = 40


def boxes(random: np.random.Generator, count: int) -> list[list[float]]:
    corner = random.integers(0, 160, (count, 2))
    size = random.integers(8, 60, (count, 2))
    return np.concatenate([corner, size], 1).astype(float).tolist()


def scene(random: np.random.Generator, frame: int) -> tuple[list, list]:
    """Objects (class, crowd, x, y, width, height) and detections (class, score, x, y, width, height)."""
    objects = [] if frame % 8 == 3 else [
        [int(random.integers(CLASSES)), bool(random.random() < 0.08), *box] for box in boxes(random, int(random.integers(1, 6)))
    ]
    found = []
    for kind, _, x, y, width, height in objects:
        for _ in range(int(random.integers(0, 3))):
            shift = random.integers(-6, 7, 4)
            shifted = [x + shift[0], y + shift[1], max(4, width + shift[2]), max(4, height + shift[3])]
            other = int(random.integers(CLASSES)) if random.random() < 0.15 else kind
            found.append([other, round(float(random.random()), 1), *map(float, shifted)])
    for box in boxes(random, 130 if frame == 5 else int(random.integers(0, 4))):
        kind = 0 if frame == 5 else int(random.integers(CLASSES))
        found.append([kind, round(float(random.random()) * 0.6, 2), *box])
    return objects, [] if frame % 8 == 6 else found


def evaluated(scenes: list[tuple[list, list]]) -> dict:
    annotations, results = [], []
    for frame, (objects, found) in enumerate(scenes):
        for kind, crowd, *box in objects:
            annotations.append({"id": len(annotations) + 1, "image_id": frame, "category_id": kind,
                                "bbox": box, "area": box[2] * box[3], "iscrowd": int(crowd)})
        results += [{"image_id": frame, "category_id": kind, "score": score, "bbox": box} for kind, score, *box in found]
    truth = COCO()
    truth.dataset = {"info": {}, "images": [{"id": frame} for frame in range(len(scenes))],
                     "categories": [{"id": kind} for kind in range(CLASSES)], "annotations": annotations}
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    # [overlap, recall, class, area, detections]: all areas, 100 detections.
    precision = evaluation.eval["precision"][:, :, :, 0, 2]
    return {"map50": float(evaluation.stats[1]), "map50_95": float(evaluation.stats[0]),
            "ap50": precision[0].mean(0).tolist(), "ap50_95": precision.mean((0, 1)).tolist()}


def main() -> None:
    random = np.random.default_rng(19)
    scenes = [scene(random, frame) for frame in range(FRAMES)]
    frames = [{"objects": objects, "detections": found} for objects, found in scenes]
    record = {"frames": frames, "all": evaluated(scenes), "first half": evaluated(scenes[: FRAMES // 2])}
    lines = json.dumps(record).replace('{"objects"', '\n{"objects"')
    Path(__file__).with_name("reference.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
