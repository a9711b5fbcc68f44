"""Trains the detector: python train.py DATA WEIGHTS --minutes 45

DATA has the folders train-0, train-1 and tune, as the renderer's example `streets` writes them. The calibration and test
sets are not read here. Training takes as long as it is told: the size of the pictures and the rate follow the share of the
time that has passed, so that a busy machine trains less, not longer.

Two processes of one thread each train on a folder each and average their gradients. At the end the network's own
confidence is trained, alone: it shapes none of the features.
"""

import argparse
import copy
import json
import math
import time
from pathlib import Path

import numpy
import torch
import torchvision
from torch import distributed
from torch.nn import functional

from measure import SCORE, detections, f1, mean_average_precision
from network import COLUMNS, EXITS, ROWS, STRIDE, Streets, centres, corners

MEAN, STD = 0.45, 0.25  # as in streets.toml
PROCESSES = 2
# Deeper exits weigh more: the first must not shape the features that the others build on.
EXIT_WEIGHTS = (0.1, 0.3, 1.0)
# (rows, columns, pictures a process and step, until this share of the time). Parts of frames first.
SIZES = ((128, 160, 32, 0.5), (176, 224, 16, 0.85), (ROWS, COLUMNS, 8, 1.0))
RATE, WARM_UP, DECAY = 2.5e-3, 0.03, 0.02
AVERAGED = 0.998  # share of the averaged weights that a step keeps
NEAR = 1.25 * STRIDE  # a sign is learned by the cells this near to its middle
SURE_STEPS, SURE_RATE, SURE_SCORE = 3000, 3e-3, 0.35


def load(folder: Path) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Frames as bytes [sample][channel][row][column]; objects in pixels of the input."""
    images = numpy.memmap(folder / "images.u8", "u1", "c").reshape(-1, 3, ROWS, COLUMNS)
    counts = numpy.fromfile(folder / "counts.u16", "<u2")
    objects = numpy.fromfile(folder / "objects.f32", "<f4").reshape(-1, 5)
    objects[:, :4] /= 2.0  # the frame has 640x480 pixels
    assert len(images) == len(counts) and counts.sum() == len(objects), folder
    truths = numpy.split(objects, counts.cumsum()[:-1])
    return torch.from_numpy(images), [torch.from_numpy(truth) for truth in truths]


def normalised(images: torch.Tensor) -> torch.Tensor:
    return (images.float() / 255 - MEAN) / STD


def part(image: torch.Tensor, truth: torch.Tensor, rows: int, columns: int):
    """A random part of a frame, perhaps mirrored, with the signs whose middle it shows."""
    y = int(torch.randint(0, ROWS - rows + 1, ()))
    x = int(torch.randint(0, COLUMNS - columns + 1, ()))
    image, truth = image[:, y : y + rows, x : x + columns], truth.clone()
    truth[:, [0, 2]] -= x
    truth[:, [1, 3]] -= y
    middle = (truth[:, :2] + truth[:, 2:4]) / 2
    inside = (middle > 0).all(1) & (middle[:, 0] < columns) & (middle[:, 1] < rows)
    truth = truth[inside]
    truth[:, [0, 2]] = truth[:, [0, 2]].clamp(0, columns)
    truth[:, [1, 3]] = truth[:, [1, 3]].clamp(0, rows)
    if torch.rand(()) < 0.5:
        image = image.flip(2)
        truth[:, [0, 2]] = columns - truth[:, [2, 0]]
    return image, truth


def batch_of(images, truths, chosen, rows: int, columns: int):
    parts = [part(images[index], truths[index], rows, columns) for index in chosen.tolist()]
    batch = normalised(torch.stack([image for image, _ in parts]))
    contrast = torch.empty(len(batch), 1, 1, 1).uniform_(0.8, 1.2)
    brightness = torch.empty(len(batch), 1, 1, 1).uniform_(-0.2, 0.2)
    return batch * contrast + brightness, [truth for _, truth in parts]


def owners(truth: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The sign that each cell learns, -1 if none: those near its middle and inside it, and the nearest cell anyway. A cell
    that lies in two learns the smaller one."""
    owner = torch.full((rows * columns,), -1)
    if len(truth) == 0:
        return owner
    middle = centres(rows, columns).flatten(1)[:, None]  # [2][1][cells]
    sign = truth.T[:4, :, None]  # [4][signs][1]
    far = (middle - (sign[:2] + sign[2:]) / 2).abs().amax(0)
    inside = ((middle > sign[:2]) & (middle < sign[2:])).all(0) & (far < NEAR)
    inside[torch.arange(len(truth)), far.argmin(1)] = True
    area = (truth[:, 2] - truth[:, 0]) * (truth[:, 3] - truth[:, 1])
    for index in area.argsort(descending=True).tolist():
        owner[inside[index]] = index
    return owner


