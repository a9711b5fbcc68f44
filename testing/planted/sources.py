"""A copy of the last commit's sources in which faults are planted, one at a time; for the programs that look who finds them.

A table of faults is TOML: `was` stands exactly once in `file`, and `is` takes its place.
"""

import contextlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Sources:
    """In target/NAME/tree, built into target/NAME/build."""

    def __init__(self, name, build):
        self.tree = ROOT / "target" / name / "tree"
        self.built = ROOT / "target" / name / "build"
        self.arguments = build
        self.tree.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "x", "-C", self.tree], input=archive, check=True)

    def replace(self, change):
        """Changes a file of the copy; the file, and its text before."""
        path = self.tree / change["file"]
        text = path.read_text()
        was = change["was"].strip("\n")
        if text.count(was) != 1:
            sys.exit(f"{change['file']} has {text.count(was)} of: {was}")
        path.write_text(text.replace(was, change["is"].strip("\n")))
        return path, text

    def build(self):
        command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", self.built, *self.arguments]
        fast = {**os.environ, "CARGO_PROFILE_RELEASE_DEBUG": "0", "CARGO_PROFILE_RELEASE_INCREMENTAL": "true"}
        # Faults leave code unused.
        fast["RUSTFLAGS"] = "--cap-lints allow"
        subprocess.run(command, cwd=self.tree, check=True, env=fast)

    @contextlib.contextmanager
    def planted(self, fault):
        """Built with this fault; the sources are as they were afterwards."""
        path, text = self.replace(fault)
        try:
            self.build()
        finally:
            path.write_text(text)
        yield
