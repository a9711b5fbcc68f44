"""One-stage detectors in the style of YOLO, written from what the papers say, with no code of others.

The backbone's blocks split their channels and concatenate all intermediate results (CSPNet, ELAN), the
neck goes down and up again (PANet), heads for boxes and classes are separate and without anchors
(YOLOX, FCOS), and a box's edges are distributions over 16 distances (generalised focal loss).
"""

import torch
from torch import nn

STRIDES = (8, 16, 32)
BINS = 16  # distances that an edge's distribution covers, in strides


def unit(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1,
         activation=nn.SiLU) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), activation())


class Bottleneck(nn.Module):
    def __init__(self, channels: int, shortcut: bool):
        super().__init__()
        self.body = nn.Sequential(unit(channels, channels, 3), unit(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.shortcut else self.body(x)


class CrossStage(nn.Module):
    """Half of the channels pass; the other half goes through a chain of which all results are kept."""

    def __init__(self, inputs: int, outputs: int, depth: int, shortcut: bool):
        super().__init__()
        half = outputs // 2
        self.enter = unit(inputs, outputs)
        self.chain = nn.ModuleList(Bottleneck(half, shortcut) for _ in range(depth))
        self.leave = unit((2 + depth) * half, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.chain:
            parts.append(block(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class PyramidPooling(nn.Module):
    """Three poolings one after the other, which see 5, 9 and 13 rows."""

    def __init__(self, channels: int):
        super().__init__()
        self.enter = unit(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.leave = unit(2 * channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class SpaceToDepth(nn.Module):
    """Each square of four pixels becomes one of four times as many channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :, row::2, column::2] for column in (0, 1) for row in (0, 1)], 1)


class Pyramid(nn.Module):
    """Backbone and neck: features at the strides 8, 16 and 32."""

    def __init__(self, width: float, depth: float, channels: int, focus: bool):
        super().__init__()
        c = [max(8, round(width * each / 8) * 8) for each in (64, 128, 256, 512, 1024)]
        d = [max(1, round(depth * each)) for each in (3, 6)]
        stem = [SpaceToDepth(), unit(4 * channels, c[0], 3)] if focus else [unit(channels, c[0], 3, 2)]
        group = lambda at, blocks: nn.Sequential(
            unit(c[at - 1], c[at], 3, 2), CrossStage(c[at], c[at], blocks, True))
        self.stem = nn.Sequential(*stem, group(1, d[0]))
        self.groups = nn.ModuleList([group(2, d[1]), group(3, d[1]), group(4, d[0])])
        self.pool = PyramidPooling(c[4])
        self.down = nn.ModuleList([CrossStage(c[4] + c[3], c[3], d[0], False),
                                   CrossStage(c[3] + c[2], c[2], d[0], False)])
        self.shrink = nn.ModuleList([unit(c[2], c[2], 3, 2), unit(c[3], c[3], 3, 2)])
        self.up = nn.ModuleList([CrossStage(c[2] + c[3], c[3], d[0], False),
                                 CrossStage(c[3] + c[4], c[4], d[0], False)])
        self.larger = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.channels = c[2:]

    def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
        fine = self.groups[0](self.stem(image))
        middle = self.groups[1](fine)
        coarse = self.pool(self.groups[2](middle))
        middle = self.down[0](torch.cat([self.larger(coarse), middle], 1))
        fine = self.down[1](torch.cat([self.larger(middle), fine], 1))
        middle = self.up[0](torch.cat([self.shrink[0](fine), middle], 1))
        return [fine, middle, self.up[1](torch.cat([self.shrink[1](middle), coarse], 1))]


def branch(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(unit(inputs, hidden, 3), unit(hidden, hidden, 3), nn.Conv2d(hidden, outputs, 1))


def per_anchor(maps: list[torch.Tensor]) -> torch.Tensor:
    """[image][channel][anchor] of all levels."""
    return torch.cat([each.flatten(2) for each in maps], 2)


class Decoder(nn.Module):
    """Makes boxes and points in pixels of raw maps, for an image of one size."""

    def __init__(self, size: tuple[int, int], strides: tuple[int, ...] = STRIDES):
        super().__init__()
        centres, each = [], []
        for stride in strides:
            rows, columns = size[0] // stride, size[1] // stride
            y, x = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
            centres.append(torch.stack([x, y]).flatten(1))
            each.append(torch.full((1, rows * columns), float(stride)))
        self.register_buffer("centres", torch.cat(centres, 1))
        self.register_buffer("strides", torch.cat(each, 1))
        self.register_buffer("bins", torch.arange(float(BINS)).view(1, BINS, 1, 1))

    def boxes(self, maps: list[torch.Tensor]) -> torch.Tensor:
        """The mean distance of each edge, then centre and size in pixels: [image][4][anchor]."""
        edges = per_anchor(maps).unflatten(1, (4, BINS)).transpose(1, 2).softmax(1)
        distances = nn.functional.conv2d(edges, self.bins).squeeze(1)
        first, second = distances.chunk(2, 1)
        low, high = self.centres - first, self.centres + second
        return torch.cat([(low + high) / 2, high - low], 1) * self.strides

    def points(self, maps: list[torch.Tensor]) -> torch.Tensor:
        """Points in pixels with their visibility: [image][3 * point + coordinate][anchor]."""
        points = per_anchor(maps).unflatten(1, (-1, 3))
        where = (points[:, :, :2] * 2 + self.centres - 0.5) * self.strides
        return torch.cat([where, points[:, :, 2:].sigmoid()], 2).flatten(1, 2)


class Yolo(nn.Module):
    """`decoded`: one tensor of boxes in pixels (centre, size) and one of scores; otherwise the raw maps
    of each level, boxes first. `masks`: so many prototypes, and their factors an anchor.
    `keypoints`: so many points (x, y, visibility) an anchor."""

    def __init__(self, size: tuple[int, int], width: float = 0.25, depth: float = 0.34,
                 classes: int = 80, channels: int = 3, decoded: bool = True, masks: int = 0,
                 keypoints: int = 0, focus: bool = False):
        super().__init__()
        self.features = Pyramid(width, depth, channels, focus)
        c = self.features.channels
        heads = lambda outputs, hidden: nn.ModuleList(branch(each, hidden, outputs) for each in c)
        self.boxes = heads(4 * BINS, max(4 * BINS, c[0] // 4))
        self.classes = heads(classes, max(c[0], min(classes, 100)))
        self.factors = heads(masks, max(c[0] // 4, masks)) if masks else None
        self.points = heads(3 * keypoints, max(c[0] // 4, 3 * keypoints)) if keypoints else None
        self.prototypes = nn.Sequential(
            unit(c[0], c[0], 3), nn.ConvTranspose2d(c[0], c[0], 2, 2), unit(c[0], c[0], 3),
            unit(c[0], masks)) if masks else None
        self.decoder = Decoder(size) if decoded else None

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.features(image)
        apply = lambda heads: [head(level) for head, level in zip(heads, features)]
        boxes, scores = apply(self.boxes), apply(self.classes)
        if self.decoder is None:
            return *boxes, *scores
        outputs = [self.decoder.boxes(boxes), per_anchor(scores).sigmoid()]
        if self.points is not None:
            outputs.append(self.decoder.points(apply(self.points)))
        if self.prototypes is not None:
            outputs += [per_anchor(apply(self.factors)), self.prototypes(features[0])]
        return tuple(outputs)


class Anchored(nn.Module):
    """The older form (YOLOv3-tiny): leaky units, pooling, two raw maps for three anchors a place."""

    def __init__(self, classes: int = 80, width: int = 16):
        super().__init__()
        leaky = lambda: nn.LeakyReLU(0.1)
        step = lambda a, b, kernel=3: unit(a, b, kernel, activation=leaky)
        c = [width << at for at in range(7)]
        layers = [step(3, c[0])]
        for at in range(4):
            layers += [nn.MaxPool2d(2, 2), step(c[at], c[at + 1])]
        self.fine = nn.Sequential(*layers)
        # Below all values, so that the border counts in no maximum. One of zeros would, and onnxruntime
        # 1.31.1 answers wrongly then: it makes it the pooling's own border, which counts in none.
        border = nn.ConstantPad2d((0, 1, 0, 1), -1e4)
        self.coarse = nn.Sequential(
            nn.MaxPool2d(2, 2), step(c[4], c[5]), border, nn.MaxPool2d(2, 1),
            step(c[5], c[6]), step(c[6], c[4], 1))
        outputs = 3 * (5 + classes)
        self.coarse_head = nn.Sequential(step(c[4], c[5]), nn.Conv2d(c[5], outputs, 1))
        self.up = nn.Sequential(step(c[4], c[3], 1), nn.Upsample(scale_factor=2.0, mode="nearest"))
        self.fine_head = nn.Sequential(step(c[3] + c[4], c[4]), nn.Conv2d(c[4], outputs, 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine = self.fine(image)
        coarse = self.coarse(fine)
        return self.coarse_head(coarse), self.fine_head(torch.cat([self.up(coarse), fine], 1))
