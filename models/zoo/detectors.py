"""Detectors of torchvision and transformers cut to what runs on the robot: image in, raw heads out, as
their decoders (anchors, suppression) run in the client. And some of our own in published structures."""

import torch
import torchvision
from torch import nn
from torch.nn import functional

from maps import layers
from yolo import unit


class Heads(nn.Module):
    """Backbone and head of a torchvision detector: the head's tensors in the order `take`."""

    def __init__(self, name: str, take: list[str], **options):
        super().__init__()
        whole = torchvision.models.get_model(name, weights=None, weights_backbone=None, **options)
        self.backbone, self.head, self.take = whole.backbone, whole.head, take

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.backbone(image)
        features = [features] if isinstance(features, torch.Tensor) else list(features.values())
        found = self.head(features)
        return tuple(found[name] for name in self.take)


class Proposals(nn.Module):
    """The part of Faster R-CNN of fixed size: objectness and boxes of each level of the pyramid."""

    def __init__(self, name: str):
        super().__init__()
        whole = torchvision.models.get_model(name, weights=None, weights_backbone=None)
        self.backbone, self.head = whole.backbone, whole.rpn.head

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        objectness, boxes = self.head(list(self.backbone(image).values()))
        return *objectness, *boxes


class Regions(nn.Module):
    """The other part of Faster R-CNN: class and box of features already cut out, [256, 7, 7] each."""

    def __init__(self, name: str):
        super().__init__()
        whole = torchvision.models.get_model(name, weights=None, weights_backbone=None)
        self.head, self.answer = whole.roi_heads.box_head, whole.roi_heads.box_predictor

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores, boxes = self.answer(self.head(features))
        return scores.softmax(-1), boxes


class Layers(nn.Module):
    """A transformers detector that answers after every layer of its decoder, its stacked results taken
    apart again; class scores, then boxes."""

    def __init__(self, detector: nn.Module):
        super().__init__()
        self.detector = detector

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.detector(image)
        scores, boxes = found.intermediate_logits, found.intermediate_reference_points
        return tuple(each[:, at] for at in range(scores.shape[1]) for each in (scores, boxes))


def rtdetr(version: int, layers: int = 3, queries: int = 300, size: int = 640) -> nn.Module:
    """RT-DETR or its second version, on a ResNet-18."""
    import transformers
    backbone = transformers.RTDetrResNetConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"])
    prefix = "RTDetr" if version == 1 else "RTDetrV2"
    config = getattr(transformers, f"{prefix}Config")(
        backbone_config=backbone, encoder_in_channels=[128, 256, 512], decoder_layers=layers,
        num_queries=queries, num_labels=80, anchor_image_size=[size, size], hidden_expansion=0.5)
    return getattr(transformers, f"{prefix}ForObjectDetection")(config)


def detr(layers: int = 6) -> nn.Module:
    """DETR on a ResNet-50."""
    import transformers
    backbone = transformers.ResNetConfig(out_features=["stage4"])
    config = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
        backbone_config=backbone, num_labels=91, encoder_layers=layers, decoder_layers=layers)
    return transformers.DetrForObjectDetection(config)


