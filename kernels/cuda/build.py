#!/usr/bin/env python3
"""Compiles the CUDA kernels: `python3 kernels/cuda/build.py` brings kernels/cuda/images up to date.

Needs Python 3.9 or newer on x86-64 Linux with pip, and for each compiler, the first time, a package registry; no GPU, no
driver, no CUDA. The compilers of toolchain.txt are installed into target/cuda-toolchain. What the compilers make depends on
the sources, nvrtc.py, the options below and toolchain.txt alone, byte for byte.

Only modules whose inputs changed are compiled, each on its own; `--all` compiles all of them. `--check` says which are stale
and compiles nothing. `--sample N` compiles N modules that a seed chooses, and compares them with those in the tree.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import toolchain
from archives import Module, Ptx, fnv1a, read_code, read_ptx, write_code, write_ptx
from nvrtc import Compiled, CompileError, Nvrtc

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src"
IMAGES = HERE / "images"
MANIFEST = IMAGES / "manifest.json"
PTX = IMAGES / "ptx.images"

# Packages, and the folder of the library in each.
NVRTC_11 = "nvidia-cuda-nvrtc-cu11"
NVRTC_12 = "nvidia-cuda-nvrtc-cu12"
NVRTC_13 = "nvidia-cuda-nvrtc"
LIBRARIES = {NVRTC_11: "nvidia/cuda_nvrtc/lib", NVRTC_12: "nvidia/cuda_nvrtc/lib", NVRTC_13: "nvidia/cu13/lib"}

# What compiles each image, for which architecture. `compute_80` is PTX, for devices that none of the others fits. Those of
# CUDA 11 are for its drivers, which need not load what a later compiler made.
TARGETS = {
    "sm_72": (NVRTC_12, "sm_72"),
    "sm_75": (NVRTC_12, "sm_75"),
    "sm_80": (NVRTC_12, "sm_80"),
    "sm_86": (NVRTC_12, "sm_86"),
    "sm_87": (NVRTC_12, "sm_87"),
    "sm_89": (NVRTC_12, "sm_89"),
    "sm_90": (NVRTC_12, "sm_90"),
    "compute_80": (NVRTC_12, "compute_80"),
    "sm_100": (NVRTC_13, "sm_100"),
    "sm_110": (NVRTC_13, "sm_110"),
    "sm_120": (NVRTC_13, "sm_120"),
    "sm_121": (NVRTC_13, "sm_121"),
    "sm_72-cuda11": (NVRTC_11, "sm_72"),
    "sm_75-cuda11": (NVRTC_11, "sm_75"),
    "sm_80-cuda11": (NVRTC_11, "sm_80"),
    "sm_86-cuda11": (NVRTC_11, "sm_86"),
    "sm_87-cuda11": (NVRTC_11, "sm_87"),
}

# As table.rs has them. The others need the tensor-core instructions of 8.0.
MODULES = ["general", "operators", "bytes", "probe", "preprocess"]
TENSOR_CORE_MODULES = ["conv_gemm_64x32", "conv_gemm_64x64", "conv_gemm_128x64", "conv_gemm_128x128"]

OPTIONS = ["--std=c++17", "--ptxas-options=-v"]

# Kernels that may keep something of a thread in memory, and how many bytes of stack and spills.
SPILLS_ALLOWED: dict[str, int] = {}

# An image and a module.
Pair = tuple[str, str]


def modules_of(image: str) -> list[str]:
    """Names of the modules that an image's architecture can run."""
    number = int(TARGETS[image][1].split("_")[1])
    return MODULES + (TENSOR_CORE_MODULES if number >= 80 else [])


def all_pairs() -> list[Pair]:
    return [(image, module) for image in TARGETS for module in modules_of(image)]


@functools.cache
def headers_of(file: str) -> frozenset[str]:
    """Names of all headers that a source includes, and that these include."""
    direct = re.findall(r'^#include "(.*)"$', (SOURCES / file).read_text(), re.MULTILINE)
    return frozenset(direct).union(*map(headers_of, direct))


@functools.cache
def hash_of_sources(module: str) -> int:
    """Of the files that a module is compiled from and by: names and contents, in order of name."""
    names = sorted([f"{module}.cu", *headers_of(f"{module}.cu")])
    hashed = fnv1a(b"")
    for file in [HERE / "nvrtc.py", *(SOURCES / name for name in names)]:
        for part in (file.name.encode(), file.read_bytes()):
            hashed = fnv1a(part + b"\0", hashed)
    return hashed


def inputs_of(image: str, module: str) -> str:
    """The hash of everything that a module of an image depends on. `tests/sources.rs` computes it too."""
    compiler, architecture = TARGETS[image]
    hashed = hash_of_sources(module)
    for part in [toolchain.pinned(compiler), architecture, *OPTIONS]:
        hashed = fnv1a(part.encode() + b"\0", hashed)
    return f"{hashed:016x}"


