"""Compares the engine with onnxruntime, network by network: the same cores, in turns.

    python bench.py ../signs/signs.onnx build/*.onnx [--batches 1 8] [--threads 1 2] [--turns 40]

Turns of the two engines alternate, so that whatever else the machine does meets both; the one that
does not run sleeps. A run goes from normalised images in memory to the scores of all exits: the engine runs
stage by stage, onnxruntime the whole network with inputs and outputs bound beforehand. Both have
one thread a core, pinned; onnxruntime's may spin within a run, not after it. Before it times
anything the script checks that both give the same scores. The engine first chooses the fastest
solution of each operator by measuring (but with `--direct`). Prints Markdown.

`--operators` prints instead where each engine spends its time, at the first batch and thread count.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy
import onnxruntime

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ["--release", "-p", "punctual-compile", "--example", "engine_bench"]
# The first runs of a turn find the other engine's data in the caches; they count for neither.
WARM = 2
# A turn is long enough to be warm, short against what changes on the machine.
TURN_S = 0.03
RUNS_MIN = 3
# Runs by which each solution of an operator is measured.
ROUNDS = 7
# Idle time for each second of runs. Linux gives ordinary threads 50 ms of a second in which a
# real-time thread would starve them; resting often, that thread keeps its runs free of such gaps.
REST = 0.4
# Relative to the largest score.
TOLERANCE = 1e-4


class Onnxruntime:
    """onnxruntime, its calling thread the first of `cores`."""

    def __init__(self, model: Path, images: numpy.ndarray, cores: list[int], profile: bool = False):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(cores)
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if len(cores) > 1:
            # It numbers processors from 1 and wants none for the calling thread.
            others = ";".join(str(core + 1) for core in cores[1:])
            options.add_session_config_entry("session.intra_op_thread_affinities", others)
        if profile:
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(tempfile.mkdtemp()) / "profile")
        self.name = f"onnxruntime {onnxruntime.__version__}"
        self.session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self.input = self.session.get_inputs()[0].name
        self.images = images
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
        image = onnxruntime.OrtValue.ortvalue_from_numpy(self.images[:batch].copy())
        binding.bind_ortvalue_input(self.input, image)
        shapes = [(batch, output.shape[1]) for output in self.session.get_outputs()]
        outputs = [
            onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, numpy.float32)
            for shape in shapes
        ]
        for name, output in zip(self.exits, outputs):
            binding.bind_ortvalue_output(name, output)
        return binding, (image, outputs)

    def operators(self) -> list[tuple[str, float]]:
        """Median microseconds of each node of all runs so far, of an instance made to profile."""
        events = json.loads(Path(self.session.end_profiling()).read_text())
        times = {}
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                times.setdefault(event["name"].removesuffix("_kernel_time"), []).append(event["dur"])
        return [(name, float(numpy.median(durations))) for name, durations in times.items()]


class Engine:
    """The engine, in a child process that runs when told."""

    def __init__(self, model: Path, images: Path, cores: list[int], isa: str | None):
        command = ["cargo", "run", "--quiet", *EXAMPLE, "--", str(model), str(images)]
        command += [",".join(map(str, cores)), *([isa] if isa else [])]
        self.child = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.name = f"the engine ({self.child.stdout.readline().strip()})"

    def ask(self, request: str) -> list[str]:
        self.child.stdin.write(request + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            raise SystemExit(f"the engine ended at `{request}`")
        return answer.split()

    def scores(self, batch: int) -> numpy.ndarray:
        return numpy.array(self.ask(f"scores {batch}"), float)

    def run(self, batch: int, count: int) -> list[int]:
        return [int(word) for word in self.ask(f"run {batch} {count}")]

    def measure(self, rounds: int, batches: list[int]) -> list[str]:
        """Lets it choose its solutions at these batch sizes."""
        return self.ask(f"measure {rounds} {' '.join(map(str, sorted(batches)))}")

    def operators(self, batch: int, count: int) -> list[tuple[str, float]]:
        """Median microseconds of each operator of `count` runs."""
        times = {}
        for _ in range(count):
            self.run(batch, 1)
            for word in self.ask("operators"):
                name, duration = word.rsplit("=", 1)
                times.setdefault(name, []).append(int(duration) / 1e3)
        return [(name, float(numpy.median(durations))) for name, durations in times.items()]

    def end(self) -> None:
        self.child.stdin.close()
        self.child.wait()


def alternate(engines: list, batch: int, turns: int) -> list[list[numpy.ndarray]]:
    """Microseconds of every run that counts: `[engine][turn]`."""
    counts = []
    for engine in engines:
        warm = engine.run(batch, 5)
        counts.append(WARM + max(RUNS_MIN, round(TURN_S * 1e9 / numpy.median(warm))))
    times = [[] for _ in engines]
    for _ in range(turns):
        for engine, count, turns_of in zip(engines, counts, times):
            start = time.perf_counter()
            turns_of.append(numpy.array(engine.run(batch, count)[WARM:]) / 1e3)
            time.sleep(REST * (time.perf_counter() - start))
    return times


def row(network: str, threads: int, batch: int, times: list[list[numpy.ndarray]]) -> str:
    cells = [network, str(threads), str(batch)]
    for turns in times:
        runs = numpy.concatenate(turns)
        cells += [f"{figure / 1e3:.2f}" for figure in numpy.percentile(runs, [50, 99])]
    ratios = [numpy.median(ours) / numpy.median(theirs) for ours, theirs in zip(*times)]
    low, middle, high = numpy.percentile(ratios, [25, 50, 75])
    cells.append(f"**{middle:.2f}** ({low:.2f} to {high:.2f})")
    return "| " + " | ".join(cells) + " |"


def check(network: str, engines: list, batch: int) -> None:
    ours, expected = (engine.scores(batch) for engine in engines)
    error = numpy.abs(ours - expected).max() / max(1.0, numpy.abs(expected).max())
    if error > TOLERANCE:
        raise SystemExit(f"{network}, batch {batch}: scores differ by {error}, above {TOLERANCE}")


def take_cores(cores: list[int]) -> str:
    """Pins this process to the first core, and keeps others off if it may."""
    os.sched_setaffinity(0, {cores[0]})
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


def noise(model: Path, batch: int, folder: Path) -> tuple[numpy.ndarray, Path]:
    """Normalised images, the same on each run, and the file that has them."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape[1:]
    images = numpy.random.default_rng(7).standard_normal((batch, *shape), numpy.float32)
    file = folder / f"{model.stem}.f32"
    images.astype("<f4").tofile(file)
    return images, file


