"""A stream of one thread."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_float, c_int, c_uint64, c_void_p, create_string_buffer, sizeof
from time import monotonic_ns
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _library as lib
from ._errors import CropError, DisconnectedError, SlotError, SlotsHeldError, VectorError
from ._frame import planes
from ._library import byref, check, library
from ._outputs import take
from ._records import Answer, Failure, Format, Layout, Rejection, Result, Terms, Verdict
from .decode import View

#: The longest wait of one library call, in ns, so that Python can handle Ctrl-C in between.
_SLICE_NS = 100_000_000

#: The most that a place has in the library.
_UNSIGNED_32_MAX = 2**32 - 1

#: Room for the name of a class.
_NAME_BYTES = 1024


class Client:
    """A connection to `punctuald` for the frames of one task; it reconnects when the daemon restarts.

    One thread's at a time. `timeout` waits for the daemon so many seconds (`None`: as long as it takes).
    """

    def __init__(
        self,
        socket: str | os.PathLike[str],
        task: str,
        format: Format = Format.RGB8,
        *,
        timeout: float | None = 0,
        reconnect: bool = True,
        spin_ns: int = 0,
        layout: Layout | None = None,
    ) -> None:
        self._client = c_void_p()
        #: Slots that were neither submitted nor given back.
        self._held: weakref.WeakSet[Slot] = weakref.WeakSet()
        options = lib.Options(
            size=sizeof(lib.Options),
            format=int(format),
            socket=os.fsencode(socket),
            task=task.encode(),
            spin_ns=_unsigned("spin_ns", spin_ns),
            flags=0 if reconnect else lib.NO_RECONNECT,
        )
        if layout is not None:
            options.row_stride = layout.row_stride
            options.offset = layout.offset
            options.chroma_offset = layout.chroma_offset
            options.chroma_stride = layout.chroma_stride
        check(library.punctual_open(byref(options), _limit_ns(timeout), byref(self._client)))

    def close(self) -> None:
        """Ends the connection. Arrays of slots stay readable."""
        client, self._client = self._client, c_void_p()
        library.punctual_close(client)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_client", None):
            self.close()

    def _open(self) -> c_void_p:
        if not self._client:
            raise DisconnectedError("the client was closed")
        return self._client

    @property
    def terms(self) -> Terms:
        """The terms of the connection; of the last one, if there is none at present."""
        terms = lib.Terms()
        check(library.punctual_get_terms(self._open(), byref(terms)))
        return Terms(
            format=Format(terms.format),
            width=terms.width,
            height=terms.height,
            row_stride=terms.row_stride,
            chroma_offset=terms.chroma_offset,
            chroma_stride=terms.chroma_stride,
            crop_width=terms.crop_width,
            crop_height=terms.crop_height,
            slots=terms.slots,
            results=terms.results,
            offset=terms.offset,
        )

    def accept_terms(self) -> None:
        """Accepts the terms that `TermsChangedError` reported."""
        check(library.punctual_accept_terms(self._open()))

    def slot(self, timeout: float | None = None) -> Slot:
        """A slot for the next frame.

        Raises `TimeoutError` if all were in use, or there was no daemon, for that long; and `SlotsHeldError`, which is one,
        at once if the program itself holds all of them, as then none will come free.
        """
        view = lib.SlotView()
        until_ns = _limit_ns(timeout)
        # Looks without waiting first: what this program holds comes free by no waiting.
        limit_ns = 0
        while not check(library.punctual_slot(self._open(), limit_ns, byref(view))):
            self._check_held()
            if _is_over(until_ns):
                raise TimeoutError(self._why_no_slot())
            limit_ns = _slice(until_ns)
        slot = Slot(self, view)
        self._held.add(slot)
        return slot

    def _held_now(self) -> list[int]:
        """The numbers of the slots that the program holds of the present connection."""
        connection = self.connections
        return sorted(slot.index for slot in self._held if slot._connection == connection)

    def _check_held(self) -> None:
        held, slots = self._held_now(), self.terms.slots
        if len(held) >= slots and self.is_connected:
            raise SlotsHeldError(
                f"this program holds all {slots} slots, neither submitted nor given back ({held}): "
                "submit one of them, or use `with client.slot() as slot:`, which gives it back"
            )

    def _why_no_slot(self) -> str:
        if not self.is_connected:
            return "no slot in time: there is no daemon"
        held, slots = self._held_now(), self.terms.slots
        return (
            f"no slot in time: of {slots} slots this program holds {len(held)} ({held}), "
            f"and the daemon is not done with the frames of {slots - len(held)}"
        )

    def verdict(self, timeout: float | None = None) -> Result | None:
        """The next verdict; none if there was none for that long."""
        return self._wait(library.punctual_verdict, timeout)

    def try_verdict(self) -> Result | None:
        """The next verdict if there is one. Continues a connection attempt in progress."""
        return self._look(library.punctual_try_verdict)

    def verdicts(self, timeout: float | None = None) -> Iterator[Result]:
        """Verdicts until every submission has one, or there was none for `timeout` seconds."""
        return self._each(self.verdict, timeout)

    def answer(self, timeout: float | None = None) -> Result | None:
        """The next answer before its verdict, or else the next verdict (`is_final` tells); none if there was none for
        that long. Of a frame whose deeper answer is there already, only that one."""
        return self._wait(library.punctual_answer, timeout)

    def try_answer(self) -> Result | None:
        """As `answer` without waiting. Continues a connection attempt in progress."""
        return self._look(library.punctual_try_answer)

    def answers(self, timeout: float | None = None) -> Iterator[Result]:
        """Answers and verdicts until every submission has its verdict, or nothing came for `timeout` seconds."""
        return self._each(self.answer, timeout)

    def latest(self) -> Result | None:
        """The newest answer, for a loop that takes what is there at each of its turns: that of the newest frame which
        has one, with or without its verdict. None if no frame newer than those whose verdicts were read has one.
        Nothing is used up: the verdict remains to be read."""
        return self._look(library.punctual_latest)

    def _wait(self, call: Callable[..., int], timeout: float | None) -> Result | None:
        outcome = lib.Outcome()
        until_ns = _limit_ns(timeout)
        while not check(call(self._open(), _slice(until_ns), byref(outcome))):
            if _is_over(until_ns):
                return None
        return self._result(outcome)

    def _look(self, call: Callable[..., int]) -> Result | None:
        outcome = lib.Outcome()
        return self._result(outcome) if check(call(self._open(), byref(outcome))) else None

    def _each(
        self, take: Callable[[float | None], Result | None], timeout: float | None
    ) -> Iterator[Result]:
        while self.unanswered > 0:
            result = take(timeout)
            if result is None:
                return
            yield result

    def __iter__(self) -> Iterator[Result]:
        return self.verdicts()

    def fileno(self) -> int:
        """A descriptor for select, poll or an event loop: readable when `try_verdict` may have
        something to do. Before each wait, call that until it returns none."""
        fd = c_int()
        check(library.punctual_fd(self._open(), byref(fd)))
        return fd.value

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that frames of the connection can be for (`Slot.set_task`); none: only the one that was asked for."""
        count = library.punctual_task_count(self._open())
        names = (self._name(library.punctual_task_name, task) for task in range(1, count + 1))
        return tuple(name for name in names if name is not None)

    def class_name(self, class_index: int, task: int = 0) -> str | None:
        """The name of a class, for outputs that name classes by number; none if it has none. `task` is that of the
        result, where the connection is of several."""
        return self._name(library.punctual_class_name_of, task, class_index)

    def _name(self, call: Callable[..., int], *numbers: int) -> str | None:
        name = create_string_buffer(_NAME_BYTES)
        found = check(call(self._open(), *numbers, name, _NAME_BYTES))
        return name.value.decode(errors="replace") if found else None

    def _result(self, outcome: lib.Outcome) -> Result:
        verdict = Verdict(outcome.verdict)
        reason: Rejection | Failure | None = None
        if verdict is Verdict.REJECTED:
            reason = Rejection(outcome.reason)
        elif verdict is Verdict.FAILED:
            reason = Failure(outcome.reason)
        deadline_ns: int = outcome.deadline_ns
        crop = (outcome.crop_x, outcome.crop_y, outcome.crop_width, outcome.crop_height)
        return Result(
            sequence=outcome.sequence,
            verdict=verdict,
            reason=reason,
            answer=self._answer(outcome) if outcome.answered else None,
            captured_ns=outcome.captured_ns,
            deadline_ns=None if deadline_ns == lib.FOREVER else deadline_ns,
            finished_ns=outcome.finished_ns,
            slot=outcome.slot,
            is_final=bool(outcome.is_final),
            task=outcome.task,
            part=outcome.part,
            crop=crop if outcome.part else None,
            left_out=outcome.left_out,
        )

    def _answer(self, outcome: lib.Outcome) -> Answer:
        outputs, quantisation = take(self._open(), outcome) if outcome.outputs else ({}, {})
        class_index: int | None = outcome.class_index if outcome.has_class else None
        class_name = None if class_index is None else self.class_name(class_index, outcome.task)
        return Answer(
            exit=outcome.exit,
            class_index=class_index,
            confidence=outcome.confidence / 65535 if outcome.has_confidence else None,
            class_name=class_name,
            outputs=outputs,
            quantisation=quantisation,
            is_finite=not outcome.not_finite,
            view=self._view(outcome),
        )

    def _view(self, outcome: lib.Outcome) -> View | None:
        view = lib.FrameView()
        found = check(library.punctual_get_view(self._open(), byref(outcome), byref(view)))
        return View.of(view) if found else None

    @property
    def unanswered(self) -> int:
        """How many submissions have no read result."""
        return int(library.punctual_unanswered(self._open()))

    @property
    def connections(self) -> int:
        """How many connections there were so far, reconnections included."""
        return int(library.punctual_connections(self._open()))

    @property
    def is_connected(self) -> bool:
        """Whether there is a daemon at present."""
        return bool(library.punctual_is_connected(self._open()))