class Images:
    """What is in kernels/cuda/images."""

    def __init__(self) -> None:
        self.manifest = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}
        known = self.manifest.get("images", {})
        self.modules: dict[Pair, Module] = {}
        for image, of in known.items():
            file = IMAGES / f"{image}.images"
            if file.exists() and of["hash"] == f"{fnv1a(file.read_bytes()):016x}":
                self.modules |= {(image, name): module for name, module in read_code(file.read_bytes()).items()}
        self.ptx: dict[Pair, Ptx] = {}
        self.packed: dict[bytes, bytes] = {}
        if PTX.exists() and self.manifest["ptx"]["hash"] == f"{fnv1a(PTX.read_bytes()):016x}":
            self.ptx, self.packed = read_ptx(PTX.read_bytes())

    def _known(self, pair: Pair) -> dict:
        image, module = pair
        return self.manifest.get("images", {}).get(image, {}).get("modules", {}).get(module, {})

    def stale(self) -> list[Pair]:
        """Modules that are not there, or of other inputs."""
        return [
            pair
            for pair in all_pairs()
            if pair not in self.modules
            or self._known(pair).get("inputs") != inputs_of(*pair)
            or (not self.modules[pair].is_ptx and pair not in self.ptx)
        ]

    def surplus(self) -> list[str]:
        """Names of files that no target has."""
        wanted = {PTX.name, *(f"{image}.images" for image in TARGETS)}
        return sorted(file.name for file in IMAGES.glob("*.images") if file.name not in wanted)

    def differs(self, pair: Pair, compiled: Compiled) -> bool:
        """Whether a compiler makes something else of a module than what is here."""
        ptx = self.ptx.get(pair)
        same_ptx = ptx is None or ptx.head + ptx.body == compiled.ptx.rstrip(b"\0")
        return self.modules[pair].code() != compiled.code or not same_ptx

    def replace(self, pair: Pair, compiled: Compiled) -> None:
        """Takes over what was compiled, if it is not what is here already."""
        is_ptx = TARGETS[pair[0]][1].startswith("compute_")
        if pair not in self.modules or self.modules[pair].code() != compiled.code:
            self.modules[pair] = Module.of(compiled.code, is_ptx, compiled.kernels)
        if not is_ptx:
            self.ptx[pair] = Ptx.of(compiled.code, compiled.ptx)

    def write(self) -> None:
        files = {
            image: write_code({module: self.modules[image, module] for module in modules_of(image)}) for image in TARGETS
        }
        ptx = write_ptx({pair: self.ptx[pair] for pair in all_pairs() if pair in self.ptx}, self.packed)
        IMAGES.mkdir(exist_ok=True)
        for surplus in self.surplus():
            (IMAGES / surplus).unlink()
        for image, file in files.items():
            (IMAGES / f"{image}.images").write_bytes(file)
        PTX.write_bytes(ptx)
        self.manifest = self._manifest(files, ptx)
        MANIFEST.write_text(json.dumps(self.manifest, indent=1) + "\n")

    def _manifest(self, files: dict[str, bytes], ptx: bytes) -> dict:
        """What was compiled of what by what, for people, for tests, and for the next build."""

        def about(pair: Pair) -> dict:
            module = self.modules[pair]
            code = self.ptx[pair].cubin if pair in self.ptx else fnv1a(module.code())
            kernels = {
                kernel: {"registers": usage.registers, "shared_bytes": usage.shared_bytes}
                for kernel, usage in sorted(module.kernels.items())
            }
            return {"inputs": inputs_of(*pair), "hash": f"{code:016x}", "bytes": module.bytes, "kernels": kernels}

        images = {
            image: {
                "compiler": toolchain.pinned(TARGETS[image][0]),
                "architecture": TARGETS[image][1],
                "bytes": len(file),
                "hash": f"{fnv1a(file):016x}",
                "modules": {module: about((image, module)) for module in modules_of(image)},
            }
            for image, file in files.items()
        }
        distinct: dict[str, dict[bytes, list[str]]] = {}
        for (image, module), of in self.ptx.items():
            distinct.setdefault(module, {}).setdefault(of.body, []).append(image)
        return {
            "options": OPTIONS,
            "images": images,
            "ptx": {
                "bytes": len(ptx),
                "hash": f"{fnv1a(ptx):016x}",
                "same_but_for_their_head": {module: list(images.values()) for module, images in distinct.items()},
            },
        }


