"""Networks of robots that answer with maps: segmentation, depth, heat maps, flow, peaks. Written from
the papers' descriptions around backbones of torchvision and timm."""

import torch
import torchvision
from torch import nn
from torch.nn import functional
from torchvision.models.feature_extraction import create_feature_extractor

from yolo import unit


def layers(name: str, at: list[str], channels: int = 3) -> nn.Module:
    """A torchvision backbone that gives the features after the modules `at`."""
    backbone = torchvision.models.get_model(name, weights=None)
    if channels != 3:
        first = backbone.conv1
        backbone.conv1 = nn.Conv2d(channels, first.out_channels, 7, 2, 3, bias=False)
    return create_feature_extractor(backbone, return_nodes={node: node for node in at})


GROUPS = ["layer1", "layer2", "layer3", "layer4"]
relu_unit = lambda *sizes, **more: unit(*sizes, activation=nn.ReLU, **more)


class UNet(nn.Module):
    """`up`: nearest, bilinear, corners (bilinear with aligned corners) or transposed. With `exits`, the
    two levels before the last answer too, each with a confidence of its own."""

    def __init__(self, channels: int = 3, classes: int = 5, width: int = 32, depth: int = 4,
                 up: str = "nearest", exits: bool = False):
        super().__init__()
        pair = lambda a, b: nn.Sequential(relu_unit(a, b, 3), relu_unit(b, b, 3))
        c = [width << at for at in range(depth + 1)]
        self.enter = pair(channels, c[0])
        self.down = nn.ModuleList(pair(c[at], c[at + 1]) for at in range(depth))
        self.grow = nn.ModuleList(self.larger(up, c[at + 1], c[at]) for at in reversed(range(depth)))
        self.merge = nn.ModuleList(pair(2 * c[at], c[at]) for at in reversed(range(depth)))
        answering = range(depth - 3, depth) if exits else [depth - 1]
        self.heads = nn.ModuleDict(
            {str(at): nn.Conv2d(c[depth - 1 - at], classes, 1) for at in answering})
        self.trust = nn.ModuleDict({str(at): nn.Linear(c[depth - 1 - at], 1) for at in answering})
        self.exits = exits

    @staticmethod
    def larger(up: str, inputs: int, outputs: int) -> nn.Module:
        if up == "transposed":
            return nn.ConvTranspose2d(inputs, outputs, 2, 2)
        mode, corners = ("nearest", None) if up == "nearest" else ("bilinear", up == "corners")
        return nn.Sequential(nn.Upsample(scale_factor=2.0, mode=mode, align_corners=corners),
                             nn.Conv2d(inputs, outputs, 1))

    def forward(self, image: torch.Tensor):
        x = self.enter(image)
        kept, outputs = [], []
        for block in self.down:
            kept.append(x)
            x = block(functional.max_pool2d(x, 2))
        for at, (grow, merge) in enumerate(zip(self.grow, self.merge)):
            x = merge(torch.cat([kept.pop(), grow(x)], 1))
            if str(at) in self.heads:
                outputs.append(self.heads[str(at)](x))
                if self.exits:
                    outputs.append(self.trust[str(at)](x.mean((2, 3))).sigmoid())
        return tuple(outputs)


class Pyramid(nn.Module):
    """Semantic segmentation on a feature pyramid (FPN): levels added, at a quarter of the resolution."""

    def __init__(self, classes: int = 19, backbone: str = "resnet18", width: int = 128):
        super().__init__()
        self.backbone = layers(backbone, GROUPS)
        self.neck = torchvision.ops.FeaturePyramidNetwork([64, 128, 256, 512], width)
        self.smooth = nn.ModuleList(relu_unit(width, width, 3) for _ in GROUPS)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        levels = self.neck(self.backbone(image))
        total = None
        for at, (smooth, level) in enumerate(zip(self.smooth, levels.values())):
            level = smooth(level)
            if at:
                level = functional.interpolate(level, scale_factor=float(1 << at), mode="bilinear")
            total = level if total is None else total + level
        return self.head(total)


class FastSegmenter(nn.Module):
    """Two branches and a pyramid of poolings (Fast-SCNN, PSPNet). `classes_only`: the best class of each
    pixel instead of scores."""

    def __init__(self, classes: int = 19, width: int = 32, classes_only: bool = False):
        super().__init__()
        separable = lambda a, b, stride: nn.Sequential(
            relu_unit(a, a, 3, stride, groups=a), relu_unit(a, b))
        self.fine = nn.Sequential(relu_unit(3, width, 3, 2), separable(width, width + 16, 2),
                                  separable(width + 16, 2 * width, 2))
        self.coarse = nn.Sequential(separable(2 * width, 2 * width, 2), separable(2 * width, 3 * width, 2),
                                    separable(3 * width, 4 * width, 1))
        self.pooled = nn.ModuleList(relu_unit(4 * width, width) for _ in (1, 2, 4))
        self.join = relu_unit(7 * width, 4 * width)
        self.sides = nn.ModuleList([nn.Conv2d(2 * width, 4 * width, 1), nn.Conv2d(4 * width, 4 * width, 1)])
        self.head = nn.Sequential(nn.ReLU(), separable(4 * width, 4 * width, 1),
                                  nn.Conv2d(4 * width, classes, 1))
        self.classes_only = classes_only

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        fine = self.fine(image)
        coarse = self.coarse(fine)
        resize = lambda x, like: functional.interpolate(
            x, like.shape[2:], mode="bilinear", align_corners=True)
        parts = [coarse]
        for bins, pooled in zip((1, 2, 4), self.pooled):
            parts.append(resize(pooled(functional.adaptive_avg_pool2d(coarse, bins)), coarse))
        coarse = self.join(torch.cat(parts, 1))
        merged = self.sides[0](fine) + self.sides[1](resize(coarse, fine))
        scores = functional.interpolate(self.head(merged), scale_factor=8.0, mode="bilinear")
        return scores.argmax(1) if self.classes_only else scores


