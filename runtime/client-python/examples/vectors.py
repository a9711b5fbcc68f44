"""A vector in, a tensor out: thirty frames, each with a speed, whose answers are rows of numbers.

    python3 vectors.py /run/punctual.sock cars

The task gives an output `boxes` and takes a vector `speed` of two numbers.
"""

from __future__ import annotations

import sys

import punctual

FRAMES = 30


def show(socket: str, task: str) -> None:
    with punctual.Client(socket, task, timeout=None) as client:
        for frame in range(FRAMES):
            with client.slot() as slot:
                slot.pixels[:] = frame % 2
                slot.submit(speed=[1.5, frame / 2])
            result = client.verdict()
            if result is None or result.answer is None:
                print(f"frame {frame}: no answer")
                continue
            boxes = result.answer.outputs["boxes"]
            rows = " | ".join(" ".join(f"{value:g}" for value in row) for row in boxes)
            print(f"frame {result.sequence}: {result.answer.class_name}, boxes: {rows}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: vectors.py SOCKET TASK")
    show(sys.argv[1], sys.argv[2])
