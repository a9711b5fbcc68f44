"""Compares two builds of the engine, and onnxruntime with both, in alternation, on one core: does a change make networks slower?

    git worktree add /tmp/before COMMIT && cargo build --release -p punctual-networks --example engine_bench   # in both trees
    python builds.py /tmp/before/target/release/examples/engine_bench target/release/examples/engine_bench NETWORK.onnx ...

Prints for each network and batch size p50, p99, p99.9 and the longest of each, and the median and range, over turns, of
quotients of a turn's medians: above 1 the second build is faster than the first, or a build than onnxruntime.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnx
import onnxruntime


def inputs(network, images, folder):
    """Noise for each input, as files."""
    graph = onnx.load(network, load_external_data=False).graph
    weights = {weight.name for weight in graph.initializer}
    random = numpy.random.default_rng(1)
    for at, value in enumerate(graph.input):
        if value.name in weights:
            continue
        sizes = [side.dim_value or 1 for side in value.type.tensor_type.shape.dim]
        file = folder / f"input{at}.f32"
        random.standard_normal([images, *sizes[1:]]).astype("float32").tofile(file)
        yield f"{value.name}={file}"


class Build:
    def __init__(self, program, network, given, folder, core):
        command = [program, network, "--cores", str(core), "--out", folder, "--answer", "none"]
        for value in given:
            command += ["--input", value]
        self.child = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.times = []
        if not self.child.stdout.readline():
            raise SystemExit(f"{program} ended: see above")

    def turn(self, batch, count):
        """The median of so many runs, in nanoseconds."""
        self.child.stdin.write(f"run {batch} {count}\n")
        self.child.stdin.flush()
        times = [int(word) for word in self.child.stdout.readline().split() if word.isdigit()]
        self.times += times
        return statistics.median(times)

    def end(self):
        self.child.kill()


class Onnxruntime:
    """The library in this process, with one thread on one core."""

    def __init__(self, network, batch, given, core):
        os.sched_setaffinity(0, [core])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
        self.times = []
        files = dict(value.split("=", 1) for value in given)
        sizes = {each.name: [batch, *each.shape[1:]] for each in self.session.get_inputs()}
        self.binding = self.session.io_binding()
        for name, size in sizes.items():
            values = numpy.fromfile(files[name], "float32")[: numpy.prod(size)].reshape(size)
            self.binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(values))
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name)

    def turn(self, batch, count):
        """As of a build."""
        times = []
        for _ in range(count):
            began = time.perf_counter_ns()
            self.session.run_with_iobinding(self.binding)
            times.append(time.perf_counter_ns() - began)
        self.times += times
        return statistics.median(times)

    def end(self):
        self.session = self.binding = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the example engine_bench of one build")
    parser.add_argument("after", help="that of another")
    parser.add_argument("networks", nargs="+", help="ONNX files")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--runs", type=int, default=10, help="of each build in a turn")
    parser.add_argument("--core", type=int, default=1)
    options = parser.parse_args()
    print("| network | batch | p50, p99, p99.9, max, ms: before | after | onnxruntime | before / after: median (range) "
          "| onnxruntime / before | onnxruntime / after |")
    print("|---|---|---|---|---|---|---|---|")
    for network in options.networks:
        with tempfile.TemporaryDirectory() as folder:
            given = list(inputs(network, max(options.batches), pathlib.Path(folder)))
            for batch in options.batches:
                programs = (options.before, options.after)
                sides = [Build(program, network, given, folder, options.core) for program in programs]
                sides.append(Onnxruntime(network, batch, given, options.core))
                for side in sides:
                    side.turn(batch, options.runs)
                    side.times.clear()
                quotients = [[], [], []]
                for turn in range(options.turns):
                    # Who is first changes from turn to turn.
                    order = [(at + turn) % 3 for at in range(3)]
                    medians = {at: sides[at].turn(batch, options.runs) for at in order}
                    for found, (above, below) in zip(quotients, ((0, 1), (2, 0), (2, 1))):
                        found.append(medians[above] / medians[below])
                cells = []
                for side in sides:
                    quantiles = numpy.percentile(side.times, [50, 99, 99.9, 100]) / 1e6
                    cells.append(", ".join(f"{time:.3f}" for time in quantiles))
                    side.end()
                for found in quotients:
                    cells.append(f"{statistics.median(found):.3f} ({min(found):.2f} to {max(found):.2f})")
                print(f"| {pathlib.Path(network).stem} | {batch} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
