"""A vector in, a tensor out: thirty frames, each with a speed, whose answers are rows of numbers. A control loop acts on the
newest answer while it waits for the verdict.

    python3 vectors.py /tmp/punctual.sock camera

The task gives an output `boxes` and takes a vector `speed` of two numbers.
"""

from __future__ import annotations

import sys
import time

import punctual

FRAMES = 30
#: Of the control loop.
TURN_S = 0.005


def show(socket: str, task: str) -> None:
    with punctual.Client(socket, task, timeout=None) as client:
        for frame in range(FRAMES):
            with client.slot() as slot:
                slot.pixels[:] = frame % 2
                slot.submit(speed=[1.5, frame / 2])
            result = None
            while result is None:
                time.sleep(TURN_S)
                newest = client.latest()
                if newest is not None and newest.answer is not None:
                    # A robot steers here: before the verdict, unless the manifest wants one answer.
                    print(f"newest: frame {newest.sequence}, exit {newest.answer.exit}")
                result = client.try_verdict()
            if result.answer is None:
                print(f"frame {frame}: no answer")
                continue
            boxes = result.answer.outputs["boxes"]
            rows = " | ".join(" ".join(f"{value:g}" for value in row) for row in boxes)
            print(f"frame {result.sequence}: {result.answer.class_name}, boxes: {rows}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: vectors.py SOCKET TASK")
    show(sys.argv[1], sys.argv[2])
