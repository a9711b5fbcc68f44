"""Networks that robots run, built offline from robots.toml with seeded random weights:

    python robots.py FOLDER [NAME...] [--form torchscript|dynamo]

writes NAME.torchscript.onnx and NAME.dynamo.onnx; without names, all. Nothing is fetched. As zoo.settle
does for classifiers, batch normalisations get the statistics of random batches; besides, every layer
with weights is scaled so that what it gives has a deviation of one, as random weights alone would let
activations grow or die with depth.
"""

import argparse
import importlib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from torch import nn

import export
import zoo

# For transformers, which is imported only with its first network: no look for files that it lacks, and no
# checks while running, which dynamo cannot export.
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_DISABLE_TORCH_CHECK": "1"}

LIST = Path(__file__).parent / "robots.toml"
ANSWERS = ("classes", "labels", "detections", "none")
LICENCES = ("MIT", "Apache-2.0", "BSD-3-Clause")
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
LINEAR = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.Linear)


@dataclass(frozen=True)
class Robot:
    """A network of the list. The keys of robots.toml, which explains them."""

    name: str
    build: str
    inputs: dict[str, list[int] | None]  # None: a scalar without a batch
    outputs: list[str]
    answer: str
    licence: str
    operators: list[str]
    take: tuple[str, ...] = ()
    batch: str = "open"
    any_order: bool = False
    exact: bool = True

    def module(self) -> nn.Module:
        """The network with random weights as its library draws them."""
        where, expression = self.build.split(":", 1)
        library = importlib.import_module(where)
        code = compile(expression, self.name, "eval")
        # By name, as some libraries import their parts only when asked for one.
        names = {name: getattr(library, name) for name in code.co_names if hasattr(library, name)}
        network = eval(code, names)  # The list is ours.
        return Named(network, self.take) if self.take else network

    def example(self, count: int, seed: int = zoo.SEED) -> dict[str, torch.Tensor]:
        """Random inputs by name, each value as if normalised; scalars are whole numbers below ten."""
        generator = torch.Generator().manual_seed(seed)
        draw = lambda shape: (torch.randint(10, (), generator=generator) if shape is None
                              else torch.randn(count, *shape, generator=generator))
        return {name: draw(shape) for name, shape in self.inputs.items()}

    def export(self, module: nn.Module, path: Path, form: str) -> None:
        is_open = self.batch == "open"
        export.export(module, path, form, self.example(2 if is_open else 1), self.outputs, is_open)
        graph = onnx.load(path).graph
        found = [each.name for each in graph.input], [each.name for each in graph.output]
        if found != (list(self.inputs), self.outputs):
            raise ValueError(f"{path.name} has the inputs {found[0]} and the outputs {found[1]}")


class Named(nn.Module):
    """A network of one image that gives a structure with names: only the tensors of `take`."""

    def __init__(self, network: nn.Module, take: tuple[str, ...]):
        super().__init__()
        self.network, self.take = network, take

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.network(image)
        return tuple(found[name] for name in self.take)


def read(path: Path = LIST) -> dict[str, Robot]:
    robots = [Robot(**entry) for entry in tomllib.loads(path.read_text())["network"]]
    for robot in robots:
        if robot.answer not in ANSWERS or robot.licence not in LICENCES:
            raise ValueError(f"{robot.name}: answer {robot.answer}, licence {robot.licence}; "
                             f"known are {ANSWERS} and {LICENCES}")
    found = {robot.name: robot for robot in robots}
    if len(found) != len(robots):
        raise ValueError(f"{path.name} has a name twice")
    return found


def scale_once(layer: nn.Module, _inputs, output: torch.Tensor) -> torch.Tensor:
    """A hook of a layer's first run: makes the deviation of its result one."""
    if getattr(layer, "is_scaled", False):
        return output
    layer.is_scaled = True
    deviation = output.std()
    if not deviation > 0:  # Of queries that begin as zeros.
        return output
    for parameter in layer.parameters(recurse=False):
        parameter.div_(deviation)
    return output / deviation


def settle(module: nn.Module, batches: list[tuple[torch.Tensor, ...]]) -> nn.Module:
    """Scales layers on the first batch, in the order in which they run, and takes the statistics of batch
    normalisations from all. Returns the module ready for export."""
    module.eval()
    hooks = []
    for part in module.modules():
        if isinstance(part, NORMALISATIONS):
            part.reset_running_stats()
            part.momentum = None  # The mean over all batches.
            part.train()
        elif isinstance(part, LINEAR):
            with torch.no_grad():
                if not part.weight.any():  # As libraries make the last layers of some heads.
                    nn.init.normal_(part.weight, std=0.02)
            hooks.append(part.register_forward_hook(scale_once))
    with torch.no_grad():
        for batch in batches:
            module(*batch)
    for hook in hooks:
        hook.remove()
    return module.eval()


def seeded(make, robot: Robot) -> nn.Module:
    """What `make` gives, ready for export, for inputs as the robot's."""
    # A fused operator of PyTorch that neither exporter knows.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(zoo.SEED)
    # Normalisations over one place need several images to have a deviation.
    return settle(make(), [tuple(robot.example(zoo.CALIBRATION_BATCH, zoo.SEED + at).values())
                           for at in range(zoo.CALIBRATION_BATCHES)])


def build(robot: Robot) -> nn.Module:
    """The network, ready for export."""
    return seeded(robot.module, robot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    robots = read()
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(robots))
    parser.add_argument("--form", choices=export.FORMS, help="only this form")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(robots):
        parser.error(f"not in robots.toml: {', '.join(sorted(unknown))}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or robots:
        module = build(robots[name])
        for form in [arguments.form] if arguments.form else export.FORMS:
            path = arguments.folder / f"{name}.{form}.onnx"
            robots[name].export(module, path, form)
            print(f"{path}  {path.stat().st_size / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
