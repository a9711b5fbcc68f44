"""Makes retinanet.onnx and retinanet.json: a miniature of torchvision's RetinaNet with random weights, whose boxes are
decoded in the network, and what torchvision's own post-processing makes of its raw heads.

The declared decoder takes the best class of each place, torchvision every class above the threshold: the threshold is
chosen so that no place has two. Run with torch, torchvision and onnx: python retinanet.py
"""

import json
from pathlib import Path

import torch
from torch import nn
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList

SIDE, CLASSES, CHANNELS, OVERLAP = 64, 5, 8, 0.2
HERE = Path(__file__).parent


class Backbone(nn.Module):
    """Two levels of features, of strides 8 and 16."""

    out_channels = CHANNELS

    def __init__(self):
        super().__init__()
        unit = lambda inputs, stride: nn.Sequential(nn.Conv2d(inputs, CHANNELS, 5, stride, 2), nn.ReLU())
        self.fine, self.coarse = nn.Sequential(unit(3, 4), unit(CHANNELS, 2)), unit(CHANNELS, 2)

    def forward(self, image):
        fine = self.fine(image)
        return {"0": fine, "1": self.coarse(fine)}


class Decoded(nn.Module):
    """Scores as logits and boxes in pixels."""

    def __init__(self, network: RetinaNet, anchors: torch.Tensor):
        super().__init__()
        self.network = network
        self.register_buffer("anchors", anchors)

    def forward(self, image):
        found = self.network.head(list(self.network.backbone(image).values()))
        deltas, anchors = found["bbox_regression"], self.anchors
        size = anchors[:, 2:] - anchors[:, :2]
        centre = anchors[:, :2] + 0.5 * size
        centre = deltas[..., :2] * size + centre
        size = deltas[..., 2:].clamp(max=self.network.box_coder.bbox_xform_clip).exp() * size
        boxes = torch.cat([centre - 0.5 * size, centre + 0.5 * size], -1)
        return found["cls_logits"], boxes


def main():
    torch.manual_seed(8)
    sizes = AnchorGenerator(((12,), (24,)), ((0.5, 1.0, 2.0),) * 2)
    network = RetinaNet(Backbone(), CLASSES, anchor_generator=sizes, min_size=SIDE, max_size=SIDE).eval()
    for name, weights in network.head.named_parameters():
        if weights.ndim > 1:
            nn.init.normal_(weights, std=0.25 if "cls_logits" in name else 0.12)
        else:
            nn.init.normal_(weights, std=0.2)
    image = (torch.randn(1, 3, SIDE, SIDE) * 16).round() / 16
    features = list(network.backbone(image).values())
    anchors = network.anchor_generator(ImageList(image, [(SIDE, SIDE)]), features)
    whole = Decoded(network, anchors[0]).eval()
    with torch.no_grad():
        heads = network.head(features)
        logits, _ = whole(image)
    second = logits.sigmoid()[0].sort(-1, descending=True).values[:, 1].max().item()
    threshold = round(second + 0.005, 2)
    network.score_thresh, network.nms_thresh = threshold, OVERLAP
    levels = [level.shape[2] * level.shape[3] * 3 for level in features]
    split = {name: list(values.split(levels, 1)) for name, values in heads.items()}
    with torch.no_grad():
        found = network.postprocess_detections(split, [list(anchors[0].split(levels))], [(SIDE, SIDE)])[0]
    rows = torch.cat([found["boxes"], found["scores"][:, None], found["labels"][:, None]], 1)
    torch.onnx.export(whole, (image,), str(HERE / "retinanet.onnx"), dynamo=False, opset_version=17,
                      input_names=["image"], output_names=["exit_0/scores", "exit_0/boxes"],
                      dynamic_axes={name: {0: "batch"} for name in ("image", "exit_0/scores", "exit_0/boxes")})
    above = int((logits.sigmoid() > threshold).sum())
    print(f"{sum(levels)} places, {above} above {threshold}, {len(rows)} detections")
    text = json.dumps({"threshold": threshold, "overlap": OVERLAP, "image_times_16": (image * 16).int().flatten().tolist(),
                       "detections": rows.tolist()})
    (HERE / "retinanet.json").write_text(text + "\n")


main()
