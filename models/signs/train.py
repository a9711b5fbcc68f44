"""Trains the network: python train.py DATA WEIGHTS --minutes 34

DATA has the folders train and tune, as the renderer's example `dataset` writes them. The
calibration and test sets are not read here. Training takes as long as it is told: the size of the
images and the rate follow the share of the time that has passed, so that a busy machine trains
less, not longer.

Two processes of one thread each train on half the batch and average their gradients: on a machine
that does other work too, that waits far less than two threads inside every operator.

The first head is trained once more when all else is done and frozen (`--first-head` does only
that): it gets what the features of the deep exits offer to a cheap look, and shapes none of them.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy
import torch
from torch import distributed
from torch.nn import functional

from network import SIDE, Signs

MEAN, STD = 0.45, 0.25  # as in signs.toml
PROCESSES = 2
BATCH = 64  # a process
# Deeper exits weigh more: the first must not shape the features that the others build on.
EXIT_WEIGHTS = (0.5, 0.7, 1.0)
# (side, until this share of the time). Small images first: the same network, a fraction of the work.
SIDES = ((32, 0.3), (48, 0.5), (64, 0.75), (SIDE, 1.0))
RATE, WARM_UP = 4e-3, 0.03
# The same from trained weights on (`--from`).
SIDES_ON, RATE_ON = ((64, 0.2), (SIDE, 1.0)), 1e-3
HEAD_SAMPLES, HEAD_STEPS, HEAD_BATCH, HEAD_RATE = 17_200, 1200, 128, 1e-2


def load(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as bytes [sample][channel][row][column], and labels."""
    images = numpy.fromfile(folder / "images.u8", "u1").reshape(-1, 3, SIDE, SIDE)
    labels = numpy.fromfile(folder / "labels.u16", "<u2")
    assert len(images) == len(labels), f"{folder}: {len(images)} images, {len(labels)} labels"
    return torch.from_numpy(images), torch.from_numpy(labels.astype("i8"))


def normalised(images: torch.Tensor) -> torch.Tensor:
    return (images.float() / 255 - MEAN) / STD


def augmented(images: torch.Tensor) -> torch.Tensor:
    """Moved by up to 4 pixels, the batch as one; lighter or darker, each by itself."""
    dx, dy = torch.randint(-4, 5, (2,)).tolist()
    padded = functional.pad(images, (4, 4, 4, 4), mode="replicate")
    moved = padded[:, :, 4 + dy : 4 + dy + SIDE, 4 + dx : 4 + dx + SIDE]
    contrast = torch.empty(len(images), 1, 1, 1).uniform_(0.8, 1.2)
    brightness = torch.empty(len(images), 1, 1, 1).uniform_(-0.2, 0.2)
    return moved * contrast + brightness


def joint_loss(logits: tuple[torch.Tensor, ...], labels: torch.Tensor) -> torch.Tensor:
    return sum(
        weight * functional.cross_entropy(exit_logits.float(), labels)
        for weight, exit_logits in zip(EXIT_WEIGHTS, logits)
    )


@torch.no_grad()
def accuracies(model: Signs, images: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Share of right answers by exit."""
    model.eval()
    right = torch.zeros(len(EXIT_WEIGHTS))
    for part, truth in zip(images.split(128), labels.split(128)):
        for index, logits in enumerate(model(normalised(part))):
            right[index] += (logits.argmax(1) == truth).sum()
    model.train()
    return [round(share, 4) for share in (right / len(labels)).tolist()]


def average_gradients(model: Signs, progress: float) -> float:
    """Over the processes; also of their progress, so that all of them see the same."""
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients] + [torch.tensor([progress])])
    distributed.all_reduce(flat)
    flat /= PROCESSES
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
    return flat[-1].item()


def rate_at(peak: float, progress: float) -> float:
    cosine = 0.5 + 0.5 * math.cos(math.pi * min(progress, 1.0))
    return peak * cosine * min(1.0, 0.05 + progress / WARM_UP)


def train_first_head(options: argparse.Namespace) -> None:
    """Starts the head anew, on features of its segment that are computed once."""
    torch.manual_seed(3)
    model = Signs()
    weights = torch.load(options.weights)
    model.load_state_dict(
        {name: value for name, value in weights.items() if not name.startswith("heads.0.")},
        strict=False,
    )
    model.eval()

    @torch.no_grad()
    def features(images: torch.Tensor) -> torch.Tensor:
        parts = images.split(128)
        return torch.cat([model.segments[0](normalised(part)).half() for part in parts])

    images, labels = (part[:HEAD_SAMPLES] for part in load(options.data / "train"))
    images = features(images)
    head = model.heads[0].train()
    optimiser = torch.optim.AdamW(head.parameters(), lr=HEAD_RATE)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, HEAD_RATE, total_steps=HEAD_STEPS)
    for step in range(HEAD_STEPS):
        chosen = torch.randint(len(labels), (HEAD_BATCH,))
        loss = functional.cross_entropy(head(images[chosen].float()), labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
        if step % 100 == 99:
            print(f"first head: step {step} loss {loss.item():.3f}", flush=True)
    torch.save(model.state_dict(), options.weights)
    print(json.dumps({"tune": accuracies(model, *load(options.data / "tune"))}))


def train(rank: int, options: argparse.Namespace) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{options.weights.absolute()}.meeting",
        rank=rank, world_size=PROCESSES,
    )
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Signs().to(memory_format=torch.channels_last)
    sides, peak = SIDES, RATE
    if options.start:
        model.load_state_dict(torch.load(options.start))
        sides, peak = SIDES_ON, RATE_ON
    optimiser = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.02)
    torch.manual_seed(2 + rank)
    images, labels = (part[rank::PROCESSES] for part in load(options.data / "train"))
    tune = load(options.data / "tune")
    start, progress, step, seen, reported = time.time(), 0.0, 0, 0, 0.0
    order = torch.randperm(len(labels))
    while progress < 1.0:
        chosen, order = order[:BATCH], order[BATCH:]
        if len(order) < BATCH:
            order = torch.randperm(len(labels))
        side = next(side for side, until in sides if progress < until)
        batch = augmented(normalised(images[chosen]))
        if side != SIDE:
            batch = functional.interpolate(batch, (side, side), mode="area")
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch.to(memory_format=torch.channels_last))
        loss = joint_loss(logits, labels[chosen])
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        progress = average_gradients(model, (time.time() - start) / 60 / options.minutes)
        optimiser.param_groups[0]["lr"] = rate_at(peak, progress)
        optimiser.step()
        step, seen = step + 1, seen + PROCESSES * len(chosen)
        if rank == 0 and progress - reported >= 0.04:
            reported = progress
            torch.save(model.state_dict(), options.weights)
            scores = accuracies(model, tune[0][:430], tune[1][:430]) if side == SIDE else None
            print(f"{progress:.2f} side {side} step {step} seen {seen} "
                  f"loss {loss.item():.3f} tune {scores}", flush=True)
    if rank == 0:
        torch.save(model.state_dict(), options.weights)
        print(json.dumps({"seen": seen, "steps": step, "tune": accuracies(model, *tune)}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--from", dest="start", type=Path, help="go on from these weights")
    parser.add_argument("--first-head", action="store_true", help="train only the first head")
    options = parser.parse_args()
    if not options.first_head:
        Path(f"{options.weights.absolute()}.meeting").unlink(missing_ok=True)
        torch.multiprocessing.spawn(train, (options,), PROCESSES)
    torch.set_num_threads(PROCESSES)
    train_first_head(options)


if __name__ == "__main__":
    main()
