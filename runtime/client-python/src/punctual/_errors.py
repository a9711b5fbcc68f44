"""Exceptions, one for each error of libpunctual."""


class PunctualError(Exception):
    """An error of the library or the daemon, with its message."""


class ConnectError(PunctualError):
    """No daemon admitted the client in time."""


class RefusedError(PunctualError):
    """The daemon refused the connection, for a reason that another attempt does not change."""


class DisconnectedError(PunctualError):
    """The daemon is gone, and the client does not reconnect; or the client was closed."""


class TermsChangedError(PunctualError):
    """The present daemon expects another frame format: prepare for it, then call `accept_terms`."""


class CropError(PunctualError, ValueError):
    """The crop reaches beyond the frame."""


class UnreadError(PunctualError):
    """Too many unread results: read some before the next submission."""


class SlotError(PunctualError):
    """The slot was submitted or released before."""


class SlotsHeldError(SlotError, TimeoutError):
    """The program holds all slots and asks for one more: none can come free."""


class VectorError(PunctualError, ValueError):
    """A vector of the task was not given, or its name, its length or a number is wrong."""


class TaskError(PunctualError, ValueError):
    """The connection has no task of this name."""


class DecodeError(PunctualError, ValueError):
    """A tensor or a size does not go with the head."""


#: By `punctual_status`. Any other status is a `PunctualError`.
BY_STATUS: dict[int, type[PunctualError]] = {
    -2: ConnectError,
    -3: RefusedError,
    -4: DisconnectedError,
    -5: TermsChangedError,
    -6: CropError,
    -7: UnreadError,
    -8: SlotError,
    -11: VectorError,
    -12: DecodeError,
    -13: TaskError,
}
