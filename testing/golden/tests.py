#!/usr/bin/env python3
"""Compares the names of all tests with those recorded, so that none goes missing while code moves.

    cargo test --workspace -- --list 2>/dev/null | python3 testing/golden/tests.py [--record]

A test is known by the last part of its name, as modules and crates change. Ends with 1 if one is missing
that `renamed.txt` does not account for.
"""
import collections
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
SUFFIX = ": test"


def listed(lines):
    names = (line.strip().removesuffix(SUFFIX) for line in lines if line.rstrip().endswith(SUFFIX))
    # Examples in documentation are named by their line.
    return collections.Counter(name.rsplit("::", 1)[-1] for name in names if "(line " not in name)


def accounted(lines):
    """`old -> new`, or `old: why it is gone`; as often as it stands there."""
    for line in lines:
        line = line.split("#")[0].strip()
        if " -> " in line:
            old, new = line.split(" -> ")
            yield old.strip(), new.strip()
        elif ": " in line:
            yield line.split(": ")[0].strip(), None


def main():
    now = listed(sys.stdin)
    if not now:
        sys.exit("no test is listed on standard input")
    recorded = HERE / "tests.txt"
    if "--record" in sys.argv:
        recorded.write_text("".join(f"{name}\n" for name in sorted(now.elements())))
        return
    missing = collections.Counter(recorded.read_text().split()) - now
    new = now - collections.Counter(recorded.read_text().split())
    for old, name in accounted((HERE / "renamed.txt").read_text().splitlines()):
        if missing[old] and (name is None or new[name]):
            missing[old] -= 1
            if name is not None:
                new[name] -= 1
    for name in sorted((+missing).elements()):
        print(f"missing: {name}")
    print(f"{now.total()} tests, {(+missing).total()} missing, {(+new).total()} new")
    sys.exit(bool(+missing))


main()
