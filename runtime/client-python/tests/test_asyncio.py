"""A client of an event loop."""

from __future__ import annotations

import asyncio

import punctual
import pytest
from conftest import Daemon
from punctual import AsyncClient, Failure, Result, Verdict

SOON = 20.0


def test_slots_and_results_are_awaited(daemon: Daemon) -> None:
    async def feed() -> list[Result]:
        async with AsyncClient(daemon.socket, "any") as client:
            replies = []
            for value in range(100):
                slot = await client.slot()
                slot.pixels[:] = value
                replies.append(slot.submit())
            return await asyncio.gather(*replies)

    results = asyncio.run(asyncio.wait_for(feed(), SOON))
    assert [result.sequence for result in results] == list(range(1, 101))
    classes = [result.answer.class_index for result in results if result.answer]
    assert classes == list(range(100))


def test_several_streams_share_a_loop(daemon: Daemon) -> None:
    async def stream(count: int) -> int:
        async with AsyncClient(daemon.socket, "any") as client:
            for _ in range(count):
                result = await (await client.slot()).submit()
                assert result.verdict is Verdict.ON_TIME
            return count

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(stream(50) for _ in range(4)))

    assert asyncio.run(asyncio.wait_for(all_of_them(), SOON)) == [50] * 4


def test_a_stream_outlives_its_daemon(daemon: Daemon) -> None:
    async def feed() -> None:
        async with AsyncClient(daemon.socket, "any") as client:
            assert (await (await client.slot()).submit()).verdict is Verdict.ON_TIME
            held = await client.slot()
            await asyncio.to_thread(daemon.kill)
            failed = await held.submit()
            assert failed.reason is Failure.DAEMON_GONE
            await asyncio.to_thread(daemon.start)
            assert (await (await client.slot()).submit()).verdict is Verdict.ON_TIME
            assert client.connections == 2

    asyncio.run(asyncio.wait_for(feed(), SOON))


def test_replies_end_with_the_client(daemon: Daemon) -> None:
    async def close() -> None:
        async with AsyncClient(daemon.socket, "any", reconnect=False) as client:
            await asyncio.to_thread(daemon.kill)
            with pytest.raises(punctual.DisconnectedError):
                while True:
                    await (await client.slot()).submit()

    asyncio.run(asyncio.wait_for(close(), SOON))
