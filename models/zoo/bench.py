"""Compares the engine with onnxruntime and OpenVINO, network by network: the same cores, in turns.

    python bench.py NETWORK... [--batches 1 8] [--threads 1 2] [--turns 40] [--json FILE]

A NETWORK is an ONNX file or the name of one in robots.toml, which is built and exported first.
Turns of the engines alternate, so that whatever else the machine does meets all; those that do
not run sleep. A run goes from inputs in memory to all outputs in memory: the engine runs
stage by stage and writes plain tensors into memory like a client's, the others run the whole network with inputs and
outputs bound beforehand. All have one thread a core, pinned (OpenVINO's to all of the cores together) and
compute in float32; onnxruntime's threads may spin within a run, not after it. OpenVINO is left out if it is not installed.
Before it times anything the script checks that all give the same, and says where they do not. The engine first chooses the fastest
solution of each operator by measuring (but with `--direct`). Prints Markdown; a ratio is the median,
over pairs of neighbouring turns, of the quotient of their medians, with quartiles.

`--operators` prints instead where the engine and onnxruntime spend their time, at the first batch and
each thread count; `--stages` the engine's time by stage and up to each exit: medians and 99th percentiles of `--turns` runs.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import subprocess
import tempfile
import time
import tomllib
from datetime import date
from pathlib import Path

import numpy
import onnxruntime

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ["--release", "-p", "punctual-networks", "--example", "engine_bench"]
# The first runs of a turn find the other engines' data in the caches; they count for none.
WARM = 2
# A turn is long enough to be warm, short against what changes on the machine.
TURN_S = 0.03
RUNS_MIN = 3
# Runs by which each solution of an operator is measured.
ROUNDS = 7
# Idle time for each second of runs. Linux gives ordinary threads 50 ms of a second in which a
# real-time thread would starve them; resting often, that thread keeps its runs free of such gaps.
REST = 0.4
# Relative to the largest value of an output, and at least to one.
TOLERANCE = 1e-4
# Numbers of tokens are below it: any vocabulary has as many.
TOKEN_MAX = 1000
FIGURES = {"p50": 50, "p99": 99, "p99.9": 99.9, "max": 100}


class Network:
    """A file, and random inputs for it: the same on each run."""

    def __init__(self, file: Path, answer: str, count: int, folder: Path):
        self.file, self.name, self.answer, self.folder = file, file.name.split(".")[0], answer, folder
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.outputs = [output.name for output in session.get_outputs()]
        random = numpy.random.default_rng(7)
        self.inputs, self.batch_max = {}, count
        for each in session.get_inputs():
            if isinstance(each.shape[0], int):
                self.batch_max = each.shape[0]
            shape = (self.batch_max, *each.shape[1:])
            if each.type == "tensor(float)":
                self.inputs[each.name] = random.standard_normal(shape, numpy.float32)
            elif "mask" in each.name:
                self.inputs[each.name] = numpy.ones(shape, numpy.int64)
            elif each.type == "tensor(int64)":
                self.inputs[each.name] = random.integers(TOKEN_MAX, size=shape)
            else:
                raise SystemExit(f"{file}: the input {each.name} is a {each.type}, which is not known here")
        self.engine_inputs = {name: self.folder / f"{name}.input" for name in self.inputs}
        values = list(self.inputs.values())
        if values[0].dtype == numpy.int64:
            # The engine has one input of tokens: [numbers, mask][token], in floats.
            values = [numpy.stack(values, axis=1)]
            self.engine_inputs = dict([next(iter(self.engine_inputs.items()))])
        for file, value in zip(self.engine_inputs.values(), values, strict=True):
            value.astype(numpy.float32).tofile(file)

    def first(self, batch: int) -> dict[str, numpy.ndarray]:
        return {name: value[:batch] for name, value in self.inputs.items()}


class Onnxruntime:
    """onnxruntime, its calling thread the first of `cores`."""

    name = "onnxruntime"

    def __init__(self, network: Network, cores: list[int], profile: bool = False):
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
            options.profile_file_prefix = str(network.folder / "profile")
        self.version = onnxruntime.__version__
        self.network = network
        self.session = onnxruntime.InferenceSession(
            network.file, options, providers=["CPUExecutionProvider"]
        )
        self.bound = {}

    def outputs(self, batch: int) -> list[numpy.ndarray]:
        return self.session.run(self.network.outputs, self.network.first(batch))

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
        kept = []
        for name, value in self.network.first(batch).items():
            kept.append(onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()))
            binding.bind_ortvalue_input(name, kept[-1])
        for name, value in zip(self.network.outputs, self.outputs(batch)):
            kept.append(onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()))
            binding.bind_ortvalue_output(name, kept[-1])
        return binding, kept

    def operators(self) -> list[tuple[str, float]]:
        """Median microseconds of each node of all runs so far, of an instance made to profile."""
        events = json.loads(Path(self.session.end_profiling()).read_text())
        times = {}
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                shapes = event["args"].get("output_type_shape", [])
                shape = "x".join(map(str, next(iter(shapes[0].values()))[1:])) if shapes else ""
                name = f"{event['name'].removesuffix('_kernel_time')} {shape}"
                times.setdefault(name, []).append(event["dur"])
        return [(name, float(numpy.median(durations))) for name, durations in times.items()]

    def end(self) -> None:
        self.session = None


def serve_openvino(pipe, network: Network, cores: list[int]) -> None:
    """Runs OpenVINO as asked: a process of its own, as its threads take the cores of the one that starts them."""
    import openvino

    os.sched_setaffinity(0, cores)
    core, compiled = openvino.Core(), {}
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1,
                "INFERENCE_NUM_THREADS": len(cores), "ENABLE_CPU_PINNING": False}
    pipe.send(openvino.__version__.split("-")[0])
    while request := pipe.recv():
        kind, batch, count = request
        if batch not in compiled:
            inputs = network.first(batch)
            model = core.read_model(network.file)
            model.reshape({name: value.shape for name, value in inputs.items()})
            infer = core.compile_model(model, "CPU", settings).create_infer_request()
            for name, value in inputs.items():
                infer.set_tensor(name, openvino.Tensor(value.copy()))
            compiled[batch] = infer
        infer = compiled[batch]
        if kind == "outputs":
            infer.infer()
            pipe.send([infer.get_tensor(name).data.copy() for name in network.outputs])
            continue
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            infer.infer()
            times.append(time.perf_counter_ns() - start)
        pipe.send(times)


class Openvino:
    name = "OpenVINO"

    def __init__(self, network: Network, cores: list[int]):
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.child = spawn.Process(target=serve_openvino, args=(theirs, network, cores), daemon=True)
        self.child.start()
        theirs.close()
        self.version = self.pipe.recv()

    def ask(self, *request):
        self.pipe.send(request)
        return self.pipe.recv()

    def outputs(self, batch: int) -> list[numpy.ndarray]:
        return self.ask("outputs", batch, 0)

    def run(self, batch: int, count: int) -> list[int]:
        return self.ask("run", batch, count)

    def end(self) -> None:
        self.pipe.send(None)
        self.child.join()


class Refused(Exception):
    pass


class Engine:
    """The engine, in a child process that runs when told."""

    name = "engine"

    def __init__(self, network: Network, cores: list[int], isa: str | None):
        command = ["cargo", "run", "--quiet", *EXAMPLE, "--", str(network.file)]
        command += ["--cores", ",".join(map(str, cores)), "--out", str(network.folder)]
        command += ["--answer", network.answer, *(["--isa", isa] if isa else [])]
        for name, file in network.engine_inputs.items():
            command += ["--input", f"{name}={file}"]
        self.child = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.network = network
        self.version = self.child.stdout.readline().strip()
        if not self.version:
            raise Refused(f"{network.name}: the engine does not run it")

    def ask(self, request: str) -> str:
        self.child.stdin.write(request + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            raise SystemExit(f"the engine ended at `{request}`")
        return answer

    def outputs(self, batch: int) -> list[numpy.ndarray]:
        described = {each["name"]: each for each in json.loads(self.ask(f"outputs {batch}"))}
        types = {"f32": "<f4", "u8": "u1", "i8": "i1", "i32": "<i4", "bool": "?"}
        found = [described[name] for name in self.network.outputs]
        return [numpy.fromfile(self.network.folder / each["file"], types[each["type"]]).reshape(each["shape"])
                for each in found]

    def run(self, batch: int, count: int) -> list[int]:
        return [int(word) for word in self.ask(f"run {batch} {count}").split()]

    def measure(self, rounds: int, batches: list[int]) -> list[str]:
        """Lets it choose its solutions at these batch sizes."""
        return self.ask(f"measure {rounds} {' '.join(map(str, sorted(batches)))}").split()

    def operators(self, batch: int, count: int) -> list[tuple[str, float]]:
        """Median microseconds of each operator of `count` runs, with its shape and its rate."""
        times = {}
        for _ in range(count):
            self.run(batch, 1)
            for at, word in enumerate(self.ask("operators").split()):
                name, duration = word.rsplit("=", 1)
                times.setdefault((at, name), []).append(int(duration) / 1e3)
        found = []
        for (_, name), durations in times.items():
            median = float(numpy.median(durations))
            name, shape, macs = name.rsplit(":", 2)
            rate = f" {2 * int(macs) * batch / median / 1e3:.0f} GFLOP/s" if int(macs) else ""
            found.append((f"{name} {shape}{rate}", median))
        return found

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
    for turn in range(turns):
        # In both orders: who runs first after a rest has a little advantage.
        order = list(zip(engines, counts, times))
        for engine, count, turns_of in order if turn % 2 == 0 else reversed(order):
            start = time.perf_counter()
            turns_of.append(numpy.array(engine.run(batch, count)[WARM:]) / 1e3)
            time.sleep(REST * (time.perf_counter() - start))
    return times


def summary(engines: list, times: list[list[numpy.ndarray]]) -> dict:
    """Each engine's milliseconds, and the ratios of the first to the others."""
    found = {"milliseconds": {}, "ratios": {}}
    for engine, turns in zip(engines, times):
        runs = numpy.concatenate(turns) / 1e3
        found["milliseconds"][engine.name] = {
            figure: float(numpy.percentile(runs, at)) for figure, at in FIGURES.items()}
        if engine is not engines[0]:
            ratios = [numpy.median(ours) / numpy.median(theirs) for ours, theirs in zip(times[0], turns)]
            low, middle, high = map(float, numpy.percentile(ratios, [25, 50, 75]))
            found["ratios"][engine.name] = {"median": middle, "quartiles": [low, high]}
    return found


