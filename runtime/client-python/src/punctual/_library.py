"""libpunctual as ctypes sees it: the structures and functions of punctual.h and punctual_decode.h."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_void_p
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64
from pathlib import Path
from typing import Final, NoReturn

from ._errors import BY_STATUS, PunctualError

OK: Final = 0
NOTHING: Final = 1
FOREVER: Final = 2**64 - 1
NO_RECONNECT: Final = 1


class Options(ctypes.Structure):
    """punctual_options"""

    _fields_ = [
        ("size", c_uint32),
        ("format", c_uint32),
        ("socket", c_char_p),
        ("task", c_char_p),
        ("spin_ns", c_uint64),
        ("flags", c_uint32),
        ("row_stride", c_uint32),
        ("offset", c_uint32),
        ("chroma_offset", c_uint32),
        ("chroma_stride", c_uint32),
        ("buffer_count", c_uint32),
        ("buffers", c_void_p),
    ]


class Terms(ctypes.Structure):
    """punctual_terms"""

    _fields_ = [
        ("format", c_uint32),
        ("width", c_uint32),
        ("height", c_uint32),
        ("row_stride", c_uint32),
        ("chroma_offset", c_uint32),
        ("chroma_stride", c_uint32),
        ("crop_width", c_uint32),
        ("crop_height", c_uint32),
        ("slots", c_uint32),
        ("results", c_uint32),
        ("offset", c_uint32),
        ("reserved", c_uint32),
    ]


class SlotView(ctypes.Structure):
    """punctual_slot_t"""

    _fields_ = [
        ("pixels", c_void_p),
        ("bytes", c_size_t),
        ("token", c_uint64),
        ("index", c_uint32),
        ("reserved", c_uint32),
    ]


class Request(ctypes.Structure):
    """punctual_request"""

    _fields_ = [
        ("captured_ns", c_uint64),
        ("deadline_ns", c_uint64),
        ("crop_x", c_uint32),
        ("crop_y", c_uint32),
    ]


class Outcome(ctypes.Structure):
    """punctual_result"""

    _fields_ = [
        ("sequence", c_uint64),
        ("captured_ns", c_uint64),
        ("deadline_ns", c_uint64),
        ("finished_ns", c_uint64),
        ("verdict", c_uint8),
        ("reason", c_uint8),
        ("answered", c_uint8),
        ("exit", c_uint8),
        ("class_index", c_uint16),
        ("confidence", c_uint16),
        ("slot", c_uint32),
        ("has_class", c_uint8),
        ("has_confidence", c_uint8),
        ("outputs", c_uint8),
        ("not_finite", c_uint8),
        ("is_final", c_uint8),
        ("part", c_uint8),
        ("task", c_uint16),
        ("left_out", c_uint16),
        ("reserved", c_uint16),
        ("crop_x", c_uint16),
        ("crop_y", c_uint16),
        ("crop_width", c_uint16),
        ("crop_height", c_uint16),
    ]


class Tensor(ctypes.Structure):
    """punctual_tensor"""

    _fields_ = [
        ("name", c_char_p),
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("element", c_uint32),
        ("rank", c_uint32),
        ("shape", c_uint32 * 8),
        ("scale", c_float),
        ("zero", c_int32),
    ]


class FrameView(ctypes.Structure):
    """punctual_view"""

    _fields_ = [
        ("crop_x", c_uint32),
        ("crop_y", c_uint32),
        ("crop_width", c_uint32),
        ("crop_height", c_uint32),
        ("input_width", c_uint32),
        ("input_height", c_uint32),
        ("letterbox", c_uint32),
        ("reserved", c_uint32),
    ]


class Head(ctypes.Structure):
    """punctual_head"""

    _fields_ = [
        ("size", c_uint32),
        ("input_width", c_uint32),
        ("input_height", c_uint32),
        ("layout", c_uint32),
        ("activation", c_uint32),
        ("background", c_int32),
        ("form", c_uint32),
        ("threshold", c_float),
        ("several_classes", c_uint32),
        ("candidates", c_uint32),
        ("candidates_of", c_uint32),
        ("suppression", c_uint32),
        ("overlap", c_float),
        ("weights", c_float * 4),
        ("centre", c_float),
    ]


class Map(ctypes.Structure):
    """punctual_map"""

    _fields_ = [
        ("width", c_uint32),
        ("height", c_uint32),
        ("values", POINTER(c_double)),
        ("count", c_size_t),
        ("scale", c_double),
        ("step", c_double),
    ]


class MaskPlace(ctypes.Structure):
    """punctual_mask"""

    _fields_ = [("x", c_uint32), ("y", c_uint32), ("width", c_uint32), ("height", c_uint32)]


def _load() -> ctypes.CDLL:
    """The one that PUNCTUAL_LIBRARY names, the one in the wheel, or the system's."""
    beside = Path(__file__).with_name("libpunctual.so.0")
    named = os.environ.get("PUNCTUAL_LIBRARY")
    return ctypes.CDLL(named or (str(beside) if beside.exists() else "libpunctual.so.0"))


library = _load()

