"""The files of kernels/cuda/images. src/images.rs reads the archives of code,
testing/emulated-driver/src/ptx_images.rs the archive of PTX.

All numbers are little-endian u32s but the hashes (u64), names are padded with zeros, and contents are compressed (zlib).
What did not change keeps its compressed bytes, as other versions of zlib would write others.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

from nvrtc import Usage

CODE_MAGIC, CODE_FORMAT = b"PUNCTUAL", 2
PTX_MAGIC, PTX_FORMAT = b"PUNCTPTX", 1
NAME_BYTES = 32

_HEAD = struct.Struct("<8sIII")
_MODULE = struct.Struct(f"<{NAME_BYTES}sIIII")
_KERNEL = struct.Struct(f"<{NAME_BYTES}sIIII")
_TEXT = struct.Struct("<III")
_ENTRY = struct.Struct(f"<Q{NAME_BYTES}s{NAME_BYTES}sII")


def fnv1a(data: bytes, start: int = 0xCBF29CE484222325) -> int:
    """Fowler, Noll, Vo (64 bits, 1a): tells versions apart, and is three lines in any language."""
    hashed = start
    for byte in data:
        hashed = (hashed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return hashed


def _text(name: bytes) -> str:
    return name.rstrip(b"\0").decode()


@dataclass(frozen=True)
class Module:
    """A module as an archive keeps it, and what its kernels need (nothing is known of PTX)."""

    is_ptx: bool
    packed: bytes
    bytes: int
    kernels: dict[str, Usage] = field(default_factory=dict)

    @staticmethod
    def of(code: bytes, is_ptx: bool, kernels: dict[str, Usage]) -> Module:
        return Module(is_ptx, zlib.compress(code, 9), len(code), kernels)

    def code(self) -> bytes:
        return zlib.decompress(self.packed)


def write_code(modules: dict[str, Module]) -> bytes:
    """A header, a row a module, a row a kernel, and the code."""
    kernels = [
        (kernel, index, usage)
        for index, module in enumerate(modules.values())
        for kernel, usage in sorted(module.kernels.items())
    ]
    file = _HEAD.pack(CODE_MAGIC, CODE_FORMAT, len(modules), len(kernels))
    at = _HEAD.size + len(modules) * _MODULE.size + len(kernels) * _KERNEL.size
    for name, module in modules.items():
        file += _MODULE.pack(name.encode(), int(module.is_ptx), at, len(module.packed), module.bytes)
        at += len(module.packed)
    for name, index, usage in kernels:
        file += _KERNEL.pack(name.encode(), index, usage.registers, usage.shared_bytes, usage.stack_bytes)
    return file + b"".join(module.packed for module in modules.values())


def read_code(file: bytes) -> dict[str, Module]:
    """What `write_code` wrote; nothing of another format."""
    magic, version, count, kernel_count = _HEAD.unpack_from(file)
    if (magic, version) != (CODE_MAGIC, CODE_FORMAT):
        return {}
    rows = [_MODULE.unpack_from(file, _HEAD.size + index * _MODULE.size) for index in range(count)]
    kernels: list[dict[str, Usage]] = [{} for _ in rows]
    for index in range(kernel_count):
        at = _HEAD.size + count * _MODULE.size + index * _KERNEL.size
        name, module, registers, shared_bytes, stack_bytes = _KERNEL.unpack_from(file, at)
        kernels[module][_text(name)] = Usage(registers, shared_bytes, stack_bytes)
    return {
        _text(name): Module(bool(is_ptx), file[at : at + packed], size, kernels[index])
        for index, (name, is_ptx, at, packed, size) in enumerate(rows)
    }


@dataclass(frozen=True)
class Ptx:
    """What the compiler made on the way to a cubin. `head + body` is its text, without the zero at its end."""

    cubin: int
    head: bytes
    body: bytes

    @staticmethod
    def of(cubin: bytes, text: bytes) -> Ptx:
        """Splits the text behind its `.target`: the head has comments and directives that name compiler and target,
        and nothing else."""
        target = text.index(b"\n.target ") + 1
        end = text.index(b"\n", target) + 1
        foreign = [
            line for line in text[:end].splitlines() if line and not line.startswith((b"//", b".version ", b".target "))
        ]
        if foreign:
            raise ValueError(f"{foreign[0].decode()} stands before .target")
        return Ptx(fnv1a(cubin), text[:end], text[end:].rstrip(b"\0"))


def write_ptx(entries: dict[tuple[str, str], Ptx], packed: dict[bytes, bytes]) -> bytes:
    """A header, a row a text, a row a cubin (its hash, module, image, the texts of head and body), and the texts, each
    once. `entries` by image and module, `packed` as `read_ptx` has it."""
    texts = list(dict.fromkeys(text for ptx in entries.values() for text in (ptx.head, ptx.body)))
    place = {text: index for index, text in enumerate(texts)}
    contents = [packed.get(text) or zlib.compress(text, 9) for text in texts]
    file = _HEAD.pack(PTX_MAGIC, PTX_FORMAT, len(texts), len(entries))
    at = _HEAD.size + len(texts) * _TEXT.size + len(entries) * _ENTRY.size
    for text, content in zip(texts, contents):
        file += _TEXT.pack(at, len(content), len(text))
        at += len(content)
    for (image, module), ptx in entries.items():
        file += _ENTRY.pack(ptx.cubin, module.encode(), image.encode(), place[ptx.head], place[ptx.body])
    return file + b"".join(contents)


def read_ptx(file: bytes) -> tuple[dict[tuple[str, str], Ptx], dict[bytes, bytes]]:
    """What `write_ptx` wrote (nothing of another format), and the compressed bytes of each text."""
    magic, version, count, entry_count = _HEAD.unpack_from(file)
    if (magic, version) != (PTX_MAGIC, PTX_FORMAT):
        return {}, {}
    texts, packed = [], {}
    for index in range(count):
        at, size, _ = _TEXT.unpack_from(file, _HEAD.size + index * _TEXT.size)
        content = file[at : at + size]
        texts.append(zlib.decompress(content))
        packed[texts[-1]] = content
    entries = {}
    for index in range(entry_count):
        row = _HEAD.size + count * _TEXT.size + index * _ENTRY.size
        cubin, module, image, head, body = _ENTRY.unpack_from(file, row)
        entries[_text(image), _text(module)] = Ptx(cubin, texts[head], texts[body])
    return entries, packed
