#!/usr/bin/env python3
"""Compiles the CUDA kernels: `python3 kernels/cuda/build.py` makes kernels/cuda/images again.

Needs Python 3.9 or newer on x86-64 Linux and, the first time, a package registry; no GPU, no driver, no CUDA. The
compilers of toolchain.txt are installed into target/cuda-toolchain. The result depends on the sources, this file,
nvrtc.py and toolchain.txt alone, byte for byte. `--check` only says whether the images are up to date.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import time
import venv
from pathlib import Path

from nvrtc import Compiled, CompileError, Nvrtc

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src"
IMAGES = HERE / "images"
TOOLCHAIN = HERE.parents[1] / "target" / "cuda-toolchain"

# Folder of each compiler below the environment's packages.
NVRTC_12 = "nvidia/cuda_nvrtc/lib"
NVRTC_13 = "nvidia/cu13/lib"

# One image an architecture, and what compiles it. `compute_80` is PTX, for devices that none of the others fits.
ARCHITECTURES = {
    "sm_72": NVRTC_12,
    "sm_80": NVRTC_12,
    "sm_86": NVRTC_12,
    "sm_87": NVRTC_12,
    "sm_89": NVRTC_12,
    "sm_90": NVRTC_12,
    "compute_80": NVRTC_12,
    "sm_100": NVRTC_13,
    "sm_110": NVRTC_13,
}

# As table.rs has them. The others need the tensor-core instructions of 8.0.
MODULES = ["general", "operators", "bytes", "probe", "preprocess"]
TENSOR_CORE_MODULES = ["conv_gemm_64x32", "conv_gemm_64x64", "conv_gemm_128x64", "conv_gemm_128x128"]

OPTIONS = ["--std=c++17", "--ptxas-options=-v"]

# Kernels that may keep something of a thread in memory, and how many bytes of stack and spills.
SPILLS_ALLOWED: dict[str, int] = {}

MAGIC = b"PUNCTUAL"
FORMAT = 1
NAME_BYTES = 32
ALIGNMENT = 64


def fnv1a(data: bytes, start: int = 0xCBF29CE484222325) -> int:
    """Fowler, Noll, Vo (64 bits, 1a): tells versions apart, and is three lines in any language."""
    hashed = start
    for byte in data:
        hashed = (hashed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return hashed


def sources_hash() -> str:
    """Of everything that the images depend on: names and contents, in order of name."""
    files = [HERE / "build.py", HERE / "nvrtc.py", HERE / "toolchain.txt", *sorted(SOURCES.iterdir())]
    hashed = fnv1a(b"")
    for file in files:
        for part in (file.name.encode(), file.read_bytes()):
            hashed = fnv1a(part + b"\0", hashed)
    return f"{hashed:016x}"


def modules_of(architecture: str) -> list[str]:
    """Names of the modules that an architecture can run."""
    number = int(architecture.split("_")[1])
    return MODULES + (TENSOR_CORE_MODULES if number >= 80 else [])


def toolchain() -> Path:
    """The folder of packages, with the compilers in it."""
    stamp = TOOLCHAIN / "installed.txt"
    wanted = (HERE / "toolchain.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing the compilers of toolchain.txt into {TOOLCHAIN} (about 150 MB, once)", flush=True)
        venv.create(TOOLCHAIN, with_pip=True, clear=True)
        pip = [TOOLCHAIN / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", HERE / "toolchain.txt"], check=True)
        stamp.write_text(wanted)
    return next((TOOLCHAIN / "lib").glob("python3*/site-packages"))


def compile_all(packages: Path) -> tuple[dict[str, dict[str, Compiled]], dict[str, str]]:
    """`[architecture][module]`, and the version of the compiler of each architecture."""
    compilers = {folder: Nvrtc(packages / folder) for folder in (NVRTC_12, NVRTC_13)}
    headers = {file.name: file.read_text() for file in sorted(SOURCES.glob("*.cuh"))}
    total = sum(len(modules_of(architecture)) for architecture in ARCHITECTURES)
    done, begin = 0, time.monotonic()
    compiled: dict[str, dict[str, Compiled]] = {}
    for architecture, folder in ARCHITECTURES.items():
        compiled[architecture] = {}
        for module in modules_of(architecture):
            source = (SOURCES / f"{module}.cu").read_text()
            code = compilers[folder].compile(f"{module}.cu", source, headers, architecture, OPTIONS)
            compiled[architecture][module] = code
            done += 1
            left = (time.monotonic() - begin) / done * (total - done)
            print(f"\r{done}/{total} {architecture} {module}, about {left:.0f} s left".ljust(70), end="", flush=True)
    print()
    return compiled, {architecture: compilers[folder].version for architecture, folder in ARCHITECTURES.items()}


def refuse_spills(compiled: dict[str, dict[str, Compiled]]) -> None:
    """Ends the program if a kernel keeps more of a thread in memory than it may."""
    refused = [
        f"{kernel} on {architecture}: {usage.stack_bytes} bytes of stack, {usage.spill_bytes} of spills"
        for architecture, modules in compiled.items()
        for module in modules.values()
        for kernel, usage in module.kernels.items()
        if usage.stack_bytes + usage.spill_bytes > SPILLS_ALLOWED.get(kernel, 0)
    ]
    if refused:
        sys.exit("registers do not suffice:\n  " + "\n  ".join(refused))


def archive(modules: dict[str, Compiled]) -> bytes:
    """The file of an architecture: a header, a row a module, a row a kernel, and the code. All numbers are
    little-endian u32s, names are padded with zeros; kernels/src/cuda/images.rs reads it."""
    kernels = [
        (kernel, index, usage)
        for index, module in enumerate(modules.values())
        for kernel, usage in sorted(module.kernels.items())
    ]
    header = struct.pack("<8sIII", MAGIC, FORMAT, len(modules), len(kernels))
    at = len(header) + len(modules) * (NAME_BYTES + 12) + len(kernels) * (NAME_BYTES + 16)
    rows, code = b"", b""
    for name, module in modules.items():
        padding = -(at + len(code)) % ALIGNMENT
        code += b"\0" * padding
        rows += struct.pack(f"<{NAME_BYTES}sIII", name.encode(), int(module.is_ptx), at + len(code), len(module.code))
        code += module.code
    for name, index, usage in kernels:
        numbers = (index, usage.registers, usage.shared_bytes, usage.stack_bytes)
        rows += struct.pack(f"<{NAME_BYTES}sIIII", name.encode(), *numbers)
    return header + rows + code


def manifest(files: dict[str, bytes], compiled: dict[str, dict[str, Compiled]], versions: dict[str, str]) -> str:
    """What was compiled of what by what, for people and for the test that says when it is stale."""
    images = {
        architecture: {
            "compiler": f"NVRTC {versions[architecture]}",
            "bytes": len(file),
            "hash": f"{fnv1a(file):016x}",
            "kernels": {
                kernel: {"registers": usage.registers, "shared_bytes": usage.shared_bytes}
                for module in compiled[architecture].values()
                for kernel, usage in sorted(module.kernels.items())
            },
        }
        for architecture, file in files.items()
    }
    return json.dumps({"sources": sources_hash(), "options": OPTIONS, "images": images}, indent=1) + "\n"


def show(compiled: dict[str, dict[str, Compiled]], files: dict[str, bytes]) -> None:
    """Registers of each kernel, and the size of each image."""
    cubins = [architecture for architecture in ARCHITECTURES if architecture.startswith("sm_")]
    used: dict[str, dict[str, int]] = {}
    for architecture in cubins:
        for module in compiled[architecture].values():
            for kernel, usage in module.kernels.items():
                used.setdefault(kernel, {})[architecture] = usage.registers
    print("registers".ljust(26) + "".join(architecture.rjust(8) for architecture in cubins))
    for kernel, of in used.items():
        print(kernel.ljust(26) + "".join(str(of.get(architecture, "-")).rjust(8) for architecture in cubins))
    for architecture, file in files.items():
        print(f"{architecture}.images".ljust(26) + f"{len(file) / 1024:8.0f} KiB")
    print(f"all of them: {sum(map(len, files.values())) / 1024 / 1024:.2f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the images are up to date")
    if parser.parse_args().check:
        known = json.loads((IMAGES / "manifest.json").read_text())["sources"]
        sys.exit(0 if known == sources_hash() else "stale: run python3 kernels/cuda/build.py")
    try:
        compiled, versions = compile_all(toolchain())
    except CompileError as error:
        sys.exit(f"\n{error}")
    refuse_spills(compiled)
    files = {architecture: archive(modules) for architecture, modules in compiled.items()}
    IMAGES.mkdir(exist_ok=True)
    for old in IMAGES.glob("*.images"):
        old.unlink()
    for architecture, file in files.items():
        (IMAGES / f"{architecture}.images").write_bytes(file)
    (IMAGES / "manifest.json").write_text(manifest(files, compiled, versions))
    show(compiled, files)


if __name__ == "__main__":
    main()
