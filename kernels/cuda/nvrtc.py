"""NVIDIA's run-time compiler, by ctypes: CUDA C++ to cubin or PTX without a GPU, a driver or a CUDA installation."""

import ctypes
import re
from dataclasses import dataclass, field
from pathlib import Path


class CompileError(Exception):
    """What the compiler said."""


@dataclass(frozen=True)
class Usage:
    """What a kernel needs, as ptxas reports it. Bytes are of a block (shared) and of a thread (stack, spills)."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int = 0


@dataclass(frozen=True)
class Compiled:
    """A module: its code, the PTX that it was assembled from, and what its kernels need (nothing is known of PTX)."""

    code: bytes
    ptx: bytes
    kernels: dict[str, Usage] = field(default_factory=dict)


_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


def usages(log: str) -> dict[str, Usage]:
    """What `ptxas -v` says of each kernel."""
    found = {}
    for entry in _ENTRY.finditer(log):
        shared = re.search(r"(\d+) bytes smem", entry["rest"])
        found[entry["name"]] = Usage(
            registers=int(entry["registers"]),
            shared_bytes=int(shared[1]) if shared else 0,
            stack_bytes=int(entry["stack"]),
            spill_bytes=int(entry["stores"]) + int(entry["loads"]),
        )
    return found


class Nvrtc:
    """One version of the compiler, from the folder that its package installs its libraries to."""

    def __init__(self, folder: Path) -> None:
        # The library has no path to its companion: it must be there before it is asked for.
        ctypes.CDLL(str(self._newest(folder, "libnvrtc-builtins.so.*")), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(self._newest(folder, "libnvrtc.so.*")))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    @staticmethod
    def _newest(folder: Path, pattern: str) -> Path:
        found = sorted(folder.glob(pattern))
        if not found:
            raise FileNotFoundError(f"no {pattern} in {folder}: is the package of toolchain.txt installed?")
        return found[-1]

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            raise CompileError(f"{function}: {self._library.nvrtcGetErrorString(code).decode()}")

    def _bytes_of(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def compile(
        self, name: str, source: str, headers: dict[str, str], architecture: str, options: list[str]
    ) -> Compiled:
        """`architecture` is `sm_NN` for a cubin and its PTX, `compute_NN` for PTX alone. Headers are given by name, so
        that no path of this machine gets into the code."""
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(header.encode() for header in headers))
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), len(headers), texts, names
        )
        try:
            arguments = [f"--gpu-architecture={architecture}", *options]
            encoded = (ctypes.c_char_p * len(arguments))(*(argument.encode() for argument in arguments))
            code = self._library.nvrtcCompileProgram(program, len(arguments), encoded)
            log = self._bytes_of(program, "ProgramLog").rstrip(b"\0").decode()
            if code != 0:
                raise CompileError(f"{name} for {architecture}:\n{log}")
            ptx = self._bytes_of(program, "PTX")
            if architecture.startswith("compute_"):
                return Compiled(ptx, ptx)
            return Compiled(self._bytes_of(program, "CUBIN"), ptx, usages(log))
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))
