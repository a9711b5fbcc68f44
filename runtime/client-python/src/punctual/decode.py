"""Boxes, key points and masks from what detectors give: arrays in, arrays out.

    head = decode.Head(answer.view.input, layout="channels", threshold=0.4)
    found = head.boxes(answer.outputs["boxes"], answer.outputs["scores"])
    for box, score, label in answer.view.detections(found):
        ...

Arrays are float32, of one frame: without the dimension of the batch. docs/decode.md has the shapes and units of each head. A *place* is
an anchor, a cell, a query or a row. Detections come the best first, in pixels of the network's input; `View` maps them to the frame.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_double, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _library as lib
from ._library import byref, check, library

Floats = NDArray[np.float32]

_RECORD = np.dtype(
    [("box", "=f4", (4,)), ("score", "=f4"), ("label", "=u4"), ("place", "=u4"), ("reserved", "=u4")]
)
_LAYOUTS = {"places": 0, "channels": 1}
_ACTIVATIONS = {"sigmoid": 0, "softmax": 1, "none": 2}
_FORMS = {"corners": 0, "centre": 1}
_GROUPS = {"level": 0, "class": 1}
_SUPPRESSIONS = {"none": 0, "class": 1, "all": 2}
_REFINEMENTS = {"none": 0, "quarter": 1, "dark": 2, "mean": 3}
_CORNERS_ALIGNED = 16


class Detections:
    """Objects of one frame, the best first; iterates over (box, score, label)."""

    def __init__(self, records: NDArray[Any]) -> None:
        self._records = records

    @property
    def boxes(self) -> Floats:
        """Left, top, right, bottom in pixels: (n, 4)."""
        boxes: Floats = self._records["box"]
        return boxes

    @property
    def scores(self) -> Floats:
        """0 to 1: (n,)."""
        scores: Floats = self._records["score"]
        return scores

    @property
    def labels(self) -> NDArray[np.uint32]:
        """The classes' numbers: (n,)."""
        labels: NDArray[np.uint32] = self._records["label"]
        return labels

    @property
    def places(self) -> NDArray[np.uint32]:
        """The anchors, cells, queries or rows, where further tensors have their values: (n,)."""
        places: NDArray[np.uint32] = self._records["place"]
        return places

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[tuple[Floats, float, int]]:
        for record in self._records:
            yield record["box"], float(record["score"]), int(record["label"])


@dataclass(frozen=True, slots=True)
class View:
    """Which part of a frame the network saw, and how it was fitted into its input."""

    #: Column and row of the frame where the part begins, its width and height.
    crop: tuple[int, int, int, int]
    #: Width and height of the network's input.
    input: tuple[int, int]
    #: Whether the part keeps its aspect ratio, with borders; otherwise it is stretched.
    letterbox: bool

    @classmethod
    def of(cls, view: lib.FrameView) -> View:
        """As the library has it."""
        crop = (view.crop_x, view.crop_y, view.crop_width, view.crop_height)
        return cls(crop, (view.input_width, view.input_height), bool(view.letterbox))

    def _given(self) -> lib.FrameView:
        return lib.FrameView(*self.crop, *self.input, int(self.letterbox), 0)

    def detections(self, found: Detections) -> Detections:
        """The same in pixels of the frame, clipped to the part that the network saw."""
        records = found._records.copy()
        view = self._given()
        check(library.punctual_view_detections(byref(view), records.ctypes.data, len(records)))
        return Detections(records)

    def key_points(self, points: Floats) -> Floats:
        """The same (n, 3) in pixels of the frame."""
        moved = np.array(points, dtype="=f4", order="C").reshape(-1, 3)
        view = self._given()
        check(library.punctual_view_key_points(byref(view), moved.ctypes.data, len(moved)))
        return moved


@dataclass(frozen=True, slots=True)
class Mask:
    """The part of a frame that an object's box covers."""

    #: Column and row of the frame where it begins.
    x: int
    y: int
    #: How likely each pixel is the object's, 0 to 1: (rows, columns).
    likely: Floats


