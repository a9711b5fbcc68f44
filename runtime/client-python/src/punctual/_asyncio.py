"""A stream of an asyncio program: no thread, the loop watches the client's descriptor."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._client import Client, Slot
from ._errors import DisconnectedError, PunctualError
from ._records import Format, Layout, Result, Terms


class AsyncClient:
    """As `Client`, for one event loop: `await` slots and results.

    `async with` connects, waiting for the daemon as `timeout` says (0: not at all).
    """

    def __init__(
        self,
        socket: str | os.PathLike[str],
        task: str,
        format: Format = Format.RGB8,
        *,
        timeout: float | None = 0,
        reconnect: bool = True,
        layout: Layout | None = None,
    ) -> None:
        self._connect = lambda: Client(
            socket, task, format, timeout=timeout, reconnect=reconnect, layout=layout
        )
        self._client: Client | None = None
        self._replies: dict[int, asyncio.Future[Result]] = {}
        #: Of each `answers` that runs.
        self._listeners: list[asyncio.Queue[Result | PunctualError]] = []
        self._news = asyncio.Event()
        self._lost: PunctualError | None = None
        self._connections = 0
        #: Slots that may still be submitted.
        self._held: weakref.WeakSet[AsyncSlot] = weakref.WeakSet()

    async def __aenter__(self) -> AsyncClient:
        # Connecting may wait for the daemon: not on the loop's thread.
        self._client = await asyncio.to_thread(self._connect)
        asyncio.get_running_loop().add_reader(self._client.fileno(), self._receive)
        self._receive()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        asyncio.get_running_loop().remove_reader(client.fileno())
        client.close()
        self._end(DisconnectedError("the client was closed"))

    @property
    def client(self) -> Client:
        """The client behind this one. Its results are this one's to read."""
        if self._client is None:
            raise DisconnectedError("not connected: use `async with`")
        return self._client

    @property
    def terms(self) -> Terms:
        """As `Client.terms`."""
        return self.client.terms

    @property
    def tasks(self) -> tuple[str, ...]:
        """As `Client.tasks`."""
        return self.client.tasks

    @property
    def connections(self) -> int:
        """As `Client.connections`."""
        return self.client.connections

    def accept_terms(self) -> None:
        """As `Client.accept_terms`."""
        self._lost = None
        self.client.accept_terms()

    def latest(self) -> Result | None:
        """As `Client.latest`, of frames whose results have not come yet."""
        return self.client.latest()

    async def answers(self) -> AsyncIterator[Result]:
        """Answers before verdicts, and verdicts, from now on, as they come (`is_final` tells); results still go to
        those who await them. Keeps what the loop's body does not keep up with."""
        heard: asyncio.Queue[Result | PunctualError] = asyncio.Queue()
        self._listeners.append(heard)
        # What the descriptor was readable for before that.
        self._receive()
        try:
            while True:
                result = await heard.get()
                if isinstance(result, PunctualError):
                    raise result
                yield result
        finally:
            self._listeners.remove(heard)

    async def slot(self) -> AsyncSlot:
        """A slot for the next frame, when there is one."""
        while True:
            slot = self._slot_now()
            if slot is not None:
                return slot
            self._news.clear()
            self._receive()
            if self._lost is not None:
                raise self._lost
            # Set already if something came in between.
            await self._news.wait()

    def _slot_now(self) -> AsyncSlot | None:
        """A slot, if there is one, and room for one more result than may be under way."""
        if self.client.unanswered + len(self._held) >= self.client.terms.results:
            return None
        try:
            slot = AsyncSlot(self, self.client.slot(0))
        except TimeoutError:
            return None
        self._held.add(slot)
        return slot

    def _receive(self) -> None:
        """Hands out what has come; leaves the descriptor silent until there is more."""
        client = self._client
        if client is None:
            return
        try:
            # Answers before verdicts are asked for only where somebody listens: their outputs take memory.
            take = client.try_answer if self._listeners else client.try_verdict
            while (result := take()) is not None:
                for heard in self._listeners:
                    heard.put_nowait(result)
                if not result.is_final:
                    continue
                self._news.set()
                reply = self._replies.pop(result.sequence, None)
                if reply is not None and not reply.done():
                    reply.set_result(result)
            # A new connection has slots although nothing was answered.
            if client.connections != self._connections:
                self._connections = client.connections
                self._news.set()
        except PunctualError as lost:
            self._lost = lost
            self._end(lost)

    def _end(self, lost: PunctualError) -> None:
        self._news.set()
        for heard in self._listeners:
            heard.put_nowait(lost)
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            if not reply.done():
                reply.set_exception(lost)


class AsyncSlot:
    """As `Slot`; submitting it gives a future."""

    def __init__(self, stream: AsyncClient, slot: Slot) -> None:
        self._stream = stream
        self._slot = slot

    @property
    def index(self) -> int:
        """As `Slot.index`."""
        return self._slot.index

    @property
    def planes(self) -> tuple[NDArray[Any], ...]:
        """As `Slot.planes`."""
        return self._slot.planes

    @property
    def pixels(self) -> NDArray[Any]:
        """As `Slot.pixels`."""
        return self._slot.pixels

    def set_task(self, name: str) -> None:
        """As `Slot.set_task`."""
        self._slot.set_task(name)

    def submit(
        self,
        captured_ns: int | None = None,
        deadline_ns: int | None = None,
        crop: tuple[int, int] = (0, 0),
        **vectors: ArrayLike,
    ) -> asyncio.Future[Result]:
        """As `Slot.submit`; await what it returns for the result, or do not if it is of no interest."""
        self._stream._held.discard(self)
        sequence = self._slot.submit(captured_ns, deadline_ns, crop, **vectors)
        reply: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._stream._replies[sequence] = reply
        return reply

    def give_back(self) -> None:
        """As `Slot.give_back`."""
        self._stream._held.discard(self)
        self._slot.give_back()
