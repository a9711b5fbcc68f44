"""The demonstration detector: an anchor-free CNN with three exits that finds traffic signs in a whole frame."""

import torch
from torch import nn
from torch.nn import functional

CATEGORIES = 12
ROWS, COLUMNS = 240, 320  # of the input
STRIDE = 8  # pixels of the input to one cell of the answer
EXITS = 3


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU. Channels are multiples of 16 but for the input."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """relu(x + bn(conv(relu(bn(conv(x))))))"""

    def __init__(self, channels: int):
        super().__init__()
        self.first = conv(channels, channels)
        self.second = nn.Sequential(
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)
        )
        # A block starts as the identity: deep exits then train as fast as the shallow one.
        nn.init.zeros_(self.second[1].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(self.first(x)))


class Head(nn.Module):
    """Of each cell: a score for each category, and the distances of the four sides in pixels of the input."""

    def __init__(self, inputs: int, width: int, kernel: int):
        super().__init__()
        self.features = conv(inputs, width, kernel)
        self.scores = nn.Conv2d(width, CATEGORIES, 1)
        self.sides = nn.Conv2d(width, 4, 1)
        # Few cells hold a sign, and a middling sign has a radius of 12 pixels.
        nn.init.constant_(self.scores.bias, -4.6)
        nn.init.constant_(self.sides.bias, 2.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features = self.features(x)
        # No side is farther away than half of the input.
        sides = self.sides(features).clamp(-1.0, 5.1).exp()
        return features, self.scores(features), sides


class Sure(nn.Module):
    """How good the answer is, 0 to 1: what the boxes of one exit would earn as F1 at an overlap of 0.5."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2 * width + 2 * CATEGORIES, 32), nn.ReLU(inplace=True), nn.Linear(32, 1)
        )

    def forward(self, features: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Before the logistic function."""
        scores = scores.sigmoid()
        seen = (features.mean((2, 3)), features.amax((2, 3)), scores.mean((2, 3)), scores.amax((2, 3)))
        return self.layers(torch.cat(seen, 1))


class Streets(nn.Module):
    """Three segments, an exit behind each. The deeper ones see coarser features too, the last one also finer ones."""

    def __init__(self):
        super().__init__()
        self.begin = nn.Sequential(conv(3, 16, stride=2), conv(16, 32, stride=2))
        self.cells = conv(32, 64, stride=2)
        self.deeper = conv(64, 64)
        self.fine = nn.ModuleList([Residual(64), Residual(64)])
        self.coarse = nn.ModuleList([
            nn.Sequential(conv(64, 128, stride=2), Residual(128)), Residual(128)
        ])
        self.merge = nn.ModuleList([conv(128, 64, kernel=1), conv(128, 64, kernel=1)])
        # What is painted on a small sign is smaller than a cell.
        self.detail = nn.Sequential(conv(32, 48), conv(48, 64, stride=2))
        widths = (16, 48, 64)
        self.heads = nn.ModuleList([Head(64, widths[0], 3), Head(64, widths[1], 1), Head(64, widths[2], 3)])
        self.sure = nn.ModuleList([Sure(width) for width in widths])

    def forward(self, x: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Of each exit: features, scores before the logistic function, distances of the sides."""
        half_cells = self.begin(x)
        x = self.cells(half_cells)
        answers = [self.heads[0](x)]
        coarse = x = self.deeper(x)
        for step in range(EXITS - 1):
            coarse = self.coarse[step](coarse)
            x = x + functional.interpolate(self.merge[step](coarse), scale_factor=2.0, mode="nearest")
            if step == EXITS - 2:
                x = x + self.detail(half_cells)
            x = self.fine[step](x)
            answers.append(self.heads[step + 1](x))
        return answers


def centres(rows: int, columns: int) -> torch.Tensor:
    """x and y of the middle of each cell, in pixels of the input: [2][rows][columns]."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return (torch.stack([x, y]).float() + 0.5) * STRIDE


def corners(sides: torch.Tensor) -> torch.Tensor:
    """Left, top, right, bottom of each cell's box: [batch][4][rows][columns]."""
    middle = centres(*sides.shape[2:]).repeat(2, 1, 1)
    away = torch.tensor([-1.0, -1.0, 1.0, 1.0]).view(4, 1, 1)
    return middle + away * sides


class Answers(nn.Module):
    """What the exported network gives at each exit: boxes, scores 0 to 1, and its confidence."""

    def __init__(self, streets: Streets):
        super().__init__()
        self.streets = streets

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = []
        for sure, (features, scores, sides) in zip(self.streets.sure, self.streets(image)):
            boxes = corners(sides).flatten(2).transpose(1, 2)
            outputs += [boxes, scores.sigmoid().flatten(2).transpose(1, 2), sure(features, scores).sigmoid()]
        return tuple(outputs)


def export(streets: Streets, path: str) -> None:
    names = [f"exit_{k}/{name}" for k in range(EXITS) for name in ("boxes", "scores", "confidence")]
    torch.onnx.export(
        Answers(streets).eval().float(),
        (torch.zeros(1, 3, ROWS, COLUMNS),),
        path,
        dynamo=False,
        opset_version=17,
        input_names=["image"],
        output_names=names,
        dynamic_axes={name: {0: "batch"} for name in ("image", *names)},
    )
