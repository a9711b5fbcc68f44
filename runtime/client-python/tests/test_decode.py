"""Decoders beside the networks' own post-processing, on the tensors that `runtime/decode/tests/recorded/record.py` made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from punctual import DecodeError, View, decode
from punctual.decode import Anchors, Detections, Head

RECORDED = Path(__file__).parents[2] / "decode" / "tests" / "recorded"
#: Pixels, or parts of a score.
TOLERANCE = 1e-4


def case(name: str) -> dict[str, NDArray[np.float32]]:
    values = np.fromfile(RECORDED / "cases.f32", dtype="<f4")
    tensors = {}
    for key, index in json.loads((RECORDED / "cases.json").read_text())[name].items():
        length = int(np.prod(index["shape"]))
        tensors[key] = values[index["at"] : index["at"] + length].reshape(index["shape"])
    return tensors


def assert_found(found: Detections, expected: NDArray[np.float32]) -> None:
    rows = np.column_stack([found.boxes, found.scores, found.labels])
    np.testing.assert_allclose(ordered(rows), ordered(expected), rtol=0, atol=TOLERANCE)
    assert (np.diff(found.scores) <= 0).all()


def ordered(rows: NDArray[Any]) -> NDArray[Any]:
    """By score, then by place: equal scores may come in any order."""
    return rows[np.lexsort((rows[:, 0], -rows[:, 4].round(4)))]


def squares(sides: Iterable[int]) -> list[tuple[int, int]]:
    return [(side, side) for side in sides]


def test_anchors_are_those_of_torchvisions_networks() -> None:
    ssd300 = Anchors.ssd(
        (300, 300),
        squares([38, 19, 10, 5, 3, 1]),
        [[2], [2, 3], [2, 3], [2, 3], [2], [2]],
        [0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
        [8, 16, 32, 64, 100, 300],
    )
    sizes = [[s, int(s * 2 ** (1 / 3)), int(s * 2 ** (2 / 3))] for s in (32, 64, 128, 256, 512)]
    maps = [(40, 32), (20, 16), (10, 8), (5, 4), (3, 2)]
    retinanet = Anchors.grid((320, 256), maps, sizes, [0.5, 1.0, 2.0])
    for name, anchors in ("anchors-ssd300", ssd300), ("anchors-retinanet", retinanet):
        expected = case(name)
        assert len(anchors) == expected["count"][0]
        np.testing.assert_allclose(anchors.rects[::41], expected["rects"], rtol=0, atol=TOLERANCE)


def test_anchors_are_decoded_as_torchvision_does() -> None:
    given = case("ssd")
    anchors = Anchors.ssd((128, 96), [(8, 6), (4, 3), (2, 2)], [[2], [2, 3], [2]], [0.2, 0.4, 0.7, 1.0])
    head = Head(
        (128, 96),
        activation="softmax",
        background=0,
        weights=(10, 10, 5, 5),
        threshold=0.2,
        candidates=8,
        candidates_of="class",
        several_classes=True,
        overlap=0.45,
        limit=30,
    )
    assert_found(head.anchors(anchors, given["boxes"], given["scores"]), given["expected"])
    retinanet = case("retinanet")
    sizes = [[s, s * 2 ** (1 / 3), s * 2 ** (2 / 3)] for s in (16, 32, 64)]
    grid = Anchors.grid((160, 128), [(10, 8), (5, 4), (3, 2)], sizes, [0.5, 1.0, 2.0])
    plain = Head((160, 128), threshold=0.1, candidates=25, several_classes=True, limit=100)
    assert_found(plain.anchors(grid, retinanet["boxes"], retinanet["scores"]), retinanet["expected"])
    # The same anchors, as the client says.
    again = Anchors(anchors.rects, [len(anchors)])
    assert_found(head.anchors(again, given["boxes"], given["scores"]), given["expected"])


def test_distances_are_decoded_as_torchvision_does() -> None:
    given = case("fcos")
    head = Head((128, 96), centre=0, threshold=0.25, candidates=30, several_classes=True, overlap=0.6, limit=100)
    tensors = ([given["boxes"]], [given["scores"]], [given["centerness"]])
    assert_found(head.distances([8, 16, 32], *tensors), given["expected"])


def test_distributions_and_decoded_boxes() -> None:
    given = case("yolo")
    head = Head((96, 64), layout="channels", threshold=0.35, limit=300)
    boxes = [given[f"boxes{level}"] for level in range(3)]
    scores = [given[f"scores{level}"] for level in range(3)]
    assert_found(head.distances([8, 16, 32], boxes, scores), given["expected"])
    plain = Head((96, 64), layout="channels", form="centre", activation="none", threshold=0.35, limit=300)
    assert_found(plain.boxes(given["decoded"], given["probabilities"]), given["expected"])


def test_sets_are_decoded_as_transformers_does() -> None:
    for name, activation, limit in (
        ("detr", "softmax", 30),
        ("rt-detr", "sigmoid", 30),
        ("deformable-detr", "sigmoid", 50),
    ):
        given = case(name)
        head = Head((200, 120), activation=activation, threshold=0.4, limit=limit)  # type: ignore[arg-type]
        assert_found(head.set(given["boxes"], given["logits"]), given["expected"])


def test_peaks_and_key_points() -> None:
    given = case("peaks")
    head = Head((80, 64), threshold=0.3, limit=25)
    assert_found(head.peaks(4, given["heat"], given["sizes"], given["offsets"]), given["expected"])
    maps, expected = case("vitpose"), case("quarter")
    pose = Head((192, 256))
    quarter = pose.key_points(maps["maps"])
    np.testing.assert_allclose(quarter, expected["expected"], rtol=0, atol=TOLERANCE)
    left, top, width, height = maps["region"]
    dark = pose.key_points(maps["maps"], "dark", corners_aligned=True)
    x, y = left + (dark[:, 0] - 0.5) * width / 191, top + (dark[:, 1] - 0.5) * height / 255
    np.testing.assert_allclose(np.column_stack([x, y]), maps["expected"][:, :2], rtol=0, atol=TOLERANCE)


def test_masks_and_views() -> None:
    given = case("masks")
    view = View((30, 20, 192, 120), (96, 80), True)
    rows = [[0, 0, 0, 0, 0.5, 0]]
    found = decode.rows(np.array(rows, dtype=np.float32), [1])
    found.boxes[0] = 49.7, 25.4, 130.2, 84.9
    mask = Head(view.input).mask(view, given["prototypes"], given["coefficients"][None], found, 0)
    assert (mask.x, mask.y) == (50, 25)
    np.testing.assert_allclose(mask.likely, given["view"], rtol=0, atol=TOLERANCE)
    found.boxes[0] = 0, 10, 96, 70
    moved = view.detections(found)
    assert moved.boxes[0].tolist() == [30, 20, 222, 140]
    assert found.boxes[0].tolist() == [0, 10, 96, 70]
    assert view.key_points(np.array([[48.0, 40.0, 1.0]], dtype=np.float32)).tolist() == [[126, 80, 1]]


def test_what_does_not_go_together_is_refused() -> None:
    head = Head((64, 48))
    with pytest.raises(DecodeError, match="logits: 6 values, 4 were specified|boxes: 6 values"):
        head.set(np.zeros((2, 3), dtype=np.float32), np.zeros((2, 3), dtype=np.float32))
    with pytest.raises(DecodeError, match="input's width is 0"):
        Head((0, 48)).boxes(np.zeros((1, 4), np.float32), np.zeros((1, 2), np.float32))
    with pytest.raises(TypeError, match="uint8"):
        head.boxes(np.zeros((1, 4), np.uint8), np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="2 maps"):
        Anchors.ssd((9, 9), [(1, 1), (2, 2)], [[2]], [1.0, 1.0, 1.0])
    with pytest.raises(IndexError):
        found = decode.rows(np.zeros((1, 6), np.float32), 0)
        head.mask(View((0, 0, 1, 1), (1, 1), False), np.zeros((1, 1, 1)), np.zeros((1, 1)), found, 0)
    with pytest.raises(DecodeError):
        View((0, 0, 0, 1), (1, 1), False).detections(decode.rows(np.zeros((1, 6), np.float32), 1))
