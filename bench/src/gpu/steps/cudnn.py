"""Runs a network, stage by stage, with PyTorch, and says how long each stage took.

Talks in lines of JSON. In: {"network": ..., "batch": N} loads a network (as the runtime describes it, without
weights: they are drawn here), {"rounds": N, "graphs": true|false} runs all its stages N times. Out: one line each.
Started with "cpu" as its argument, it uses the processor: to test it where there is no GPU.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F


def activation(kind):
    """The function of an activation, as the runtime names it."""
    if isinstance(kind, dict):
        low, high = kind["Clip"]["low"], kind["Clip"]["high"]
        return lambda x: torch.clamp(x, low, high)
    return {
        "None": lambda x: x,
        "Relu": F.relu,
        "Sigmoid": torch.sigmoid,
        "Silu": F.silu,
        "HardSigmoid": F.hardsigmoid,
        "HardSwish": F.hardswish,
        "Gelu": F.gelu,
        "Tanh": torch.tanh,
    }[kind]


def pair(extent):
    return (extent["height"], extent["width"])


class Network:
    """The stages as functions of the tensors that lie in `values`."""

    def __init__(self, network, batch, device, kind):
        self.device, self.kind = device, kind
        self.shapes = network["tensors"]
        self.values = {}
        first = network["stages"][0]["inputs"][0]
        self.values[first] = self.random(batch, *self.shape(first))
        self.stages = [[self.operator(each) for each in stage["operators"]] for stage in network["stages"]]
        self.graphs = None

    def shape(self, tensor):
        shape = self.shapes[tensor]
        return shape["channels"], shape["height"], shape["width"]

    def random(self, *shape):
        values = torch.randn(shape, device=self.device, dtype=self.kind)
        return values.contiguous(memory_format=torch.channels_last) if values.dim() == 4 else values

    def operator(self, operator):
        """A function that computes the operator's output from `values`."""
        (name, given), = operator["kind"].items() if isinstance(operator["kind"], dict) else [(operator["kind"], {})]
        make = getattr(self, "make_" + name)
        compute = make(operator["input"], operator["output"], given)

        def run():
            self.values[operator["output"]] = compute()

        return run

    def make_Conv2d(self, source, target, given):
        channels, outputs = self.shape(source)[0], self.shape(target)[0]
        window, groups = given["window"], given["groups"]
        kernel, dilation = pair(window["kernel"]), pair(window["dilation"])
        scale = (channels // groups * kernel[0] * kernel[1]) ** -0.5
        weights = self.random(outputs, channels // groups, *kernel) * scale
        bias = torch.zeros(outputs, device=self.device, dtype=self.kind)
        pads, apply = window["padding"], activation(given["activation"])
        even = pads["top"] == pads["bottom"] and pads["left"] == pads["right"]

        def compute():
            x = self.values[source]
            if not even:
                x = F.pad(x, (pads["left"], pads["right"], pads["top"], pads["bottom"]))
            around = (pads["top"], pads["left"]) if even else 0
            x = F.conv2d(x, weights, bias, pair(window["stride"]), around, dilation, groups)
            if given["residual"] is not None:
                x = x + self.values[given["residual"]]
            return apply(x)

        return compute

    def make_Pool(self, source, target, given):
        pads, kernel, stride = given["padding"], pair(given["kernel"]), pair(given["stride"])
        largest = given["kind"] == "Max"
        around = (pads["left"], pads["right"], pads["top"], pads["bottom"])

        def compute():
            x = self.values[source]
            if largest:
                return F.max_pool2d(F.pad(x, around, value=float("-inf")), kernel, stride)
            # What counts at the edge changes the values, not the time.
            return F.avg_pool2d(F.pad(x, around), kernel, stride)

        return compute

    def make_GlobalAveragePool(self, source, target, given):
        return lambda: self.values[source].mean((2, 3), keepdim=True)

    def make_Linear(self, source, target, given):
        features, outputs = self.shape(source), self.shape(target)[0]
        inputs = features[0] * features[1] * features[2]
        weights, apply = self.random(outputs, inputs) * inputs**-0.5, activation(given["activation"])
        bias = torch.zeros(outputs, device=self.device, dtype=self.kind)
        return lambda: apply(F.linear(self.values[source].flatten(1), weights, bias))[:, :, None, None]

    def make_Add(self, source, target, given):
        apply = activation(given["activation"])
        return lambda: apply(self.values[source] + self.values[given["other"]])

    def make_Multiply(self, source, target, given):
        apply = activation(given["activation"])
        return lambda: apply(self.values[source] * self.values[given["other"]])

    def make_Gather(self, source, target, given):
        sources = [source, *given["others"]]
        runs = [(sources[run["source"]], run["first"], run["first"] + run["count"]) for run in given["runs"]]
        if len(runs) <= 16:
            return lambda: torch.cat([self.values[of][:, first:last] for of, first, last in runs], 1)
        # A shuffle: many runs of one channel.
        begins, total = {}, 0
        for of in sources:
            begins[of], total = total, total + self.shape(of)[0]
        picks = [begins[of] + at for of, first, last in runs for at in range(first, last)]
        picks = torch.tensor(picks, device=self.device)
        return lambda: torch.cat([self.values[of] for of in sources], 1).index_select(1, picks)

    def run(self, stage):
        for operator in self.stages[stage]:
            operator()

    def capture(self):
        """A CUDA graph for each stage, so that nothing of Python is in its time."""
        self.graphs = []
        for stage in range(len(self.stages)):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.run(stage)
            self.graphs.append(graph)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(network, rounds, graphs, device):
    """Nanoseconds of each stage in each round, from the call to when the host knows that it is over."""
    times = [[] for _ in network.stages]
    for _ in range(rounds):
        for stage, found in enumerate(times):
            start = time.perf_counter_ns()
            if graphs:
                network.graphs[stage].replay()
            else:
                network.run(stage)
            synchronize(device)
            found.append(time.perf_counter_ns() - start)
    return times


def load(ask, device, kind):
    network = Network(ask["network"], ask["batch"], device, kind)
    # Chooses algorithms, and fills `values` for the stages that follow.
    measure(network, 3, False, device)
    if device == "cuda":
        network.capture()
    return network


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    torch.backends.cudnn.benchmark = True
    kind = torch.float16 if device == "cuda" else torch.float32
    said = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version() or 0}
    if device == "cuda" and not torch.cuda.is_available():
        said = {"lacks": "PyTorch sees no CUDA device"}
    print(json.dumps(said), flush=True)
    network = None
    with torch.inference_mode():
        for line in sys.stdin:
            ask = json.loads(line)
            if "network" in ask:
                network = load(ask, device, kind)
                answer = {"stages": len(network.stages)}
            else:
                answer = {"times": measure(network, ask["rounds"], ask["graphs"], device)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"}), flush=True)
        raise
