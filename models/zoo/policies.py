"""Networks of robots that answer with small vectors: steering, policies, embeddings, sets of labels,
lanes. Written from the papers' descriptions."""

import torch
import torchvision
from torch import nn
from torch.nn import functional

from maps import layers


def pooled(name: str, **options) -> nn.Module:
    """A torchvision classifier without its last layer."""
    backbone = torchvision.models.get_model(name, weights=None, **options)
    backbone.fc = nn.Identity()
    return backbone


class Steering(nn.Module):
    """PilotNet's structure, which knows the speed too: angle and throttle in -1..1. With `exits`, a
    small head answers after the third convolution as well; each exit has a confidence."""

    def __init__(self, exits: bool = False):
        super().__init__()
        c = [3, 24, 36, 48, 64, 64]
        step = lambda at: nn.Sequential(
            nn.Conv2d(c[at], c[at + 1], 5 if at < 3 else 3, 2 if at < 3 else 1), nn.ELU())
        self.first = nn.Sequential(*(step(at) for at in range(3)))
        self.second = nn.Sequential(*(step(at) for at in (3, 4)), nn.Flatten(1))
        self.head = nn.Sequential(nn.Linear(64 * 18 + 1, 100), nn.ELU(), nn.Linear(100, 50), nn.ELU(),
                                  nn.Linear(50, 3 if exits else 2))
        self.early = nn.Linear(48 + 1, 3) if exits else None

    def forward(self, image: torch.Tensor, speed: torch.Tensor):
        features = self.first(image)
        last = self.head(torch.cat([self.second(features), speed], 1))
        if self.early is None:
            return last.tanh()
        early = self.early(torch.cat([features.mean((2, 3)), speed], 1))
        return tuple(part for each in (early, last) for part in (each[:, :2].tanh(), each[:, 2:].sigmoid()))


class Conditional(nn.Module):
    """Imitation by command: a branch a command, the one that counts chosen by a vector of 0 and 1."""

    def __init__(self, commands: int = 4):
        super().__init__()
        self.backbone = pooled("resnet18")
        self.speed = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.join = nn.Sequential(nn.Linear(576, 256), nn.ReLU())
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 3)) for _ in range(commands))

    def forward(self, image: torch.Tensor, speed: torch.Tensor, command: torch.Tensor) -> torch.Tensor:
        features = self.join(torch.cat([self.backbone(image), self.speed(speed)], 1))
        actions = torch.stack([branch(features) for branch in self.branches], 1)
        return (actions * command.unsqueeze(2)).sum(1)


class Labels(nn.Module):
    """Several labels at once, each with its probability: `weather`, `road`, `hazard` of a drive."""

    def __init__(self, labels: int = 12):
        super().__init__()
        self.body = torchvision.models.mobilenet_v3_small(weights=None, num_classes=labels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.body(image).sigmoid()


class Embedding(nn.Module):
    """A vector of length one an image, to be compared with others: places, faces, parts."""

    def __init__(self, backbone: str = "resnet18", channels: int = 512, size: int = 128):
        super().__init__()
        self.backbone = pooled(backbone)
        self.head = nn.Linear(channels, size)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.head(self.backbone(image)), dim=1)


class Place(nn.Module):
    """Place recognition: generalised mean over the image (GeM), then a unit vector."""

    def __init__(self, size: int = 256):
        super().__init__()
        self.backbone = layers("resnet18", ["layer3"])
        self.power = nn.Parameter(torch.tensor(3.0))
        self.head = nn.Linear(256, size)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.backbone(image)["layer3"].clamp(min=1e-6).pow(self.power)
        return functional.normalize(self.head(features.mean((2, 3)).pow(1 / self.power)), dim=1)


class History(nn.Module):
    """An image and what the robot did in the last steps, [value][step]: convolutions over time."""

    def __init__(self, values: int = 6, actions: int = 2):
        super().__init__()
        self.backbone = pooled("resnet18")
        self.past = nn.Sequential(
            nn.Conv1d(values, 32, 3, padding=1), nn.ReLU(), nn.Conv1d(32, 32, 3, stride=2, padding=1),
            nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(1))
        self.head = nn.Sequential(nn.Linear(544, 128), nn.ReLU(), nn.Linear(128, actions))

    def forward(self, image: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cat([self.backbone(image), self.past(history)], 1)).tanh()


class Recurrent(nn.Module):
    """A policy over a window of observations, [step][value]: a GRU's last state."""

    def __init__(self, values: int = 48, hidden: int = 128, actions: int = 12):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(values, hidden), nn.ELU())
        self.over_time = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 64), nn.ELU(), nn.Linear(64, actions))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        states, _ = self.over_time(self.enter(observations))
        return self.head(states[:, -1])


