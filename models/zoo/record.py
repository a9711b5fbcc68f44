"""Writes the files of recorded/, which tests of the compiler read: python record.py [NAME...]

Networks of robots.toml in miniature, with random weights from a seed, and those of written.py. Of each

    NAME.onnx         the file as PyTorch or written.py wrote it, without notes on lines of source text
    NAME.json         {"form", "onnxruntime", "inputs": [{"name", "shape"}], "outputs": [...]}
    NAME.inputs.f32   one image: the values of all inputs, in the order of NAME.json, little-endian
    NAME.outputs.f32  what onnxruntime answers, in the same way; integers are written as floats

Shapes are without the batch, which is open. `missing.json` lists the operators that keep a network from
being compiled; the compiler's test says when it is no longer true. The files are committed; another version
of PyTorch writes the same network differently, so they change only when somebody runs this on purpose.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy
import onnx
import onnxruntime
import torch
import torchvision
from torch import nn
from torch.nn import functional

import coverage
import export
import exported
import maps
import quantise
import robots
import written
import yolo
from maps import relu_unit

FOLDER = Path(__file__).parent / "recorded"
LIMIT = 1_500_000  # bytes of all files


class Dilated(nn.Module):
    """DeepLabV3's head: dilated convolutions beside each other and the mean of the image, resized."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(relu_unit(3, 8, 3, 2), relu_unit(8, 8, 3, 2))
        self.pyramid = torchvision.models.segmentation.deeplabv3.ASPP(8, (2, 3, 4), 8)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.pyramid(self.body(image)))
        return functional.interpolate(scores, image.shape[2:], mode="bilinear", align_corners=False)


