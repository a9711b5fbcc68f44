"""Slots as numpy arrays that lie in shared memory."""

from __future__ import annotations

import weakref
from ctypes import c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._library import SlotView, byref, check, library
from ._records import Format, Terms

#: Samples of a pixel of the first plane.
_SAMPLES = {Format.RGB8: 3, Format.BGR8: 3, Format.YUYV: 2, Format.UYVY: 2, Format.RGBA8: 4}

#: What a sample is, if not a byte.
_SAMPLE: dict[Format, np.dtype[Any]] = {
    Format.GRAY16: np.dtype("<u2"),
    Format.TENSOR: np.dtype("<f4"),
}


class FrameArray(np.ndarray[Any, np.dtype[Any]]):
    """A plane of a frame. Takes floats only if it is of floats: numpy would cut those of 0 to 1 to bytes of 0."""

    def __setitem__(self, key: Any, value: Any) -> None:
        values = np.asarray(value)
        if values.dtype.kind in "fc" and self.dtype.kind in "iu":
            most = np.iinfo(self.dtype).max
            raise TypeError(
                f"{values.dtype} into a frame of {self.dtype}, which has values from 0 to {most}: convert it before, of values "
                f"from 0 to 1 by `(values * {most}).astype(np.{self.dtype})`"
            )
        super().__setitem__(key, values)

    def fill(self, value: Any) -> None:
        self[...] = value


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


def planes(client: c_void_p, view: SlotView, terms: Terms) -> tuple[NDArray[Any], ...]:
    """The frame's planes: (height, width) or (height, width, samples of a pixel), and for NV12 a second
    one of (height / 2, width / 2, 2). A tensor is one of (channels, rows, columns)."""
    flat: NDArray[np.uint8] = np.asarray(_Memory(client, view))
    sample = _SAMPLE.get(terms.format, np.dtype(np.uint8))
    samples = _SAMPLES.get(terms.format, 1)
    shape: tuple[int, ...] = (terms.height, terms.width, samples)
    strides: tuple[int, ...] = (terms.row_stride, samples * sample.itemsize, sample.itemsize)
    if terms.format is Format.TENSOR:
        rows = terms.crop_height
        shape = (terms.height // rows, rows, terms.width)
        strides = (rows * terms.row_stride, terms.row_stride, sample.itemsize)
    elif samples == 1:
        shape, strides = shape[:2], strides[:2]
    first = _plane(flat, terms.offset, sample, shape, strides)
    if terms.format is not Format.NV12:
        return (first,)
    half = (terms.height // 2, terms.width // 2, 2)
    return (first, _plane(flat, terms.chroma_offset, sample, half, (terms.chroma_stride, 2, 1)))


def _plane(
    flat: NDArray[np.uint8],
    offset: int,
    sample: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> NDArray[Any]:
    """Samples at these strides in bytes; an error if the slot has not all of them."""
    return FrameArray(shape, sample, buffer=flat.data, offset=offset, strides=strides)
