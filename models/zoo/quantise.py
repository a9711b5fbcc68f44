"""Quantises networks to int8: python quantise.py MODEL.onnx... [--folder FOLDER] [--images IMAGES.f32]

Writes NAME.int8.onnx for each NAME.onnx, in the form (QDQ) that the compiler takes: u8 activations,
i8 weights with a scale an output channel, ranges by onnxruntime's minimum and maximum over the
images. Without `--images` these are seeded noise, which will do for networks with random weights
and for nothing else.
"""

import argparse
import tempfile
from pathlib import Path

import numpy
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

SIDE = 224
BATCH = 8
NOISE = 32


class Images(CalibrationDataReader):
    """Batches of normalised images `[image][channel][row][column]` for the network's only input."""

    def __init__(self, name: str, images: numpy.ndarray):
        self.batches = iter(
            {name: images[start : start + BATCH]} for start in range(0, len(images), BATCH)
        )

    def get_next(self):
        return next(self.batches, None)


def quantise(model: Path, to: Path, images: numpy.ndarray) -> None:
    """Folds normalisations first, so that weights are quantised as they are used."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        name = onnx.load(prepared).graph.input[0].name
        quantize_static(
            str(prepared), str(to), Images(name, images), quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True,
            calibrate_method=CalibrationMethod.MinMax,
        )


def sides(model: Path) -> tuple[int, int]:
    dims = onnx.load(model, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    return tuple(dim.dim_value or SIDE for dim in dims[2:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--images", type=Path)
    arguments = parser.parse_args()
    for model in arguments.models:
        height, width = sides(model)
        if arguments.images:
            images = numpy.fromfile(arguments.images, "<f4").reshape(-1, 3, height, width)
        else:
            noise = numpy.random.default_rng(1).normal(size=(NOISE, 3, height, width))
            images = noise.astype("f4")
        to = (arguments.folder or model.parent) / f"{model.stem}.int8.onnx"
        quantise(model, to, images)
        print(to)


if __name__ == "__main__":
    main()
