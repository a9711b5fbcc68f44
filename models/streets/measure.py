"""Boxes out of a network's answers, and how good they are: average precision and F1 at an overlap of 0.5."""

import numpy
import torch
import torchvision

from network import CATEGORIES, corners

OVERLAP = 0.5  # from which on a box has found its sign
SUPPRESS = 0.5  # boxes of a category that overlap more are one
SCORE, BOXES = 0.02, 50


def detections(scores: torch.Tensor, sides: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """Of each image: boxes (corners in pixels of the input), scores, categories; the best first."""
    every_box = corners(sides).flatten(2).transpose(1, 2)
    best, category = scores.sigmoid().flatten(2).max(1)
    return [suppressed(*one) for one in zip(every_box, best, category)]


def suppressed(box: torch.Tensor, score: torch.Tensor, kind: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The boxes of one image that are left when those of a category that overlap are one."""
    chosen = (score > SCORE).nonzero()[:, 0]
    box, score, kind = box[chosen], score[chosen], kind[chosen]
    kept = torchvision.ops.batched_nms(box, score, kind, SUPPRESS)[:BOXES]
    return box[kept], score[kept], kind[kept]


def matched(found: tuple[torch.Tensor, ...], truth: torch.Tensor) -> numpy.ndarray:
    """Which detections are right: each in turn takes the sign of its category that it overlaps most, if it is free."""
    box, _, kind = found
    right, taken = numpy.zeros(len(box), bool), set()
    if len(truth) == 0 or len(box) == 0:
        return right
    overlaps = torchvision.ops.box_iou(box, truth[:, :4])
    overlaps[kind[:, None] != truth[None, :, 4].long()] = 0.0
    for index, row in enumerate(overlaps.numpy()):
        for sign in (-row).argsort():
            if row[sign] < OVERLAP:
                break
            if sign not in taken:
                taken.add(sign)
                right[index] = True
                break
    return right


def mean_average_precision(found: list, truths: list[torch.Tensor]) -> tuple[float, list[float]]:
    """mAP at an overlap of 0.5, all points of the curve; and the average precision of each category."""
    right = numpy.concatenate([matched(*pair) for pair in zip(found, truths)])
    score = torch.cat([score for _, score, _ in found]).numpy()
    kind = torch.cat([kind for _, _, kind in found]).numpy()
    signs = torch.cat(truths)[:, 4].long().numpy()
    precisions = []
    for category in range(CATEGORIES):
        chosen = kind == category
        order = (-score[chosen]).argsort(kind="stable")
        hits = right[chosen][order].cumsum()
        recall = hits / max(1, (signs == category).sum())
        precision = hits / numpy.arange(1, len(hits) + 1)
        precision = numpy.maximum.accumulate(precision[::-1])[::-1]
        precisions.append(float((numpy.diff(recall, prepend=0.0) * precision).sum()))
    return float(numpy.mean(precisions)), precisions


def f1(found: tuple[torch.Tensor, ...], truth: torch.Tensor, score: float) -> float:
    """Of one image, of the boxes with at least this score. 1 if there is nothing and nothing is found."""
    kept = tuple(part[found[1] >= score] for part in found)
    if len(kept[0]) + len(truth) == 0:
        return 1.0
    return 2.0 * matched(kept, truth).sum() / (len(kept[0]) + len(truth))