class WeightedPyramid(nn.Module):
    """EfficientDet's structure on a MobileNetV3: levels added with learnt weights, depthwise heads."""

    def __init__(self, classes: int = 20, width: int = 64, anchors: int = 9, rounds: int = 2):
        super().__init__()
        self.backbone = layers("mobilenet_v3_large", ["features.6", "features.12", "features.16"])
        self.enter = nn.ModuleList(nn.Conv2d(c, width, 1) for c in (40, 112, 960))
        smooth = lambda: nn.Sequential(unit(width, width, 3, groups=width), unit(width, width))
        self.rounds = nn.ModuleList(nn.ModuleList(smooth() for _ in range(4)) for _ in range(rounds))
        self.weights = nn.Parameter(torch.rand(rounds, 4, 3))
        head = lambda outputs: nn.Sequential(smooth(), smooth(), nn.Conv2d(width, outputs, 1))
        self.classes, self.boxes = head(anchors * classes), head(anchors * 4)
        self.anchors = anchors

    def merge(self, weights: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
        weights = weights[:len(parts)].relu()
        weights = weights / (weights.sum() + 1e-4)
        return functional.silu(sum(weight * part for weight, part in zip(weights, parts)))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine, middle, coarse = (enter(x) for enter, x in zip(self.enter, self.backbone(image).values()))
        larger = lambda x: functional.interpolate(x, scale_factor=2.0, mode="nearest")
        smaller = lambda x: functional.max_pool2d(x, 3, 2, 1)
        for weights, smooth in zip(self.weights, self.rounds):
            between = smooth[0](self.merge(weights[0], middle, larger(coarse)))
            fine = smooth[1](self.merge(weights[1], fine, larger(between)))
            middle = smooth[2](self.merge(weights[2], middle, between, smaller(fine)))
            coarse = smooth[3](self.merge(weights[3], coarse, smaller(middle)))
        flat = lambda x: x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, x.shape[1] // self.anchors)
        levels = (fine, middle, coarse)
        scores = torch.cat([flat(self.classes(level)) for level in levels], 1)
        return scores, torch.cat([flat(self.boxes(level)) for level in levels], 1)


class Faces(nn.Module):
    """BlazeFace's structure: depthwise 5x5, shortcuts with zero channels appended, PReLU, 6 points."""

    def __init__(self):
        super().__init__()
        widths = [(24, 24, 1), (24, 28, 1), (28, 32, 2), (32, 36, 1), (36, 42, 1), (42, 48, 2),
                  (48, 56, 1), (56, 64, 1), (64, 72, 1), (72, 80, 1), (80, 88, 1)]
        self.enter = nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2), nn.PReLU(24))
        self.fine = nn.ModuleList(Block(*each) for each in widths)
        self.coarse = nn.ModuleList([Block(88, 96, 2), *(Block(96, 96, 1) for _ in range(4))])
        heads = lambda values: nn.ModuleList([nn.Conv2d(88, 2 * values, 1), nn.Conv2d(96, 6 * values, 1)])
        self.scores, self.places = heads(1), heads(16)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine = self.enter(image)
        for block in self.fine:
            fine = block(fine)
        coarse = fine
        for block in self.coarse:
            coarse = block(coarse)
        flat = lambda heads, values: torch.cat(
            [head(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, values)
             for head, x in zip(heads, (fine, coarse))], 1)
        return flat(self.scores, 1).sigmoid(), flat(self.places, 16)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inputs, inputs, 5, stride, 2, groups=inputs),
                                  nn.Conv2d(inputs, outputs, 1))
        self.activation = nn.PReLU(outputs)
        self.more, self.stride = outputs - inputs, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = functional.max_pool2d(x, 2, 2) if self.stride == 2 else x
        if self.more:
            kept = functional.pad(kept, (0, 0, 0, 0, 0, self.more))
        return self.activation(self.body(x) + kept)


class Pillars(nn.Module):
    """What follows the pillars of a laser scanner: a bird's-eye view of features, three depths brought to
    one resolution by transposed convolutions, anchors of two directions (PointPillars, SECOND)."""

    def __init__(self, channels: int = 32, classes: int = 3):
        super().__init__()
        relu_unit = lambda *sizes: unit(*sizes, activation=nn.ReLU)
        group = lambda a, b, count: nn.Sequential(
            relu_unit(a, b, 3, 2), *(relu_unit(b, b, 3) for _ in range(count)))
        self.groups = nn.ModuleList([group(channels, 64, 3), group(64, 128, 5), group(128, 256, 5)])
        self.up = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(c, 128, f, f, bias=False), nn.BatchNorm2d(128), nn.ReLU())
            for c, f in ((64, 1), (128, 2), (256, 4)))
        self.heads = nn.ModuleList(nn.Conv2d(384, 2 * classes * values, 1) for values in (classes, 7, 2))

    def forward(self, view: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = []
        for group, up in zip(self.groups, self.up):
            found.append(up(view := group(view)))
        features = torch.cat(found, 1)
        return tuple(head(features) for head in self.heads)