class Stateful(nn.Module):
    """An image and the state of the step before; the new state is an output that the client hands back."""

    def __init__(self, hidden: int = 256, actions: int = 2):
        super().__init__()
        self.backbone = pooled("resnet18")
        self.enter = nn.Linear(512, hidden)
        self.cell = nn.GRU(hidden, hidden)
        self.head = nn.Linear(hidden, actions)

    def forward(self, image: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        step = self.enter(self.backbone(image)).unsqueeze(0)
        found, _ = self.cell(step, state.unsqueeze(0))
        return self.head(found[0]).tanh(), found[0]


class StateSpace(nn.Module):
    """A linear model of a robot's state, unrolled over a window of what was commanded, [step][value]."""

    def __init__(self, values: int = 8, state: int = 64, outputs: int = 6):
        super().__init__()
        self.state = nn.Parameter(torch.zeros(state))
        self.over_time, self.enter = nn.Linear(state, state, bias=False), nn.Linear(values, state)
        self.seen = nn.Linear(state, outputs)

    def forward(self, commands: torch.Tensor) -> torch.Tensor:
        state, outputs = self.state.expand(commands.shape[0], -1), []
        for step in commands.unbind(1):
            state = self.over_time(state) + self.enter(step)
            outputs.append(self.seen(state))
        return torch.stack(outputs, 1)


class TwoPictures(nn.Module):
    """The picture of now and the one before, stacked: the same layers read each, and a state is kept."""

    def __init__(self, kernel: int = 3, hidden: int = 128, actions: int = 2):
        super().__init__()
        c = [3, 16, 24, 32, 48, 64]
        self.features = nn.Sequential(*(
            nn.Sequential(nn.Conv2d(a, b, at or 3, 2, (at or 3) // 2), nn.ReLU())
            for a, b, at in zip(c, c[1:], [kernel, 0, 0, 0, 0])))
        self.cell = nn.GRU(2 * 64 * 5 * 10, hidden)
        self.head = nn.Linear(hidden, actions)

    def forward(self, pictures: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = [self.features(each).flatten(1) for each in pictures.split(3, 1)]
        found, _ = self.cell(torch.cat(both, 1).unsqueeze(0), state.unsqueeze(0))
        return self.head(found[0]).tanh(), found[0]


class Chunks(nn.Module):
    """Action chunking: image tokens and joint angles into a transformer, learnt queries out of it, one
    for each of the next steps (ACT's structure, without its training-time encoder)."""

    def __init__(self, joints: int = 14, steps: int = 20, width: int = 128, tokens: int = 49):
        super().__init__()
        self.backbone = layers("resnet18", ["layer4"])
        self.enter = nn.Conv2d(512, width, 1)
        self.joints = nn.Linear(joints, width)
        self.places = nn.Parameter(torch.randn(1, tokens + 1, width))
        self.queries = nn.Parameter(torch.randn(1, steps, width))
        self.transformer = nn.Transformer(
            width, 4, 2, 2, 4 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, joints)

    def forward(self, image: torch.Tensor, joints: torch.Tensor) -> torch.Tensor:
        tokens = self.enter(self.backbone(image)["layer4"]).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.joints(joints).unsqueeze(1), tokens], 1) + self.places
        queries = self.queries.expand(image.shape[0], -1, -1)
        return self.head(self.transformer(tokens, queries))


class Denoiser(nn.Module):
    """A step of a diffusion policy: a U-Net over time with GroupNorm and Mish, conditioned on what was
    seen; [action][step] in and out."""

    def __init__(self, actions: int = 2, condition: int = 64, width: int = 64):
        super().__init__()
        block = lambda a, b: nn.Sequential(nn.Conv1d(a, b, 5, padding=2), nn.GroupNorm(8, b), nn.Mish())
        c = [width, 2 * width, 4 * width]
        self.enter = block(actions, c[0])
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, a, 3, 2, 1), block(a, b)) for a, b in zip(c, c[1:]))
        self.middle = block(c[2], c[2])
        self.scale, self.shift = nn.Linear(condition + 1, c[2]), nn.Linear(condition + 1, c[2])
        self.up = nn.ModuleList(nn.ConvTranspose1d(b, a, 4, 2, 1) for a, b in ((c[1], c[2]), (c[0], c[1])))
        self.merge = nn.ModuleList(block(2 * a, a) for a in (c[1], c[0]))
        self.head = nn.Conv1d(c[0], actions, 1)

    def forward(self, actions: torch.Tensor, step: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        condition = functional.mish(torch.cat([step, seen], 1))
        x, kept = self.enter(actions), []
        for down in self.down:
            kept.append(x)
            x = down(x)
        x = self.middle(x * self.scale(condition).unsqueeze(2) + self.shift(condition).unsqueeze(2))
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), kept.pop()], 1))
        return self.head(x)


class Values(nn.Module):
    """Values of actions from four stacked images, as an advantage over their mean (a duelling DQN)."""

    def __init__(self, actions: int = 6):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(1))
        head = lambda outputs: nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, outputs))
        self.value, self.advantage = head(1), head(actions)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        features = self.body(frames)
        advantage = self.advantage(features)
        return self.value(features) + advantage - advantage.mean(1, keepdim=True)


class Lanes(nn.Module):
    """Lanes as one column a row (ultra-fast lane detection): the expected column of each row and the
    probability that there is a lane."""

    def __init__(self, columns: int = 100, rows: int = 56, lanes: int = 4):
        super().__init__()
        self.backbone = layers("resnet18", ["layer4"])
        self.reduce = nn.Conv2d(512, 8, 1)
        self.head = nn.Sequential(nn.Linear(8 * 9 * 25, 512), nn.ReLU(),
                                  nn.Linear(512, (columns + 1) * rows * lanes))
        self.shape = (columns + 1, rows, lanes)
        self.register_buffer("places", torch.arange(float(columns)).view(1, -1, 1, 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.reduce(self.backbone(image)["layer4"]).flatten(1)
        scores = self.head(features).unflatten(1, self.shape).softmax(1)
        there = 1 - scores[:, -1]
        return (scores[:, :-1] * self.places).sum(1) / there.clamp(min=1e-6), there
