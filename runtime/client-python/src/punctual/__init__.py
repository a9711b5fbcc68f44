"""Client library of Punctual: frames with deadlines in, verdicts out, on time.

`Client` for one thread, `AsyncClient` for asyncio. Each submission gets exactly one `Result`. `decode` makes boxes, key points and
masks of what detectors give.
"""

from time import monotonic_ns as now_ns

from . import decode
from ._asyncio import AsyncClient, AsyncSlot
from ._client import Client, Slot
from ._errors import (
    ConnectError,
    CropError,
    DecodeError,
    DisconnectedError,
    PunctualError,
    RefusedError,
    SlotError,
    SlotsHeldError,
    TaskError,
    TermsChangedError,
    UnreadError,
    VectorError,
)
from ._records import (
    Answer,
    Failure,
    Format,
    Layout,
    Quantisation,
    Rejection,
    Result,
    Terms,
    Verdict,
)
from .decode import View

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncSlot",
    "Client",
    "ConnectError",
    "CropError",
    "DecodeError",
    "DisconnectedError",
    "Failure",
    "Format",
    "Layout",
    "PunctualError",
    "Quantisation",
    "RefusedError",
    "Rejection",
    "Result",
    "Slot",
    "SlotError",
    "SlotsHeldError",
    "TaskError",
    "Terms",
    "TermsChangedError",
    "UnreadError",
    "VectorError",
    "Verdict",
    "View",
    "decode",
    "now_ns",
]
