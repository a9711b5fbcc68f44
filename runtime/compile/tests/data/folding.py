"""Writes folding.jsonl: operators on small random tensors and what onnxruntime makes of them.

pip install numpy onnx onnxruntime && python folding.py folding.jsonl
"""

import numpy as np, onnx, onnxruntime as ort, json, random, sys
from onnx import helper, TensorProto

rng = np.random.default_rng(1)
random.seed(1)


def run(op, ins, attrs, nout=1, opset=17):
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(ins)]
    vis = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape))
        for n, x in zip(names, ins)
        if x is not None
    ]
    outs = [helper.make_empty_tensor_value_info(f"o{k}") for k in range(nout)]
    g = helper.make_graph([helper.make_node(op, names, [o.name for o in outs], **attrs)], "g", vis, outs)
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    so = ort.SessionOptions()
    so.log_severity_level = 4
    s = ort.InferenceSession(m.SerializeToString(), so)
    return s.run(None, {n: x for n, x in zip(names, ins) if x is not None})


def enc(x):
    if x is None:
        return None
    if x.dtype == np.float32:
        return {
            "dims": list(x.shape),
            "floats": [float("%.8g" % v) if np.isfinite(v) else None for v in x.ravel()],
        }
    return {"dims": list(x.shape), "ints": [int(v) for v in x.ravel()]}


def f(*s):
    return (rng.integers(-20, 20, s) / 4).astype(np.float32)


def i(*s, lo=-9, hi=9):
    return rng.integers(lo, hi, s).astype(np.int64)


I = lambda *v: np.array(v, np.int64)
cases = []
for mode in ["nearest", "linear", "cubic"]:
    for ct in ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]:
        for nm in (
            ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
            if mode == "nearest"
            else ["round_prefer_floor"]
        ):
            for ex in ([0, 1] if mode == "cubic" else [0]):
                for size in [(1, 1, 7, 1), (1, 1, 2, 9)]:
                    a = dict(
                        mode=mode, coordinate_transformation_mode=ct, nearest_mode=nm, exclude_outside=ex
                    )
                    cases.append(("Resize", [f(1, 1, 4, 3), None, None, I(*size)], a, 1))
                cases.append(("Resize", [f(1, 1, 4, 3), None, np.array([1, 1, 1.7, 2.3], np.float32)], a, 1))
                cases.append(("Resize", [f(1, 1, 4, 3), None, np.array([1, 1, 2, 0.5], np.float32)], a, 1))
