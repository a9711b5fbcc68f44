"""Which networks of the zoo compile, and how far the engine is from onnxruntime on them:

    python coverage.py [NAME...] [--engine cpu|interpreter] [--write]

Exports each network in both forms, plain and with early exits, compiles it and runs the same random
images through the engine and through onnxruntime. Each file is deleted once it is compared, so the
disk holds one at a time. Prints Markdown; `--write` puts the table into docs/coverage.md.
"""

import argparse
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy
import onnxruntime

import export
import zoo

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "coverage.md"
IMAGES = 2
TOLERANCE = 1e-4  # absolute, of scores with a deviation of about one


@dataclass
class Row:
    """One file: what it compiled to, or why it did not."""

    network: zoo.Network
    exits: bool
    form: str
    refusal: str = ""
    operators: int = 0
    stages: int = 0
    macs: int = 0
    parameters: int = 0
    difference: float = 0.0
    spread: float = 1.0

    def is_good(self) -> bool:
        return not self.refusal and self.difference <= TOLERANCE


def build_example() -> Path:
    """The program that compiles and runs a network."""
    command = ["cargo", "build", "--release", "-q", "-p", "punctual-compile", "--example", "scores"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / "scores"


def onnxruntime_scores(path: Path, images: numpy.ndarray) -> list[numpy.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"image": images})


def compare(example: Path, path: Path, row: Row, engine: str) -> None:
    """Fills in the row."""
    images = zoo.images(row.network, IMAGES, seed=99).numpy()
    with tempfile.NamedTemporaryFile(suffix=".f32") as file:
        images.astype("<f4").tofile(file.name)
        done = subprocess.run([example, path, file.name, engine], capture_output=True, text=True)
    if done.returncode != 0:
        row.refusal = done.stderr.strip().splitlines()[-1]
        return
    report, scores = map(json.loads, done.stdout.splitlines())
    ours = [numpy.asarray(exit_scores, numpy.float32) for exit_scores in scores]
    theirs = onnxruntime_scores(path, images)
    row.stages = len(report["stages"])
    row.operators = sum(stage["operators"] for stage in report["stages"])
    row.macs = sum(stage["multiplications"] for stage in report["stages"])
    row.parameters = sum(stage["parameters"] for stage in report["stages"])
    row.difference = max(float(abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))
    row.spread = min(float(scores.std()) for scores in theirs)


def rows(names: list[str], engine: str, forms: list[str], versions: list[bool]):
    """One row a file; each is printed as it is there."""
    example = build_example()
    for name in names:
        network = zoo.BY_NAME[name]
        for exits in versions:
            module = export.build(network, exits)
            for form in forms:
                row = Row(network, exits, form)
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / export.file_name(network, exits, form)
                    export.export(module, path, form, network.side)
                    compare(example, path, row, engine)
                print(line(row), flush=True)
                yield row


HEAD = """\
| network | in the papers | version | form | operators | stages | parameters | MACs | max difference | of the spread |
|---|---|---|---|---:|---:|---:|---:|---:|---:|"""


def line(row: Row) -> str:
    cells = [row.network.name, ", ".join(row.network.papers),
             "exits" if row.exits else "plain", row.form]
    if row.refusal:
        return f"| {' | '.join(cells)} | **refused**: {row.refusal} |||||"
    cells += [str(row.operators), str(row.stages), f"{row.parameters / 1e6:.1f} M",
              f"{row.macs / 1e9:.2f} G", f"{row.difference:.1e}", f"{row.difference / row.spread:.1e}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the zoo; without any, all")
    parser.add_argument("--engine", choices=["cpu", "interpreter"], default="cpu")
    parser.add_argument("--form", choices=export.FORMS, help="only this form")
    parser.add_argument("--version", choices=["plain", "exits"], help="only this version")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    forms = [arguments.form] if arguments.form else list(export.FORMS)
    versions = [arguments.version == "exits"] if arguments.version else [False, True]
    print(HEAD)
    found = list(rows(arguments.names or list(zoo.BY_NAME), arguments.engine, forms, versions))
    good = sum(row.is_good() for row in found)
    print(f"\n{good} of {len(found)} files within {TOLERANCE:g} of onnxruntime {onnxruntime.__version__}")
    if arguments.write:
        write(found, arguments.engine)
    raise SystemExit(good != len(found))


if __name__ == "__main__":
    main()