def head(names: list[str]) -> str:
    cells = ["network", "threads", "batch", *(f"{name} {' / '.join(FIGURES)}" for name in names),
             *(f"to {name} (quartiles)" for name in names[1:])]
    return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}"


def row(network: str, threads: int, batch: int, found: dict) -> str:
    cells = [network, str(threads), str(batch)]
    for figures in found["milliseconds"].values():
        cells.append(" / ".join(f"{figures[name]:.2f}" for name in FIGURES))
    for ratio in found["ratios"].values():
        low, high = ratio["quartiles"]
        cells.append(f"**{ratio['median']:.2f}** ({low:.2f} to {high:.2f})")
    return "| " + " | ".join(cells) + " |"


def check(network: Network, engines: list, batch: int) -> None:
    ours, *others = (engine.outputs(batch) for engine in engines)
    for engine, theirs in zip(engines[1:], others):
        for name, mine, expected in zip(network.outputs, ours, theirs, strict=True):
            if mine.shape != expected.shape:
                raise SystemExit(f"{network.name}: {name} is {mine.shape}, {engine.name}'s is {expected.shape}")
            scale = max(1.0, numpy.abs(expected).max())
            error = numpy.abs(mine.astype(float) - expected).max() / scale
            if not error <= TOLERANCE:
                print(f"{network.name}, batch {batch}: {name} is {error:.1e} from {engine.name}'s, "
                      f"above {TOLERANCE}", flush=True)


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


