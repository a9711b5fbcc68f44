"""What goes to and comes from the daemon, as Python sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from numpy.typing import NDArray

from .decode import View


class Format(IntEnum):
    """How pixels are coded."""

    RGB8 = 1
    #: A plane of luma, then one at half the resolution of interleaved U and V.
    NV12 = 2
    BGR8 = 3
    GRAY8 = 4
    #: Four bytes for two pixels of a row: luma, U, luma, V.
    YUYV = 5
    #: Two bytes a pixel, the low one first.
    GRAY16 = 6
    #: Red, green, blue, and a fourth value.
    RGBA8 = 7
    #: The network's input as the client prepared it: numbers, which must be finite.
    TENSOR = 8
    #: Four bytes for two pixels of a row: U, luma, V, luma.
    UYVY = 9


class Verdict(IntEnum):
    """What became of a submission."""

    ON_TIME = 1
    LATE = 2
    REJECTED = 3
    FAILED = 4


class Rejection(IntEnum):
    """Why a submission was not taken on."""

    LATE_ON_ARRIVAL = 1
    NO_SLACK = 2
    QUEUE_FULL = 3
    DRAINING = 4
    CAPTURED_IN_FUTURE = 5
    QUOTA = 6
    SUPERSEDED = 7
    SHEDDING = 8
    #: No area is free for its outputs: arrays of earlier answers are still there.
    NO_AREA = 9
    #: Its task's network is not loaded yet: the daemon is starting.
    NOT_READY = 10


class Failure(IntEnum):
    """Why an accepted request got no answer."""

    DEVICE = 1
    PAYLOAD = 2
    CLIENT_GONE = 3
    SHED = 4
    #: A value of a tensor is infinite or no number.
    NOT_FINITE = 5
    #: A number of its vectors is out of the manifest's range.
    VECTOR = 6
    #: The daemon's threads got no processor time: another program had their core, or the hypervisor.
    STARVED = 7
    #: The daemon ended without a verdict: said by the client library.
    DAEMON_GONE = 255


@dataclass(frozen=True, slots=True)
class Layout:
    """Where rows and planes lie in a slot, in bytes."""

    row_stride: int
    offset: int = 0
    chroma_offset: int = 0
    chroma_stride: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """What was agreed with the daemon. Lengths in pixels, strides and offsets in bytes."""

    format: Format
    width: int
    height: int
    row_stride: int
    chroma_offset: int
    chroma_stride: int
    #: The part of the frame that the network sees; of a tensor, a channel.
    crop_width: int
    crop_height: int
    #: How many frames can be on their way at once.
    slots: int
    #: How many submissions can be without a result that was read.
    results: int
    #: First byte of the first row.
    offset: int


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What the bytes of a quantised output stand for: `(byte - zero) * scale`."""

    scale: float
    zero: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the network says of a frame."""

    #: The exit that it left the network through, counted from the input.
    exit: int
    #: The class with the largest score; none if answers have no class.
    class_index: int | None
    #: How sure the network is, 0 to 1; none if it does not say so.
    confidence: float | None
    #: The class's name; none if it has none.
    class_name: str | None = None
    #: By name. Read-only arrays that lie in shared memory; the daemon has the memory back when all
    #: arrays of the answer, and views of them, are gone. Copy what is to be kept for long.
    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict, compare=False)
    #: Of outputs that are quantised.
    quantisation: Mapping[str, Quantisation] = field(default_factory=dict, compare=False)
    #: Whether all values of the outputs are finite.
    is_finite: bool = True
    #: What the network saw of the frame: maps places of its input to the frame. None if the daemon does not say.
    view: View | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one submission, or an answer before that."""

    #: The submission's number: they count from 1 for as long as the client lives.
    sequence: int
    verdict: Verdict
    #: Why, if it was rejected or failed.
    reason: Rejection | Failure | None
    answer: Answer | None
    captured_ns: int
    #: The absolute deadline that applied; none if only the daemon knew it.
    deadline_ns: int | None
    #: When the answer was sent first; without one, when the verdict was reached.
    finished_ns: int
    #: The slot that held the frame.
    slot: int
    #: Whether this is the verdict. Otherwise another result follows: a deeper answer, or the verdict.
    is_final: bool
    #: Where the connection is of several tasks, the number of the one that the frame was for: the first of
    #: `Client.tasks` is 1. 0: the one that the client asked for, or no daemon answered.
    task: int = 0
    #: Which crop of the frame it is about, from 1, where tasks look at what another finds; 0: the frame.
    part: int = 0
    #: What the network saw of the frame, if it is about a part: left, top, width, height.
    crop: tuple[int, int, int, int] | None = None
    #: With the verdict: boxes that no task looked at, as they are beyond the manifest's bound.
    left_out: int = 0
