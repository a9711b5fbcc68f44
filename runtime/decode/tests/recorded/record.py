"""Tensors like a network's, and what the networks' own post-processing makes of them: cases.json, cases.f32.

    python3 record.py       # needs torch, torchvision and transformers

torchvision's and transformers' functions give the expected values of SSD, RetinaNet, FCOS, DETR, Deformable DETR, RT-DETR and
VitPose. Those of YOLO's heads, CenterNet, prototypes and the quarter of key points are written here, from the papers: Generalized
Focal Loss (Li et al., 2020; `models/zoo/yolo.py`), Objects as Points (Zhou et al., 2019), YOLACT (Bolya et al., 2019), Simple
Baselines (Xiao et al., 2018). Without scipy, which VitPose's post-processing takes its Gaussian from, the Gaussian is written here too.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import transformers
from torch.nn import functional
from torchvision.models.detection import _utils, anchor_utils, fcos, image_list, retinanet, ssd
from torchvision.ops import batched_nms, box_convert, clip_boxes_to_image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "models" / "zoo"))
import yolo  # noqa: E402

VALUES: list[np.ndarray] = []
CASES: dict[str, dict] = {}


def case(name: str, **tensors) -> None:
    """Keeps tensors as float32, in one file after the other."""
    index = {}
    for key, tensor in tensors.items():
        array = np.ascontiguousarray(np.asarray(tensor, dtype=np.float32))
        index[key] = {"at": sum(each.size for each in VALUES), "shape": list(array.shape)}
        VALUES.append(array.reshape(-1))
    CASES[name] = index


def found(boxes: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Rows of left, top, right, bottom, score, class; the best first."""
    rows = torch.cat([boxes, scores[:, None], labels[:, None].float()], 1)
    assert 5 <= len(rows) <= 200, len(rows)
    return rows[scores.sort(descending=True, stable=True).indices]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, *shape: int, mean: float = 0.0, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=seeded(seed)) * scale + mean


def anchors(generator, size: tuple[int, int], maps: list[tuple[int, int]]) -> torch.Tensor:
    images = image_list.ImageList(torch.zeros(1, 3, *size), [size])
    return generator(images, [torch.zeros(1, 1, *each) for each in maps])[0]


def anchor_cases() -> None:
    """Every 41st anchor of whole networks."""
    generator = anchor_utils.DefaultBoxGenerator(
        [[2], [2, 3], [2, 3], [2, 3], [2], [2]], scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
        steps=[8, 16, 32, 64, 100, 300])
    every = anchors(generator, (300, 300), [(n, n) for n in (38, 19, 10, 5, 3, 1)])
    case("anchors-ssd300", count=[len(every)], rects=every[::41])
    generator = anchor_utils.DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    every = anchors(generator, (320, 320), [(n, n) for n in (20, 10, 5, 3, 2, 1)])
    case("anchors-ssdlite320", count=[len(every)], rects=every[::41])
    generator = retinanet._default_anchorgen()
    every = anchors(generator, (256, 320), [(32, 40), (16, 20), (8, 10), (4, 5), (2, 3)])
    case("anchors-retinanet", count=[len(every)], rects=every[::41])


def ssd_case() -> None:
    maps, size, classes = [(6, 8), (3, 4), (2, 2)], (96, 128), 6
    generator = anchor_utils.DefaultBoxGenerator([[2], [2, 3], [2]], scales=[0.2, 0.4, 0.7, 1.0])
    every = anchors(generator, size, maps)
    boxes, scores = normal(1, len(every), 4), normal(2, len(every), classes, scale=1.5)
    network = SimpleNamespace(box_coder=_utils.BoxCoder((10.0, 10.0, 5.0, 5.0)), score_thresh=0.2,
                              topk_candidates=8, nms_thresh=0.45, detections_per_img=30)
    heads = {"bbox_regression": boxes[None], "cls_logits": scores[None]}
    result = ssd.SSD.postprocess_detections(network, heads, [every], [size])[0]
    case("ssd", boxes=boxes, scores=scores, expected=found(**result))


def retinanet_case() -> None:
    maps, size, classes = [(8, 10), (4, 5), (2, 3)], (128, 160), 4
    sizes = tuple((s, s * 2 ** (1 / 3), s * 2 ** (2 / 3)) for s in (16.0, 32.0, 64.0))
    generator = anchor_utils.AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * 3)
    every = anchors(generator, size, maps)
    counts = [9 * rows * columns for rows, columns in maps]
    boxes, scores = normal(3, len(every), 4, scale=0.4), normal(4, len(every), classes, mean=-3, scale=1.5)
    network = SimpleNamespace(box_coder=_utils.BoxCoder((1.0, 1.0, 1.0, 1.0)), score_thresh=0.1,
                              topk_candidates=25, nms_thresh=0.5, detections_per_img=100)
    heads = {"bbox_regression": [each[None] for each in boxes.split(counts)],
             "cls_logits": [each[None] for each in scores.split(counts)]}
    result = retinanet.RetinaNet.postprocess_detections(network, heads, [list(every.split(counts))], [size])[0]
    case("retinanet", boxes=boxes, scores=scores, expected=found(**result))


