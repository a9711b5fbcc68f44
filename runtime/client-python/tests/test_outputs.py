"""Tensors and vectors. The daemon gives `boxes`: the first pixel, then the two numbers of `speed`."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import punctual
import pytest
from conftest import Daemon
from punctual import Answer, AsyncClient, Client, Rejection, Result

SOON = 20.0
#: As many as the daemon has for a client.
AREAS = 4


@pytest.fixture
def giving(daemon: Daemon) -> Daemon:
    daemon.kill()
    daemon.start("64", "48", "outputs")
    return daemon


@pytest.fixture
def detecting(daemon: Daemon) -> Daemon:
    daemon.kill()
    daemon.start("64", "48", "detections")
    return daemon


def ask(client: Client, value: int, speed: object = (1.5, -0.5)) -> Result:
    with client.slot(SOON) as slot:
        slot.pixels[:] = value
        slot.submit(speed=speed)  # type: ignore[arg-type]
    result = client.verdict(SOON)
    assert result is not None
    return result


def answer(client: Client, value: int) -> Answer:
    result = ask(client, value)
    assert result.answer is not None, result
    return result.answer


def test_outputs_are_read_only_arrays_in_shared_memory(giving: Daemon) -> None:
    with Client(giving.socket, "any") as client:
        for value in range(100):
            said = answer(client, value)
            boxes = said.outputs["boxes"]
            assert boxes.shape == (2, 4) and boxes.dtype == np.float32
            assert boxes.ctypes.data % 64 == 0 and boxes.base is not None
            assert boxes[0].tolist() == [value, 1.5, -0.5, 0.0]
            assert said.is_finite and said.quantisation == {}
            with pytest.raises(ValueError):
                boxes[0, 0] = 1
            with pytest.raises(ValueError):
                boxes.flags.writeable = True


def test_classes_have_names(giving: Daemon) -> None:
    with Client(giving.socket, "any") as client:
        assert [answer(client, value).class_name for value in (0, 1, 2)] == ["car", "tram", None]
        assert client.class_name(1) == "tram"


def test_memory_comes_back_when_the_last_array_is_gone(giving: Daemon) -> None:
    with Client(giving.socket, "any") as client:
        views = [answer(client, value).outputs["boxes"][0, :1] for value in range(AREAS)]
        gc.collect()
        assert [float(view[0]) for view in views] == [0.0, 1.0, 2.0, 3.0]
        assert ask(client, 9).reason is Rejection.NO_AREA
        views.pop()
        gc.collect()
        assert answer(client, 9).outputs["boxes"][0, 0] == 9


def test_arrays_outlive_their_client_and_its_daemon(giving: Daemon) -> None:
    client = Client(giving.socket, "any")
    boxes = answer(client, 7).outputs["boxes"]
    client.close()
    giving.kill()
    del client
    gc.collect()
    assert float(boxes[0, 0]) == 7


def test_vectors_that_are_wrong_are_refused_before_the_frame_is_submitted(giving: Daemon) -> None:
    with Client(giving.socket, "any") as client:
        for wrong in ([1.0], [1.0, 2.0, 3.0], [1.0, float("nan")], [[1.0, 2.0]]):
            with pytest.raises(punctual.VectorError):
                ask(client, 0, wrong)
        with pytest.raises(punctual.VectorError, match="speed"):
            client.slot(SOON).submit(sped=[1.0, 2.0])
        with pytest.raises(punctual.VectorError):
            client.slot(SOON).submit()
        assert client.unanswered == 0
        assert ask(client, 0, np.array([1, 2])).answer is not None


def test_a_loop_gets_outputs_too(giving: Daemon) -> None:
    async def feed() -> list[float]:
        async with AsyncClient(giving.socket, "any") as client:
            first = []
            for value in range(30):
                slot = await client.slot()
                slot.pixels[:] = value
                result = await slot.submit(speed=[0.0, 1.0])
                assert result.answer is not None
                first.append(float(result.answer.outputs["boxes"][0, 0]))
            return first

    assert asyncio.run(asyncio.wait_for(feed(), SOON)) == list(range(30))


def run(example: str, daemon: Daemon) -> str:
    program = Path(__file__).parent.parent / "examples" / example
    command = [sys.executable, str(program), str(daemon.socket), "any"]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=True).stdout


def test_the_detector_prints_its_boxes(detecting: Daemon) -> None:
    said = run("detector.py", detecting)
    assert "frame 2: car 0.75: 16.0 8.0 32.0 24.0\nframe 2: tram 0.50: 24.0 16.0 48.0 40.0\n" in said
    assert (said.count("car"), said.count("tram")) == (30, 15)


def test_an_answer_says_what_the_network_saw(detecting: Daemon) -> None:
    with Client(detecting.socket, "any") as client:
        with client.slot(SOON) as slot:
            slot.pixels[:] = 1
            slot.submit(crop=(16, 8))
        result = client.verdict(SOON)
        assert result is not None and result.answer is not None
        assert result.answer.view == punctual.View((16, 8, 32, 32), (80, 64), True)


def test_a_daemon_that_says_nothing_of_its_input_gives_no_view(giving: Daemon) -> None:
    with Client(giving.socket, "any") as client:
        assert answer(client, 0).view is None


def test_vectors_go_with_frames_and_tensors_come_back(giving: Daemon) -> None:
    said = run("vectors.py", giving)
    assert "frame 3: car, boxes: 0 1.5 1 0 | 0 0 0 0" in said
    assert said.count("tram, boxes") == 15
    assert said.count("newest: frame 3, exit 0\n") == 1
