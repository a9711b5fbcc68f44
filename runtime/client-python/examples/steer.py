"""Draws the way that a steering network takes: a picture and the speed in, an angle out.

    python3 steer.py /tmp/punctual.sock steering road/
    python3 steer.py /tmp/punctual.sock steering street.jpg --frames 30

The task takes a vector `speed` of one number (m/s) and gives `action`: steering (-1 left, 1 right) and acceleration, -1 to 1.
The drawings go to road.steering.png, one picture after another (an animated PNG). It needs numpy and Pillow.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from pathlib import Path

import numpy as np
import punctual
from PIL import Image, ImageDraw, ImageOps

PERIOD_S = 0.1
#: What a car does at 1: radians of its wheels, m/s^2.
ANGLE_MAX, ACCELERATION_MAX = 0.6, 3.0
SPEED_MAX = 40.0  # as in the manifest


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the way that a steering network takes.")
    parser.add_argument("socket")
    parser.add_argument("task")
    parser.add_argument("pictures", type=Path, help="a picture, or a folder of them")
    parser.add_argument("--speed", type=float, default=8.0, help="at the first picture, m/s")
    parser.add_argument("--frames", type=int, help="as many as there are pictures")
    arguments = parser.parse_args()
    folder = arguments.pictures.is_dir()
    paths = sorted(arguments.pictures.iterdir()) if folder else [arguments.pictures]
    speed = arguments.speed
    drawings: list[Image.Image] = []
    with punctual.Client(arguments.socket, arguments.task, timeout=10) as client:
        terms = client.terms
        # The network sees the road: the lower part of the picture, in its middle.
        crop = ((terms.width - terms.crop_width) // 2, terms.height - terms.crop_height)
        for path in itertools.islice(itertools.cycle(paths), arguments.frames or len(paths)):
            picture = ImageOps.fit(Image.open(path).convert("RGB"), (terms.width, terms.height))
            with client.slot() as slot:
                slot.pixels[:] = np.asarray(picture)
                slot.submit(crop=crop, speed=[speed])  # captured now, due as the manifest says
            result = client.verdict()
            assert result is not None, "waits without a limit"
            if result.answer is None:
                why = result.reason.name if result.reason else ""
                print(f"{path.name}: {result.verdict.name} {why}")
                continue
            steering, acceleration = result.answer.outputs["action"].tolist()
            ms = (result.finished_ns - result.captured_ns) / 1e6
            said = f"{path.name}: {result.verdict.name} after {ms:.1f} ms"
            print(f"{said}, at {speed:.1f} m/s: steering {steering:+.2f}")
            drawings.append(draw(picture, crop, steering * ANGLE_MAX, speed))
            speed = min(max(speed + acceleration * ACCELERATION_MAX * PERIOD_S, 0.0), SPEED_MAX)
            time.sleep(PERIOD_S)
    if drawings:
        first, *others = drawings
        to = arguments.pictures.with_suffix(".steering.png")
        first.save(to, save_all=True, append_images=others, duration=int(PERIOD_S * 1000))


def draw(picture: Image.Image, crop: tuple[int, int], angle: float, speed: float) -> Image.Image:
    """An arrow along the way, as long as the car goes in two seconds at 20 m/s; 0 is straight ahead."""
    drawing = picture.copy()
    canvas = ImageDraw.Draw(drawing)
    width, height = picture.size
    canvas.rectangle((*crop, width - 1 - crop[0], height - 1), outline="white")
    length = height * (0.1 + 0.4 * speed / 20)
    foot = (width / 2, height - 10)
    tip = (foot[0] + length * math.sin(angle), foot[1] - length * math.cos(angle))
    turns = (angle - 0.5, angle + 0.5)
    sides = [(tip[0] - 18 * math.sin(turn), tip[1] + 18 * math.cos(turn)) for turn in turns]
    canvas.line((foot, tip), fill="yellow", width=5)
    canvas.polygon([tip, *sides], fill="yellow")
    canvas.text((12, 12), f"{math.degrees(angle):+.0f} degrees at {speed:.1f} m/s", fill="yellow")
    return drawing


if __name__ == "__main__":
    main()
