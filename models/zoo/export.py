"""Exports networks of the zoo: python export.py FOLDER [NAME...] [--exits] [--form torchscript|dynamo]

Writes NAME.torchscript.onnx and NAME.dynamo.onnx, or NAME.exits.FORM.onnx with early exits; without
names, all. `image` is the input (of text `input_ids` and `attention_mask`), `exit_0`, `exit_1`, ... are the outputs, the batch size is open.
"""

import argparse
import contextlib
import io
import logging
import warnings
from pathlib import Path

import torch
from torch import nn

import early_exits
import zoo

FORMS = {"torchscript": 17, "dynamo": 18}  # the exporter, and the operator set that it is asked for


def export(module: nn.Module, path: Path, form: str, inputs: dict[str, torch.Tensor],
           outputs: list[str] | None = None, open_batch: bool = True) -> None:
    """Writes one file in one form. `inputs` are an example: two images, by the input's name; scalars have no batch. Without
    `outputs` each output is an exit. Unless the batch is open, the file takes as many as the example."""
    example = tuple(inputs.values())
    if outputs is None:
        with torch.no_grad():
            scores = module(*example)
        outputs = [f"exit_{at}" for at in range(len(scores) if isinstance(scores, tuple) else 1)]
    names = {"input_names": list(inputs), "output_names": outputs, "opset_version": FORMS[form]}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        if form == "torchscript":
            batched = [name for name, value in inputs.items() if value.dim()]
            axes = {name: {0: "batch"} for name in (*batched, *outputs)} if open_batch else None
            torch.onnx.export(module, example, path, dynamo=False, dynamic_axes=axes, **names)
        else:
            batch = torch.export.Dim("batch")
            shapes = tuple({0: batch} if value.dim() else None for value in example) if open_batch else None
            torch.onnx.export(module, example, path, dynamo=True, dynamic_shapes=shapes,
                              external_data=False, **names)


def build(network: zoo.Network, exits: bool) -> nn.Module:
    """The network, plain or with early exits."""
    return early_exits.with_exits(network) if exits else zoo.plain(network)


def example(network: zoo.Network) -> dict[str, torch.Tensor]:
    """Two of its images."""
    return zoo.inputs(network, zoo.images(network, 2, zoo.SEED))


def file_name(network: zoo.Network, exits: bool, form: str) -> str:
    return f"{network.name}{'.exits' if exits else ''}.{form}.onnx"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(zoo.BY_NAME))
    parser.add_argument("--exits", action="store_true", help="with early exits")
    parser.add_argument("--form", choices=FORMS, help="only this form")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(zoo.BY_NAME):
        parser.error(f"no networks of the zoo: {', '.join(sorted(unknown))}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or zoo.BY_NAME:
        network = zoo.BY_NAME[name]
        module = build(network, arguments.exits)
        for form in [arguments.form] if arguments.form else FORMS:
            path = arguments.folder / file_name(network, arguments.exits, form)
            export(module, path, form, example(network))
            print(f"{path}  {path.stat().st_size / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
