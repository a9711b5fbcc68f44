"""One thread's client. The daemon answers each frame with its first pixel as the class."""

from __future__ import annotations

import gc
import select
import threading

import numpy as np
import punctual
import pytest
from conftest import Daemon
from punctual import Client, Failure, Format, Layout, Result, Verdict

SOON = 20.0


def frame(client: Client, value: int) -> Result:
    with client.slot(SOON) as slot:
        slot.pixels[:] = value
        sequence = slot.submit(captured_ns=5, deadline_ns=7)
    result = client.verdict(SOON)
    assert result is not None and result.sequence == sequence
    return result


def test_frames_are_answered_as_what_they_were(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        for value in range(1, 300):
            result = frame(client, value % 256)
            assert result.verdict is Verdict.ON_TIME and result.reason is None
            assert (result.captured_ns, result.deadline_ns) == (5, 7)
            assert result.answer is not None
            assert result.answer.class_index == value % 256
            assert result.answer.confidence == 1.0
        assert client.unanswered == 0


def test_arrays_have_the_shape_of_the_frame_and_share_the_slot(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        terms = client.terms
        assert (terms.format, terms.width, terms.height) == (Format.RGB8, 64, 48)
        with client.slot(SOON) as slot:
            assert slot.pixels.shape == (48, 64, 3) and slot.pixels.dtype == np.uint8
            assert slot.pixels.base is not None, "a view, not a copy"
            slot.pixels[:] = 0
            slot.pixels[0, 0, 0] = 201
            address = slot.pixels.ctypes.data
            assert slot.pixels.ctypes.data == address
        again = client.slot(SOON)
        assert again.pixels.ctypes.data == address and again.pixels[0, 0, 0] == 201


def test_gray16_is_an_array_of_two_bytes_each(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start("64", "48", "gray16")
    with Client(daemon.socket, "any", Format.GRAY16) as client:
        with client.slot(SOON) as slot:
            assert slot.pixels.shape == (48, 64) and slot.pixels.dtype == np.uint16
            slot.pixels[:] = 0x1234
            slot.submit()
        result = client.verdict(SOON)
        assert result is not None and result.answer is not None
        assert result.answer.class_index == 0x34, "the low byte is the first"


def test_uyvy_is_an_array_of_two_bytes_a_pixel_the_luma_second(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start("64", "48", "uyvy")
    with Client(daemon.socket, "any", Format.UYVY) as client:
        with client.slot(SOON) as slot:
            assert slot.pixels.shape == (48, 64, 2) and slot.pixels.dtype == np.uint8
            slot.pixels[:] = (128, 99)
            slot.submit()
        result = client.verdict(SOON)
        assert result is not None and result.answer is not None
        assert result.answer.class_index == 128, "the first byte is chroma"


def test_a_tensor_is_an_array_of_channels_rows_and_columns(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start("64", "48", "tensor")
    with Client(daemon.socket, "any", Format.TENSOR) as client:
        with client.slot(SOON) as slot:
            tensor = slot.pixels
            assert tensor.shape == (3, 16, 64) and tensor.dtype == np.float32
            assert tensor.flags.c_contiguous
            tensor[:] = np.arange(3 * 16 * 64, dtype=np.float32).reshape(3, 16, 64)
            # The daemon answers with its first byte.
            tensor[0, 0, 0] = np.frombuffer(b"\x07\x00\x80\x67", np.float32)[0]
            slot.submit()
        result = client.verdict(SOON)
        assert result is not None and result.answer is not None
        assert result.answer.class_index == 7


def test_nv12_has_two_planes(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start("64", "48", "nv12")
    with Client(daemon.socket, "any", Format.NV12) as client:
        luma, chroma = client.slot(SOON).planes
        assert luma.shape == (48, 64) and chroma.shape == (24, 32, 2)
        assert chroma.ctypes.data - luma.ctypes.data == client.terms.chroma_offset


def test_a_submitted_slot_cannot_be_written_through_its_array(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        slot = client.slot(SOON)
        pixels = slot.pixels
        slot.submit()
        with pytest.raises(ValueError, match="read-only"):
            pixels[0, 0, 0] = 1
        for use in (lambda: slot.pixels, slot.submit, slot.give_back):
            with pytest.raises(punctual.SlotError):
                use()


def test_an_array_outlives_its_client_and_its_daemon(daemon: Daemon) -> None:
    client = Client(daemon.socket, "any")
    slot = client.slot(SOON)
    pixels = slot.pixels
    pixels[:] = 9
    client.close()
    daemon.kill()
    del client, slot
    gc.collect()
    assert int(pixels.sum()) == 9 * pixels.size


def test_a_client_outlives_a_daemon_that_is_killed(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        frame(client, 1)
        slot = client.slot(SOON)
        daemon.kill()
        slot.submit()
        failed = client.verdict(SOON)
        assert failed is not None and failed.reason is Failure.DAEMON_GONE
        assert failed.deadline_ns is None
        with pytest.raises(TimeoutError):
            client.slot(0.01)
        daemon.start()
        assert frame(client, 3).verdict is Verdict.ON_TIME
        assert client.connections == 2


def test_other_frames_after_an_upgrade_are_an_exception(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        frame(client, 1)
        daemon.kill()
        assert client.verdict(0) is None
        daemon.start("128", "96")
        with pytest.raises(punctual.TermsChangedError, match="128 x 96"):
            client.slot(SOON)
        client.accept_terms()
        assert client.slot(SOON).pixels.shape == (96, 128, 3)


def test_errors_are_exceptions_with_the_librarys_words(daemon: Daemon) -> None:
    with pytest.raises(punctual.ConnectError, match="punctuald"):
        Client("/nobody/listens/here", "any")
    with Client(daemon.socket, "any") as client:
        with pytest.raises(punctual.CropError, match=r"at most \(32, 16\)"):
            client.slot(SOON).submit(crop=(33, 0))
        for _ in range(8):
            client.slot(SOON).submit()
        with pytest.raises(punctual.UnreadError):
            client.slot(SOON).submit()
        assert len(list(client)) == 8
    with pytest.raises(punctual.DisconnectedError):
        client.slot(0)
    client.close()


def test_a_client_that_does_not_reconnect_says_that_it_is_lost(daemon: Daemon) -> None:
    with Client(daemon.socket, "any", reconnect=False) as client:
        daemon.kill()
        with pytest.raises(punctual.DisconnectedError):
            client.verdict(SOON)


def test_a_layout_that_the_daemon_does_not_grant_is_refused(daemon: Daemon) -> None:
    # This daemon gives everybody the same terms, whatever they ask for.
    with pytest.raises(punctual.PunctualError):
        Client(daemon.socket, "any", layout=Layout(row_stride=256), timeout=0)


def test_an_event_loop_can_wait_on_the_client(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        assert client.try_verdict() is None
        fd = client.fileno()
        client.slot(SOON).submit()
        while (result := client.try_verdict()) is None:
            assert select.select([client], [], [], SOON)[0]
        assert result.verdict is Verdict.ON_TIME and client.fileno() == fd


def test_slots_that_are_forgotten_come_back(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        for _ in range(20):
            client.slot(SOON)


def test_one_slot_more_than_there_are_is_an_exception_that_says_why(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        held = [client.slot(SOON) for _ in range(client.terms.slots)]
        with pytest.raises(punctual.SlotsHeldError, match=r"holds all 4 slots.*\[0, 1, 2, 3\]"):
            client.slot()
        with pytest.raises(TimeoutError):
            client.slot(0)
        held.pop().give_back()
        held.append(client.slot())
        held.pop().submit()
        held.append(client.slot())
        assert client.verdict(SOON) is not None
        # Those of a daemon that is gone hold none of the next one's.
        daemon.kill()
        with pytest.raises(TimeoutError, match="no daemon"):
            client.slot(0.01)
        daemon.start()
        assert frame(client, 7).verdict is Verdict.ON_TIME


def test_floats_are_not_cut_to_bytes_without_a_word(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client, client.slot(SOON) as slot:
        slot.pixels[:] = 9
        half = np.full(slot.pixels.shape, 0.5)
        for assign in (
            lambda: slot.pixels.__setitem__(slice(None), half),
            lambda: slot.pixels[0].__setitem__(0, [0.5, 0.5, 0.5]),
            lambda: slot.pixels.fill(0.5),
            lambda: slot.planes[0].__setitem__(..., np.float16(0.5)),
        ):
            with pytest.raises(TypeError, match=r"uint8.*0 to 255.*astype"):
                assign()
        assert np.all(slot.pixels == 9)
        slot.pixels[:] = (half * 255).astype(np.uint8)
        slot.pixels[0] = [[1, 2, 3]]
        assert slot.pixels[1, 0, 0] == 127 and list(slot.pixels[0, 5]) == [1, 2, 3]
        floats = slot.pixels.astype(np.float32)
        floats[:] = 0.5
        assert floats[0, 0, 0] == 0.5, "a copy in floats takes floats"


def test_times_and_places_that_are_none_are_refused_and_the_slot_stays(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        slot = client.slot(SOON)
        with pytest.raises(ValueError, match="captured_ns is -5"):
            slot.submit(-5)
        with pytest.raises(ValueError, match="deadline_ns is 18446744073709551616"):
            slot.submit(deadline_ns=2**64)
        for crop in ((-1, 0), (0, 2**32)):
            with pytest.raises(punctual.CropError):
                slot.submit(crop=crop)
            slot = client.slot(SOON)
        slot.submit()
        assert client.verdict(SOON) is not None
        with pytest.raises(ValueError, match="spin_ns"):
            Client(daemon.socket, "any", spin_ns=-1)


def test_other_threads_run_while_one_waits(daemon: Daemon) -> None:
    with Client(daemon.socket, "any") as client:
        done = threading.Event()

        def wait() -> None:
            client.verdict(0.3)
            done.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        turns = 0
        while not done.is_set():
            turns += 1
        waiting.join()
        assert turns > 100
