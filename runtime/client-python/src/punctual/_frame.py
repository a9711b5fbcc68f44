"""Slots as numpy arrays that lie in shared memory."""

from __future__ import annotations

import weakref
from ctypes import c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._library import SlotView, byref, check, library
from ._records import Format, Terms

#: Bytes of a pixel of the first plane.
_PIXEL_BYTES = {Format.RGB8: 3, Format.BGR8: 3, Format.NV12: 1, Format.GRAY8: 1, Format.YUYV: 2}


class _Memory:
    """What numpy holds on to: the memory stays mapped as long as any array shows it, even when the
    client is closed or has another daemon."""

    def __init__(self, client: c_void_p, view: SlotView) -> None:
        memory = c_void_p()
        check(library.punctual_keep(client, byref(view), byref(memory)))
        weakref.finalize(self, library.punctual_let_go, memory)
        self.__array_interface__: dict[str, Any] = {
            "shape": (view.bytes,),
            "typestr": "|u1",
            "data": (view.pixels, False),
            "version": 3,
        }


def planes(client: c_void_p, view: SlotView, terms: Terms) -> tuple[NDArray[np.uint8], ...]:
    """The frame's planes: (height, width) or (height, width, bytes of a pixel), and for NV12 a second
    one of (height / 2, width / 2, 2)."""
    flat: NDArray[np.uint8] = np.asarray(_Memory(client, view))
    depth = _PIXEL_BYTES[terms.format]
    first = _plane(flat[terms.offset :], terms.height, terms.width, depth, terms.row_stride)
    if terms.format is not Format.NV12:
        return (first,)
    chroma = flat[terms.chroma_offset :]
    return (first, _plane(chroma, terms.height // 2, terms.width // 2, 2, terms.chroma_stride))


def _plane(
    flat: NDArray[np.uint8], height: int, width: int, depth: int, stride: int
) -> NDArray[np.uint8]:
    """Rows `stride` bytes apart; the last one may end where its pixels do."""
    last = (height - 1) * stride + width * depth
    if last > flat.size:
        raise ValueError(f"a plane of {last} bytes in {flat.size}")
    shape = (height, width) if depth == 1 else (height, width, depth)
    strides = (stride, 1) if depth == 1 else (stride, depth, 1)
    return np.lib.stride_tricks.as_strided(flat, shape=shape, strides=strides)