class _Tensors:
    """Arrays as the library takes tensors; they stay alive with this."""

    def __init__(self, *arrays: ArrayLike) -> None:
        self.arrays = [_floats(array) for array in arrays]
        self.tensors = (lib.Tensor * len(arrays))(*map(_tensor, self.arrays))


def _floats(array: ArrayLike) -> NDArray[Any]:
    given = np.asarray(array)
    if given.dtype.kind not in "f" or given.ndim > 8:
        raise TypeError(f"floats in up to 8 dimensions were expected, not {given.dtype} in {given.ndim}")
    # Keeps numbers without a dimension as they are.
    return np.asarray(given, dtype="=f4", order="C")


def _tensor(array: NDArray[Any], element: int = 0) -> lib.Tensor:
    shape = (ctypes.c_uint32 * 8)(*array.shape)
    return lib.Tensor(None, array.ctypes.data, array.nbytes, element, array.ndim, shape, 1.0, 0)


def _find(limit: int, call: Callable[..., int], *arguments: object) -> Detections:
    records = np.zeros(limit, _RECORD)
    count = c_size_t()
    check(call(*arguments, records.ctypes.data, limit, byref(count)))
    return Detections(records[: count.value])


def rows(detections: ArrayLike, count: ArrayLike, threshold: float = 0.25) -> Detections:
    """The outputs `detections` (rows, 6) and `count` of a network that ends in Punctual's decoder."""
    given = _Tensors(detections)
    number = np.asarray(count, dtype="=i4", order="C")
    tensor = _tensor(number, element=1)
    limit = given.arrays[0].shape[0] if given.arrays[0].ndim else 0
    return _find(limit, library.punctual_decode_rows, given.tensors, byref(tensor), threshold)


class Anchors:
    """Rectangles that a network's boxes are relative to: `ssd`, `grid`, or any with the number of each level's."""

    def __init__(self, rects: ArrayLike, levels: Sequence[int]) -> None:
        numbers = np.asarray(rects, dtype="=f4", order="C").reshape(-1, 4)
        counts = np.array(levels, dtype=np.uintp)
        handle = c_void_p()
        check(
            library.punctual_anchors_of(
                numbers.ctypes.data, len(numbers), counts.ctypes.data, len(counts), byref(handle)
            )
        )
        self._hold(handle)

    def _hold(self, handle: c_void_p) -> None:
        self._handle = handle
        weakref.finalize(self, library.punctual_release_anchors, handle)

    @classmethod
    def ssd(
        cls,
        input: tuple[int, int],
        maps: Sequence[tuple[int, int]],
        aspect_ratios: Sequence[Sequence[float]],
        scales: Sequence[float],
        steps: Sequence[float] | None = None,
        *,
        clip: bool = True,
    ) -> Anchors:
        """SSD's, as torchvision's DefaultBoxGenerator: sides are relative to the input's.

        `input` and `maps` are widths and heights; `scales` has one for each map, and one more.
        """
        if len(aspect_ratios) != len(maps) or len(scales) != len(maps) + 1:
            raise ValueError(f"{len(maps)} maps need as many aspect ratios, and scales with one more")
        if steps is not None and len(steps) != len(maps):
            raise ValueError(f"{len(maps)} maps need as many steps, not {len(steps)}")
        given = _maps(maps, aspect_ratios)
        for at, map_ in enumerate(given):
            map_.scale = scales[at]
            map_.step = 0.0 if steps is None else steps[at]
        head = Head(input)._given()
        handle = c_void_p()
        last = scales[-1]
        check(library.punctual_anchors_ssd(byref(head), given, len(maps), last, int(clip), byref(handle)))
        return cls._made(handle)

    @classmethod
    def grid(
        cls,
        input: tuple[int, int],
        maps: Sequence[tuple[int, int]],
        sizes: Sequence[Sequence[float]],
        aspect_ratios: Sequence[float],
    ) -> Anchors:
        """RetinaNet's, as torchvision's AnchorGenerator: sides in pixels, ratios of height to width."""
        if len(sizes) != len(maps):
            raise ValueError(f"{len(maps)} maps need as many sizes, not {len(sizes)}")
        given = _maps(maps, sizes)
        ratios = np.array(aspect_ratios, dtype=np.float64)
        head = Head(input)._given()
        handle = c_void_p()
        of_ratios = (ratios.ctypes.data, len(ratios))
        check(library.punctual_anchors_grid(byref(head), given, len(maps), *of_ratios, byref(handle)))
        return cls._made(handle)

    @classmethod
    def _made(cls, handle: c_void_p) -> Anchors:
        anchors = cls.__new__(cls)
        anchors._hold(handle)
        return anchors

    @property
    def rects(self) -> Floats:
        """Left, top, right, bottom of each: (n, 4)."""
        rects = np.zeros((len(self), 4), dtype="=f4")
        check(library.punctual_anchor_rects(self._handle, rects.ctypes.data, len(rects)))
        return rects

    def __len__(self) -> int:
        return int(library.punctual_anchor_count(self._handle))