def compiled(pairs: list[Pair]):
    """Each pair with what its compiler makes of it; says how far it is."""
    compilers: dict[str, Nvrtc] = {}
    begin = time.monotonic()
    for done, (image, module) in enumerate(pairs, 1):
        package, architecture = TARGETS[image]
        if package not in compilers:
            compilers[package] = Nvrtc(toolchain.installed(package) / LIBRARIES[package])
        file = f"{module}.cu"
        headers = {name: (SOURCES / name).read_text() for name in sorted(headers_of(file))}
        code = compilers[package].compile(file, (SOURCES / file).read_text(), headers, architecture, OPTIONS)
        if sys.stdout.isatty():
            left = (time.monotonic() - begin) / done * (len(pairs) - done)
            print(f"\r{done}/{len(pairs)} {image} {module}, about {left:.0f} s left".ljust(70), end="", flush=True)
        yield (image, module), code
    print(f"{len(pairs)} modules compiled in {time.monotonic() - begin:.0f} s".ljust(70))


def refused(pair: Pair, code: Compiled) -> list[str]:
    """Kernels that keep more of a thread in memory than they may."""
    return [
        f"{kernel} of {pair[0]}: {usage.stack_bytes} bytes of stack, {usage.spill_bytes} of spills"
        for kernel, usage in code.kernels.items()
        if usage.stack_bytes + usage.spill_bytes > SPILLS_ALLOWED.get(kernel, 0)
    ]


def commit() -> str:
    """The checked-out commit, which chooses samples: each commit others, one always the same."""
    head = ["git", "-C", str(HERE), "rev-parse", "HEAD"]
    return subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()


def check(images: Images) -> None:
    """Ends the program if something is stale."""
    stale = [f"{image} {module}" for image, module in images.stale()] + images.surplus()
    if stale:
        sys.exit("stale: " + ", ".join(stale) + "\nrun python3 kernels/cuda/build.py")
    print(f"{len(all_pairs())} modules are those of their sources")


def sample(images: Images, count: int, seed: str | None) -> None:
    """Ends the program if a module of a sample is not what its compiler makes."""
    check(images)
    seed = seed or commit()
    pairs = all_pairs()
    chosen = sorted(random.Random(seed).sample(pairs, min(count, len(pairs))), key=pairs.index)
    print(f"--sample {count} --seed {seed}: " + ", ".join(f"{image} {module}" for image, module in chosen))
    wrong = [f"{pair[0]} {pair[1]}" for pair, code in compiled(chosen) if images.differs(pair, code)]
    if wrong:
        sys.exit("not what the compiler makes: " + ", ".join(wrong) + "\nrun python3 kernels/cuda/build.py --all")


def ptx_table(manifest: dict) -> str:
    """Which images have the same PTX but for its head, as a table in Markdown."""
    rows = ["| PTX of | the same, but for compiler, `.version` and `.target` |", "|---|---|"]
    modules: dict[str, list[str]] = {}
    for module, groups in manifest["ptx"]["same_but_for_their_head"].items():
        modules.setdefault("; ".join(", ".join(group) for group in groups), []).append(module)
    return "\n".join(rows + [f"| {', '.join(names)} | {groups} |" for groups, names in modules.items()]) + "\n"


def show(manifest: dict) -> None:
    """Registers of each kernel, the size of each image, and which PTX is the same."""
    used: dict[str, dict[str, int]] = {}
    for image, of in manifest["images"].items():
        for module in of["modules"].values():
            for kernel, usage in module["kernels"].items():
                used.setdefault(kernel, {})[image] = usage["registers"]
    columns = [image for image, of in manifest["images"].items() if of["architecture"].startswith("sm_")]
    print("registers".ljust(26) + "".join(image.replace("cuda", "").rjust(9) for image in columns))
    for kernel, by_image in used.items():
        print(kernel.ljust(26) + "".join(str(by_image.get(image, "-")).rjust(9) for image in columns))
    sizes = {image: of["bytes"] for image, of in manifest["images"].items()} | {"ptx": manifest["ptx"]["bytes"]}
    for image, size in sizes.items():
        print(f"{image}.images".ljust(26) + f"{size / 1024:8.0f} KiB")
    print(f"all of them: {sum(sizes.values()) / 1024 / 1024:.2f} MiB\n")
    print(ptx_table(manifest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="compile all modules, whether their inputs changed or not")
    parser.add_argument("--check", action="store_true", help="only say which modules are stale")
    parser.add_argument("--sample", type=int, metavar="N", help="check, and compare N modules with what is compiled now")
    parser.add_argument("--seed", help="what chooses the sample; the commit, if it is left out")
    options = parser.parse_args()
    images = Images()
    try:
        if options.sample is not None:
            return sample(images, options.sample, options.seed)
        if options.check:
            return check(images)
        wrong = []
        for pair, code in compiled(all_pairs() if options.all else images.stale()):
            wrong += refused(pair, code)
            images.replace(pair, code)
    except CompileError as error:
        sys.exit(f"\n{error}")
    if wrong:
        sys.exit("registers do not suffice:\n  " + "\n  ".join(wrong))
    images.write()
    show(images.manifest)


if __name__ == "__main__":
    main()