def fcos_case() -> None:
    maps, size, classes, strides = [(12, 16), (6, 8), (3, 4)], (96, 128), 5, (8, 16, 32)
    generator = anchor_utils.AnchorGenerator(tuple((s,) for s in strides), ((1.0,),) * 3)
    every = anchors(generator, size, maps)
    counts = [rows * columns for rows, columns in maps]
    boxes = normal(5, len(every), 4, mean=1.5).relu()
    scores, centerness = normal(6, len(every), classes, mean=-2), normal(7, len(every), 1)
    network = SimpleNamespace(box_coder=_utils.BoxLinearCoder(normalize_by_size=True), score_thresh=0.25,
                              topk_candidates=30, nms_thresh=0.6, detections_per_img=100)
    split = lambda tensor: [each[None] for each in tensor.split(counts)]
    heads = {"bbox_regression": split(boxes), "cls_logits": split(scores), "bbox_ctrness": split(centerness)}
    result = fcos.FCOS.postprocess_detections(network, heads, [list(every.split(counts))], [size])[0]
    case("fcos", boxes=boxes, scores=scores, centerness=centerness[:, 0], expected=found(**result))


def yolo_case() -> None:
    """Raw maps by level, and decoded boxes with scores; the best class of a place, suppression per class."""
    size, classes = (64, 96), 5
    levels = [(size[0] // stride, size[1] // stride) for stride in yolo.STRIDES]
    # Nearer distances are likelier.
    ramp = 0.5 * torch.arange(yolo.BINS).repeat(4)[None, :, None, None]
    edges = [normal(10 + at, 1, 4 * yolo.BINS, *map_, scale=2.0) - ramp for at, map_ in enumerate(levels)]
    logits = [normal(20 + at, 1, classes, *map_, mean=-1.5) for at, map_ in enumerate(levels)]
    decoded = yolo.Decoder(size).boxes(edges)
    scores = yolo.per_anchor(logits).sigmoid()
    best, labels = scores[0].max(0)
    sides = clip_boxes_to_image(box_convert(decoded[0].T, "cxcywh", "xyxy"), size)
    kept = best > 0.35
    sides, best, labels = sides[kept], best[kept], labels[kept]
    order = batched_nms(sides, best, labels, 0.5)
    expected = found(sides[order], best[order], labels[order])
    maps = {f"{name}{at}": each[0] for name, group in (("boxes", edges), ("scores", logits))
            for at, each in enumerate(group)}
    case("yolo", **maps, decoded=decoded[0], probabilities=scores[0], expected=expected)


def set_cases() -> None:
    queries, classes, size = 30, 7, (120, 200)
    boxes = torch.rand(1, queries, 4, generator=seeded(30)) * torch.tensor([1.0, 1.0, 0.5, 0.5])
    logits = normal(31, 1, queries, classes, scale=2.0)
    outputs = SimpleNamespace(logits=logits, pred_boxes=boxes)
    for name, processor, options in (
            ("detr", transformers.DetrImageProcessor, {}),
            ("rt-detr", transformers.RTDetrImageProcessor, {}),
            ("deformable-detr", transformers.DeformableDetrImageProcessor, {"top_k": 50})):
        result = processor().post_process_object_detection(
            outputs, threshold=0.4, target_sizes=[size], **options)[0]
        rows = found(result["boxes"], result["scores"], result["labels"])
        case(name, boxes=boxes[0], logits=logits[0], expected=rows)


def peak_case() -> None:
    classes, rows, columns, stride, most = 3, 16, 20, 4, 25
    heat = normal(40, classes, rows, columns, mean=-1.0)
    # One cell that is higher than all around it, which are high too.
    heat[2, 7:10, 7:10] = 3.0 + torch.rand(3, 3, generator=seeded(43))
    heat[2, 8, 8] = 4.5
    # Two cells that are equally high, and one at the corner.
    heat[0, 5, 5] = heat[0, 5, 6] = 4.0
    heat[1, 0, 0] = 3.5
    sizes = torch.rand(2, rows, columns, generator=seeded(41)) * 6
    offsets = torch.rand(2, rows, columns, generator=seeded(42))
    scores = heat.sigmoid()
    peaks = scores * (functional.max_pool2d(scores[None], 3, 1, 1)[0] == scores)
    best, index = peaks.flatten().topk(most)
    labels, cell = index // (rows * columns), index % (rows * columns)
    x = cell % columns + offsets[0].flatten()[cell]
    y = cell // columns + offsets[1].flatten()[cell]
    width, height = (each.flatten()[cell] for each in sizes)
    sides = torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], 1) * stride
    kept = best > 0.3
    expected = found(sides[kept], best[kept], labels[kept])
    case("peaks", heat=heat, sizes=sizes, offsets=offsets, expected=expected)


