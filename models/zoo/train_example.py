"""Makes and trains a small early-exit network, start to end: python train_example.py FOLDER [--steps N]

Ten shapes drawn at random, a narrow ResNet of torchvision with heads behind its first two groups, the
joint loss of all exits. Writes shapes.onnx, calibration.json and shapes.toml into FOLDER; then

    punctual compile FOLDER/shapes.toml

makes the package. Replace `draw` by your data and `backbone` by your network.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from torch import nn
from torchvision.models import resnet

import early_exits
import export

SIDE, CLASSES = 48, 10
AT = ["layer1", "layer2"]  # `early_exits.depths(backbone)` lists what there is
WEIGHTS = (0.5, 0.7, 1.0)  # of the exits' losses: early heads must not spoil what deeper ones need
MEAN, STD = 0.5, 0.25


def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Stars of 3 to 12 corners, turned, moved, with noise; normalised."""
    generator = torch.Generator().manual_seed(seed)
    uniform = lambda low, high: low + (high - low) * torch.rand(count, 1, 1, generator=generator)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    corners = (labels + 3).view(-1, 1, 1)
    ticks = torch.linspace(-1, 1, SIDE)
    y, x = ticks.view(1, -1, 1) - uniform(-0.2, 0.2), ticks.view(1, 1, -1) - uniform(-0.2, 0.2)
    edge = uniform(0.4, 0.7) * (1 + 0.3 * torch.cos(corners * (torch.atan2(y, x) + uniform(0, math.tau))))
    inside = torch.sigmoid(30 * (edge - torch.hypot(x, y)))
    images = (0.3 + 0.4 * inside).unsqueeze(1).repeat(1, 3, 1, 1)
    images += uniform(0.02, 0.2).unsqueeze(1) * torch.randn(images.shape, generator=generator)
    return (images.clamp(0, 1) - MEAN) / STD, labels


def backbone() -> nn.Module:
    """A ResNet of one block a group. Any network that torch.fx can trace will do."""
    return resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=CLASSES)


def train(module: nn.Module, steps: int) -> None:
    optimiser = torch.optim.AdamW(module.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    module.train()
    for step in range(steps):
        images, labels = draw(64, seed=1_000 + step)
        losses = [nn.functional.cross_entropy(scores, labels) for scores in module(images)]
        loss = sum(weight * each for weight, each in zip(WEIGHTS, losses, strict=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            print(step, [round(each.item(), 3) for each in losses], flush=True)


def calibrate(module: nn.Module, path: Path, samples: int = 1_000) -> None:
    """Confidence and correctness of each exit on pictures that no training step saw."""
    images, labels = draw(samples, seed=1)
    with torch.no_grad():
        best = [torch.softmax(scores, 1).max(1) for scores in module.eval()(images)]
    exits = [(each.values.tolist(), (each.indices == labels).tolist()) for each in best]
    lines = [
        json.dumps({"exits": [{"confidence": round(values[at] * 65535), "correct": right[at]}
                              for values, right in exits]})
        for at in range(samples)
    ]
    path.write_text('{"samples":[\n' + ",\n".join(lines) + "\n]}\n")
    print("accuracy by exit", [sum(right) / samples for _, right in exits])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    module = early_exits.EarlyExits(backbone(), AT, SIDE, early_exits.linear_head)
    train(module, arguments.steps)
    calibrate(module, arguments.folder / "calibration.json")
    export.export(module.eval(), arguments.folder / "shapes.onnx", "torchscript",
                  {"image": torch.zeros(2, 3, SIDE, SIDE)})
    (arguments.folder / "shapes.toml").write_text(f"""\
name = "shapes"
onnx = "shapes.onnx"
calibration = "calibration.json"
[input]
height = {SIDE}
width = {SIDE}
mean = {[MEAN] * 3}
std = {[STD] * 3}
[output]
classes = {json.dumps([f"{corner} corners" for corner in range(3, 3 + CLASSES)])}
""")


if __name__ == "__main__":
    main()
