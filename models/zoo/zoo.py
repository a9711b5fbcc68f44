"""The networks of the papers, of torchvision and one of text, with seeded random weights.

No weights are fetched: nothing here measures what a network knows, only what an engine makes of it.
Random weights alone would let activations grow or die with depth, so batch normalisations get the
statistics of a few random batches, and the last layer of each exit is scaled to scores of order one.
"""

from dataclasses import dataclass, field

import torch
import torchvision
from torch import nn

SEED = 1
CALIBRATION_BATCHES, CALIBRATION_BATCH = 2, 4


@dataclass(frozen=True)
class Network:
    """A torchvision classifier and how to build it."""

    name: str
    side: int = 224  # rows and columns of the input
    builder: str = ""  # torchvision's name, where it is another
    options: dict = field(default_factory=dict)
    papers: tuple[str, ...] = ()  # the papers among whose networks it is
    tokens: int = 0  # of a network of text, which reads so many at once instead of an image

    def module(self) -> nn.Module:
        """The network with random weights as its library draws them."""
        if self.tokens:
            return Text()
        name = self.builder or self.name
        return torchvision.models.get_model(name, weights=None, **self.options)


class Text(nn.Module):
    """DistilBERT of its usual size, of whose answer only the scores are kept."""

    VOCABULARY = 30522

    def __init__(self):
        super().__init__()
        # Only this network needs the library.
        from transformers import DistilBertConfig, DistilBertForSequenceClassification
        config = DistilBertConfig(vocab_size=self.VOCABULARY, num_labels=2)
        self.classifier = DistilBertForSequenceClassification(config)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.classifier(input_ids=input_ids, attention_mask=attention_mask).logits


# Heads for training only are left out, and weights drawn by the fast method.
PLAIN = {"aux_logits": False, "init_weights": False}
REEF, PASK, NEXUS, SEEB, CLOCKWORK = "REEF", "PASK", "Nexus", "SEEB-GPU", "Clockwork"

NETWORKS = [
    Network("alexnet", papers=(PASK,)),
    Network("vgg11"),
    Network("vgg11_bn"),
    Network("vgg13"),
    Network("vgg16", papers=(PASK, NEXUS)),
    Network("vgg16_bn"),
    Network("vgg19", papers=(REEF,)),
    Network("vgg19_bn"),
    Network("resnet18", papers=(CLOCKWORK,)),
    Network("resnet34", papers=(SEEB, PASK, CLOCKWORK)),
    Network("resnet50", papers=(SEEB, NEXUS, CLOCKWORK)),
    Network("resnet101", papers=(CLOCKWORK,)),
    Network("resnet152", papers=(REEF, CLOCKWORK)),
    Network("resnext50_32x4d", papers=(CLOCKWORK,)),
    Network("resnext101_32x8d", papers=(CLOCKWORK,)),
    Network("wide_resnet50_2"),
    Network("wide_resnet101_2"),
    Network("mobilenet_v2", papers=(SEEB,)),
    Network("mobilenet_v3_small"),
    Network("mobilenet_v3_large", papers=(CLOCKWORK,)),
    Network("shufflenet_v2_x0_5"),
    Network("shufflenet_v2_x1_0", papers=(SEEB,)),
    Network("shufflenet_v2_x1_5"),
    Network("shufflenet_v2_x2_0"),
    Network("googlenet", options=PLAIN, papers=(NEXUS, CLOCKWORK)),
    Network("googlenet_transformed", builder="googlenet",
            options=PLAIN | {"transform_input": True}),
    Network("inception_v3", side=299, options=PLAIN, papers=(REEF, CLOCKWORK)),
    Network("inception_v3_transformed", side=299, builder="inception_v3",
            options=PLAIN | {"transform_input": True}),
    Network("densenet121", papers=(CLOCKWORK,)),
    Network("densenet161", papers=(CLOCKWORK,)),
    Network("densenet169", papers=(CLOCKWORK,)),
    Network("densenet201", papers=(REEF, CLOCKWORK)),
    Network("squeezenet1_0"),
    Network("squeezenet1_1"),
    *(Network(f"efficientnet_b{size}", papers=(PASK,) if size == 7 else ()) for size in range(8)),
    Network("efficientnet_v2_s"),
    Network("regnet_x_400mf"),
    Network("regnet_x_800mf"),
    Network("regnet_x_1_6gf"),
    Network("regnet_x_3_2gf"),
    Network("regnet_y_400mf"),
    Network("regnet_y_800mf", papers=(PASK,)),
    Network("regnet_y_1_6gf"),
    Network("regnet_y_3_2gf"),
    Network("mnasnet0_5"),
    Network("mnasnet1_0"),
    Network("vit_b_16", papers=(PASK,)),
    Network("convnext_tiny"),
    Network("distilbert", tokens=128),
]
BY_NAME = {network.name: network for network in NETWORKS}

# Networks of the papers that give no vector of class scores an image, which is what an exit is.
REFUSED = {
    "fasterrcnn_resnet50_fpn": (PASK, "answers with boxes, as many as it finds"),
    "ssd300_vgg16": (PASK, "answers with boxes, as many as it finds"),
    "fcn_resnet50": (PASK, "answers with a class for every pixel"),
    "unet": (PASK, "answers with a class for every pixel; not in torchvision"),
}


def images(network: Network, count: int, seed: int) -> torch.Tensor:
    """Random input, each value as if normalised. Of text [sequence][numbers, mask][token], sequences
    of at least half the length padded to all of it."""
    generator = torch.Generator().manual_seed(seed)
    if network.tokens:
        shape = (count, network.tokens)
        numbers = torch.randint(Text.VOCABULARY, shape, generator=generator)
        lengths = torch.randint(network.tokens // 2, network.tokens + 1, (count, 1),
                                generator=generator)
        return torch.stack([numbers, (torch.arange(network.tokens) < lengths).long()], dim=1)
    return torch.randn(count, 3, network.side, network.side, generator=generator)


def inputs(network: Network, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the network takes of `images`, by name."""
    if network.tokens:
        return {"input_ids": images[:, 0], "attention_mask": images[:, 1]}
    return {"image": images}


def last_layer(module: nn.Module) -> nn.Module:
    """The layer with weights that gives a classifier's scores."""
    return [part for part in module.modules() if isinstance(part, (nn.Conv2d, nn.Linear))][-1]


def settle(module: nn.Module, network: Network, last_layers: list[nn.Module]) -> nn.Module:
    """Sets the statistics of all batch normalisations, and the size of the scores by each exit's
    last layer. Returns the module ready for export."""
    module.eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.reset_running_stats()
            part.momentum = None  # The mean over all batches.
            part.train()
    with torch.no_grad():
        for layer in last_layers:
            if not layer.weight.any():  # As torchvision makes a vision transformer's.
                nn.init.normal_(layer.weight, std=0.02)
        for batch in range(CALIBRATION_BATCHES):
            module(*inputs(network, images(network, CALIBRATION_BATCH, SEED + batch)).values())
        module.eval()
        scores = module(*inputs(network, images(network, 2, SEED)).values())
        scores = scores if isinstance(scores, (tuple, list)) else (scores,)
        for layer, exit_scores in zip(last_layers, scores, strict=True):
            for parameter in layer.parameters():
                parameter.div_(exit_scores.std())
    return module


def plain(network: Network) -> nn.Module:
    """The network with its one exit."""
    torch.manual_seed(SEED)
    module = network.module()
    return settle(module, network, [last_layer(module)])
