"""Early-exit versions of torchvision's networks: heads at chosen depths.

A head sees the features that a module of the backbone writes. Its depth is named by that module's
path, e.g. `layer2` or `features.7`; `depths(module)` lists what there is to choose from.
"""

import torch
from torch import nn
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

import zoo

HEAD_CHANNELS, HEAD_HIDDEN = 64, 128


def linear_head(channels: int, classes: int) -> nn.Sequential:
    """The mean of each channel, and a linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(channels, classes))


def convolution_head(channels: int, classes: int) -> nn.Sequential:
    """A small convolution, the mean of each channel, and two linear layers: what SEEB-GPU attaches."""
    return nn.Sequential(
        nn.Conv2d(channels, HEAD_CHANNELS, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(HEAD_CHANNELS),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(1),
        nn.Linear(HEAD_CHANNELS, HEAD_HIDDEN),
        nn.ReLU(inplace=True),
        nn.Linear(HEAD_HIDDEN, classes),
    )


class FirstToken(nn.Module):
    """Of tokens as a transformer has them, (image, token, channel), the first: that of the class."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, 0]


def token_head(channels: int, classes: int) -> nn.Sequential:
    """The class token, normalised, and a linear layer: a vision transformer's own head."""
    return nn.Sequential(FirstToken(), nn.LayerNorm(channels, 1e-6), nn.Linear(channels, classes))


def depths(module: nn.Module) -> list[str]:
    """Where a head can go: all nodes in order of execution. A module's path stands for its last."""
    return get_graph_node_names(module)[1]


class EarlyExits(nn.Module):
    """A backbone with a head at each depth of `at`; its own classifier is the last exit. Gives one
    tensor of scores an exit, from the first to the last."""

    def __init__(self, backbone: nn.Module, at: list[str], side: int, head=convolution_head):
        super().__init__()
        own = depths(backbone)[-1]
        features = create_feature_extractor(backbone, return_nodes=[*at, own])
        with torch.no_grad():
            found = features.eval()(torch.zeros(1, 3, side, side))
        self.features = features
        # Of a map the channels are the second dimension, of tokens the last.
        channels = [found[depth].shape[1 if found[depth].dim() == 4 else -1] for depth in at]
        self.heads = nn.ModuleList(head(count, found[own].shape[1]) for count in channels)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *found, own = self.features(image).values()
        return *(head(features) for head, features in zip(self.heads, found)), own


class TextEarlyExits(nn.Module):
    """A network of text with a head behind each layer, on the first token as its own head is."""

    def __init__(self, text: zoo.Text):
        super().__init__()
        classifier = text.classifier
        classes, channels = classifier.num_labels, classifier.config.dim
        self.backbone = classifier.distilbert
        self.heads = nn.ModuleList(
            nn.Sequential(FirstToken(), nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, classes))
            for _ in range(classifier.config.n_layers))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.backbone(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
        # The first are those before any layer.
        return tuple(head(tokens) for head, tokens in zip(self.heads, found.hidden_states[1:], strict=True))


# By the beginning of the network's name; the first that fits. SEEB-GPU's four come first: for
# MobileNetV2 the ten depths of its section 4, for the others, of which it says less, one behind
# every second block. GoogLeNet's and Inception's are where their authors put theirs for training.
DEPTHS = {
    "mobilenet_v2": [f"features.{block}" for block in (1, 2, 3, 5, 7, 9, 11, 13, 15, 17)],
    "resnet34": (every_second := [
        "layer1.1", "layer2.0", "layer2.2", "layer3.0", "layer3.2", "layer3.4", "layer4.0"]),
    "resnet50": every_second,
    "shufflenet_v2_x1_0": [
        "stage2.1", "stage2.3", "stage3.1", "stage3.3", "stage3.5", "stage3.7", "stage4.1"],
    "alexnet": ["features.5", "features.9"],
    "vgg11_bn": ["features.14", "features.21"],
    "vgg11": ["features.10", "features.15"],
    "vgg13": ["features.14", "features.19"],
    "vgg16_bn": ["features.23", "features.33"],
    "vgg16": ["features.16", "features.23"],
    "vgg19_bn": ["features.26", "features.39"],
    "vgg19": ["features.18", "features.27"],
    "res": ["layer1", "layer2", "layer3"],
    "wide_resnet": ["layer1", "layer2", "layer3"],
    "mobilenet_v3_small": ["features.3", "features.8"],
    "mobilenet_v3_large": ["features.6", "features.12"],
    "shufflenet": ["stage2", "stage3"],
    "googlenet": ["inception4a", "inception4d"],
    "inception": ["Mixed_5d", "Mixed_6e"],
    "densenet": ["features.denseblock2", "features.denseblock3"],
    "squeezenet1_0": ["features.5", "features.9"],
    "squeezenet1_1": ["features.4", "features.8"],
    "efficientnet": ["features.3", "features.5"],
    "regnet": ["trunk_output.block2", "trunk_output.block3"],
    "mnasnet": ["layers.9", "layers.11"],
    "convnext": ["features.1", "features.3", "features.5"],
    "vit_b_16": [f"encoder.layers.encoder_layer_{block}" for block in (2, 5, 8)],
}


def default_depths(name: str) -> list[str]:
    """Where the heads of a network of the zoo go."""
    return next(at for beginning, at in DEPTHS.items() if name.startswith(beginning))


def with_exits(network: zoo.Network, head=None) -> nn.Module:
    """A network of the zoo with heads at its default depths, ready for export."""
    torch.manual_seed(zoo.SEED)
    backbone = network.module()
    if network.tokens:
        module = TextEarlyExits(backbone)
        return zoo.settle(module, network, [zoo.last_layer(head) for head in module.heads])
    if head is None:
        head = token_head if network.name.startswith("vit") else convolution_head
    last = zoo.last_layer(backbone)
    module = EarlyExits(backbone, default_depths(network.name), network.side, head)
    return zoo.settle(module, network, [*(zoo.last_layer(head) for head in module.heads), last])
