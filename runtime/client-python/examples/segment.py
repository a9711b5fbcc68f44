"""Draws the class of each pixel over a picture: a segmenter's answer.

    python3 segment.py /tmp/punctual.sock segmenter street.jpg
    python3 segment.py /tmp/punctual.sock segmenter street.jpg --camera 30

The task gives an output `mask`: the scores of each class, (classes, rows, columns), or the best class, (rows, columns).
The drawing of the last answer goes to street.mask.png, beside the picture. It needs numpy and Pillow.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import punctual
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageOps

#: From one frame to the next, and from a frame to its answer.
PERIOD_NS = DEADLINE_NS = 100_000_000
#: A class has the colour at its index; class 0, which is the background of most networks, has none.
COLOURS = np.array(
    [(0, 0, 0), (230, 60, 50), (60, 180, 75), (255, 215, 0), (0, 130, 200), (245, 130, 48)], np.uint8
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the class of each pixel over a picture.")
    parser.add_argument("socket")
    parser.add_argument("task")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--camera", type=int, default=1, metavar="FRAMES", help="ten a second")
    arguments = parser.parse_args()
    with punctual.Client(arguments.socket, arguments.task, timeout=10) as client:
        size = (client.terms.width, client.terms.height)
        picture = ImageOps.fit(Image.open(arguments.picture).convert("RGB"), size)
        start = punctual.now_ns()
        for frame in range(arguments.camera):
            time.sleep(max(0, start + frame * PERIOD_NS - punctual.now_ns()) / 1e9)
            captured = punctual.now_ns()
            with client.slot() as slot:
                slot.pixels[:] = np.asarray(picture)
                slot.submit(captured, captured + DEADLINE_NS)
            result = client.verdict()
            assert result is not None, "waits without a limit"
            said, answer = f"frame {result.sequence}: {result.verdict.name}", result.answer
            if answer is None or answer.view is None:
                print(said, result.reason.name if result.reason else "")
                continue
            ms = (result.finished_ns - result.captured_ns) / 1e6
            print(f"{said} by exit {answer.exit} after {ms:.1f} ms")
            classes = in_frame(answer.outputs["mask"], answer.view, picture)
            drawing = draw(picture, classes, client)
            drawing.save(arguments.picture.with_suffix(".mask.png"))


def draw(picture: Image.Image, classes: NDArray[Any], client: punctual.Client) -> Image.Image:
    colours, pixels = COLOURS[classes % len(COLOURS)], np.asarray(picture)
    mixed = np.where(colours.any(2, keepdims=True), pixels // 2 + colours // 2, pixels)
    drawing = Image.fromarray(mixed)
    legend = ImageDraw.Draw(drawing)
    for row, (found, count) in enumerate(zip(*np.unique(classes, return_counts=True))):
        top, name = 8 + 18 * row, client.class_name(int(found)) or f"class {found}"
        colour = tuple(COLOURS[found % len(COLOURS)].tolist())
        legend.rectangle((8, top, 22, top + 14), fill=colour, outline="white")
        legend.text((28, top + 2), f"{name} {count / classes.size:.0%}", fill="white")
    return drawing


def in_frame(mask: NDArray[Any], view: punctual.View, picture: Image.Image) -> NDArray[np.uint8]:
    """The class of each pixel of the frame; 0 where the network did not look."""
    best = mask.argmax(0) if mask.ndim == 3 else mask
    corners = view.key_points(np.array([(0, 0, 1), (*view.input, 1)]))
    (left, top, _), (right, bottom, _) = corners  # of the network's input, in the frame
    x, y, width, height = view.crop
    columns = (np.arange(x, x + width) + 0.5 - left) / (right - left) * best.shape[1]
    rows = (np.arange(y, y + height) + 0.5 - top) / (bottom - top) * best.shape[0]
    frame = np.zeros((picture.height, picture.width), np.uint8)
    frame[y : y + height, x : x + width] = best[rows.astype(int)[:, None], columns.astype(int)]
    return frame


if __name__ == "__main__":
    main()