class DepthDecoder(nn.Module):
    """Depth from one image (Monodepth2's structure): reflected borders, ELU, four scales. With `exits`
    each scale, coarse to fine, is an exit; otherwise only the finest is an output."""

    def __init__(self, exits: bool = False):
        super().__init__()
        self.backbone = layers("resnet18", ["relu", *GROUPS])
        kept, c = [0, 64, 64, 128, 256], [16, 32, 64, 128, 256]
        step = lambda a, b: nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(a, b, 3), nn.ELU())
        self.before = nn.ModuleList(step(512 if at == 4 else c[at + 1], c[at]) for at in range(5))
        self.after = nn.ModuleList(step(c[at] + kept[at], c[at]) for at in range(5))
        self.heads = nn.ModuleList(nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c[at], 1, 3), nn.Sigmoid())
                                   for at in range(4 if exits else 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept = list(self.backbone(image).values())
        x, outputs = kept.pop(), []
        for at in reversed(range(5)):
            parts = [functional.interpolate(self.before[at](x), scale_factor=2.0, mode="nearest")]
            x = self.after[at](torch.cat([*parts, kept.pop()] if kept else parts, 1))
            if at < len(self.heads):
                outputs.append(self.heads[at](x))
        return tuple(outputs)


class FastDepth(nn.Module):
    """Depth from a MobileNetV2, with depthwise 5x5 convolutions, nearest upsampling, sums of skips."""

    def __init__(self):
        super().__init__()
        at = {"features.1": 16, "features.3": 24, "features.6": 32, "features.13": 96, "features.18": 1280}
        self.backbone = layers("mobilenet_v2", list(at))
        c = [1280, 96, 32, 24, 16]
        self.steps = nn.ModuleList(
            nn.Sequential(relu_unit(a, a, 5, groups=a), relu_unit(a, b),
                          nn.Upsample(scale_factor=2.0, mode="nearest")) for a, b in zip(c, c[1:]))
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        kept = list(self.backbone(image).values())
        x = kept.pop()
        for step in self.steps:
            x = step(x) + kept.pop()
        return self.head(x)


def deconvolutions(inputs: int, width: int, count: int = 3) -> nn.Sequential:
    parts = []
    for at in range(count):
        parts += [nn.ConvTranspose2d(width if at else inputs, width, 4, 2, 1, bias=False),
                  nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*parts)


class HeatMaps(nn.Module):
    """Key points as heat maps from three transposed convolutions ("simple baselines"). `expected`: the
    mean place of each map instead (integral regression)."""

    def __init__(self, backbone: str = "resnet50", channels: int = 2048, points: int = 17,
                 size: tuple[int, int] = (64, 48), expected: bool = False):
        super().__init__()
        self.backbone = layers(backbone, ["layer4"])
        self.up = deconvolutions(channels, 256)
        self.head = nn.Conv2d(256, points, 1)
        self.expected = expected
        self.register_buffer("rows", torch.linspace(0, 1, size[0]))
        self.register_buffer("columns", torch.linspace(0, 1, size[1]))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        maps = self.head(self.up(self.backbone(image)["layer4"]))
        if not self.expected:
            return maps
        weights = maps.flatten(2).softmax(2).unflatten(2, maps.shape[2:])
        x = (weights.sum(2) * self.columns).sum(2)
        y = (weights.sum(3) * self.rows).sum(2)
        return torch.stack([x, y], 2)


class HighResolution(nn.Module):
    """Key points from timm's HRNet: all four resolutions resized to the largest and concatenated."""

    def __init__(self, points: int = 17):
        super().__init__()
        import timm  # Only the networks of this library need it.
        self.backbone = timm.create_model(
            "hrnet_w18_small", pretrained=False, features_only=True, out_indices=(1, 2, 3, 4))
        total = sum(self.backbone.feature_info.channels())
        self.head = nn.Sequential(relu_unit(total, 256), nn.Conv2d(256, points, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first, *rest = self.backbone(image)
        resize = lambda x: functional.interpolate(x, first.shape[2:], mode="bilinear", align_corners=False)
        return self.head(torch.cat([first, *map(resize, rest)], 1))


class Centres(nn.Module):
    """CenterNet's structure: a map of centres, sizes and offsets; `peaks` keeps only local maxima."""

    def __init__(self, classes: int = 20, peaks: bool = True):
        super().__init__()
        self.backbone = layers("resnet18", ["layer4"])
        self.up = deconvolutions(512, 64)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, outputs, 1))
            for outputs in (classes, 2, 2))
        self.peaks = peaks

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.up(self.backbone(image)["layer4"])
        centres, sizes, offsets = (head(features) for head in self.heads)
        centres = centres.sigmoid()
        if self.peaks:
            centres = centres * (functional.max_pool2d(centres, 3, 1, 1) == centres).to(centres.dtype)
        return centres, sizes, offsets


