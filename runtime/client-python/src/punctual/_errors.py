"""Exceptions, one for each error of libpunctual's."""


class PunctualError(Exception):
    """What went wrong, in the words of the library or the daemon."""


class ConnectError(PunctualError):
    """No daemon let the client in in time."""


class RefusedError(PunctualError):
    """The daemon refuses, and asking again would not help."""


class DisconnectedError(PunctualError):
    """The daemon is gone, and the client does not reconnect; or the client was closed."""


class TermsChangedError(PunctualError):
    """The daemon that is there now wants other frames: prepare for them, then `accept_terms`."""


class CropError(PunctualError, ValueError):
    """The crop leaves the frame."""


class UnreadError(PunctualError):
    """Results are to be read before more frames can be submitted."""


class SlotError(PunctualError):
    """The slot was submitted or given back before."""


#: By `punctual_status`. What is not in here is a `PunctualError`.
BY_STATUS: dict[int, type[PunctualError]] = {
    -2: ConnectError,
    -3: RefusedError,
    -4: DisconnectedError,
    -5: TermsChangedError,
    -6: CropError,
    -7: UnreadError,
    -8: SlotError,
}
