"""Makes the fixtures of `sequences.rs`: tiny networks of tokens, exported in both forms, an input and
what PyTorch computes for it.

    python runtime/compile/tests/data/sequences.py runtime/compile/tests/data

Needs the packages of `models/zoo/requirements.txt`.
"""

import json
import sys
import warnings
from pathlib import Path

import onnx
import torch
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.vision_transformer import VisionTransformer

warnings.filterwarnings("ignore")


def vit():
    return VisionTransformer(
        image_size=8, patch_size=4, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=12, num_classes=3
    )


def convnext():
    return ConvNeXt([CNBlockConfig(4, 8, 1), CNBlockConfig(8, None, 1)], num_classes=3)


def export(network, image, path, dynamo):
    batch = torch.export.Dim("N", min=1, max=64)
    form = (
        {"dynamo": True, "opset_version": 18, "dynamic_shapes": [{0: batch}], "external_data": False}
        if dynamo
        else {"dynamo": False, "opset_version": 17, "dynamic_axes": {"image": {0: "N"}}}
    )
    torch.onnx.export(
        network, (image,), path, input_names=["image"], output_names=["exit_0"], **form
    )
    # What the exporter notes of the source is many times the network.
    model = onnx.load(path)
    del model.graph.value_info[:], model.metadata_props[:], model.graph.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    for value in [*model.graph.input, *model.graph.output, *model.graph.initializer]:
        del value.metadata_props[:]
    onnx.save(model, path)


def main(folder):
    for name, make, side in [("vit", vit, 8), ("convnext", convnext, 16)]:
        torch.manual_seed(5)
        network = make().eval()
        # As made, heads and scales are zero or one.
        for parameter in network.parameters():
            torch.nn.init.uniform_(parameter, -0.6, 0.6)
        images = torch.randn(2, 3, side, side)
        with torch.no_grad():
            scores = network(images)
        expected = {"images": images.flatten(1).tolist(), "scores": scores.tolist()}
        (folder / f"{name}.json").write_text(json.dumps(expected))
        export(network, images, folder / f"{name}_torchscript.onnx", False)
        if name != "convnext":  # It strides through the batch with indices, which is not supported.
            export(network, images, folder / f"{name}_dynamo.onnx", True)


main(Path(sys.argv[1]))
