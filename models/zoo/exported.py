"""Small networks of what exporters write and few operators know: frames, rows and windows folded into the batch, values
written to places, three dimensions, tables looked up by what was computed."""

import torch
from torch import nn
from torch.nn import functional


class Cameras(nn.Module):
    """One encoder for six frames, with a residual, each frame's position, and a mean over all."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.second = nn.Conv2d(8, 8, 3, 1, 1)
        self.place = nn.Parameter(torch.randn(1, 8, 1, 1))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        images = x.shape[0]
        y = functional.relu(self.first(x.view(-1, 3, 12, 12)))
        y = functional.relu(y + self.second(y)) + self.place
        tokens = functional.layer_norm(y.flatten(2).transpose(1, 2), (8,))
        frames = self.head(tokens).view(images, 6, 36, 5)
        return frames.amax(2), frames.mean((1, 2))


class Windows(nn.Module):
    """Convolutions and attention inside windows of four by four."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Conv2d(6, 6, 3, 1, 1)
        self.projections, self.out = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x):
        images = x.shape[0]
        windows = x.view(images, 6, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(-1, 6, 4, 4)
        windows = self.inside(windows)
        tokens = windows.flatten(2).transpose(1, 2)
        query, key, value = self.projections(tokens).chunk(3, -1)
        tokens = tokens + self.out((query @ key.transpose(1, 2) * 0.4).softmax(-1) @ value)
        windows = tokens.transpose(1, 2).reshape(images, 2, 2, 6, 4, 4)
        return windows.permute(0, 3, 1, 4, 2, 5).reshape(images, 6, 8, 8)


class Rows(nn.Module):
    """A recurrent layer along each row."""

    def __init__(self) -> None:
        super().__init__()
        self.along = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        images = x.shape[0]
        rows = x.permute(0, 2, 3, 1).reshape(images * 5, 7, 4)
        states, (last, _) = self.along(rows)
        return self.head(states).view(images, 5, 7, 3), last.permute(1, 0, 2).reshape(images, 5, 10)


class Volumes(nn.Module):
    """Convolutions, transposed ones and pools of three dimensions, also by group."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv3d(2, 4, 3, 1, 1)
        self.norm = nn.BatchNorm3d(4)
        self.down = nn.Conv3d(4, 4, (3, 2, 3), 2, 1, groups=2)
        self.up = nn.ConvTranspose3d(4, 3, 4, 2, 1)

    def forward(self, x):
        y = functional.relu(self.norm(self.first(x)))
        down = functional.silu(self.down(y))
        pooled = functional.max_pool3d(y, 2) + functional.avg_pool3d(y, 2, ceil_mode=True)
        return self.up(down).mean(2), pooled.amax((3, 4)), functional.adaptive_avg_pool3d(y, 1).flatten(1)


class Disparity(nn.Module):
    """A volume of one picture against the other, moved by each disparity."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 3, 3, 2, 1)
        self.cost = nn.Conv3d(6, 1, 3, 1, 1)

    def forward(self, x):
        left, right = self.features(x[:, :3]), self.features(x[:, 3:])
        planes = [torch.cat([left, right], 1)]
        for moved in range(1, 3):
            nothing = torch.zeros_like(left[..., :moved])
            planes.append(torch.cat([nothing, left[..., moved:]], -1))
            planes[-1] = torch.cat([planes[-1], torch.cat([nothing, right[..., :-moved]], -1)], 1)
        weights = self.cost(torch.stack(planes, 2)).squeeze(1).softmax(1)
        return (weights * torch.arange(3.0).view(1, 3, 1, 1)).sum(1, keepdim=True)


class Cells(nn.Module):
    """Pillars and points written to the cells of a grid: one each, and several that are added or compared."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.map = nn.Conv2d(4, 3, 3, 1, 1)
        self.register_buffer("cells", torch.randperm(36)[:9])
        self.register_buffer("shared", torch.tensor([0, 3, 3, 5, 3, 0, 1, 1, 4]))

    def forward(self, x):
        points = self.layer(x)
        images = x.shape[0]
        grid = points.new_zeros(images, 4, 36)
        grid[:, :, self.cells] = points.transpose(1, 2)
        shared = self.shared.view(1, 9, 1).expand(images, 9, 4)
        added = points.new_zeros(images, 6, 4).scatter_add(1, shared, points)
        return self.map(grid.view(images, 4, 6, 6)), added


class Assigned(nn.Module):
    """Slices that are written to, and channels moved along a dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 6, 1)

    def forward(self, x):
        y = self.layer(x)
        moved = torch.zeros_like(y)
        moved[:, :2, :-1] = y[:, :2, 1:]
        moved[:, 2:4, 1:] = y[:, 2:4, :-1]
        moved[:, 4:] = y[:, 4:]
        moved[:, 1, ::2, 3] = 7
        moved[..., -1] *= 2
        return moved