class Slot:
    """A slot to write a frame into. Released at the end of `with`, unless it was submitted."""

    def __init__(self, client: Client, view: lib.SlotView) -> None:
        self._client = client
        self._connection = client.connections
        self._view: lib.SlotView | None = view
        self._planes: tuple[NDArray[Any], ...] | None = None

    def _held(self) -> lib.SlotView:
        if self._view is None:
            raise SlotError("the slot was submitted or released: its pixels belong to the daemon")
        return self._view

    @property
    def index(self) -> int:
        """Its number, from 0."""
        return int(self._held().index)

    @property
    def planes(self) -> tuple[NDArray[Any], ...]:
        """The frame's planes in shared memory: one, but for NV12 (luma, chroma)."""
        view = self._held()
        if self._planes is None:
            self._planes = planes(self._client._open(), view, self._client.terms)
        return self._planes

    @property
    def pixels(self) -> NDArray[Any]:
        """The first plane: (height, width, bytes of a pixel), or (height, width) of one byte each."""
        return self.planes[0]

    def set_task(self, name: str) -> None:
        """Says which task the frame is for, where a `[[task]]` of the manifest is for many packages: one of
        `Client.tasks`. Otherwise it is for the one that the client asked for. To be said for each frame."""
        check(library.punctual_set_task(self._client._open(), byref(self._held()), name.encode()))

    def submit(
        self,
        captured_ns: int | None = None,
        deadline_ns: int | None = None,
        crop: tuple[int, int] = (0, 0),
        **vectors: ArrayLike,
    ) -> int:
        """Submits the frame, captured at `captured_ns` (default: now), due at `deadline_ns` (absolute;
        default: the task's deadline), with `crop` (x, y) as the upper left corner of the crop, and the
        task's vectors by their names. Returns the number that the result will have. The slot's arrays
        are read-only from here on."""
        for name, numbers in vectors.items():
            self._set_vector(name, numbers)
        if min(crop) < 0:
            raise CropError(f"a crop at {crop}: both must be 0 or more")
        captured = monotonic_ns() if captured_ns is None else captured_ns
        request = lib.Request(
            captured_ns=_unsigned("captured_ns", captured),
            deadline_ns=_unsigned("deadline_ns", deadline_ns or 0),
            crop_x=min(crop[0], _UNSIGNED_32_MAX),
            crop_y=min(crop[1], _UNSIGNED_32_MAX),
        )
        view = self._let_go()
        sequence = c_uint64()
        client = self._client._open()
        check(library.punctual_submit(client, byref(view), byref(request), byref(sequence)))
        return sequence.value

    def _set_vector(self, name: str, numbers: ArrayLike) -> None:
        values = np.ascontiguousarray(np.atleast_1d(numbers), dtype=np.float32)
        if values.ndim != 1:
            raise VectorError(f"vector {name!r} has {values.ndim} dimensions, not one")
        client, view = self._client._open(), self._held()
        first = values.ctypes.data_as(POINTER(c_float))
        check(
            library.punctual_set_vector(client, byref(view), name.encode(), first, values.size)
        )

    def give_back(self) -> None:
        """Releases the slot without a submission."""
        view = self._let_go()
        check(library.punctual_give_back(self._client._open(), byref(view)))

    def _let_go(self) -> lib.SlotView:
        view = self._held()
        self._client._held.discard(self)
        self._view = None
        for plane in self._planes or ():
            plane.flags.writeable = False
        return view

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._view is not None and self._client._client:
            self.give_back()

    def __del__(self) -> None:
        if getattr(self, "_view", None) is not None and self._client._client:
            self.give_back()


def _unsigned(name: str, value: int) -> int:
    """A number that the library takes; ctypes would cut others to 64 bits without a word."""
    if not 0 <= value < 2**64:
        raise ValueError(f"{name} is {value}: it must be in ns, from 0 on; times are those of `punctual.now_ns()`")
    return value


def _limit_ns(timeout: float | None) -> int:
    """The moment that a time-out in seconds means to the library."""
    if timeout is None:
        return lib.FOREVER
    return 0 if timeout <= 0 else monotonic_ns() + int(timeout * 1e9)


def _slice(until_ns: int) -> int:
    return min(until_ns, monotonic_ns() + _SLICE_NS)


def _is_over(until_ns: int) -> bool:
    return monotonic_ns() >= until_ns