def exit_loss(scores: torch.Tensor, sides: torch.Tensor, truths: list[torch.Tensor]) -> torch.Tensor:
    """Scores learn how well the cell's own box fits (quality focal loss); boxes learn by their generalised overlap."""
    rows, columns = scores.shape[2:]
    scores = scores.float().flatten(2).transpose(1, 2)
    boxes = corners(sides.float()).flatten(2).transpose(1, 2)
    target = torch.zeros_like(scores)
    found, wanted = [], []
    for index, truth in enumerate(truths):
        owner = owners(truth, rows, columns)
        cells = (owner >= 0).nonzero()[:, 0]
        signs = truth[owner[cells]]
        found.append(boxes[index, cells])
        wanted.append(signs[:, :4])
        with torch.no_grad():
            fit = torchvision.ops.box_iou(boxes[index, cells], signs[:, :4]).diagonal()
            target[index, cells, signs[:, 4].long()] = fit.clamp(min=0.05)
    wrong = (target - scores.sigmoid()).abs().square()
    focal = functional.binary_cross_entropy_with_logits(scores, target, reduction="none")
    count = max(1, sum(len(part) for part in found))
    overlap = torchvision.ops.generalized_box_iou_loss(torch.cat(found), torch.cat(wanted), reduction="sum")
    return ((wrong.detach() * focal).sum() * 2.0 + overlap * 2.0) / count


@torch.no_grad()
def answers(model: Streets, images: torch.Tensor) -> list[list]:
    """Of each exit: features, scores and sides of all images."""
    model.eval()
    every = [[] for _ in range(EXITS)]
    for images in images.split(16):
        batch = normalised(images).to(memory_format=torch.channels_last)
        for parts, answer in zip(every, model(batch)):
            parts.append(tuple(tensor.contiguous() for tensor in answer))
    return [[torch.cat(tensors) for tensors in zip(*parts)] for parts in every]


def scores_of(model: Streets, images: torch.Tensor, truths: list[torch.Tensor]) -> list[float]:
    """mAP50 by exit."""
    return [
        round(mean_average_precision(detections(scores, sides), truths)[0], 4)
        for _, scores, sides in answers(model, images)
    ]


