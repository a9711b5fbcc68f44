"""Makes the fixtures of `sequences.rs`: tiny networks of tokens, exported in both forms, an input and
what PyTorch computes for it.

    python runtime/compile/tests/data/sequences.py runtime/compile/tests/data

Of the network of text what onnxruntime computes is kept, for a whole sequence, a padded one and one
padded in its middle. Needs the packages of `models/zoo/requirements.txt`.
"""

import json
import sys
import warnings
from pathlib import Path

import onnx
import onnxruntime
import torch
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.vision_transformer import VisionTransformer
from transformers import DistilBertConfig, DistilBertForSequenceClassification

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
    strip(path)


class Text(torch.nn.Module):
    """Of what transformers' classifier answers only the scores."""

    def __init__(self):
        super().__init__()
        self.classifier = DistilBertForSequenceClassification(
            DistilBertConfig(
                vocab_size=20, max_position_embeddings=8, n_layers=2, n_heads=2, dim=8,
                hidden_dim=12, num_labels=3,
            )
        )

    def forward(self, input_ids, attention_mask=None):
        return self.classifier(input_ids=input_ids, attention_mask=attention_mask).logits


def export_text(network, tokens, path, dynamo):
    """With a mask, or of numbers of tokens only."""
    names = ["input_ids", "attention_mask"][: len(tokens)]
    batch = torch.export.Dim("N", min=1, max=64)
    form = (
        {"dynamo": True, "opset_version": 18, "external_data": False}
        | {"dynamic_shapes": tuple({0: batch} for _ in names)}
        if dynamo
        else {"dynamo": False, "opset_version": 17}
        | {"dynamic_axes": {name: {0: "N"} for name in [*names, "exit_0"]}}
    )
    torch.onnx.export(network, tokens, path, input_names=names, output_names=["exit_0"], **form)
    strip(path)


def text(folder):
    torch.manual_seed(5)
    network = Text().eval()
    for parameter in network.parameters():
        torch.nn.init.uniform_(parameter, -0.6, 0.6)
    ids = torch.randint(0, 20, (3, 6))
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1]])
    for name, tokens in [("distilbert", (ids, mask)), ("distilbert_maskless", (ids,))]:
        for form in ["torchscript", "dynamo"]:
            export_text(network, tokens, folder / f"{name}_{form}.onnx", form == "dynamo")
        session = onnxruntime.InferenceSession(folder / f"{name}_torchscript.onnx")
        inputs = {at.name: value.numpy() for at, value in zip(session.get_inputs(), tokens)}
        (scores,) = session.run(None, inputs)
        images = torch.cat(tokens, dim=1).float()
        expected = {"images": images.tolist(), "scores": scores.tolist()}
        (folder / f"{name}.json").write_text(json.dumps(expected))


def strip(path):
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
    text(folder)


main(Path(sys.argv[1]))
