"""Plants one fault at a time in the CPU device, builds, and says who finds it: the checker of executables, verification as
`punctual profile` makes it, and the generator of networks. A table in Markdown; a fault that somebody must find and does not
ends it with code 1.

    python3 testing/networks/planted/run.py [--count NETWORKS] [NAME ...]

The sources are copied from the last commit to target/planted; under a minute a fault when warm, on two idle cores.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "planted"))
from sources import Sources

BINARIES = {"generator": "punctual-networks", "verification": "examples/verified"}


def run(sources, name, count):
    """How many networks a program finds to be wrong, and how many the checker complained of."""
    command = [sources.built / "release" / BINARIES[name], "--first", "1", "--count", str(count)]
    ran = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"failed (\d+)", ran.stdout)
    if found is None:
        # The process died: nobody would serve that.
        return "died", ran.stderr.count("checker: ")
    return int(found[1]), ran.stderr.count("checker: ")


def main():
    table = tomllib.loads((HERE / "faults.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    wanted, count = options.names, options.count
    sources = Sources("planted", ["-p", "punctual-networks", "--bins", "--example", "verified"])
    sources.replace(table["reports"])
    sources.build()
    for name in BINARIES:
        if run(sources, name, count) != (0, 0):
            sys.exit(f"{name} finds something although nothing is planted: {run(sources, name, count)}")
    print(f"| fault, {count} networks each | checker, complaints | generator, wrong | verification, wrong |\n|---|---|---|---|")
    missed = False
    for fault in table["fault"]:
        if wanted and fault["name"] not in wanted:
            continue
        with sources.planted(fault):
            generator, checker = run(sources, "generator", count)
            verification, _ = run(sources, "verification", count)
        found = {"checker": checker, "generator": generator, "verification": verification}
        unseen = fault.get("unseen", {})
        missed |= any(number == 0 and name not in unseen for name, number in found.items())
        cells = [f"{number}" if number != 0 else f"0: {unseen.get(name, 'MISSED')}" for name, number in found.items()]
        print("|", fault["name"], "|", " | ".join(cells), "|", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