def print_operators(network: Network, cores: list[int], options) -> None:
    batch, runs = options.batches[0], options.turns
    theirs = Onnxruntime(network, cores, profile=True)
    theirs.run(batch, runs)
    ours = Engine(network, cores, options.isa)
    if not options.direct:
        print(" ".join(ours.measure(ROUNDS, [batch])))
    for engine, times in [(ours, ours.operators(batch, runs)), (theirs, theirs.operators())]:
        total = sum(duration for _, duration in times)
        print(f"\n{network.name}, batch {batch}, {len(cores)} threads, {engine.name} {engine.version}: {total:.0f} us")
        for name, duration in times:
            print(f"  {duration:9.1f}  {name}")
    ours.end()


def print_stages(network: Network, cores: list[int], options) -> None:
    """Of the engine each stage's milliseconds, and those from the first stage to each exit."""
    batch = options.batches[0]
    ours = Engine(network, cores, options.isa)
    if not options.direct:
        ours.measure(ROUNDS, [batch])
    runs = []
    for _ in range(WARM + options.turns):
        ours.run(batch, 1)
        runs.append([int(word) / 1e6 for word in ours.ask("stages").split()])
        time.sleep(REST * sum(runs[-1]) / 1e3)
    ours.end()
    runs = numpy.array(runs[WARM:])
    for stage, (alone, so_far) in enumerate(zip(runs.T, runs.cumsum(axis=1).T)):
        cells = [f"{at:.2f}" for times in (alone, so_far) for at in numpy.percentile(times, [50, 99])]
        share = numpy.median(so_far) / numpy.median(runs.sum(axis=1))
        print(f"| {network.name} | {len(cores)} | {stage} | {' | '.join(cells)} | {share:.0%} |", flush=True)


