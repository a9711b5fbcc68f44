"""The tensors of an answer as numpy arrays that lie in shared memory."""

from __future__ import annotations

import weakref
from ctypes import c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._library import Outcome, Tensor, byref, check, library
from ._records import Quantisation

#: By the element's number: numpy's own words for it, in the machine's order of bytes.
_TYPES = ["=f4", "=i4", "|b1", "|u1", "|i1"]
#: Elements that have a scale.
_QUANTISED = (3, 4)


class _Outputs:
    """Releases the memory of an answer once nobody refers to it."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        weakref.finalize(self, library.punctual_release_outputs, handle)


class _Memory:
    """What numpy holds on to: one tensor, and with it the memory of the answer."""

    def __init__(self, outputs: _Outputs, tensor: Tensor) -> None:
        self._outputs = outputs
        self.__array_interface__: dict[str, Any] = {
            "shape": tuple(tensor.shape[: tensor.rank]),
            "typestr": _TYPES[tensor.element],
            "data": (tensor.data, True),
            "version": 3,
        }


def take(
    client: c_void_p, outcome: Outcome
) -> tuple[dict[str, NDArray[Any]], dict[str, Quantisation]]:
    """The arrays of the result that was read last, and what their bytes stand for."""
    arrays: dict[str, NDArray[Any]] = {}
    quantisation: dict[str, Quantisation] = {}
    handle = c_void_p()
    if not check(library.punctual_take_outputs(client, byref(outcome), byref(handle))):
        return arrays, quantisation
    outputs = _Outputs(handle)
    for position in range(library.punctual_output_count(handle)):
        tensor = Tensor()
        check(library.punctual_output_at(handle, position, byref(tensor)))
        name = tensor.name.decode(errors="replace")
        arrays[name] = np.asarray(_Memory(outputs, tensor))
        if tensor.element in _QUANTISED:
            quantisation[name] = Quantisation(tensor.scale, tensor.zero)
    return arrays, quantisation
