"""Puts libpunctual into the wheel: `packaging/portable/wheel` builds both.

PUNCTUAL_LIBRARY names the library if it was built elsewhere, or for another architecture (then with
`--build-option --plat-name=...`).
"""

import os
import re
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def version() -> str:
    """That of the whole project."""
    text = (ROOT / "Cargo.toml").read_text()
    found = re.search(r'^version = "(.*)"', text, re.MULTILINE)
    if found is None:
        raise SystemExit("no version in Cargo.toml")
    return found.group(1)


def library() -> Path:
    """What cargo has built."""
    named = os.environ.get("PUNCTUAL_LIBRARY")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(named) if named else target / "release" / "libpunctual.so"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: cargo build --release -p punctual-client-c")
    return path


class BuildWithLibrary(build_py):
    """Modules, and the library beside them."""

    def run(self) -> None:
        super().run()
        shutil.copy(library(), Path(self.build_lib) / "punctual" / "libpunctual.so.0")


class WithMachineCode(Distribution):
    """So that modules and library lie together, and the wheel is of a platform."""

    def has_ext_modules(self) -> bool:
        return True


class WheelOfOnePlatform(bdist_wheel):
    """Any Python 3, but one platform: ctypes needs no Python headers, the library is machine code."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    version=version(),
    distclass=WithMachineCode,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfOnePlatform},
)
