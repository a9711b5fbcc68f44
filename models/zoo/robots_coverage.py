"""Which networks of robots.toml compile, and how far the engine is from onnxruntime on them:

    python robots_coverage.py [NAME...] [--engine cpu|interpreter|compile|none] [--record FILE] [--again] [--write]

Exports each network in both forms, compiles it and runs the same random inputs through the engine,
through onnxruntime, and in float64 through PyTorch, which stands for the exact result. Each file is
deleted once it is compared. Prints Markdown. What is in the record already is not measured again, but
for what was refused or failed with `--again`. `--engine compile` compiles and does not run, `--engine none`
leaves the engine out. `--write` puts the record's table into docs/robots.md.

A difference is relative to the largest value of the output in float64, but at least to one. Of an output
of integers it is the share of values that differ.

The engine's side is the example `tensors` of the compiler:

    tensors NETWORK.onnx [--answer classes|labels|detections|none] --engine cpu|interpreter
            --out FOLDER --input NAME=FILE ...
    tensors NETWORK.onnx [--answer ...]

The second form only compiles. FILE has the values of one input for all images, `[image][...]`, as
little-endian float32; the number of images follows from its length and is the same for all inputs. FOLDER gets a file for each tensor of each exit, `[image][...]`, little-endian:
`exit_K.NAME.TYPE`, or `exit_K.TYPE` for an output that is called `exit_K` alone. A slash in NAME is a dot
there. TYPE is f32, u8, i8, i32 or bool. Standard output gets one line:

    {"report": {...}, "tensors": [{"name": "exit_0/boxes", "file": "exit_0.boxes.f32", "type": "f32",
                                   "shape": [2, 300, 4]}, ...]}

`report` is the compiler's; `tensors` is empty if nothing ran. Names are those of the file's outputs. If the
network is refused the exit code is not 0 and standard error has every problem, one a line.
"""

import argparse
import json
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

import numpy
import onnxruntime
import torch

import robots  # First, as it says what libraries may do.
import coverage
import export

PAGE = coverage.ROOT / "docs" / "robots.md"
MARKS = "<!-- robots_coverage.py from here -->", "<!-- to here -->"
TOLERANCE = 1e-4
TIME_LIMIT_S = 900
TYPES = {"f32": "<f4", "u8": "u1", "i8": "i1", "i32": "<i4", "bool": "?"}


@dataclass
class Output:
    """How far the engines are apart on one tensor."""

    name: str
    shape: list[int]
    onnxruntime_inexact: float | None  # from float64; none where there is no float64
    difference: float | None = None  # the engine from onnxruntime
    inexact: float | None = None  # the engine from float64

    def is_good(self) -> bool:
        """As near as agreed, or, where the network amplifies the rounding of any engine, nearer to the
        exact result than twice onnxruntime's distance."""
        return self.difference is not None and (
            self.difference <= TOLERANCE
            or (self.inexact is not None and self.inexact <= 2 * self.onnxruntime_inexact))


@dataclass
class Row:
    """One file: how it ran, or why it was not exported, not run by onnxruntime (`failure`) or not
    compiled (`refusal`)."""

    name: str
    form: str
    engine: str
    failure: str = ""
    refusal: str = ""
    operators: int = 0
    stages: int = 0
    macs: int = 0
    parameters: int = 0
    outputs: list[Output] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> "Row":
        values = json.loads(text)
        return cls(**values | {"outputs": [Output(**each) for each in values["outputs"]]})

    def key(self) -> tuple[str, str]:
        return self.name, self.form

    def is_good(self) -> bool:
        return not (self.failure or self.refusal) and all(each.is_good() for each in self.outputs)


def distance(found: numpy.ndarray, expected: numpy.ndarray) -> float:
    if found.shape != expected.shape:
        raise ValueError(f"shape {list(found.shape)} instead of {list(expected.shape)}")
    if not numpy.issubdtype(expected.dtype, numpy.floating):
        return float((found != expected).mean())
    return float(abs(found - expected).max() / max(1.0, abs(expected).max()))