def heat_maps() -> torch.Tensor:
    """Blurred points between the cells, some noise, one point near a corner."""
    rows, columns = 32, 24
    places = [(10.3, 15.8), (3.6, 28.2), (20.1, 4.45), (12.5, 9.0), (0.6, 0.9), (22.8, 30.7)]
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    maps = [torch.exp(-((x - px) ** 2 + (y - py) ** 2) / (2 * 2.0 ** 2)) for px, py in places]
    return torch.stack(maps) + normal(50, len(places), rows, columns, scale=0.004)


def gaussian_filter(values: np.ndarray, sigma: float, radius: tuple[int, int], axes: tuple[int, int]) -> np.ndarray:
    """As scipy.ndimage has it: one axis after the other, mirrored at the borders, sums in double precision."""
    for axis, reach in zip(axes, radius):
        weights = np.exp(-0.5 / sigma ** 2 * np.arange(-reach, reach + 1) ** 2)
        weights /= weights.sum()
        padded = np.pad(values, [(reach, reach) if each == axis else (0, 0) for each in axes], mode="symmetric")
        windows = np.lib.stride_tricks.sliding_window_view(padded.astype(np.float64), 2 * reach + 1, axis)
        values = (windows @ weights).astype(np.float32)
    return values


def pose_cases() -> None:
    maps = heat_maps()
    vitpose = transformers.models.vitpose.image_processing_vitpose
    if not transformers.utils.is_scipy_available():
        vitpose.gaussian_filter = gaussian_filter
    box = [40.0, 30.0, 120.0, 180.0]
    processor = transformers.VitPoseImageProcessor()
    pose = processor.post_process_pose_estimation(
        SimpleNamespace(heatmaps=maps[None]), boxes=[[box]], kernel_size=11)[0][0]
    centre, scale = vitpose.box_to_center_and_scale(
        box, image_width=processor.size["width"], image_height=processor.size["height"])
    region = [*(centre - scale * 100), *(scale * 200)]
    expected = torch.cat([pose["keypoints"], pose["scores"][:, None]], 1)
    case("vitpose", maps=maps, region=region, expected=expected)
    rows, columns = maps.shape[1:]
    points = []
    for each in maps.numpy():
        row, column = divmod(int(each.argmax()), columns)
        x, y = float(column), float(row)
        if 0 < column < columns - 1:
            x += 0.25 * np.sign(each[row, column + 1] - each[row, column - 1])
        if 0 < row < rows - 1:
            y += 0.25 * np.sign(each[row + 1, column] - each[row - 1, column])
        points.append([(x + 0.5) * 192 / columns, (y + 0.5) * 256 / rows, each.max()])
    weights = maps.flatten(1).double().softmax(1).view_as(maps)
    means = torch.stack([(weights.sum(1) @ torch.arange(columns).double() + 0.5) * 192 / columns,
                         (weights.sum(2) @ torch.arange(rows).double() + 0.5) * 256 / rows], 1)
    case("quarter", expected=points, means=means)


def mask_case() -> None:
    """An input of 96x80 that is a letterbox of a crop of 192x120 at (30, 20)."""
    count, rows, columns = 6, 20, 24
    prototypes, coefficients = normal(60, count, rows, columns), normal(61, count)
    small = torch.einsum("c,cyx->yx", coefficients, prototypes).sigmoid()[None, None]
    plain = functional.interpolate(small, (80, 96), mode="bilinear", align_corners=False)[0, 0]
    case("masks", prototypes=prototypes, coefficients=coefficients, plain=plain[10:50, 20:70])
    y, x = torch.meshgrid(torch.arange(25, 85) + 0.5, torch.arange(50, 130) + 0.5, indexing="ij")
    of_input = torch.stack([(x - 30) / 2 / 96, ((y - 20) / 2 + 10) / 80], -1)
    view = functional.grid_sample(small, of_input[None] * 2 - 1, mode="bilinear",
                                  padding_mode="border", align_corners=False)[0, 0]
    CASES["masks"]["view"] = {"at": sum(each.size for each in VALUES), "shape": list(view.shape)}
    VALUES.append(view.numpy().reshape(-1))


if __name__ == "__main__":
    for each in (anchor_cases, ssd_case, retinanet_case, fcos_case, yolo_case, set_cases, peak_case,
                 pose_cases, mask_case):
        each()
    np.concatenate(VALUES).astype("<f4").tofile(HERE / "cases.f32")
    (HERE / "cases.json").write_text(json.dumps(CASES, indent=1) + "\n")
    for name, index in CASES.items():
        print(name, {key: each["shape"] for key, each in index.items()})
