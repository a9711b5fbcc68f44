"""A camera in a few lines: thirty frames a second for five seconds, and their verdicts.

    python3 camera.py /tmp/punctual.sock camera
"""

from __future__ import annotations

import asyncio
import os
import sys

import numpy as np
import punctual

FRAMES = 150
PERIOD_NS = 1_000_000_000 // 30
DEADLINE_NS = 33_000_000


async def show(socket: str, task: str) -> None:
    async with punctual.AsyncClient(socket, task, timeout=None) as client:
        start = punctual.now_ns()
        replies = []
        for number in range(FRAMES):
            captured = start + number * PERIOD_NS
            await asyncio.sleep(max(0, captured - punctual.now_ns()) / 1e9)
            slot = await client.slot()
            # A real camera copies its pixels here.
            slot.pixels[:] = np.uint8(number)
            replies.append(slot.submit(captured, captured + DEADLINE_NS))
        for reply in replies:
            say(await reply)


def say(result: punctual.Result) -> None:
    what = result.verdict.name if result.reason is None else result.reason.name
    if result.answer is not None:
        ms = (result.finished_ns - result.captured_ns) / 1e6
        answer = result.answer
        name = answer.class_name or ("" if answer.class_index is None else f"class {answer.class_index}")
        what += f": {name} by exit {answer.exit} after {ms:.2f} ms"
        for output, values in answer.outputs.items():
            what += f", {output} {values.dtype}{list(values.shape)}"
    print(f"frame {result.sequence}: {what}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: camera.py SOCKET TASK")
    try:
        asyncio.run(show(sys.argv[1], sys.argv[2]))
        sys.stdout.flush()
    except OSError as error:
        # Nobody reads standard output, or the disk is full: what is left to write is dropped, or Python tries again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141 if isinstance(error, BrokenPipeError) else f"camera.py: {error}")