class Looked(nn.Module):
    """Experts and codes looked up by what was computed; its classes, marked."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(7, 4)
        self.experts = nn.Parameter(torch.randn(4, 7, 5))
        self.codes = nn.Embedding(4, 3)

    def forward(self, x):
        shares, chosen = self.router(x).softmax(1).topk(2)
        each = torch.einsum("bi,bkio->bko", x, self.experts[chosen])
        best = self.router(x).argmax(1)
        marked = functional.one_hot(best, 4).to(x.dtype)
        return (shares[:, :, None] * each).sum(1), self.codes(best), marked


class Taken(nn.Module):
    """Values at constant places, products of three, curves that resize, and triangles."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)
        self.register_buffer("rows", torch.tensor([5, 0, 3, 3, 1]))
        self.register_buffer("columns", torch.tensor([2, 2, 5, 0, 1]))
        self.register_buffer("places", torch.tensor([[[3, 1], [0, 35], [7, 7], [8, 2]]]))
        self.one, self.two = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3, 2))

    def forward(self, x):
        y = self.layer(x)
        points = y[:, :, self.rows, self.columns]
        lines = y.flatten(2)
        elements = lines.gather(2, self.places.expand(y.shape[0], 4, 2))
        products = torch.einsum("bcn,cd,de->bne", lines, self.one, self.two)
        large = functional.interpolate(y, scale_factor=1.5, mode="bicubic", align_corners=False)
        return points, elements, products, large, torch.tril(lines.transpose(1, 2) @ lines)


class Decoder(nn.Module):
    """A vector that becomes a picture, in units of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.code = nn.Linear(27, 5)
        self.first = nn.ConvTranspose2d(5, 4, 4)
        self.second = nn.ConvTranspose2d(4, 3, 4, 2, 1)
        self.third = nn.ConvTranspose2d(3, 2, 3, 1, 2, dilation=2)

    def forward(self, x):
        y = self.code(x.flatten(1)).view(-1, 5, 1, 1)
        y = functional.relu(self.second(functional.relu(self.first(y))))
        y = functional.max_pool2d(self.third(y), 3, 1, 1, dilation=1)
        return y * 80, functional.avg_pool2d(y, 3, 2, 1, ceil_mode=True)


class Denoising(nn.Module):
    """A step of a diffusion policy: an embedding of the goal, and a timestep without a batch, as waves and in a table."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(4, 8, 3, padding=1), nn.Conv1d(8, 4, 3, padding=1)
        self.goal, self.time, self.table = nn.Linear(512, 8), nn.Linear(8, 8), nn.Embedding(10, 8)
        self.register_buffer("rates", torch.exp(torch.arange(4) * -0.7))
        self.register_buffer("shares", torch.linspace(0.1, 0.9, 10))

    def forward(self, noisy, goal, timestep):
        angles = timestep * self.rates
        waves = functional.mish(self.time(torch.cat([angles.sin(), angles.cos()])))
        each = self.table(timestep.expand(noisy.shape[0]))
        known = self.goal(goal) + waves[None] * each
        noise = self.last(functional.mish(self.first(noisy) + known[:, :, None]))
        share = self.shares[timestep]
        return (noisy - (1 - share).sqrt() * noise) / share.sqrt(), each + waves


class Neighbours(nn.Module):
    """Points taken at computed positions: in the list of all images' points, and by the number of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 5)

    def forward(self, x):
        images, points, _ = x.shape
        near = (x @ x.transpose(1, 2)).topk(3).indices
        image = torch.arange(images)
        listed = near + points * image.view(-1, 1, 1)
        flat = x.reshape(images * points, 3)[listed.reshape(-1)].view(images, points, 3, 3)
        features = self.layer(x)
        around = features[image.view(-1, 1, 1), near].amax(2)
        return flat - x.unsqueeze(2), around, features[image, x[..., 0].argmax(1)]


class Scattered(nn.Module):
    """Values written to computed places: shares of chosen experts, votes that are added, heights that are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(7, 5)
        self.height = nn.Linear(7, 1)

    def forward(self, x):
        logits = self.router(x)
        shares, chosen = logits.topk(2)
        written = torch.zeros_like(logits).scatter(2, chosen, shares.softmax(2))
        cell = logits.argmax(2, keepdim=True)
        votes = x.new_zeros(x.shape[0], 5, 1).scatter_add(1, cell, shares[..., :1])
        heights = x.new_zeros(x.shape[0], 5, 1).scatter_reduce(1, cell, self.height(x), "amax")
        return written, votes, heights


class Known(nn.Module):
    """A choice by a mask that is known, a roll by nothing, and an output that is the same for all images."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)
        self.spread = nn.Parameter(torch.randn(1, 3))
        self.register_buffer("later", torch.ones(16, 16).triu(1).bool())

    def forward(self, x):
        tokens = torch.roll(self.layer(x), (0, 1), (2, 3)).flatten(2)
        likeness = tokens.transpose(1, 2) @ tokens
        weights = likeness.masked_fill(self.later, -torch.inf).softmax(2)
        spread = self.spread.exp().expand(x.shape[0], 3)
        return likeness.masked_fill(self.later, 5), weights @ tokens.transpose(1, 2), spread
