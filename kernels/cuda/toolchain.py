"""The packages of toolchain.txt, each installed into a folder of its own when it is first asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "target" / "cuda-toolchain"


def requirements() -> dict[str, str]:
    """Lines for pip by name of the package, with version and hash."""
    text = (HERE / "toolchain.txt").read_text().replace("\\\n", " ")
    lines = (" ".join(line.split()) for line in text.splitlines())
    return {line.split("==")[0]: line for line in lines if line and not line.startswith("#")}


def pinned(package: str) -> str:
    """`package==version`."""
    return requirements()[package].split()[0]


def installed(package: str) -> Path:
    """The folder of an installed package. The first time this asks a package registry."""
    folder = FOLDER / package
    requirement = requirements()[package] + "\n"
    # Written last, so that a folder that is half there is made again.
    stamp = folder / "requirement.txt"
    if not stamp.exists() or stamp.read_text() != requirement:
        print(f"installing {pinned(package)} into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wanted = folder / "wanted.txt"
        wanted.write_text(requirement)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Older versions of pip do not know the option of that name, and ignore the variable.
        environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
        command = [*pip, "--no-deps", "--require-hashes", "--target", folder, "-r", wanted]
        subprocess.run(command, check=True, env=environment)
        wanted.rename(stamp)
    return folder
