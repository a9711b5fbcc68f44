"""Trains the segmenter of this folder's page, three minutes on one core: python3 train_segmenter.py DATA segmenter.onnx

    cargo run --release -p punctual-signs --example streets -- 41 0 1500 DATA/train
    cargo run --release -p punctual-signs --example streets -- 42 0 200 DATA/test

The renderer says where a sign is and of what kind; the mask is the shape of its plate in that box. It needs torch and
onnx (models/zoo/requirements.txt).
"""

import sys
import time
from pathlib import Path

import numpy
import torch
from torch import nn
from torch.nn import functional

CLASSES = ["background", "round sign", "triangular sign", "square sign"]
# Of each category of the renderer: its class here, and the plate within -1 to 1 of its box.
ROUND = (1, lambda x, y: x**2 + y**2 < 1)
UP = (2, lambda x, y: abs(x) < (y + 1) / 2)
DOWN = (2, lambda x, y: abs(x) < (1 - y) / 2)
DIAMOND = (3, lambda x, y: abs(x) + abs(y) < 1)
SQUARE = (3, lambda x, y: x == x)
PLATES = [ROUND, ROUND, UP, UP, ROUND, ROUND, DIAMOND, DIAMOND, DOWN, ROUND, ROUND, SQUARE]
ROWS, COLUMNS = 192, 256  # of the input
MINUTES, BATCH, RATE = 3.0, 16, 4e-3


def unit(inputs: int, outputs: int, stride: int = 2, dilation: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, dilation, dilation, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


def larger(features: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(features, scale_factor=2.0, mode="bilinear")


class Segmenter(nn.Module):
    """Two exits: a mask of an eighth of the input's size, and one of half of it that has seen more of the picture."""

    def __init__(self):
        super().__init__()
        self.body, self.down = nn.Sequential(unit(3, 8), unit(8, 16)), unit(16, 24)
        self.wide = nn.Sequential(unit(24, 24, 1, 2), unit(24, 24, 1, 4), nn.Conv2d(24, 12, 1))
        self.merge = unit(28, 16, 1)
        self.coarse, self.fine = nn.Conv2d(24, len(CLASSES), 1), nn.Conv2d(16, len(CLASSES), 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        near = self.body(image)
        far = self.down(near)
        merged = self.merge(torch.cat([larger(self.wide(far)), near], 1))
        return self.coarse(far), larger(self.fine(merged))


class Masks(nn.Module):
    """What is exported: the best class of each pixel."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        coarse, fine = self.network(image)
        return coarse.argmax(1), fine.argmax(1)


def load(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures as bytes [sample][channel][row][column], and the class of each pixel [sample][row][column]."""
    images = torch.from_numpy(numpy.fromfile(folder / "images.u8", "u1").reshape(-1, 3, 240, 320))
    images = torch.cat([functional.interpolate(part.float(), (ROWS, COLUMNS), mode="area").byte()
                        for part in images.split(64)])
    objects = numpy.fromfile(folder / "objects.f32", "<f4").reshape(-1, 5)
    counts = numpy.fromfile(folder / "counts.u16", "<u2")
    y, x = numpy.mgrid[:ROWS, :COLUMNS] + 0.5
    masks = numpy.zeros((len(images), ROWS, COLUMNS), "u1")
    for mask, signs in zip(masks, numpy.split(objects, counts.cumsum()[:-1])):
        for *sides, category in signs:  # sides in pixels of a frame of 640x480; far signs come first
            left, top, right, bottom = numpy.array(sides) * (COLUMNS / 640)
            within_x, within_y = (2 * x - left - right) / (right - left), (2 * y - top - bottom) / (bottom - top)
            label, plate = PLATES[int(category)]
            mask[(abs(within_x) < 1) & (abs(within_y) < 1) & plate(within_x, within_y)] = label
    return images, torch.from_numpy(masks)


def train(network: nn.Module, images: torch.Tensor, masks: torch.Tensor) -> None:
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=1e-3)
    weights = torch.tensor([1.0, 3.0, 3.0, 3.0])
    start, part = time.process_time(), 0.0
    while part < 1:
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 20 * part + 0.05) * (1 - part)
        chosen = torch.randint(0, len(images), (BATCH,))
        image, mask = images[chosen].float() / 255, masks[chosen].long()
        if torch.rand(()) < 0.5:
            image, mask = image.flip(3), mask.flip(2)
        coarse, fine = network(image)
        loss = sum(share * functional.cross_entropy(scores, mask[:, step // 2 :: step, step // 2 :: step], weights)
                   for share, scores, step in ((0.5, coarse, 8), (1.0, fine, 2)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        part = (time.process_time() - start) / (60 * MINUTES)


def measure(network: nn.Module, images: torch.Tensor, masks: torch.Tensor) -> None:
    """Prints the intersection over union of each class, by exit."""
    counts = torch.zeros(2, len(CLASSES), len(CLASSES))
    with torch.no_grad():
        for image, mask in zip(images.split(20), masks.split(20)):
            for exit, scores in enumerate(network(image.float() / 255)):
                found = functional.interpolate(scores, (ROWS, COLUMNS), mode="nearest").argmax(1)
                both = (mask.long() * len(CLASSES) + found).flatten().bincount(minlength=len(CLASSES) ** 2)
                counts[exit] += both.reshape(len(CLASSES), -1)
    for exit, count in enumerate(counts):
        union = count.sum(0) + count.sum(1) - count.diag()
        named = zip(CLASSES, (count.diag() / union).tolist())
        print(f"exit {exit}:", ", ".join(f"{name} {value:.2f}" for name, value in named))


if __name__ == "__main__":
    data, to = Path(sys.argv[1]), sys.argv[2]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = Segmenter()
    train(network, *load(data / "train"))
    measure(network.eval(), *load(data / "test"))
    Path(to).with_suffix(".txt").write_text("\n".join(CLASSES) + "\n")
    outputs = ["exit_0/mask", "exit_1/mask"]
    torch.onnx.export(Masks(network).eval(), torch.zeros(1, 3, ROWS, COLUMNS), to, dynamo=False, input_names=["image"],
                      output_names=outputs, dynamic_axes={name: {0: "batch"} for name in ["image", *outputs]})