def compare(network: Network, cores: list[int], options) -> list[dict]:
    engines = [Engine(network, cores, options.isa), Onnxruntime(network, cores)]
    if options.openvino:
        engines.append(Openvino(network, cores))
    batches = [batch for batch in options.batches if batch <= network.batch_max]
    if not options.direct:
        engines[0].measure(ROUNDS, batches)
    found = []
    for batch in batches:
        check(network, engines, batch)
        result = summary(engines, alternate(engines, batch, options.turns))
        print(row(network.name, len(cores), batch, result), flush=True)
        versions = {engine.name: engine.version for engine in engines}
        found.append({"network": network.name, "threads": len(cores), "batch": batch, "versions": versions, **result})
    for engine in engines:
        engine.end()
    return found


def files(names: list[str], folder: Path) -> list[tuple[Path, str]]:
    """The file of each network and the kind of its answer, which decides nothing about its speed."""
    listed = {entry["name"]: entry["answer"]
              for entry in tomllib.loads((Path(__file__).parent / "robots.toml").read_text())["network"]}
    found = []
    for name in names:
        known = Path(name).name.split(".")[0]
        if name.endswith(".onnx"):
            found.append((Path(name).resolve(), listed.get(known, "classes")))
            continue
        if name not in listed:
            raise SystemExit(f"{name} is neither an ONNX file nor in robots.toml")
        import robots  # With PyTorch, which files do not need.
        robot, file = robots.read()[name], folder / f"{name}.onnx"
        robot.export(robots.build(robot), file, "dynamo")
        found.append((file, robot.answer))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", help="ONNX files, or names in robots.toml")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=40, help="turns of each engine")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0))[::-1])
    parser.add_argument("--isa", help="the engine's instruction set; default: the best")
    parser.add_argument("--operators", action="store_true", help="where the time goes")
    parser.add_argument("--stages", action="store_true", help="the engine's time by stage")
    parser.add_argument("--direct", action="store_true", help="no choice of solutions by measuring")
    parser.add_argument("--no-openvino", dest="openvino", action="store_false", help="onnxruntime only")
    parser.add_argument("--json", type=Path, help="also writes all figures into this file")
    options = parser.parse_args()

    if options.openvino and importlib.util.find_spec("openvino") is None:
        print("OpenVINO is not installed: onnxruntime only.")
        options.openvino = False
    subprocess.run(["cargo", "build", "--quiet", *EXAMPLE], cwd=ROOT, check=True)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        networks = files(options.networks, Path(folder))
        scheduling = take_cores(options.cores)
        about = f"{date.today()}, {cpu_model()}, {scheduling}"
        print(f"{about}. Milliseconds.\n")
        if options.stages:
            print("| network | threads | stage | p50 | p99 | up to its exit p50 | p99 | of all stages |")
            print("|---|---|---|---|---|---|---|---|")
        elif not options.operators:
            print(head(["engine", "onnxruntime", *(["OpenVINO"] if options.openvino else [])]))
        for file, answer in networks:
            network = Network(file, answer, max(options.batches), Path(folder))
            for cores in [options.cores[:threads] for threads in options.threads]:
                try:
                    if options.operators:
                        print_operators(network, cores, options)
                    elif options.stages:
                        print_stages(network, cores, options)
                    else:
                        results += compare(network, cores, options)
                except Refused as refused:
                    print(refused, flush=True)
    if options.json:
        options.json.write_text(json.dumps({"about": about, "rows": results}, indent=1))


if __name__ == "__main__":
    main()
