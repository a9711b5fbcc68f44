"""Boxes in the camera's frame: thirty frames, and what a detector sees in the crop in their middle.

    python3 detector.py /tmp/punctual.sock camera

The task gives `detections` and `count`, as Punctual's decoder makes them; docs/decode.md has the other heads.
"""

from __future__ import annotations

import sys

import punctual
from punctual import decode

FRAMES = 30


def show(socket: str, task: str) -> None:
    with punctual.Client(socket, task, timeout=None) as client:
        terms = client.terms
        crop = ((terms.width - terms.crop_width) // 2, (terms.height - terms.crop_height) // 2)
        for frame in range(FRAMES):
            with client.slot() as slot:
                slot.pixels[:] = frame  # a real camera copies its pixels here
                slot.submit(crop=crop)
            result = client.verdict()
            if result is None or result.answer is None or result.answer.view is None:
                print(f"frame {frame}: no answer")
                continue
            outputs = result.answer.outputs
            found = decode.rows(outputs["detections"], outputs["count"], threshold=0.3)
            # From pixels of the network's input to pixels of the frame.
            for box, score, label in result.answer.view.detections(found):
                sides = " ".join(f"{side:.1f}" for side in box)
                print(f"frame {result.sequence}: {client.class_name(label)} {score:.2f}: {sides}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: detector.py SOCKET TASK")
    show(sys.argv[1], sys.argv[2])
