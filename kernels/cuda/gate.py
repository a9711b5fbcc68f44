#!/usr/bin/env python3
"""Holds the machine code of the images to its rules, and its figures to those in figures.json.

`python3 kernels/cuda/gate.py` disassembles the modules that changed, ends with an error if one breaks a rule, and otherwise
writes their figures. `--check` writes nothing, and also ends with an error where a figure is another than in the file.
`--all` looks at all modules, `--sample N` at those that changed and N more that a seed chooses.

The rules, for every kernel:
- A thread keeps nothing in local memory: no LDL, no STL.
- If every barrier at which the block judges a look at the epoch (`Watch` in guard.cuh) says that the launch is evicted, control
  gets to no write of global memory, but to the store that says that the launch begins, before all barriers, and to the minimum
  that notes the launch's index. Kernels of UNGUARDED, which nothing evicts, have no such barrier.
- The kernels of LOOKING, and no others, have a loop that looks and judges; their arithmetic that is in a loop is in such a one.

What the rules do not see: how often a loop looks, and whether a launch that may run does what it should. Tests that run
kernels do.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import build
import evicted
import sass
import toolchain
from archives import Module, fnv1a

FIGURES = build.HERE / "figures.json"
TABLE = build.SOURCES / "table.rs"
NVDISASM = "nvidia-cuda-nvdisasm"

# What NVDISASM refuses: "CUDA architecture SM72 is deprecated". Its registers and occupancy are known all the same.
NOT_DISASSEMBLED = ("sm_72",)

# Kernels that look at the epoch in their main loop, as their sources call `Watch` there.
LOOKING = frozenset(
    "attention_64 attention_256 conv_bytes conv_bytes_grouped conv_dense_general conv_gemm_64x32 conv_gemm_64x64"
    " conv_gemm_128x64 conv_gemm_128x128 conv_grouped_general detections hold linear product_of_rows recurrent".split()
)

# Kernels that run whatever the epoch is.
UNGUARDED = frozenset({"report_evicted"})

# What a convolution or a product is made of, the most specific first.
WORK = ("HMMA", "IDP", "FFMA")


@dataclass(frozen=True)
class Limits:
    """What a multiprocessor has (CUDA C++ programming guide, table "Technical specifications per compute capability"),
    as in testing/emulated-driver/src/driver/attributes.rs."""

    threads: int
    blocks: int
    shared_bytes: int
    # What the system takes of each block.
    reserved_bytes: int
    registers: int = 65536

    def blocks_of(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Blocks of a kernel that run at a time: `Contract::blocks_on` in contract.rs."""
        warps = -(-threads // 32)
        registers_of_block = -(-registers * 32 // 256) * 256 * warps
        shared_of_block = -(-(shared_bytes + self.reserved_bytes) // 128) * 128
        most = min(self.blocks, self.threads // (warps * 32), self.registers // registers_of_block)
        return min(most, self.shared_bytes // shared_of_block) if shared_of_block else most


KIB = 1024
LIMITS = {
    "sm_72": Limits(2048, 32, 96 * KIB, 0),
    "sm_75": Limits(1024, 16, 64 * KIB, 0),
    "sm_80": Limits(2048, 32, 164 * KIB, KIB),
    "sm_86": Limits(1536, 16, 100 * KIB, KIB),
    "sm_87": Limits(1536, 16, 164 * KIB, KIB),
    "sm_89": Limits(1536, 24, 100 * KIB, KIB),
    "sm_90": Limits(2048, 32, 228 * KIB, KIB),
    "sm_100": Limits(2048, 32, 228 * KIB, KIB),
    "sm_110": Limits(1536, 24, 228 * KIB, KIB),
    "sm_120": Limits(1536, 24, 100 * KIB, KIB),
    "sm_121": Limits(1536, 24, 100 * KIB, KIB),
}


@functools.cache
def threads_by_kernel() -> dict[str, int]:
    """Threads of a block, as the sources declare them."""
    declared = re.compile(r"^PUNCTUAL_KERNEL(?:_RESIDENT)?\((\w+), \w+, (\d+)", re.MULTILINE)
    texts = (file.read_text() for file in build.SOURCES.glob("*.cu*"))
    return {name: int(threads) for text in texts for name, threads in declared.findall(text)}


@functools.cache
def dynamic_bytes_by_module() -> dict[str, int]:
    """Shared memory that launches of the tensor-core modules ask for: `Tile::shared_bytes` of table.rs."""
    text = TABLE.read_text()
    tile = re.compile(r"const T(\w+): Tile = Tile \{\s*pixels: (\d+),\s*channels: (\d+),\s*depth: (\d+),\s*stages: (\d+),")
    found = {}
    for name, *numbers in tile.findall(text):
        pixels, channels, depth, stages = map(int, numbers)
        found[f"conv_gemm_{name.lower()}"] = stages * (pixels + channels) * depth * 2
    missing = set(build.TENSOR_CORE_MODULES) - set(found)
    if missing:
        raise ValueError(f"{TABLE.name} has no tile of {', '.join(sorted(missing))} that can be read here")
    return found


@dataclass(frozen=True)
class Loops:
    """What a kernel's machine code says."""

    instructions: int
    # Instructions of the main loop, those that few rounds get to included: the smallest loop that looks at the epoch,
    # otherwise the largest one; and how many of them are arithmetic of the kernel's most specific kind.
    main_loop: int
    main_loop_work: int


def broken_rules(kernel: sass.Kernel) -> list[str]:
    """What a kernel does that it must not."""
    broken = [f"local memory: {one.text}" for one in kernel.code if one.name in ("LDL", "STL")][:1]
    if kernel.name not in UNGUARDED:
        broken += [f"a write that an evicted launch gets to: {one.text}" for one in evicted.writes(kernel)][:1]
    elif kernel.judges:
        broken.append("judges a look at the epoch, and is in the list of those that must not (UNGUARDED in gate.py)")
    # A function that the kernel calls is not followed: it must not write.
    unseen = set(range(len(kernel.code))) - set(kernel.order)
    broken += [f"a write in a function: {kernel.code[at].text}" for at in sorted(unseen) if kernel.code[at].is_store][:1]
    looking = looking_loops(kernel)
    if kernel.name in LOOKING:
        if not looking:
            broken.append("no loop looks at the epoch and judges it")
        elif any(not any(loop <= outer for outer in looking) for loop in loops_of_work(kernel)):
            broken.append("a loop of its arithmetic is in none that looks at the epoch")
    elif looking:
        broken.append("looks at the epoch in a loop, and is not in the list of those that must (LOOKING in gate.py)")
    return broken


def looking_loops(kernel: sass.Kernel) -> list[frozenset[int]]:
    """Loops that look at the epoch and judge what was seen, the smallest first."""
    loops = [loop for loop in kernel.loops if loop & kernel.judges and any(kernel.code[at].is_look for at in loop)]
    return sorted(loops, key=len)


def work_of(kernel: sass.Kernel, places: frozenset[int]) -> list[int]:
    """Places of the kernel's most specific arithmetic."""
    for name in WORK:
        found = [at for at in sorted(places) if kernel.code[at].name == name]
        if found:
            return found
    return []


def loops_of_work(kernel: sass.Kernel) -> set[frozenset[int]]:
    """The innermost loop of each instruction of the arithmetic that is in a loop."""
    loops = sorted(kernel.loops, key=len)
    inside = frozenset().union(*loops)
    return {next(loop for loop in loops if at in loop) for at in work_of(kernel, inside)}


def loops(kernel: sass.Kernel) -> Loops:
    """The figures of a kernel's machine code."""
    looking = looking_loops(kernel)
    main = looking[0] if looking else max(kernel.loops, key=len, default=frozenset())
    return Loops(sum(one.name != "NOP" for one in kernel.code), len(main), len(work_of(kernel, main)))


def disassembled(cubin: bytes) -> list[sass.Kernel]:
    program = toolchain.installed(NVDISASM) / "nvidia" / "cu13" / "bin" / "nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        # Warnings say that the form of the file is an older compiler's.
        done = subprocess.run([program, "-c", file.name], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"nvdisasm: {done.stderr}")
    return sass.kernels(done.stdout)


def figures_of(image: str, name: str, module: Module) -> tuple[dict, list[str]]:
    """Figures of a module's kernels, and what rules they break."""
    architecture = build.TARGETS[image][1]
    dynamic = dynamic_bytes_by_module().get(name, 0)
    limits, figures, broken = LIMITS[architecture], {}, []
    for kernel, usage in sorted(module.kernels.items()):
        threads, shared = threads_by_kernel()[kernel], usage.shared_bytes + dynamic
        blocks = limits.blocks_of(threads, usage.registers, shared)
        figures[kernel] = {
            "registers": usage.registers,
            "shared_bytes": shared,
            "blocks": blocks,
            "warps": blocks * -(-threads // 32),
        }
    if architecture not in NOT_DISASSEMBLED:
        try:
            code = disassembled(module.code())
        except sass.Unreadable as error:
            return figures, [f"{image} {name}: cannot be read: {error}"]
        if {kernel.name for kernel in code} != set(figures):
            broken.append(f"{image} {name}: the disassembly has other kernels than the archive")
        for kernel in code:
            figures.get(kernel.name, {}).update(asdict(loops(kernel)))
            broken += [f"{image} {kernel.name}: {what}" for what in broken_rules(kernel)]
    return figures, broken


def gate_hash() -> str:
    """Of what makes the figures beside the cubin."""
    hashed = fnv1a(toolchain.pinned(NVDISASM).encode())
    for text in ((build.HERE / name).read_bytes() for name in ("gate.py", "evicted.py", "sass.py")):
        hashed = fnv1a(text, hashed)
    shape = {"threads": threads_by_kernel(), "dynamic": dynamic_bytes_by_module()}
    return f"{fnv1a(json.dumps(shape, sort_keys=True).encode(), hashed):016x}"


def text_of(images: build.Images, figures: dict) -> str:
    """figures.json: a line a kernel, so that a change is a line."""
    lines = ['{"version": 1,', f' "gate": "{gate_hash()}",', ' "limits": {']
    lines.append(",\n".join(f'  "{name}": {json.dumps(asdict(limits))}' for name, limits in LIMITS.items()) + "\n },")
    lines.append(' "modules": [')
    modules = []
    for (image, module), kernels in figures.items():
        about = {"image": image, "module": module, "cubin": images.manifest["images"][image]["modules"][module]["hash"]}
        rows = ",\n".join(f'   "{kernel}": {json.dumps(row)}' for kernel, row in kernels.items())
        modules.append(f'  {json.dumps(about)[:-1]}, "kernels": {{\n{rows}}}}}')
    lines.append(",\n".join(modules) + "\n ]}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing: other figures are an error")
    parser.add_argument("--all", action="store_true", help="look at all modules, whether they changed or not")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="also look at N modules that did not change")
    parser.add_argument("--seed", help="what chooses the sample; the commit, if it is left out")
    options = parser.parse_args()
    images = build.Images()
    build.check(images)
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"gate": "", "modules": []}
    known = {(of["image"], of["module"]): of for of in before["modules"]}
    pairs = [pair for pair in build.all_pairs() if not images.modules[pair].is_ptx]

    def is_known(pair: build.Pair) -> bool:
        cubin = images.manifest["images"][pair[0]]["modules"][pair[1]]["hash"]
        return before["gate"] == gate_hash() and pair in known and known[pair]["cubin"] == cubin

    changed = {pair for pair in pairs if options.all or not is_known(pair)}
    rest = [pair for pair in pairs if pair not in changed]
    if options.sample:
        seed = options.seed or build.commit()
        changed |= set(random.Random(seed).sample(rest, min(options.sample, len(rest))))
    figures, broken = {}, []
    for pair in pairs:
        if pair in changed:
            if sys.stdout.isatty():
                print(f"\r{pair[0]} {pair[1]}".ljust(50), end="", flush=True)
            figures[pair], wrong = figures_of(*pair, images.modules[pair])
            broken += wrong
        else:
            figures[pair] = known[pair]["kernels"]
    print(f"machine code of {len(changed)} of {len(pairs)} modules examined")
    if broken:
        sys.exit("broken rules:\n  " + "\n  ".join(broken))
    if options.check:
        compare(figures, known, before, text_of(images, figures))
    else:
        FIGURES.write_text(text_of(images, figures))


def compare(figures: dict, known: dict, before: dict, text: str) -> None:
    """Ends the program if figures are others than in the file."""
    wrong = []
    for (image, module), kernels in figures.items():
        old = known.get((image, module), {}).get("kernels", {})
        for kernel in sorted({*kernels, *old}):
            was, now = old.get(kernel), kernels.get(kernel)
            if was != now:
                wrong.append(f"{image} {kernel}: {was} in the file, {now} now")
    if wrong or json.loads(text) != before:
        wrong = wrong or ["the file is of other images, or of an older gate"]
        sys.exit("figures.json differs: run python3 kernels/cuda/gate.py, and see what changed\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
