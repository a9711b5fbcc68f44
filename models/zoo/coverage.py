"""Which networks of the zoo compile, and how far the engine is from onnxruntime on them:

    python coverage.py [NAME...] [--engine cpu|interpreter] [--record FILE] [--write]

Exports each network in both forms, plain and with early exits, compiles it and runs the same random
images through the engine, through onnxruntime, and in float64 through PyTorch, which stands for the
exact result. Each file is deleted once it is compared, so the disk holds one at a time. Prints
Markdown. All of it takes hours: what is in the record already is not measured again. `--write` puts
the record's table into docs/coverage.md.
"""

import argparse
import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import numpy
import onnxruntime
import torch
from torch import nn

import export
import zoo

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "coverage.md"
IMAGES = 2
TOLERANCE = 1e-4  # absolute, of scores with a deviation of about one
MARKS = "<!-- coverage.py from here -->", "<!-- to here -->"


@dataclass
class Row:
    """One file: what it compiled to, or why it did not. Differences are the largest of all scores."""

    name: str
    exits: bool
    form: str
    refusal: str = ""
    operators: int = 0
    stages: int = 0
    macs: int = 0
    parameters: int = 0
    difference: float = 0.0  # from onnxruntime
    inexact: float = 0.0  # from float64
    onnxruntime_inexact: float = 0.0  # onnxruntime's from float64

    def key(self) -> tuple[str, bool, str]:
        return self.name, self.exits, self.form

    def is_good(self) -> bool:
        """As near as agreed, or, on a network that amplifies the rounding of any engine, nearer to
        the exact result than twice onnxruntime's distance."""
        near = self.difference <= TOLERANCE or self.inexact <= 2 * self.onnxruntime_inexact
        return near and not self.refusal


def build_example(name: str) -> Path:
    """A program that compiles and runs a network."""
    command = ["cargo", "build", "--release", "-q", "-p", "punctual-networks", "--example", name]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / name


def onnxruntime_scores(path: Path, inputs: dict[str, torch.Tensor], *, fused: bool = True) -> list[numpy.ndarray]:
    """Its outputs; if not `fused`, as the file's nodes compute them one by one: fused operators on bytes round differently."""
    options = onnxruntime.SessionOptions()
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: value.numpy() for name, value in inputs.items()})


def exact_scores(module: nn.Module, inputs: dict[str, torch.Tensor]) -> list[numpy.ndarray]:
    exact = (value.double() if value.is_floating_point() else value for value in inputs.values())
    with torch.no_grad():
        scores = module.double()(*exact)
    module.float()  # The same weights as before: each float32 is a float64, too.
    return [each.numpy() for each in (scores if isinstance(scores, tuple) else (scores,))]


def distance(first: list[numpy.ndarray], second: list[numpy.ndarray]) -> float:
    return max(float(abs(a - b).max()) for a, b in zip(first, second, strict=True))


def compare(example: Path, path: Path, row: Row, engine: str, module: nn.Module) -> None:
    """Fills in the row."""
    network = zoo.BY_NAME[row.name]
    images = zoo.images(network, IMAGES, seed=99)
    inputs = zoo.inputs(network, images)
    with tempfile.NamedTemporaryFile(suffix=".f32") as file:
        images.numpy().astype("<f4").tofile(file.name)
        done = subprocess.run([example, path, file.name, engine], capture_output=True, text=True)
    if done.returncode != 0:
        row.refusal = done.stderr.strip().splitlines()[-1]
        return
    report, scores = map(json.loads, done.stdout.splitlines())
    row.stages = len(report["stages"])
    row.operators = sum(stage["operators"] for stage in report["stages"])
    row.macs = sum(stage["multiplications"] for stage in report["stages"])
    row.parameters = sum(stage["parameters"] for stage in report["stages"])
    ours = [numpy.asarray(exit_scores, numpy.float32) for exit_scores in scores]
    theirs, exact = onnxruntime_scores(path, inputs), exact_scores(module, inputs)
    row.difference = distance(ours, theirs)
    row.inexact, row.onnxruntime_inexact = distance(ours, exact), distance(theirs, exact)


def measure(wanted: list[Row], engine: str):
    """Fills in rows, those of one module next to each other."""
    example = build_example("scores")
    module, built = None, None
    for row in wanted:
        network = zoo.BY_NAME[row.name]
        if built != (row.name, row.exits):
            module, built = export.build(network, row.exits), (row.name, row.exits)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / export.file_name(network, row.exits, row.form)
            export.export(module, path, row.form, export.example(network))
            compare(example, path, row, engine, module)
        yield row


HEAD = """\
| network | in the papers | version | form | operators | stages | parameters | MACs | from onnxruntime | from float64 | onnxruntime from float64 |
|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|"""


def line(row: Row) -> str:
    cells = [row.name, ", ".join(zoo.BY_NAME[row.name].papers), "exits" if row.exits else "plain", row.form]
    if row.refusal:
        return f"| {' | '.join(cells)} | **refused**: {row.refusal} ||||||"
    cells += [str(row.operators), str(row.stages), f"{row.parameters / 1e6:.1f} M",
              f"{row.macs / 1e9:.2f} G"]
    cells += [f"{value:.1e}" for value in (row.difference, row.inexact, row.onnxruntime_inexact)]
    return f"| {' | '.join(cells)} |"


def replace(page: Path, marks: tuple[str, str], lines: list[str]) -> None:
    """Puts lines between two marks of a page."""
    before, rest = page.read_text().split(marks[0])
    after = rest.split(marks[1])[1]
    page.write_text(f"{before}{marks[0]}\n{chr(10).join(lines)}\n{marks[1]}{after}")


def write(rows: list[Row], engine: str) -> None:
    """Replaces the table of the page, between its two marks."""
    order = list(zoo.BY_NAME)
    rows = sorted(rows, key=lambda row: (order.index(row.name), row.exits, row.form))
    unmeasured = [name for name in order if all(row.name != name for row in rows)]
    good = sum(row.is_good() for row in rows)
    text = [
        f"Measured on {date.today()}, engine `{engine}`, onnxruntime {onnxruntime.__version__}, PyTorch "
        f"{torch.__version__}: {good} of {len(rows)} files compile and are as near as asked for.",
        *([f"Not measured: {', '.join(unmeasured)}."] if unmeasured else []),
        "", HEAD, *map(line, rows),
    ]
    replace(PAGE, MARKS, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the zoo; without any, all")
    parser.add_argument("--engine", choices=["cpu", "interpreter"], default="cpu")
    parser.add_argument("--form", choices=export.FORMS, help="only this form")
    parser.add_argument("--version", choices=["plain", "exits"], help="only this version")
    parser.add_argument("--record", type=Path, help="rows as JSON lines, read and appended to")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    forms = [arguments.form] if arguments.form else list(export.FORMS)
    versions = [arguments.version == "exits"] if arguments.version else [False, True]
    record, known = arguments.record, []
    if record and record.exists():
        known = [Row(**json.loads(text)) for text in record.read_text().splitlines()]
    done = {row.key() for row in known}
    names = arguments.names or list(zoo.BY_NAME)
    wanted = [Row(name, exits, form) for name in names for exits in versions for form in forms]
    print(HEAD)
    for row in measure([row for row in wanted if row.key() not in done], arguments.engine):
        print(line(row), flush=True)
        known.append(row)
        if record:
            with record.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    good = sum(row.is_good() for row in known)
    print(f"\n{good} of {len(known)} files compile and are as near as asked for")
    if arguments.write:
        write(known, arguments.engine)
    raise SystemExit(good != len(known))


if __name__ == "__main__":
    main()
