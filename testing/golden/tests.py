#!/usr/bin/env python3
"""Compares the names of all tests with those recorded, so that none goes missing while code moves.

    python3 testing/golden/tests.py [--record [COMMIT]]

A test is known by its own name, as modules and crates change; names are read from the source. Ends with 1 if one is missing
that `renamed.txt` does not account for.
"""
import collections
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TEST = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*|///?[^\n]*\n\s*)*(?:async )?fn (\w+)")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True).stdout


def names(commit=None):
    """Of a commit, or of the files as they are."""
    found = collections.Counter()
    if commit:
        listed = git("ls-tree", "-r", "--name-only", "--full-tree", commit).split()
        texts = (git("show", f"{commit}:{name}") for name in listed if name.endswith(".rs"))
    else:
        root = pathlib.Path(git("rev-parse", "--show-toplevel").strip())
        texts = ((root / name).read_text() for name in git("ls-files", "--full-name", root, "*.rs").split() if name.endswith(".rs"))
    for text in texts:
        found.update(TEST.findall(text))
    return found


def accounted():
    """`old -> new`, or `old: why it is gone`; as often as it stands there."""
    for line in (HERE / "renamed.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if " -> " in line:
            old, new = line.split(" -> ")
            yield old.strip(), new.strip()
        elif ": " in line:
            yield line.split(": ")[0].strip(), None


def main():
    recorded = HERE / "tests.txt"
    if "--record" in sys.argv:
        found = names(*sys.argv[2:3])
        recorded.write_text("".join(f"{name}\n" for name in sorted(found.elements())))
        print(f"{found.total()} tests recorded")
        return
    now, then = names(), collections.Counter(recorded.read_text().split())
    missing, new = then - now, now - then
    for old, name in accounted():
        if missing[old] and (name is None or new[name]):
            missing[old] -= 1
            if name is not None:
                new[name] -= 1
    for name in sorted((+missing).elements()):
        print(f"missing: {name}")
    print(f"{now.total()} tests, {(+missing).total()} missing, {(+new).total()} new")
    sys.exit(bool(+missing))


main()
