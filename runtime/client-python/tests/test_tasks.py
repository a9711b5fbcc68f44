"""Several tasks of one connection. The daemon answers with the number of the task that a frame named as the exit; class 0 of
task `any` is a car, that of `signs` a stop sign."""

from __future__ import annotations

import asyncio

import punctual
import pytest
from conftest import Daemon
from punctual import AsyncClient, Client, Result

SOON = 20.0


@pytest.fixture
def two_tasks(daemon: Daemon) -> Daemon:
    daemon.kill()
    daemon.start("64", "48", "two-tasks")
    return daemon


def said(result: Result | None) -> tuple[int, int, str | None]:
    assert result is not None and result.answer is not None
    return result.task, result.answer.exit, result.answer.class_name


def ask(client: Client, task: str | None) -> Result | None:
    with client.slot(SOON) as slot:
        slot.pixels[:] = 0
        if task is not None:
            slot.set_task(task)
        slot.submit()
    return client.verdict(SOON)


def test_each_frame_is_for_the_task_that_it_names(two_tasks: Daemon) -> None:
    with Client(two_tasks.socket, "any") as client:
        assert client.tasks == ("any", "signs")
        for _ in range(30):
            assert said(ask(client, None)) == (0, 0, "car")
            assert said(ask(client, "signs")) == (2, 2, "stop")
            assert said(ask(client, "any")) == (1, 1, "car")
        assert [client.class_name(0, task) for task in (0, 2, 3)] == ["car", "stop", None]


def test_a_task_that_is_none_is_an_exception_and_the_slot_stays(two_tasks: Daemon) -> None:
    with Client(two_tasks.socket, "any") as client, client.slot(SOON) as slot:
        with pytest.raises(punctual.TaskError, match="trams"):
            slot.set_task("trams")
        slot.set_task("signs")
        slot.pixels[:] = 0
        slot.submit()
        with pytest.raises(punctual.SlotError):
            slot.set_task("signs")
        assert said(client.verdict(SOON)) == (2, 2, "stop")


def test_a_connection_of_one_task_has_no_others(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        assert client.tasks == ()
        with pytest.raises(punctual.TaskError), client.slot(SOON) as slot:
            slot.set_task("any")


def test_coroutines_name_tasks_too(two_tasks: Daemon) -> None:
    async def both() -> list[tuple[int, int, str | None]]:
        async with AsyncClient(two_tasks.socket, "any") as client:
            assert client.tasks == ("any", "signs")
            found = []
            for task in client.tasks:
                slot = await client.slot()
                slot.pixels[:] = 0
                slot.set_task(task)
                found.append(said(await slot.submit()))
            return found

    assert asyncio.run(both()) == [(1, 1, "car"), (2, 2, "stop")]