def _maps(sides: Sequence[tuple[int, int]], values: Sequence[Sequence[float]]) -> ctypes.Array[lib.Map]:
    maps = (lib.Map * len(sides))()
    for map_, (width, height), numbers in zip(maps, sides, values, strict=True):
        # ctypes keeps the array alive with the structure.
        map_.values = (c_double * len(numbers))(*numbers)
        map_.width, map_.height, map_.count = width, height, len(numbers)
    return maps


@dataclass(frozen=True, slots=True)
class Head:
    """What a network's head is like, and which of its detections are wanted."""

    #: Width and height of the network's input: `view.input`.
    input: tuple[int, int]
    #: (places, channels), or (channels, places) and (channels, rows, columns).
    layout: Literal["places", "channels"] = "places"
    #: What makes scores of 0 to 1 of the network's values.
    activation: Literal["sigmoid", "softmax", "none"] = "sigmoid"
    #: The class that means that nothing is there.
    background: int | None = None
    #: Of boxes that the network has decoded: left, top, right, bottom; or centre, width, height.
    form: Literal["corners", "centre"] = "corners"
    #: Scores must be higher.
    threshold: float = 0.25
    #: Whether a place may be of several classes.
    several_classes: bool = False
    #: How many candidates of each level, or of each class, go on to the suppression.
    candidates: int = 1000
    candidates_of: Literal["level", "class"] = "level"
    #: Better detections of the same class, or of all, suppress those that overlap by more.
    suppression: Literal["none", "class", "all"] = "class"
    overlap: float = 0.5
    #: Most detections of a frame.
    limit: int = 100
    #: Of anchors: what codes of x, y, width and height are divided by. SSD: 10, 10, 5, 5.
    weights: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    #: Of distances: where a cell's centre is, in strides from its corner.
    centre: float = 0.5

    def _given(self) -> lib.Head:
        return lib.Head(
            ctypes.sizeof(lib.Head),
            *self.input,
            _LAYOUTS[self.layout],
            _ACTIVATIONS[self.activation],
            -1 if self.background is None else self.background,
            _FORMS[self.form],
            self.threshold,
            int(self.several_classes),
            self.candidates,
            _GROUPS[self.candidates_of],
            _SUPPRESSIONS[self.suppression],
            self.overlap,
            (ctypes.c_float * 4)(*self.weights),
            self.centre,
        )

    def boxes(self, boxes: ArrayLike, scores: ArrayLike) -> Detections:
        """Of boxes that the network has decoded itself, in pixels of its input."""
        head, tensors = self._given(), _Tensors(boxes, scores)
        first, second = map(byref, tensors.tensors)
        return _find(self.limit, library.punctual_decode_boxes, byref(head), first, second)

    def anchors(self, anchors: Anchors, boxes: ArrayLike, scores: ArrayLike) -> Detections:
        """SSD, RetinaNet: `boxes` (anchors, 4), `scores` (anchors, classes)."""
        head, tensors = self._given(), _Tensors(boxes, scores)
        first, second = map(byref, tensors.tensors)
        decode = library.punctual_decode_anchors
        return _find(self.limit, decode, byref(head), anchors._handle, first, second)

    def distances(
        self,
        strides: Sequence[int],
        boxes: Sequence[ArrayLike],
        scores: Sequence[ArrayLike],
        centerness: Sequence[ArrayLike] | None = None,
    ) -> Detections:
        """FCOS, YOLO's distributions: lists of one array for each level, or of one array for all of them."""
        if len(boxes) != len(scores) or centerness is not None and len(centerness) != len(boxes):
            raise ValueError("boxes, scores and centerness are lists of the same length")
        head, levels = self._given(), np.array(strides, dtype=np.uint32)
        of_boxes, of_scores = _Tensors(*boxes), _Tensors(*scores)
        of_centres = None if centerness is None else _Tensors(*centerness)
        return _find(
            self.limit,
            library.punctual_decode_distances,
            byref(head),
            levels.ctypes.data,
            len(levels),
            of_boxes.tensors,
            of_scores.tensors,
            None if of_centres is None else of_centres.tensors,
            len(boxes),
        )

    def set(self, boxes: ArrayLike, logits: ArrayLike) -> Detections:
        """DETR and its descendants: `boxes` (queries, 4) relative to the input, `logits` (queries, classes).

        With a softmax the last class means that there is no object; otherwise the best `limit` of all queries and classes stay.
        """
        head, tensors = self._given(), _Tensors(boxes, logits)
        first, second = map(byref, tensors.tensors)
        return _find(self.limit, library.punctual_decode_set, byref(head), first, second)

    def peaks(
        self, stride: float, heat: ArrayLike, sizes: ArrayLike, offsets: ArrayLike | None = None
    ) -> Detections:
        """CenterNet: `heat` (classes, rows, columns), `sizes` and `offsets` (2, rows, columns) in cells."""
        tensors = _Tensors(heat, sizes, *([] if offsets is None else [offsets]))
        head, given = self._given(), [byref(tensor) for tensor in tensors.tensors]
        first, second, third = (*given, None)[:3]
        return _find(self.limit, library.punctual_decode_peaks, byref(head), stride, first, second, third)

    def key_points(
        self,
        maps: ArrayLike,
        refinement: Literal["none", "quarter", "dark", "mean"] = "quarter",
        *,
        corners_aligned: bool = False,
    ) -> Floats:
        """x, y and score of each of the maps (points, rows, columns), in pixels of the input: (points, 3).

        `corners_aligned`: the centres of the outermost cells are those of the outermost pixels (UDP, VitPose).
        """
        head, tensors = self._given(), _Tensors(maps)
        room = tensors.arrays[0].shape[0] if tensors.arrays[0].ndim else 0
        points = np.zeros((room, 3), dtype="=f4")
        how = _REFINEMENTS[refinement] + (_CORNERS_ALIGNED if corners_aligned else 0)
        count = c_size_t()
        to = (points.ctypes.data, room, byref(count))
        check(library.punctual_decode_key_points(byref(head), how, tensors.tensors, *to))
        return points

    def mask(
        self, view: View, prototypes: ArrayLike, coefficients: ArrayLike, found: Detections, at: int
    ) -> Mask:
        """The mask of the detection at a position of `found`, which is in pixels of the frame.

        `prototypes` (count, rows, columns), `coefficients` (places, count) or, by the layout, (count, places).
        """
        head, tensors = self._given(), _Tensors(prototypes, coefficients)
        first, second = map(byref, tensors.tensors)
        record = found._records[at : at + 1].copy()
        if len(record) != 1:
            raise IndexError(f"detection {at} of {len(found)}")
        left, top, right, bottom = record["box"][0]
        room = max(0, int(right - left) + 2) * max(0, int(bottom - top) + 2)
        likely = np.zeros(room, dtype="=f4")
        given, place = view._given(), lib.MaskPlace()
        to = (byref(place), likely.ctypes.data, room)
        decode = library.punctual_decode_mask
        check(decode(byref(head), byref(given), first, second, record.ctypes.data, *to))
        shape = (place.height, place.width)
        return Mask(place.x, place.y, likely[: place.height * place.width].reshape(shape))


__all__ = ["Anchors", "Detections", "Head", "Mask", "View", "rows"]