def average_gradients(model: Streets, progress: float) -> float:
    """Over the processes; also of their progress, so that all of them see the same."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients] + [torch.tensor([progress])])
    distributed.all_reduce(flat)
    flat /= PROCESSES
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
    return flat[-1].item()


def rate_at(progress: float) -> float:
    cosine = 0.5 + 0.5 * math.cos(math.pi * min(progress, 1.0))
    return RATE * cosine * min(1.0, 0.05 + progress / WARM_UP)


@torch.no_grad()
def follow(averaged: Streets, model: Streets, step: int) -> None:
    share = min(AVERAGED, step / (step + 10))
    for kept, new in zip(averaged.state_dict().values(), model.state_dict().values()):
        if kept.is_floating_point():
            kept.lerp_(new, 1.0 - share)
        else:
            kept.copy_(new)


def train_confidence(model: Streets, images: torch.Tensor, truths: list[torch.Tensor]) -> None:
    """Each exit learns the F1 of its own boxes, on frames that trained the network too, but on other light."""
    torch.manual_seed(3)
    contrast = torch.empty(len(images), 1, 1, 1).uniform_(0.7, 1.2)
    images = (images.float() * contrast).clamp(0, 255).to(torch.uint8)
    for index, (features, scores, sides) in enumerate(answers(model, images)):
        found = detections(scores, sides)
        target = torch.tensor([f1(*pair, SURE_SCORE) for pair in zip(found, truths)])[:, None]
        sure = model.sure[index].train().requires_grad_(True)
        optimiser = torch.optim.AdamW(sure.parameters(), lr=SURE_RATE, weight_decay=0.05)
        rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, SURE_RATE, total_steps=SURE_STEPS)
        for step in range(SURE_STEPS):
            chosen = torch.randint(len(images), (64,))
            output = sure(features[chosen], scores[chosen])
            loss = functional.binary_cross_entropy_with_logits(output, target[chosen].float())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rate.step()
        sure.eval()
        with torch.no_grad():
            value = torch.cat([sure(*pair).sigmoid() for pair in zip(features.split(256), scores.split(256))])
        print(f"confidence of exit {index}: mean {value.mean():.3f}, F1 {target.mean():.3f}, "
              f"correlation {torch.corrcoef(torch.cat([value, target], 1).T.float())[0, 1]:.3f}", flush=True)


def train(rank: int, options: argparse.Namespace) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{options.weights.absolute()}.meeting",
        rank=rank, world_size=PROCESSES,
    )
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Streets().to(memory_format=torch.channels_last)
    if options.start:
        model.load_state_dict(torch.load(options.start))
    model.sure.requires_grad_(False)
    averaged = copy.deepcopy(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    torch.manual_seed(2 + rank)
    images, truths = load(options.data / f"train-{rank}")
    tune = load(options.data / "tune")
    start, progress, step, seen, reported = time.time(), 0.0, 0, 0, 0.0
    order = torch.randperm(len(truths))
    while progress < 1.0:
        rows, columns, count, _ = next(size for size in SIZES if progress < size[3])
        chosen, order = order[:count], order[count:]
        if len(order) < 32:
            order = torch.randperm(len(truths))
        batch, wanted = batch_of(images, truths, chosen, rows, columns)
        with torch.autocast("cpu", torch.bfloat16):
            given = model.train()(batch.to(memory_format=torch.channels_last))
        loss = sum(
            weight * exit_loss(scores, sides, wanted)
            for weight, (_, scores, sides) in zip(EXIT_WEIGHTS, given)
        )
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        progress = average_gradients(model, (time.time() - start) / 60 / options.minutes)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimiser.param_groups[0]["lr"] = rate_at(progress)
        optimiser.step()
        step, seen = step + 1, seen + PROCESSES * count
        if rank == 0:
            follow(averaged, model, step)
        if rank == 0 and progress - reported >= 0.05:
            reported = progress
            torch.save(averaged.state_dict(), options.weights)
            print(f"{progress:.2f} {rows}x{columns} step {step} seen {seen} loss {loss.item():.3f} "
                  f"tune {scores_of(averaged, tune[0][:200], tune[1][:200])}", flush=True)
    if rank == 0:
        print(json.dumps({"seen": seen, "steps": step, "tune": scores_of(averaged, *tune)}), flush=True)
        train_confidence(averaged, images[:3000], truths[:3000])
        torch.save(averaged.state_dict(), options.weights)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--from", dest="start", type=Path, help="go on from these weights")
    options = parser.parse_args()
    Path(f"{options.weights.absolute()}.meeting").unlink(missing_ok=True)
    torch.multiprocessing.spawn(train, (options,), PROCESSES)


if __name__ == "__main__":
    main()