class BestClass(nn.Module):
    """Segmentation that answers with the best class of each pixel."""

    def __init__(self):
        super().__init__()
        self.body = maps.UNet(width=4, depth=1, classes=4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.body(image)[0].argmax(1)


class AnchorBoxes(nn.Module):
    """SSDlite's heads on two levels: maps to rows of anchors, levels concatenated."""

    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList([relu_unit(3, 8, 3, 2), relu_unit(8, 12, 3, 2)])
        head = lambda channels, outputs: nn.Sequential(
            relu_unit(channels, channels, 3, groups=channels), nn.Conv2d(channels, outputs, 1))
        self.boxes = nn.ModuleList(head(c, 3 * 4) for c in (8, 12))
        self.scores = nn.ModuleList(head(c, 3 * 5) for c in (8, 12))

    @staticmethod
    def rows(x: torch.Tensor, values: int) -> torch.Tensor:
        images, _, rows, columns = x.shape
        return x.view(images, -1, values, rows, columns).permute(0, 3, 4, 1, 2).reshape(images, -1, values)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        levels = []
        for step in self.steps:
            levels.append(image := step(image))
        flat = lambda heads, values: torch.cat(
            [self.rows(head(level), values) for head, level in zip(heads, levels)], 1)
        return flat(self.boxes, 4), flat(self.scores, 5)


class Distributions(nn.Module):
    """The detector of yolo.py with two levels of 8 channels, its own blocks and decoder."""

    def __init__(self, size: tuple[int, int]):
        super().__init__()
        self.fine = nn.Sequential(yolo.unit(3, 8, 3, 2), yolo.CrossStage(8, 8, 1, True))
        self.coarse = nn.Sequential(yolo.unit(8, 8, 3, 2), yolo.PyramidPooling(8))
        self.join = yolo.CrossStage(16, 8, 1, False)
        self.boxes = nn.ModuleList(nn.Conv2d(8, 4 * yolo.BINS, 1) for _ in range(2))
        self.scores = nn.ModuleList(nn.Conv2d(8, 3, 1) for _ in range(2))
        self.decoder = yolo.Decoder(size, (2, 4))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine = self.fine(image)
        coarse = self.coarse(fine)
        larger = functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        levels = self.join(torch.cat([larger, fine], 1)), coarse
        apply = lambda heads: [head(level) for head, level in zip(heads, levels)]
        return self.decoder.boxes(apply(self.boxes)), yolo.per_anchor(apply(self.scores)).sigmoid()


class Steering(nn.Module):
    """An image and the speed; an early exit, and confidences of its own."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ELU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, 2), nn.ELU(), nn.Flatten(1))
        self.heads = nn.ModuleList([nn.Linear(8 + 1, 3), nn.Linear(8 * 2 * 5 + 1, 3)])

    def forward(self, image: torch.Tensor, speed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.first(image)
        early = self.heads[0](torch.cat([features.mean((2, 3)), speed], 1))
        last = self.heads[1](torch.cat([self.second(features), speed], 1))
        return tuple(part for each in (early, last) for part in (each[:, :2].tanh(), each[:, 2:].sigmoid()))


class Pooled(nn.Module):
    """A small body and a linear layer: a set of labels, or a vector of length one."""

    def __init__(self, outputs: int, unit_length: bool):
        super().__init__()
        self.body = nn.Sequential(relu_unit(3, 8, 3, 2), relu_unit(8, 16, 3, 2),
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(16, outputs))
        self.unit_length = unit_length

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        found = self.body(image)
        return functional.normalize(found, dim=1) if self.unit_length else found.sigmoid()


class Stacked(nn.Module):
    """DETR's decoder in small: constant queries read the image; each layer's boxes are the next one's
    reference; the layers' answers are stacked and taken apart again."""

    def __init__(self, layers: int = 2, width: int = 8, queries: int = 6):
        super().__init__()
        self.body = nn.Sequential(relu_unit(3, 8, 3, 2), nn.Conv2d(8, width, 3, 2, 1))
        self.queries = nn.Parameter(torch.randn(1, queries, width))
        self.attention = nn.ModuleList(
            nn.MultiheadAttention(width, 2, batch_first=True) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.place = nn.Linear(4, width)
        self.boxes = nn.ModuleList(nn.Linear(width, 4) for _ in range(layers))
        self.scores = nn.ModuleList(nn.Linear(width, 5) for _ in range(layers))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tokens = self.body(image).flatten(2).transpose(1, 2)
        state = self.queries.expand(image.shape[0], -1, -1)
        reference = torch.zeros_like(state[:, :, :4])
        all_boxes, all_scores = [], []
        for attention, norm, boxes, scores in zip(self.attention, self.norms, self.boxes, self.scores):
            read, _ = attention(state + self.place(reference), tokens, tokens, need_weights=False)
            state = norm(state + read)
            reference = reference + boxes(state)
            all_boxes.append(reference.sigmoid())
            all_scores.append(scores(state))
        stacked_boxes, stacked_scores = torch.stack(all_boxes, 1), torch.stack(all_scores, 1)
        return tuple(each[:, at] for at in range(len(self.boxes)) for each in (stacked_scores, stacked_boxes))


class Depth(nn.Module):
    """A depth decoder in small: reflected borders, ELU, nearest upsampling; a scale an exit."""

    def __init__(self):
        super().__init__()
        step = lambda a, b: nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(a, b, 3), nn.ELU())
        self.down = nn.ModuleList([relu_unit(3, 8, 3, 2), relu_unit(8, 8, 3, 2)])
        self.up = nn.ModuleList([step(8, 8), step(16, 8)])
        self.heads = nn.ModuleList(nn.Sequential(step(8, 1), nn.Sigmoid()) for _ in range(2))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine = self.down[0](image)
        x = self.up[0](self.down[1](fine))
        first = self.heads[0](x)
        x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        return first, self.heads[1](self.up[1](torch.cat([x, fine], 1)))


class Grouped(nn.Module):
    """FCOS's tower with group normalisation behind instance normalisation and LeakyReLU."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.1),
            nn.Conv2d(8, 8, 3, 1, 1), nn.GroupNorm(2, 8), nn.ReLU())
        self.boxes, self.centreness = nn.Conv2d(8, 4, 3, 1, 1), nn.Conv2d(8, 1, 3, 1, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.body(image)
        return self.boxes(x).relu().flatten(2).transpose(1, 2), self.centreness(x)


class Chosen(nn.Module):
    """RT-DETR's selection and sampling: the best places of a map, features read at points beside them."""

    def __init__(self, queries: int = 4):
        super().__init__()
        self.body = nn.Sequential(relu_unit(3, 8, 3, 2), relu_unit(8, 8, 3, 2))
        self.scores, self.boxes = nn.Linear(8, 3), nn.Linear(8, 4)
        self.offsets, self.answer = nn.Linear(8, 2 * 3), nn.Linear(8, 3)
        self.queries = queries

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(image)
        tokens = features.flatten(2).transpose(1, 2)
        best = self.scores(tokens).max(-1).values.topk(self.queries, dim=1).indices.unsqueeze(-1)
        boxes = self.boxes(tokens).gather(1, best.expand(-1, -1, 4)).sigmoid()
        state = tokens.gather(1, best.expand(-1, -1, 8))
        points = boxes[:, :, None, :2] + 0.1 * self.offsets(state).unflatten(2, (3, 2))
        read = functional.grid_sample(features, 2 * points - 1, align_corners=False)
        return self.answer(state + read.mean(3).transpose(1, 2)), boxes


class Deformable(nn.Module):
    """RT-DETR's attention to two levels: each head reads a few points beside its query's place, and weighs them.
    Two layers, each of which moves the places for the next; an exit a layer."""

    def __init__(self, width: int = 8, heads: int = 2, points: int = 2, queries: int = 3):
        super().__init__()
        self.body = nn.ModuleList([relu_unit(3, width, 3, 2), relu_unit(width, width, 3, 2)])
        self.heads, self.points, self.queries = heads, points, queries
        self.score = nn.Linear(width, 1)
        self.values, self.answer = nn.Linear(width, width), nn.Linear(width, width)
        self.offsets = nn.Linear(width, heads * 2 * points * 2)
        self.weights = nn.Linear(width, heads * 2 * points)
        self.boxes = nn.Linear(width, 4)

    def read(self, levels: list[torch.Tensor], state: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        images, width = state.shape[0], state.shape[2]
        each = width // self.heads
        values = self.values(torch.cat([level.flatten(2).transpose(1, 2) for level in levels], 1))
        offsets = self.offsets(state).view(images, self.queries, self.heads, 2, self.points, 2)
        places = boxes[:, :, None, None, None, :2] + offsets / self.points * boxes[:, :, None, None, None, 2:] * 0.5
        weights = self.weights(state).view(images, self.queries, self.heads, -1).softmax(-1)
        sampled, start = [], 0
        for at, level in enumerate(levels):
            rows, columns = level.shape[2:]
            own = values[:, start:start + rows * columns].transpose(1, 2)
            own = own.reshape(images * self.heads, each, rows, columns)
            grid = (2 * places[:, :, :, at] - 1).transpose(1, 2).flatten(0, 1)
            sampled.append(functional.grid_sample(own, grid, align_corners=False))
            start += rows * columns
        weights = weights.transpose(1, 2).reshape(images * self.heads, 1, self.queries, -1)
        found = (torch.stack(sampled, 3).flatten(3) * weights).sum(3)
        return self.answer(found.view(images, width, self.queries).transpose(1, 2))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        levels = [self.body[0](image)]
        levels.append(self.body[1](levels[0]))
        tokens = levels[1].flatten(2).transpose(1, 2)
        best = self.score(tokens)[..., 0].topk(self.queries, dim=1).indices.unsqueeze(-1)
        state = tokens.gather(1, best.expand(-1, -1, tokens.shape[2]))
        boxes, outputs = self.boxes(state).sigmoid(), []
        for _ in range(2):
            state = state + self.read(levels, state, boxes)
            clipped = boxes.clamp(1e-5, 1 - 1e-5)
            boxes = (self.boxes(state) + torch.log(clipped / (1 - clipped))).sigmoid()
            outputs += [boxes, state]
        return tuple(outputs)


class Warp(nn.Module):
    """Two images through one encoder; the second is brought onto the first by a flow, beyond whose border the nearest
    pixel is, and each pixel is compared with its surroundings there."""

    def __init__(self, size: tuple[int, int]):
        super().__init__()
        self.encode = nn.Sequential(relu_unit(3, 8, 3, 2), nn.Conv2d(8, 8, 3, 1, 1))
        self.flow = nn.Conv2d(16, 2, 3, 1, 1)
        self.answer = nn.Conv2d(9, 1, 1)
        rows, columns = size[0] // 2, size[1] // 2
        y, x = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
        self.register_buffer("grid", torch.stack([x, y], -1)[None])
        near = torch.linspace(-1, 1, 3) * 0.5
        y, x = torch.meshgrid(near, near, indexing="ij")
        self.register_buffer("near", torch.stack([x, y], -1)[None])

    def forward(self, pair: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = torch.chunk(self.encode(torch.cat([pair[:, :3], pair[:, 3:]], 0)), 2, 0)
        place = self.grid + self.flow(torch.cat([first, second], 1)).permute(0, 2, 3, 1)
        there = functional.grid_sample(second, place, padding_mode="border", align_corners=True)
        images, _, rows, columns = first.shape
        # Of each pixel of the first image its likeness to all of the second; around its place.
        like = (first.flatten(2).transpose(1, 2) @ second.flatten(2)).reshape(-1, 1, rows, columns)
        around = place.reshape(-1, 1, 1, 2) + self.near
        near = functional.grid_sample(like, around, align_corners=True)
        near = near.view(images, rows, columns, 9).permute(0, 3, 1, 2)
        return there, self.answer(near)


class Patches(nn.Module):
    """MobileViT's attention: each pixel of a patch to the same pixel of all patches, which lie beside the images."""

    def __init__(self):
        super().__init__()
        self.body = relu_unit(3, 8, 3, 2)
        self.norm = nn.LayerNorm(8)
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.body(image)
        patches = x.unflatten(3, (4, 2)).unflatten(2, (4, 2)).permute(0, 3, 5, 2, 4, 1)
        tokens = self.norm(patches.reshape(-1, 16, 8))
        heads = (part(tokens).reshape(-1, 16, 2, 4).transpose(1, 2) for part in self.parts)
        read = functional.scaled_dot_product_attention(*heads).transpose(1, 2)
        read = read.reshape(-1, 2, 2, 4, 4, 8).permute(0, 5, 3, 1, 4, 2)
        return x + read.reshape(-1, 8, 8, 8)


class OverTime(nn.Module):
    """A window of observations [value][step]: a convolution over time, then a GRU's last state."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv1d(6, 8, 3, padding=1), nn.ReLU())
        self.over_time = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        states, _ = self.over_time(self.enter(observations).transpose(1, 2))
        return self.head(states[:, -1]).tanh()


class States(nn.Module):
    """Windows, pools, normalisation and resizing along time; recurrent layers in both directions, with a
    state that comes as an input and goes as an output; a second input of several rows."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv1d(6, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.Mish(), nn.BatchNorm1d(8))
        self.up, self.past = nn.ConvTranspose1d(8, 8, 4, 2, 1), nn.Sequential(
            nn.Conv1d(3, 6, 3, dilation=2, padding=2), nn.MaxPool1d(2, ceil_mode=True))
        self.both = nn.GRU(8, 5, batch_first=True, bidirectional=True)
        self.cells = nn.LSTM(10, 7, batch_first=True)
        self.plain = nn.RNN(6, 9, nonlinearity="relu")
        self.head = nn.Linear(7 + 7 + 9, 3)

    def forward(self, observations: torch.Tensor, past: torch.Tensor, state: torch.Tensor):
        x = self.enter(observations)
        series = self.up(x) + functional.interpolate(x, scale_factor=2.0, mode="linear")
        found, _ = self.both(functional.avg_pool1d(series, 3, 2, 1).transpose(1, 2))
        steps, (shown, cells) = self.cells(found)
        _, last = self.plain(self.past(past).permute(2, 0, 1), state.unsqueeze(0))
        return self.head(torch.cat([shown[0], cells[0], last[0]], 1)), series, steps, last[0]


class Sums(nn.Module):
    """Reductions of all kinds, normalisation over several dimensions, and zeros around a convolution."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ZeroPad2d((1, 2, 0, 1)), nn.Conv2d(3, 4, 4, 2))
        self.norm, self.last = nn.LayerNorm([4, 7, 8]), nn.LayerNorm(8)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.norm(self.body(image)).relu() + 0.5
        rows = torch.stack([x.sum((1, 3)), x.logsumexp((1, 3)), x.abs().sum((1, 3)), (x * x).sum((1, 3)).log(),
                            x[:, :, :, :3].prod(1).prod(2), x.amax((1, 3)), x.amin((1, 3))], 1)
        return rows, x.cumsum(2), self.last(x) + functional.adaptive_max_pool2d(x, 1), functional.normalize(x, 1.0, 1)


class Padded(nn.Module):
    """BlazeFace's block: zero channels appended to the shortcut, PReLU; constant borders."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.ConstantPad2d((0, 1, 0, 1), 0.5), nn.Conv2d(3, 6, 3, 2), nn.PReLU(6))
        self.body = nn.Sequential(nn.Conv2d(6, 6, 5, 2, 2, groups=6), nn.Conv2d(6, 10, 1))
        self.activation = nn.PReLU(10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.enter(image)
        kept = functional.pad(functional.max_pool2d(x, 2, 2), (0, 0, 0, 0, 0, 4))
        return self.activation(self.body(x) + kept)


class Peaks(nn.Module):
    """CenterNet's peaks and other choices: values by comparisons and masks, of which what is not chosen is
    infinite or no number; truths and whole numbers as answers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, 1, 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.body(image)
        peaks = x * (functional.max_pool2d(x, 3, 1, 1) == x)
        mask = (x > x.mean((2, 3), keepdim=True)) & ~(x.mean(1, keepdim=True) >= 0.1)
        scores = x.masked_fill(mask, float("-inf")).flatten(2).softmax(-1)
        logarithm = x.log()
        known = torch.where(logarithm.isnan(), x, logarithm)
        safe = torch.where(x.abs() < 0.1, 0.5, 1 / x) + torch.where((x > 0) ^ (x > -0.3), x, 1.0)
        whole = (8 * x.sum(1)).to(torch.int32)
        parts = torch.div(whole, 3, rounding_mode="trunc") + whole.remainder(5)
        return peaks, scores, known, safe, mask, parts


class Curves(nn.Module):
    """One channel for each of many functions of one value."""

    FUNCTIONS = (
        functional.mish, functional.softplus, lambda x: functional.elu(x, 0.7), functional.selu,
        lambda x: functional.celu(x, 1.3), lambda x: functional.leaky_relu(x, 0.2), functional.softsign,
        lambda x: functional.leaky_relu(x, 1.5), lambda x: functional.gelu(x, approximate="tanh"),
        lambda x: (x.abs() + 0.1).log(), torch.sin, torch.cos, torch.atan, lambda x: (3 * x).floor(),
        lambda x: (3 * x).ceil(), lambda x: (3 * x).round(), torch.sign, torch.erf,
        lambda x: (x.abs() + 0.1).pow(2.7), lambda x: torch.pow(2.0, x), lambda x: (x.abs() + 0.1).pow(x),
        torch.sinh, lambda x: (x / 9).tan(), lambda x: x.tanh().asin(), lambda x: (x / 9).atanh(), torch.asinh,
    )

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, len(self.FUNCTIONS), 5, 4)
        self.slopes = nn.Parameter(torch.rand(len(self.FUNCTIONS)))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = 3 * self.body(image)
        each = [function(part) for function, part in zip(self.FUNCTIONS, x.split(1, 1))]
        return torch.cat(each, 1), functional.prelu(x, self.slopes)


def windows() -> nn.Module:
    """Swin's windows, shifted and not, on one level."""
    return torchvision.models.swin_transformer.SwinTransformer(
        [2, 2], embed_dim=8, depths=[2], num_heads=[2], window_size=[4, 4], mlp_ratio=2.0,
        num_classes=5, stochastic_depth_prob=0.0)


def windows_v2() -> nn.Module:
    """Swin v2's: cosines with a factor a head."""
    swin = torchvision.models.swin_transformer
    network = swin.SwinTransformer(
        [2, 2], embed_dim=8, depths=[2], num_heads=[2], window_size=[4, 4], mlp_ratio=2.0, num_classes=5,
        stochastic_depth_prob=0.0, block=swin.SwinTransformerBlockV2, downsample_layer=swin.PatchMergingV2)
    for module in network.modules():
        if hasattr(module, "cpb_mlp"):  # 512 wide, which would be most of the file.
            module.cpb_mlp = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2, bias=False))
    return network


class Grids(nn.Module):
    """MaxViT's attention in windows, then in grids: Einsum and relative positions."""

    def __init__(self):
        super().__init__()
        self.body = relu_unit(3, 8, 3, 2)
        layer = lambda kind: torchvision.models.maxvit.PartitionAttentionLayer(
            in_channels=8, head_dim=4, partition_size=4, partition_type=kind, grid_size=(8, 8), mlp_ratio=1,
            activation_layer=nn.GELU, norm_layer=nn.LayerNorm, attention_dropout=0.0, mlp_dropout=0.0,
            p_stochastic_dropout=0.0)
        self.layers = nn.Sequential(layer("window"), layer("grid"))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(self.body(image))


class Products(nn.Module):
    """Products of matrices that are no attention: EfficientViT's linear attention, RAFT's correlation of all pixels,
    SAM's positions along one side, constants on either side, Einsum of one and of two operands."""

    def __init__(self):
        super().__init__()
        self.body = relu_unit(3, 8, 3, 2)
        self.qkv = nn.Conv2d(8, 24, 1)
        self.left, self.each = nn.Parameter(torch.randn(6, 8)), nn.Parameter(torch.randn(2, 4, 5))
        self.along = nn.Parameter(torch.randn(8, 3, 8))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.body(image)
        query, key, value = self.qkv(x).reshape(-1, 2, 12, 64).transpose(-1, -2).chunk(3, -1)
        value = functional.pad(value, (0, 1), value=1.0)
        weighed = query.relu() @ (key.relu().transpose(-1, -2) @ value)
        weighed = weighed[..., :-1] / (weighed[..., -1:] + 0.5)
        flat = (x + weighed.transpose(-1, -2).reshape(-1, 8, 8, 8)).flatten(2)
        pairs = torch.einsum("ncp,ncq->npq", flat, x.flatten(2)) / 8 ** 0.5
        heads = flat.reshape(-1, 2, 4, 64)
        mixed = torch.cat([self.left @ flat, (heads.transpose(-1, -2) @ self.each).sum(1).transpose(1, 2)], 1)
        both = torch.einsum("nhcp,hcd->npd", heads, self.each)
        along = torch.einsum("nchw,hkc->nkhw", x, self.along)
        sums = torch.einsum("nchw->nc", x) / 64
        outer = torch.einsum("nc,nd->ncd", sums, torch.einsum("npd->nd", both) / 64)
        return pairs, mixed, both, along, outer


class Attentions(nn.Module):
    """Ways to write an attention: masks and biases, keys of another length than the queries, values of other channels,
    channels first, heads last, several windows, constant queries, weights that are read."""

    def __init__(self):
        super().__init__()
        self.body, self.small = relu_unit(3, 8, 3, 2), nn.Conv2d(8, 12, 2, 2)
        self.read = nn.MultiheadAttention(8, 2, kdim=12, vdim=12)
        self.queries = nn.Parameter(torch.randn(3, 1, 8))
        self.bias = nn.Parameter(torch.randn(1, 2, 64, 16))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.body(image)
        small = self.small(x).flatten(2)  # 12 channels of 16 pixels
        tokens = x.flatten(2).transpose(1, 2)
        heads = lambda value, each: value.reshape(value.shape[0], value.shape[1], -1, each).transpose(1, 2)
        query, key = heads(tokens, 4), heads(small.transpose(1, 2)[..., :8], 4)
        value = heads(small.transpose(1, 2), 6)
        seen = torch.ones(64, 16).tril().bool()
        causal = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        biased = ((query @ key.transpose(-1, -2)) * 0.5 + self.bias).softmax(-1) @ value
        both = (causal + biased).transpose(1, 2).flatten(2)
        first = small.reshape(-1, 2, 6, 16)  # heads of channels first
        weights = (first.transpose(2, 3) @ first / 6 ** 0.5).softmax(-1)
        channels_first = (weights @ first.transpose(2, 3)).transpose(2, 3).reshape(-1, 12, 16)
        rows = x.permute(0, 2, 3, 1)  # each row of pixels a window
        weights_of_rows = torch.einsum("nrqc,nrkc->nrqk", rows, rows * 0.25).softmax(-1)
        rows = torch.einsum("nrqk,nrkc->nrcq", weights_of_rows, rows)
        queries = self.queries.expand(-1, image.shape[0], -1)
        memory = small.permute(2, 0, 1)
        answers, _ = self.read(queries, memory, memory)
        return both, channels_first, weights, rows, answers.transpose(0, 1)


class Masked(nn.Module):
    """DETR's encoder in small: which pixels count is a mask of each image, read by the numbers of images and keys."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.body = nn.Sequential(relu_unit(3, width, 3, 2), nn.Conv2d(width, width, 3, 2, 1))
        self.parts = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.register_buffer("counts", torch.arange(4 * 4)[None] % 5 > 0)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        tokens = self.body(image).flatten(2).transpose(1, 2)
        images, count = tokens.shape[:2]
        image_at = torch.arange(images, device=image.device)[:, None, None, None]
        key_at = torch.arange(count, device=image.device)[None, None, None]
        seen = self.counts.expand(images, -1)[image_at, key_at].expand(images, -1, count, -1)
        query, key, value = (part(tokens).unflatten(2, (2, -1)).transpose(1, 2) for part in self.parts)
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return tokens + read.transpose(1, 2).flatten(2)


def all_levels() -> nn.Module:
    """SegFormer with two levels and the decoder that brings all of them to one resolution."""
    import transformers  # Only this one needs it.
    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[3, 3],
        strides=[2, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=4)
    return robots.Named(transformers.SegformerForSemanticSegmentation(config), ("logits",))


@dataclass(frozen=True)
class Miniature:
    name: str
    make: object  # a function that gives the module
    inputs: dict[str, list[int] | None]  # None: a scalar without a batch
    outputs: list[str]
    form: str
    int8: bool = False  # quantised by models/zoo/quantise.py


exits = lambda count, *names: [f"exit_{at}/{name}" for at in range(count) for name in names]
TORCHSCRIPT, DYNAMO = export.FORMS
IMAGE = {"image": [3, 16, 16]}

MINIATURES = [
    Miniature("unet_nearest", lambda: maps.UNet(width=2, depth=2), IMAGE, exits(1, "mask"), TORCHSCRIPT),
    Miniature("unet_bilinear", lambda: maps.UNet(width=2, depth=2, up="bilinear"), {"image": [3, 16, 24]},
              exits(1, "mask"), DYNAMO),
    Miniature("unet_transposed", lambda: maps.UNet(width=2, depth=2, up="transposed"), IMAGE,
              exits(1, "mask"), DYNAMO),
    Miniature("unet_thermal", lambda: maps.UNet(channels=1, width=2, depth=2, up="corners"),
              {"image": [1, 16, 24]}, exits(1, "mask"), TORCHSCRIPT),
    Miniature("unet_rgbd_exits", lambda: maps.UNet(channels=4, classes=2, width=1, depth=3, exits=True),
              {"image": [4, 16, 16]}, exits(3, "mask", "confidence"), DYNAMO),
    Miniature("best_class", BestClass, IMAGE, exits(1, "classes"), TORCHSCRIPT),
    Miniature("dilated", Dilated, {"image": [3, 32, 32]}, exits(1, "scores"), TORCHSCRIPT),
    Miniature("all_levels", all_levels, IMAGE, exits(1, "logits"), DYNAMO),
    Miniature("anchor_boxes", AnchorBoxes, IMAGE, exits(1, "boxes", "scores"), TORCHSCRIPT),
    Miniature("distributions", lambda: Distributions((16, 16)), IMAGE, exits(1, "boxes", "scores"), DYNAMO),
    Miniature("grouped", Grouped, IMAGE, exits(1, "boxes", "centreness"), TORCHSCRIPT),
    Miniature("padded", Padded, IMAGE, exits(1, "map"), DYNAMO),
    Miniature("stacked_exits", Stacked, IMAGE, exits(2, "scores", "boxes"), TORCHSCRIPT),
    Miniature("stacked_exits_dynamo", Stacked, IMAGE, exits(2, "scores", "boxes"), DYNAMO),
    Miniature("chosen", Chosen, IMAGE, exits(1, "scores", "boxes"), DYNAMO),
    Miniature("deformable_exits", Deformable, IMAGE, exits(2, "boxes", "state"), DYNAMO),
    Miniature("deformable_exits_torchscript", Deformable, IMAGE, exits(2, "boxes", "state"), TORCHSCRIPT),
    Miniature("warp", lambda: Warp((16, 24)), {"pair": [6, 16, 24]}, exits(1, "warped", "likeness"), TORCHSCRIPT),
    Miniature("windows", windows, IMAGE, ["exit_0"], DYNAMO),
    Miniature("windows_v2", windows_v2, IMAGE, ["exit_0"], DYNAMO),
    Miniature("grids", Grids, IMAGE, exits(1, "map"), TORCHSCRIPT),
    Miniature("products", Products, IMAGE, exits(1, "pairs", "mixed", "both", "along", "outer"), TORCHSCRIPT),
    Miniature("attentions", Attentions, IMAGE,
              exits(1, "both", "first", "weights", "rows", "answers"), TORCHSCRIPT),
    Miniature("attentions_dynamo", Attentions, IMAGE,
              exits(1, "both", "first", "weights", "rows", "answers"), DYNAMO),
    Miniature("masked", Masked, IMAGE, exits(1, "tokens"), TORCHSCRIPT),
    Miniature("patches", Patches, IMAGE, exits(1, "map"), TORCHSCRIPT),
    Miniature("steering_exits", Steering, {"image": [3, 16, 28], "speed": [1]},
              exits(2, "action", "confidence"), TORCHSCRIPT),
    Miniature("over_time", OverTime, {"observations": [6, 8]}, exits(1, "action"), TORCHSCRIPT),
    Miniature("states", States, {"observations": [6, 12], "past": [3, 5], "state": [9]},
              exits(1, "action", "series", "steps", "state"), TORCHSCRIPT),
    Miniature("states_dynamo", States, {"observations": [6, 12], "past": [3, 5], "state": [9]},
              exits(1, "action", "series", "steps", "state"), DYNAMO),
    Miniature("sums", Sums, IMAGE, exits(1, "rows", "running", "normal", "parts"), TORCHSCRIPT),
    Miniature("labels", lambda: Pooled(6, unit_length=False), IMAGE, ["exit_0"], TORCHSCRIPT),
    Miniature("embedding", lambda: Pooled(8, unit_length=True), IMAGE, ["embedding"], DYNAMO),
    Miniature("depth_exits", Depth, {"image": [3, 16, 24]}, exits(2, "depth"), TORCHSCRIPT),
    Miniature("peaks", Peaks, IMAGE, exits(1, "peaks", "scores", "known", "safe", "mask", "parts"), TORCHSCRIPT),
    Miniature("peaks_dynamo", Peaks, IMAGE, exits(1, "peaks", "scores", "known", "safe", "mask", "parts"), DYNAMO),
    Miniature("curves", Curves, IMAGE, exits(1, "values", "slopes"), DYNAMO),
    Miniature("interest_points", lambda: maps.InterestPoints(width=2, descriptor=8),
              {"image": [1, 24, 32]}, exits(1, "points", "descriptors"), TORCHSCRIPT),
    Miniature("cameras", exported.Cameras, {"frames": [18, 12, 12]}, exits(1, "frames", "all"), TORCHSCRIPT),
    Miniature("cameras_dynamo", exported.Cameras, {"frames": [18, 12, 12]}, exits(1, "frames", "all"), DYNAMO),
    Miniature("window_convolutions", exported.Windows, {"image": [6, 8, 8]}, ["exit_0"], DYNAMO),
    Miniature("rows", exported.Rows, {"image": [4, 5, 7]}, exits(1, "states", "last"), TORCHSCRIPT),
    Miniature("volumes", exported.Volumes, {"volume": [2, 4, 6, 6]}, exits(1, "up", "pooled", "mean"), TORCHSCRIPT),
    Miniature("disparity", exported.Disparity, {"pair": [6, 8, 12]}, exits(1, "disparity"), DYNAMO),
    Miniature("cells", exported.Cells, {"points": [9, 4]}, exits(1, "map", "added"), DYNAMO),
    Miniature("assigned", exported.Assigned, {"image": [3, 6, 6]}, ["exit_0"], DYNAMO),
    Miniature("assigned_torchscript", exported.Assigned, {"image": [3, 6, 6]}, ["exit_0"], TORCHSCRIPT),
    Miniature("looked_up", exported.Looked, {"values": [7]}, exits(1, "mixed", "code", "marked"), DYNAMO),
    Miniature("taken", exported.Taken, {"image": [3, 6, 6]},
              exits(1, "points", "elements", "products", "large", "lower"), DYNAMO),
    Miniature("decoder", exported.Decoder, {"image": [3, 3, 3]}, exits(1, "picture", "small"), TORCHSCRIPT),
    Miniature("denoising", exported.Denoising, {"noisy": [4, 8], "goal": [512], "timestep": None},
              exits(1, "noise", "waves"), TORCHSCRIPT),
    Miniature("denoising_dynamo", exported.Denoising, {"noisy": [4, 8], "goal": [512], "timestep": None},
              exits(1, "noise", "waves"), DYNAMO),
    Miniature("neighbours", exported.Neighbours, {"points": [9, 3]}, exits(1, "near", "around", "first"), TORCHSCRIPT),
    Miniature("neighbours_dynamo", exported.Neighbours, {"points": [9, 3]}, exits(1, "near", "around", "first"),
              DYNAMO),
    Miniature("scattered", exported.Scattered, {"points": [6, 7]}, exits(1, "shares", "votes", "heights"), DYNAMO),
    Miniature("known", exported.Known, {"image": [3, 4, 4]}, exits(1, "likeness", "mixed", "spread"), TORCHSCRIPT),
    Miniature("unet_transposed_int8", lambda: maps.UNet(width=2, depth=2, up="transposed"), IMAGE,
              exits(1, "mask"), DYNAMO, int8=True),
    Miniature("windows_int8", windows, IMAGE, ["exit_0"], DYNAMO, int8=True),
    Miniature("over_time_int8", OverTime, {"observations": [6, 8]}, exits(1, "action"), TORCHSCRIPT, int8=True),
]
# Answers of onnxruntime and of PyTorch may be this far apart, relative to the largest value; of a network in bytes they are
# as far apart as its steps.
TOLERANCE, TOLERANCE_INT8 = 1e-5, 0.3


def drop_notes(path: Path) -> None:
    """They are most of a small file, and name folders of the machine that wrote it."""
    model = onnx.load(path)
    for part in (model.graph, *model.graph.node, *model.graph.input, *model.graph.output,
                 *model.graph.value_info, *model.graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, path)


def record(miniature: Miniature) -> None:
    """Writes the files of one, after a check that onnxruntime answers as PyTorch in float64 does."""
    robot = robots.Robot(miniature.name, "", miniature.inputs, miniature.outputs, "none", "MIT", [])
    module = robots.seeded(miniature.make, robot)
    path = FOLDER / f"{miniature.name}.onnx"
    robot.export(module, path, miniature.form)
    drop_notes(path)
    if miniature.int8:
        [images] = robot.example(64, seed=98).values()
        quantise.quantise(path, path, images.numpy())
    inputs = robot.example(1, seed=99)
    found = coverage.onnxruntime_scores(path, inputs, fused=not miniature.int8)
    exact = coverage.exact_scores(module, inputs)
    tolerance = TOLERANCE_INT8 if miniature.int8 else TOLERANCE
    for name, value, true in zip(miniature.outputs, found, exact, strict=True):
        value, true = value.astype("f8"), true.astype("f8")
        if not abs(value - true).max() <= tolerance * max(1.0, abs(true).max()):
            raise SystemExit(f"{miniature.name}: {name} differs by {abs(value - true).max()}")
    described = {"form": miniature.form, "onnxruntime": onnxruntime.__version__, "torch": torch.__version__}
    write(path, described, {name: value.numpy() for name, value in inputs.items()},
          dict(zip(miniature.outputs, found)))


def record_written(network: written.Written) -> None:
    """Writes the files of one that was written node by node."""
    path = FOLDER / f"{network.name}.onnx"
    onnx.save(network.model, path)
    random = numpy.random.default_rng(99)
    shapes = {each.name: [side.dim_value for side in each.type.tensor_type.shape.dim][1:]
              for each in network.model.graph.input}
    draw = lambda shape: random.standard_normal((1, *shape)).astype("f4")
    # Halves hold values of quantised networks exactly, so that a GPU rounds them to the same steps.
    rounded = lambda values: numpy.round(values * 64) / 64 if network.bytes else values
    inputs = {name: torch.from_numpy(rounded(draw(shape))) for name, shape in shapes.items()}
    found = coverage.onnxruntime_scores(path, inputs, fused=not network.bytes)
    outputs = [output.name for output in network.model.graph.output]
    described = {"form": "written", "onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}
    write(path, described, {name: value.numpy() for name, value in inputs.items()}, dict(zip(outputs, found)))


def write(path: Path, described: dict, inputs: dict[str, numpy.ndarray], outputs: dict[str, numpy.ndarray]) -> None:
    """What a network is, and its values."""
    for name, suffix, values in (("inputs", ".inputs.f32", inputs), ("outputs", ".outputs.f32", outputs)):
        described[name] = [{"name": name, "shape": list(value.shape[1:])} for name, value in values.items()]
        flat = numpy.concatenate([each.ravel().astype("<f4") for each in values.values()])
        flat.tofile(path.with_suffix(suffix))
    path.with_suffix(".json").write_text(json.dumps(described) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    by_name = {miniature.name: miniature for miniature in (*MINIATURES, *written.WRITTEN)}
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(by_name))
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name in arguments.names or by_name:
        network = by_name[name]
        (record_written if isinstance(network, written.Written) else record)(network)
        sizes = [each.stat().st_size for each in FOLDER.glob(f"{name}.*")]
        print(f"{name}  {sum(sizes) / 1024:.1f} KiB", flush=True)
    total = sum(each.stat().st_size for each in FOLDER.iterdir())
    if total > LIMIT:
        raise SystemExit(f"{total} bytes in {FOLDER.name}/, above {LIMIT}: make a network smaller")


if __name__ == "__main__":
    main()
