"""Compares the engine with onnxruntime on `signs`: one thread each, in turns, on one core.

    python bench.py [--batches 1 8] [--blocks 200] [--cpu 1]

Blocks of runs of the two engines alternate, so that whatever else the machine does meets both.
A run goes from normalised images in memory to the scores of all three exits: the engine runs the
three stages one by one, onnxruntime the whole network with inputs and outputs bound beforehand.
Before it times anything the script checks that both give the same scores. Prints Markdown.
"""

import argparse
import os
import subprocess
import time
from datetime import date
from pathlib import Path

import numpy
import onnxruntime

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXAMPLE = ["--release", "-p", "punctual-device", "--example", "engine_bench"]
# The first runs of a turn find the other engine's data in the caches; they count for neither.
WARM = 3
# A turn is long enough to be warm, short against what changes on the machine.
TURN_S = 0.03
# Idle time for each second of runs. Linux gives ordinary threads 50 ms of a second in which a
# real-time thread would starve them; resting often, that thread keeps its runs free of such gaps.
REST = 0.4
TOLERANCE = 1e-4


class Onnxruntime:
    """onnxruntime on the calling thread."""

    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.name = f"onnxruntime {onnxruntime.__version__}"
        self.session = onnxruntime.InferenceSession(
            HERE / "signs.onnx", options, providers=["CPUExecutionProvider"]
        )
        image = self.session.get_inputs()[0]
        self.input = image.name
        # Images come first in the file; what follows is read as further ones.
        floats = numpy.fromfile(HERE / "reference.f32", "<f4")
        size = numpy.prod(image.shape[1:])
        whole = len(floats) // size * size
        self.images = floats[:whole].reshape(-1, *image.shape[1:])
        self.exits = [output.name for output in self.session.get_outputs()]
        self.bound = {}

    def scores(self, batch: int) -> numpy.ndarray:
        outputs = self.session.run(self.exits, {self.input: self.images[:batch]})
        return numpy.concatenate([output.ravel() for output in outputs])

    def run(self, batch: int, count: int) -> list[int]:
        if batch not in self.bound:
            self.bound[batch] = self.bind(batch)
        binding, _ = self.bound[batch]
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            self.session.run_with_iobinding(binding)
            times.append(time.perf_counter_ns() - start)
        return times

    def bind(self, batch: int):
        binding = self.session.io_binding()
        image = onnxruntime.OrtValue.ortvalue_from_numpy(self.images[:batch])
        binding.bind_ortvalue_input(self.input, image)
        shapes = [(batch, output.shape[1]) for output in self.session.get_outputs()]
        outputs = [
            onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, numpy.float32)
            for shape in shapes
        ]
        for name, output in zip(self.exits, outputs):
            binding.bind_ortvalue_output(name, output)
        return binding, (image, outputs)


class Engine:
    """The engine, in a child process that runs when told."""

    def __init__(self, isa: str | None):
        command = ["cargo", "run", "--quiet", *EXAMPLE, "--"]
        files = [str(HERE / "signs.punctual"), str(HERE / "reference.f32")]
        self.child = subprocess.Popen(
            [*command, *files, *([isa] if isa else [])],
            cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        self.name = f"the engine ({self.child.stdout.readline().strip()})"

    def ask(self, request: str, kind) -> list:
        self.child.stdin.write(request + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            raise SystemExit(f"the engine ended at `{request}`")
        return [kind(word) for word in answer.split()]

    def scores(self, batch: int) -> numpy.ndarray:
        return numpy.array(self.ask(f"scores {batch}", float))

    def run(self, batch: int, count: int) -> list[int]:
        return self.ask(f"run {batch} {count}", int)


def alternate(engines: list, batch: int, blocks: int) -> list[list[numpy.ndarray]]:
    """Microseconds of every run that counts: `[engine][block]`."""
    counts = []
    for engine in engines:
        warm = engine.run(batch, 20)
        counts.append(WARM + max(8, round(TURN_S * 1e9 / numpy.median(warm))))
    times = [[] for _ in engines]
    for _ in range(blocks):
        for engine, count, blocks_of in zip(engines, counts, times):
            start = time.perf_counter()
            blocks_of.append(numpy.array(engine.run(batch, count)[WARM:]) / 1e3)
            time.sleep(REST * (time.perf_counter() - start))
    return times


def report(engines: list, batch: int, times: list[list[numpy.ndarray]]) -> None:
    for engine, blocks in zip(engines, times):
        runs = numpy.concatenate(blocks)
        figures = [*numpy.percentile(runs, [50, 99, 99.9]), runs.max()]
        cells = " | ".join(f"{figure:.0f}" for figure in figures)
        print(f"| {batch} | {engine.name} | {len(runs)} | {cells} |")
    pairs = zip(*times)
    ratios = [numpy.median(ours) / numpy.median(theirs) for ours, theirs in pairs]
    low, middle, high = numpy.percentile(ratios, [25, 50, 75])
    print(f"| {batch} | **ratio** | {len(ratios)} pairs | "
          f"**{middle:.2f}** (quartiles {low:.2f} to {high:.2f}) | | | |")


def take_core(cpu: int) -> str:
    """Pins this process, and the child it will have, and keeps others off the core if it may."""
    os.sched_setaffinity(0, {cpu})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        return "SCHED_FIFO"
    except PermissionError:
        return "ordinary priority"


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    facts = dict(tuple(part.strip() for part in line.split(":", 1)) for line in lines if ":" in line)
    names = [facts.get(key) for key in ("model name", "cpu family", "model") if facts.get(key)]
    return " / ".join(names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--blocks", type=int, default=200, help="turns of each engine")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--isa", help="the engine's instruction set; default: the best")
    options = parser.parse_args()

    subprocess.run(["cargo", "build", "--quiet", *EXAMPLE], cwd=ROOT, check=True)
    scheduling = take_core(options.cpu)
    engines = [Engine(options.isa), Onnxruntime()]
    print(f"{date.today()}, {cpu_model()}, core {options.cpu}, {scheduling}. Microseconds.\n")
    print("| batch | engine | runs | p50 | p99 | p99.9 | max |")
    print("|---|---|---|---|---|---|---|")
    for batch in options.batches:
        ours, expected = (engine.scores(batch) for engine in engines)
        error = numpy.abs(ours - expected).max()
        if error > TOLERANCE:
            raise SystemExit(f"batch {batch}: scores differ by {error}, more than {TOLERANCE}")
        report(engines, batch, alternate(engines, batch, options.blocks))


if __name__ == "__main__":
    main()