def align(names: list[str], found: list[numpy.ndarray], expected: list[numpy.ndarray]) -> list[numpy.ndarray]:
    """`found`, the rows of each exit in the order of the nearest ones that are expected, if that is an order."""
    aligned = list(found)
    for exit_name in {name.split("/")[0] for name in names}:
        mine = [at for at, name in enumerate(names) if name.split("/")[0] == exit_name]
        rows, wanted = (numpy.concatenate([each[at] for at in mine], 2) for each in (found, expected))
        apart = abs(wanted[:, :, None] - rows[:, None]).sum(3)
        order = apart.argmin(2)
        for image in range(len(order)):
            if len(set(order[image])) < len(order[image]):
                order[image] = numpy.arange(len(order[image]))
        for at in mine:
            aligned[at] = numpy.take_along_axis(found[at], order[:, :, None], 1)
    return aligned


def run_engine(example: Path, path: Path, row: Row, robot: robots.Robot,
               inputs: dict[str, torch.Tensor]) -> list:
    """The engine's tensors in the order of the row's outputs; none if the network is refused, or only
    compiled."""
    folder = path.parent / "out"
    folder.mkdir()
    command = [example, path, "--answer", robot.answer]
    if row.engine != "compile":
        command += ["--engine", row.engine, "--out", folder]
        for name, value in inputs.items():
            file = path.parent / f"{name}.input"
            value.numpy().tofile(file)
            command += ["--input", f"{name}={file}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    if done.returncode != 0:
        row.refusal = done.stderr.strip() or f"the program ended with {done.returncode}"
        return []
    answer = json.loads(done.stdout.splitlines()[-1])
    stages = answer["report"]["stages"]
    row.stages = len(stages)
    for figure, key in (("operators", "operators"), ("macs", "multiplications"), ("parameters", "parameters")):
        setattr(row, figure, sum(stage[key] for stage in stages))
    if row.engine == "compile":
        return []
    found = {
        each["name"]: numpy.fromfile(folder / each["file"], TYPES[each["type"]]).reshape(each["shape"])
        for each in answer["tensors"]
    }
    if missing := [each.name for each in row.outputs if each.name not in found]:
        row.failure = f"the engine gives no {', '.join(missing)}"
        return []
    return [found[each.name] for each in row.outputs]


class Case:
    """A network with inputs and what it answers to them in float64."""

    def __init__(self, robot: robots.Robot):
        self.robot, self.module = robot, robots.build(robot)
        self.inputs = robot.example(coverage.IMAGES if robot.batch == "open" else 1, seed=99)
        self.exact = [None] * len(robot.outputs)
        if robot.exact:
            self.exact = coverage.exact_scores(self.module, self.inputs)

    def compare(self, example: Path | None, path: Path, row: Row) -> None:
        """Fills in the row."""
        self.robot.export(self.module, path, row.form)
        align_rows = lambda found: (align(self.robot.outputs, found, self.exact)
                                    if self.robot.any_order and found else found)
        theirs = align_rows(coverage.onnxruntime_scores(path, self.inputs))
        row.outputs = [
            Output(name, list(value.shape), None if true is None else distance(value, true))
            for name, value, true in zip(self.robot.outputs, theirs, self.exact, strict=True)
        ]
        ours = run_engine(example, path, row, self.robot, self.inputs) if example else []
        ours = align_rows(ours)
        for output, mine, value, true in zip(row.outputs, ours, theirs, self.exact):
            output.difference = distance(mine, value)
            output.inexact = None if true is None else distance(mine, true)


def measure(wanted: list[Row], example: Path | None, known: dict[str, robots.Robot]):
    """Fills in rows, those of one network next to each other."""
    case = None
    for row in wanted:
        try:
            if case is None or case.robot.name != row.name:
                case = None  # One network in memory at a time.
                case = Case(known[row.name])
            with tempfile.TemporaryDirectory() as folder:
                case.compare(example, Path(folder) / f"{row.name}.{row.form}.onnx", row)
        except Exception as error:  # Of a library: the other networks are measured all the same.
            cause = error.__cause__ or error  # PyTorch's exporters wrap what happened.
            text = str(cause).strip().splitlines() or [""]
            row.failure = f"{type(cause).__name__}: {text[0][:300]}"
        yield row


HEAD = """\
| network | form | needs | operators | stages | parameters | MACs | output | from onnxruntime | from float64 | onnxruntime from float64 |
|---|---|---|---:|---:|---:|---:|---|---:|---:|---:|"""


def by_operator(refusal: str) -> str:
    """Each operator that is in the way, with how many nodes there are of it and the reason of the first."""
    reasons, others = {}, []
    for problem in refusal.splitlines():
        if found := re.match(r'node ".*?" \((\w+)\): (.*)', problem):
            operator, reason = found.groups()
            reasons.setdefault(operator, []).append(re.sub("; supported (is|are) .*", "", reason))
        else:
            others.append(problem)
    nodes = [f"{len(all_of)} {operator}: {all_of[0]}" for operator, all_of in reasons.items()]
    return "\n".join(nodes + others)


def line(row: Row, robot: robots.Robot) -> str:
    cells = [row.name, row.form, ", ".join(robot.operators)]
    if row.failure or row.refusal:
        why = "fails" if row.failure else "**refused**"
        text = row.failure or by_operator(row.refusal)
        cells.append(f"{why}: {text.replace('|', '/').replace(chr(10), '<br>')}")
        return f"| {' | '.join(cells)} |||| {figures(row)} |"
    if not row.stages:
        return f"| {' | '.join(cells)} | not compiled |||| {figures(row)} |"
    cells += [str(row.operators), str(row.stages), f"{row.parameters / 1e6:.1f} M", f"{row.macs / 1e9:.2f} G"]
    return f"| {' | '.join(cells)} | {figures(row)} |"


def figures(row: Row) -> str:
    """The last four cells, a line in each for every output."""
    show = lambda value: "" if value is None else f"{value:.1e}"
    columns = [[f"{each.name} {each.shape[1:]}" for each in row.outputs]]
    for key in ("difference", "inexact", "onnxruntime_inexact"):
        columns.append([show(getattr(each, key)) for each in row.outputs])
    return " | ".join("<br>".join(column) if any(column) else "" for column in columns)


def write(rows: list[Row], known: dict[str, robots.Robot]) -> None:
    """Replaces the table of the page."""
    order = list(known)
    rows = sorted(rows, key=lambda row: (order.index(row.name), row.form))
    whole = [name for name in order if (mine := [row for row in rows if row.name == name])
             and all(row.is_good() for row in mine)]
    unmeasured = [name for name in order if all(row.name != name for row in rows)]
    engines = ", ".join(sorted({f"`{row.engine}`" for row in rows}))
    coverage.replace(PAGE, MARKS, [
        f"Measured until {date.today()}, engine {engines}, onnxruntime {onnxruntime.__version__}, PyTorch "
        f"{torch.__version__}. {sum(row.stages > 0 for row in rows)} of {len(rows)} files compile, "
        f"{sum(row.is_good() for row in rows)} ran and are as near as asked for; {len(whole)} of {len(order)} "
        f"networks in both forms.",
        *([f"Not measured: {', '.join(unmeasured)}."] if unmeasured else []),
        "", HEAD, *(line(row, known[row.name]) for row in rows),
    ])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of robots.toml; without any, all")
    parser.add_argument("--engine", choices=["cpu", "interpreter", "compile", "none"], default="cpu")
    parser.add_argument("--form", choices=export.FORMS, help="only this form")
    parser.add_argument("--record", type=Path, help="rows as JSON lines, read and appended to")
    parser.add_argument("--example", type=Path, help="the program `tensors`; otherwise it is built")
    parser.add_argument("--again", action="store_true", help="also what was refused or failed before")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(coverage.ROOT)}")
    arguments = parser.parse_args()
    known, rows = robots.read(), {}
    if arguments.record and arguments.record.exists():
        for text in arguments.record.read_text().splitlines():
            row = Row.read(text)
            if row.name in known:
                rows[row.key()] = row  # A later row of the same file replaces an earlier one.
    done = {key for key, row in rows.items() if row.engine == arguments.engine
            and not (arguments.again and (row.refusal or row.failure))}
    wanted = [Row(name, form, arguments.engine) for name in arguments.names or known
              for form in ([arguments.form] if arguments.form else export.FORMS)]
    wanted = [row for row in wanted if row.key() not in done]
    example = None
    if wanted and arguments.engine != "none":
        example = arguments.example or coverage.build_example("tensors")
    print(HEAD)
    for row in measure(wanted, example, known):
        print(line(row, known[row.name]), flush=True)
        rows[row.key()] = row
        if arguments.record:
            with arguments.record.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    print(f"\n{sum(row.is_good() for row in rows.values())} of {len(rows)} files compile and are as near as asked for")
    if arguments.write:
        write(list(rows.values()), known)


if __name__ == "__main__":
    main()
