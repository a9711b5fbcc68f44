"""Answers before verdicts. The daemon answers each frame by two exits: the second's answer to a frame whose pixels are even comes
before the next frame's."""

from __future__ import annotations

import asyncio
import select

import pytest
from conftest import Daemon
from punctual import AsyncClient, Client, DisconnectedError, Failure, Result

SOON = 20.0


@pytest.fixture
def each_exit(daemon: Daemon) -> Daemon:
    daemon.kill()
    daemon.start("64", "48", "each-exit")
    return daemon


def submit(client: Client, value: int) -> int:
    with client.slot(SOON) as slot:
        slot.pixels[:] = value
        return slot.submit(speed=(0.5, 1.5))


def place(result: Result | None) -> tuple[int, int, bool]:
    """Which frame's, by which exit, and whether it is the verdict; its outputs are those."""
    assert result is not None and result.answer is not None, result
    assert result.answer.outputs["boxes"][0, 3] == result.answer.exit
    return (result.sequence, result.answer.exit, result.is_final)


def test_answers_come_before_their_verdicts_and_stay_side_by_side(each_exit: Daemon) -> None:
    with Client(each_exit.socket, "any") as client:
        for first in range(1, 60, 2):
            assert submit(client, 4) == first
            early = client.answer(SOON)
            assert place(early) == (first, 0, False)
            assert client.answer(0) is None and client.try_answer() is None
            assert client.try_verdict() is None and client.unanswered == 1
            submit(client, 5)
            deep = client.answer(SOON)
            assert place(deep) == (first, 1, True) and place(early) == (first, 0, False)
            *_, last = client.answers(SOON)
            assert place(last) == (first + 1, 1, True)
            assert client.unanswered == 0


def test_the_newest_answer_is_there_at_any_time(each_exit: Daemon) -> None:
    with Client(each_exit.socket, "any") as client:
        assert client.latest() is None
        submit(client, 4)
        client.answer(SOON)
        kept = [client.latest() for _ in range(5)]
        assert [place(result) for result in kept] == [(1, 0, False)] * 5
        submit(client, 4)
        while place(client.latest()) != (2, 0, False):
            assert client.unanswered == 2
        # The verdict of the frame before is unread, and older.
        assert place(client.verdict(SOON)) == (1, 1, True)
        assert place(client.latest()) == (2, 0, False)
        assert [place(result) for result in kept] == [(1, 0, False)] * 5


def test_an_answer_does_not_save_its_frame_from_the_daemons_end(each_exit: Daemon) -> None:
    with Client(each_exit.socket, "any") as client:
        submit(client, 4)
        assert place(client.answer(SOON)) == (1, 0, False)
        each_exit.kill()
        failed = client.answer(SOON)
        assert failed is not None and failed.is_final and failed.reason is Failure.DAEMON_GONE
        assert client.latest() is None


def test_an_event_loop_hears_of_answers(each_exit: Daemon) -> None:
    with Client(each_exit.socket, "any") as client:
        client.fileno()
        submit(client, 4)
        while (result := client.try_answer()) is None:
            assert select.select([client], [], [], SOON)[0]
        assert place(result) == (1, 0, False)


def test_a_loop_iterates_over_answers_while_results_are_awaited(each_exit: Daemon) -> None:
    async def feed() -> None:
        async with AsyncClient(each_exit.socket, "any") as client:
            answers = client.answers()
            replies = []
            for first in (1, 3):
                slot = await client.slot()
                slot.pixels[:] = 4
                replies.append(slot.submit(speed=(0.5, 1.5)))
                assert place(await anext(answers)) == (first, 0, False)
                assert place(client.latest()) == (first, 0, False)
                slot = await client.slot()
                slot.pixels[:] = 5
                replies.append(slot.submit(speed=(0.5, 1.5)))
                heard: list[tuple[int, int, bool]] = []
                while len(heard) < 2:
                    result = await anext(answers)
                    heard += [place(result)] if result.is_final else []
                assert heard == [(first, 1, True), (first + 1, 1, True)]
                assert client.latest() is None
            results = await asyncio.gather(*replies)
            assert [place(result) for result in results] == [(n, 1, True) for n in range(1, 5)]
            waiting = asyncio.ensure_future(anext(answers))
            await asyncio.sleep(0)
        with pytest.raises(DisconnectedError):
            await waiting

    asyncio.run(asyncio.wait_for(feed(), SOON))