_client = c_void_p
#: Arrays of detections, key points or numbers: numpy's addresses.
_array = c_void_p
_tensor = POINTER(Tensor)
#: Where the detections go, for how many there is room, and how many there are.
_found: list[object] = [_array, c_size_t, POINTER(c_size_t)]
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "punctual_open": (c_int32, [POINTER(Options), c_uint64, POINTER(_client)]),
    "punctual_close": (None, [_client]),
    "punctual_get_terms": (c_int32, [_client, POINTER(Terms)]),
    "punctual_accept_terms": (c_int32, [_client]),
    "punctual_slot": (c_int32, [_client, c_uint64, POINTER(SlotView)]),
    "punctual_submit": (
        c_int32,
        [_client, POINTER(SlotView), POINTER(Request), POINTER(c_uint64)],
    ),
    "punctual_give_back": (c_int32, [_client, POINTER(SlotView)]),
    "punctual_keep": (c_int32, [_client, POINTER(SlotView), POINTER(c_void_p)]),
    "punctual_let_go": (None, [c_void_p]),
    "punctual_verdict": (c_int32, [_client, c_uint64, POINTER(Outcome)]),
    "punctual_try_verdict": (c_int32, [_client, POINTER(Outcome)]),
    "punctual_answer": (c_int32, [_client, c_uint64, POINTER(Outcome)]),
    "punctual_try_answer": (c_int32, [_client, POINTER(Outcome)]),
    "punctual_latest": (c_int32, [_client, POINTER(Outcome)]),
    "punctual_set_vector": (
        c_int32,
        [_client, POINTER(SlotView), c_char_p, POINTER(c_float), c_size_t],
    ),
    "punctual_set_task": (c_int32, [_client, POINTER(SlotView), c_char_p]),
    "punctual_task_count": (c_uint32, [_client]),
    "punctual_task_name": (c_int32, [_client, c_uint32, c_char_p, c_size_t]),
    "punctual_take_outputs": (c_int32, [_client, POINTER(Outcome), POINTER(c_void_p)]),
    "punctual_output_count": (c_uint32, [c_void_p]),
    "punctual_output_at": (c_int32, [c_void_p, c_uint32, POINTER(Tensor)]),
    "punctual_release_outputs": (None, [c_void_p]),
    "punctual_class_name_of": (c_int32, [_client, c_uint32, c_uint32, c_char_p, c_size_t]),
    "punctual_fd": (c_int32, [_client, POINTER(c_int)]),
    "punctual_unanswered": (c_uint64, [_client]),
    "punctual_connections": (c_uint64, [_client]),
    "punctual_is_connected": (c_int, [_client]),
    "punctual_last_error": (c_char_p, []),
    "punctual_get_view": (c_int32, [_client, POINTER(Outcome), POINTER(FrameView)]),
    "punctual_view_detections": (c_int32, [POINTER(FrameView), _array, c_size_t]),
    "punctual_view_key_points": (c_int32, [POINTER(FrameView), _array, c_size_t]),
    "punctual_decode_rows": (c_int32, [_tensor, _tensor, c_float, *_found]),
    "punctual_decode_boxes": (c_int32, [POINTER(Head), _tensor, _tensor, *_found]),
    "punctual_anchors_ssd": (
        c_int32,
        [POINTER(Head), POINTER(Map), c_size_t, c_double, c_int, POINTER(c_void_p)],
    ),
    "punctual_anchors_grid": (
        c_int32,
        [POINTER(Head), POINTER(Map), c_size_t, _array, c_size_t, POINTER(c_void_p)],
    ),
    "punctual_anchors_of": (c_int32, [_array, c_size_t, _array, c_size_t, POINTER(c_void_p)]),
    "punctual_anchor_count": (c_size_t, [c_void_p]),
    "punctual_anchor_rects": (c_int32, [c_void_p, _array, c_size_t]),
    "punctual_release_anchors": (None, [c_void_p]),
    "punctual_decode_anchors": (c_int32, [POINTER(Head), c_void_p, _tensor, _tensor, *_found]),
    "punctual_decode_distances": (
        c_int32,
        [POINTER(Head), _array, c_size_t, _tensor, _tensor, _tensor, c_size_t, *_found],
    ),
    "punctual_decode_set": (c_int32, [POINTER(Head), _tensor, _tensor, *_found]),
    "punctual_decode_peaks": (c_int32, [POINTER(Head), c_float, _tensor, _tensor, _tensor, *_found]),
    "punctual_decode_key_points": (c_int32, [POINTER(Head), c_uint32, _tensor, *_found]),
    "punctual_decode_mask": (
        c_int32,
        [POINTER(Head), POINTER(FrameView), _tensor, _tensor, _array, POINTER(MaskPlace), _array, c_size_t],
    ),
}
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(library, _name)
    _function.restype = _result
    _function.argtypes = _arguments


def fail(status: int) -> NoReturn:
    """Raises what `status` means, with the library's words."""
    words: bytes = library.punctual_last_error()
    raise BY_STATUS.get(status, PunctualError)(words.decode(errors="replace"))


def check(status: int) -> bool:
    """Whether there was something; raises errors."""
    if status < 0:
        fail(status)
    return status == OK


__all__ = [
    "FOREVER",
    "FrameView",
    "Head",
    "Map",
    "MaskPlace",
    "NO_RECONNECT",
    "Options",
    "Outcome",
    "Request",
    "SlotView",
    "Tensor",
    "Terms",
    "byref",
    "check",
    "library",
]