def print_operators(model: Path, file: Path, images, cores: list[int], options) -> None:
    batch, runs = options.batches[0], options.turns
    theirs = Onnxruntime(model, images, cores, profile=True)
    theirs.run(batch, runs)
    ours = Engine(model, file, cores, options.isa)
    if not options.direct:
        print(" ".join(ours.measure(ROUNDS, [batch])))
    for title, times in [(ours.name, ours.operators(batch, runs)), (theirs.name, theirs.operators())]:
        total = sum(duration for _, duration in times)
        print(f"\n{model.stem}, batch {batch}, {len(cores)} threads, {title}: {total:.0f} us")
        for name, duration in times:
            print(f"  {duration:9.1f}  {name}")
    ours.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+", help="ONNX files")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=40, help="turns of each engine")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0))[::-1])
    parser.add_argument("--isa", help="the engine's instruction set; default: the best")
    parser.add_argument("--operators", action="store_true", help="where the time goes")
    parser.add_argument("--direct", action="store_true", help="no choice of solutions by measuring")
    options = parser.parse_args()

    subprocess.run(["cargo", "build", "--quiet", *EXAMPLE], cwd=ROOT, check=True)
    scheduling = take_cores(options.cores)
    print(f"{date.today()}, {cpu_model()}, {scheduling}. Milliseconds.\n")
    if not options.operators:
        print("| network | threads | batch | engine p50 | p99 | onnxruntime p50 | p99 | ratio (quartiles) |")
        print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in (model.resolve() for model in options.models):
            images, file = noise(model, max(options.batches), Path(folder))
            for threads in options.threads:
                cores = options.cores[:threads]
                if options.operators:
                    print_operators(model, file, images, cores, options)
                    break
                engines = [
                    Engine(model, file, cores, options.isa),
                    Onnxruntime(model, images, cores),
                ]
                if not options.direct:
                    engines[0].measure(ROUNDS, options.batches)
                for batch in options.batches:
                    check(model.stem, engines, batch)
                    times = alternate(engines, batch, options.turns)
                    print(row(model.stem, threads, batch, times), flush=True)
                engines[0].end()


if __name__ == "__main__":
    main()