class InterestPoints(nn.Module):
    """SuperPoint's structure: 1 channel, scores of all pixels by depth to space, unit descriptors."""

    def __init__(self, width: int = 64, descriptor: int = 256):
        super().__init__()
        c, parts = [1, width, width, 2 * width, 2 * width], []
        for at in range(4):
            parts += [nn.Conv2d(c[at], c[at + 1], 3, 1, 1), nn.ReLU(),
                      nn.Conv2d(c[at + 1], c[at + 1], 3, 1, 1), nn.ReLU()]
            parts += [nn.MaxPool2d(2, 2)] if at < 3 else []
        self.features = nn.Sequential(*parts)
        head = lambda outputs: nn.Sequential(
            nn.Conv2d(2 * width, 4 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(4 * width, outputs, 1))
        self.points, self.descriptors = head(65), head(descriptor)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.features(image)
        points = self.points(features).softmax(1)[:, :-1]
        descriptors = functional.normalize(self.descriptors(features), dim=1)
        return functional.pixel_shuffle(points, 8), descriptors


class Flow(nn.Module):
    """Motion between two images, stacked as 6 channels: three levels of features, each warped by the
    flow so far (GridSample), compared with its 9 neighbours, refined. An exit a level."""

    def __init__(self, size: tuple[int, int], width: int = 32):
        super().__init__()
        leaky = lambda a, b, stride=1: nn.Sequential(
            nn.Conv2d(a, b, 3, stride, 1), nn.InstanceNorm2d(b), nn.LeakyReLU(0.1))
        self.steps = nn.ModuleList(
            nn.Sequential(leaky(a, width, 2), leaky(width, width)) for a in (3, width, width))
        self.refine = nn.ModuleList(
            nn.Sequential(nn.Conv2d(9 + 2 + width, width, 3, 1, 1), nn.LeakyReLU(0.1),
                          nn.Conv2d(width, 2, 3, 1, 1)) for _ in range(3))
        for at in range(3):
            rows, columns = size[0] >> (at + 1), size[1] >> (at + 1)
            y, x = torch.meshgrid((torch.arange(rows) * 2 + 1) / rows - 1,
                                  (torch.arange(columns) * 2 + 1) / columns - 1, indexing="ij")
            self.register_buffer(f"grid{at}", torch.stack([x, y])[None])
            self.register_buffer(f"scale{at}", torch.tensor([2 / columns, 2 / rows]).view(1, 2, 1, 1))

    def pyramid(self, image: torch.Tensor) -> list[torch.Tensor]:
        levels = []
        for step in self.steps:
            levels.append(image := step(image))
        return levels

    def forward(self, pair: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = self.pyramid(pair[:, :3]), self.pyramid(pair[:, 3:])
        flow, outputs = None, []
        for at in (2, 1, 0):
            here, there = first[at], second[at]
            if flow is None:
                flow = torch.zeros_like(here[:, :2])
            else:
                flow = 2 * functional.interpolate(flow, scale_factor=2.0, mode="bilinear")
            place = getattr(self, f"grid{at}") + flow * getattr(self, f"scale{at}")
            there = functional.grid_sample(there, place.permute(0, 2, 3, 1), align_corners=False)
            rows, columns = here.shape[2:]
            around = functional.pad(there, (1, 1, 1, 1))
            costs = [(here * around[:, :, dy:dy + rows, dx:dx + columns]).mean(1, keepdim=True)
                     for dy in range(3) for dx in range(3)]
            flow = flow + self.refine[at](torch.cat([*costs, flow, here], 1))
            outputs.append(flow)
        return tuple(outputs)


class Larger(nn.Module):
    """Twice or four times the resolution of a thermal image by depth to space (ESPCN)."""

    def __init__(self, channels: int = 1, factor: int = 2, width: int = 64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 5, 1, 2), nn.Tanh(), nn.Conv2d(width, width // 2, 3, 1, 1), nn.Tanh(),
            nn.Conv2d(width // 2, channels * factor ** 2, 3, 1, 1), nn.PixelShuffle(factor))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.body(image)


class TwoViews(nn.Module):
    """torchvision's RAFT on one tensor of 6 channels: all its refinements, coarse to fine, are exits."""

    def __init__(self, refinements: int = 3):
        super().__init__()
        self.flow = torchvision.models.optical_flow.raft_small(weights=None)
        self.refinements = refinements

    def forward(self, pair: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.flow(pair[:, :3], pair[:, 3:], num_flow_updates=self.refinements))
