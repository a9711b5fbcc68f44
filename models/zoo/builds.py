"""Compares two builds of the engine, in alternation, on one core: does a change make networks slower?

    git worktree add /tmp/before COMMIT && cargo build --release -p punctual-compile --example engine_bench   # in both trees
    python builds.py /tmp/before/target/release/examples/engine_bench target/release/examples/engine_bench NETWORK.onnx ...

Prints for each network and batch size p50, p99, p99.9 and the longest of both, and the median and range, over turns, of the
quotient of a turn's medians: above 1 the second build is faster.
"""
import argparse
import pathlib
import statistics
import subprocess
import tempfile

import numpy
import onnx


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
    print("| network | batch | p50, p99, p99.9, max, ms: before | after | before / after: median (range) |")
    print("|---|---|---|---|---|")
    for network in options.networks:
        with tempfile.TemporaryDirectory() as folder:
            given = list(inputs(network, max(options.batches), pathlib.Path(folder)))
            for batch in options.batches:
                programs = (options.before, options.after)
                builds = [Build(program, network, given, folder, options.core) for program in programs]
                for build in builds:
                    build.turn(batch, options.runs)
                    build.times.clear()
                quotients = []
                for turn in range(options.turns):
                    # Who is first changes from turn to turn.
                    medians = {at: builds[at].turn(batch, options.runs) for at in ((0, 1), (1, 0))[turn % 2]}
                    quotients.append(medians[0] / medians[1])
                cells = []
                for build in builds:
                    quantiles = numpy.percentile(build.times, [50, 99, 99.9, 100]) / 1e6
                    cells.append(", ".join(f"{time:.3f}" for time in quantiles))
                    build.child.kill()
                median = statistics.median(quotients)
                spread = f"{median:.3f} ({min(quotients):.2f} to {max(quotients):.2f})"
                print(f"| {pathlib.Path(network).stem} | {batch} | {' | '.join(cells)} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