for _ in range(2):
    s = [random.randint(1, 4) for _ in range(3)]
    cases.append(
        (
            "Slice",
            [
                f(*s),
                i(2, lo=-5, hi=6),
                i(2, lo=-5, hi=6),
                I(0, 2),
                np.array([random.choice([1, 2, -1, -2]) for _ in range(2)], np.int64),
            ],
            {},
            1,
        )
    )
    cases.append(("Transpose", [f(*s)], dict(perm=random.sample(range(3), 3)), 1))
    cases.append(("Pad", [f(*s), i(6, lo=0, hi=3)], dict(mode="constant"), 1))
    cases.append(("Pad", [f(4, 4, 4), i(6, lo=0, hi=4)], dict(mode="reflect"), 1))
    cases.append(("Pad", [f(*s), i(6, lo=0, hi=4)], dict(mode="edge"), 1))
    cases.append(("Tile", [f(*s), i(3, lo=0, hi=3)], {}, 1))
    ax = random.randint(-3, 2)
    cases.append(("Gather", [f(*s), i(2, 2, lo=-s[ax], hi=s[ax])], dict(axis=ax), 1))
    cases.append(("GatherElements", [f(*s), i(*s, lo=-s[ax], hi=s[ax])], dict(axis=ax), 1))
    cases.append(
        (
            "ScatterElements",
            [
                f(*s),
                np.arange(s[ax])
                .reshape([s[ax] if k == ax % 3 else 1 for k in range(3)])
                .astype(np.int64)[::-1]
                .copy(),
                f(*[s[ax] if k == ax % 3 else 1 for k in range(3)]),
            ],
            dict(axis=ax),
            1,
        )
    )
    cases.append(("GatherND", [f(*s), np.stack([i(3, lo=-s[k], hi=s[k]) for k in range(2)], -1)], {}, 1))
    cases.append(("GatherND", [f(*s), i(s[0], 2, 1, lo=-s[1], hi=s[1])], dict(batch_dims=1), 1))
    cases.append(
        (
            "ScatterND",
            [
                f(*s),
                np.array([[0], [s[0] - 1]][: min(2, s[0])] if s[0] > 1 else [[0]], np.int64),
                f(min(2, s[0]), s[1], s[2]),
            ],
            {},
            1,
        )
    )
    for r in ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"]:
        cases.append(
            (r, [f(*s)], dict(axes=random.sample(range(-3, 0), 2), keepdims=random.randint(0, 1)), 1)
        )
    cases.append(("ReduceSum", [i(*s), I(ax)], dict(keepdims=random.randint(0, 1)), 1))
    cases.append(("ArgMax", [f(*s)], dict(axis=ax, keepdims=random.randint(0, 1)), 1))
    cases.append(("ArgMin", [f(*s)], dict(axis=ax), 1))
    cases.append(
        (
            "CumSum",
            [f(*s), np.array(ax, np.int64)],
            dict(exclusive=random.randint(0, 1), reverse=random.randint(0, 1)),
            1,
        )
    )
    cases.append(
        ("TopK", [f(*s), I(random.randint(1, s[ax]))], dict(axis=ax, largest=random.randint(0, 1)), 2)
    )
    cases.append(("MatMul", [f(2, 1, 3, 4), f(3, 4, 2)], {}, 1))
    cases.append(("MatMul", [f(4), f(3, 4, 2)], {}, 1))
    cases.append(("MatMul", [f(3, 4), f(4)], {}, 1))
    cases.append(
        ("Trilu", [f(*s), np.array(random.randint(-2, 2), np.int64)], dict(upper=random.randint(0, 1)), 1)
    )
    cases.append(("EyeLike", [f(3, 5)], dict(k=random.randint(-2, 2)), 1))
    cases.append(("OneHot", [i(2, 3, lo=-4, hi=6), I(4), f(2)], dict(axis=random.choice([-1, 0, 1])), 1))
    cases.append(("NonZero", [i(*s, lo=-1, hi=2)], {}, 1))
    cases.append(("Mod", [i(2, 3), np.array(random.choice([-5, -3, 2, 4]), np.int64)], {}, 1))
    cases.append(("Mod", [i(2, 3), np.array(random.choice([-5, -3, 2, 4]), np.int64)], dict(fmod=1), 1))
    cases.append(("Mod", [f(2, 3), np.array(random.choice([-1.5, 2.25]), np.float32)], dict(fmod=1), 1))
    cases.append(("Div", [i(2, 3), np.array(random.choice([-5, -3, 2, 4]), np.int64)], {}, 1))
    for b in ["Add", "Sub", "Mul", "Pow", "Max", "Min", "Equal", "Less", "GreaterOrEqual"]:
        x, y = f(2, 1, 3), f(4, 1)
        if b == "Pow":
            x = np.abs(x)
        cases.append((b, [x, y], {}, 1))
    cases.append(
        (
            "Range",
            [
                np.array(v, np.int64)
                for v in (random.randint(-3, 3), random.randint(-9, 9), random.choice([1, 2, -1, -3]))
            ],
            {},
            1,
        )
    )
    cases.append(
        (
            "Range",
            [
                np.array(v, np.float32)
                for v in (random.randint(-3, 3), random.randint(-9, 9), random.choice([0.5, 1.5, -0.75]))
            ],
            {},
            1,
        )
    )
    cases.append(("Split", [f(6, 2), I(1, 5)], dict(axis=0), 2))
for u in [
    "Abs",
    "Ceil",
    "Cos",
    "Exp",
    "Floor",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Tan",
    "Tanh",
    "Atan",
]:
    cases.append((u, [f(9) + np.float32(0.25)], {}, 1))
for u in ["Sqrt", "Log"]:
    cases.append((u, [np.abs(f(9)) + np.float32(0.25)], {}, 1))
for to in [1, 6, 7, 9, 2, 3]:
    cases.append(("Cast", [f(9)], dict(to=to), 1))
out = open(sys.argv[1], "w")
bad = 0
for op, ins, a, n in cases:
    try:
        r = run(op, ins, a, n)
    except Exception as e:
        bad += 1
        print(op, a, str(e)[:100])
        continue
    out.write(
        json.dumps(
            {
                "operator": op,
                "operands": [enc(x) for x in ins],
                "attributes": a,
                "results": [enc(x) for x in r],
            }
        )
        + "\n"
    )
print(len(cases), bad)
