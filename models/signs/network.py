"""The demonstration network: a small residual CNN with three exits."""

import torch
from torch import nn

CLASSES = 43
SIDE = 96  # rows and columns of the input
EXITS = ("exit_0", "exit_1", "exit_2")


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


def head(inputs: int, width: int) -> nn.Sequential:
    """A convolution of single pixels, then the mean of each channel, then a linear layer."""
    return nn.Sequential(
        conv(inputs, width, kernel=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(1),
        nn.Linear(width, CLASSES),
    )


class Signs(nn.Module):
    """Three segments of about 25, 35 and 40% of the multiplications, an exit behind each."""

    def __init__(self):
        super().__init__()
        self.segments = nn.ModuleList([
            nn.Sequential(conv(3, 32, stride=2), Residual(32), conv(32, 64, stride=2)),
            nn.Sequential(Residual(64), conv(64, 64), conv(64, 128, stride=2)),
            nn.Sequential(Residual(128), Residual(128)),
        ])
        self.heads = nn.ModuleList([
            head(64, 16),
            head(128, 128),
            head(128, 192),
        ])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = []
        for segment, exit_head in zip(self.segments, self.heads):
            x = segment(x)
            logits.append(exit_head(x))
        return tuple(logits)


def multiplications(model: Signs) -> list[int]:
    """Multiply-accumulates of each stage (segment and its head) for one image."""
    counts = []

    def count(module, _inputs, output):
        if isinstance(module, nn.Conv2d):
            per_pixel = module.weight[0].numel()
            counts[-1] += per_pixel * output[0].numel()
        elif isinstance(module, nn.Linear):
            counts[-1] += module.weight.numel()

    hooks = [module.register_forward_hook(count) for module in model.modules()]
    x = torch.zeros(1, 3, SIDE, SIDE)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for segment, exit_head in zip(model.segments, model.heads):
            counts.append(0)
            x = segment(x)
            exit_head(x)
    model.train(was_training)
    for hook in hooks:
        hook.remove()
    return counts


def export(model: Signs, path: str) -> None:
    """Writes the unstaged network, batch dynamic, batch normalisation folded."""
    model = model.eval().float()
    torch.onnx.export(
        model,
        (torch.zeros(1, 3, SIDE, SIDE),),
        path,
        dynamo=False,
        opset_version=17,
        input_names=["image"],
        output_names=list(EXITS),
        dynamic_axes={name: {0: "batch"} for name in ("image", *EXITS)},
    )
