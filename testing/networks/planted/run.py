"""Plants one fault at a time in the CPU device, builds, and says who finds it: the checker of executables, verification as
`punctual profile` makes it, and the generator of networks. A table in Markdown; a fault that somebody must find and does not
ends it with code 1.

    python3 testing/networks/planted/run.py [--count NETWORKS] [NAME ...]

The sources are copied from the last commit to target/planted; under a minute a fault when warm, on two idle cores.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[3]
COPY = ROOT / "target/planted/tree"
BUILD = ROOT / "target/planted/build"
BINARIES = {"generator": "punctual-networks", "verification": "examples/verified"}


def replace(change):
    """Changes a file of the copy; its text before."""
    path = COPY / change["file"]
    text = path.read_text()
    was = change["was"].strip("\n")
    if text.count(was) != 1:
        sys.exit(f"{change['file']} has {text.count(was)} of: {was}")
    path.write_text(text.replace(was, change["is"].strip("\n")))
    return path, text


def build():
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", BUILD, "-p", "punctual-networks"]
    fast = {**os.environ, "CARGO_PROFILE_RELEASE_DEBUG": "0", "CARGO_PROFILE_RELEASE_INCREMENTAL": "true"}
    subprocess.run([*command, "--bins", "--example", "verified"], cwd=COPY, check=True, env=fast)


def run(name, count):
    """How many networks a program finds to be wrong, and how many the checker complained of."""
    command = [BUILD / "release" / BINARIES[name], "--first", "1", "--count", str(count)]
    ran = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"failed (\d+)", ran.stdout)
    if found is None:
        # The process died: nobody would serve that.
        return "died", ran.stderr.count("checker: ")
    return int(found[1]), ran.stderr.count("checker: ")


def main():
    table = tomllib.loads((pathlib.Path(__file__).parent / "faults.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    wanted, count = options.names, options.count
    COPY.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", COPY], input=archive, check=True)
    replace(table["reports"])
    build()
    for name in BINARIES:
        if run(name, count) != (0, 0):
            sys.exit(f"{name} finds something although nothing is planted: {run(name, count)}")
    print(f"| fault, {count} networks each | checker, complaints | generator, wrong | verification, wrong |\n|---|---|---|---|")
    missed = False
    for fault in table["fault"]:
        if wanted and fault["name"] not in wanted:
            continue
        path, text = replace(fault)
        build()
        path.write_text(text)
        generator, checker = run("generator", count)
        verification, _ = run("verification", count)
        found = {"checker": checker, "generator": generator, "verification": verification}
        unseen = fault.get("unseen", {})
        missed |= any(number == 0 and name not in unseen for name, number in found.items())
        cells = [f"{number}" if number != 0 else f"0: {unseen.get(name, 'MISSED')}" for name, number in found.items()]
        print("|", fault["name"], "|", " | ".join(cells), "|", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
