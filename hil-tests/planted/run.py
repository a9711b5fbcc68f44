"""Plants one fault at a time in the daemon, builds it, and says whether the case of the hostile suite that is for it fails. A table in
Markdown; a case that holds with its fault, or fails without one, ends it with code 1.

    python3 hil-tests/planted/run.py [NAME ...]

The sources are copied from the last commit to target/planted-hil; some two minutes a fault when warm. Needs what the suite needs.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "testing/planted"))
from sources import Sources


def run(sources, case):
    """What the case says is wrong; nothing if it holds."""
    binaries = sources.built / "release"
    with tempfile.TemporaryDirectory() as out:
        command = [binaries / "punctual-hil", "run", "--bin", binaries, "--case", f"hostile/{case}", "--out", out]
        subprocess.run(command, capture_output=True)
        [report] = json.loads((pathlib.Path(out) / "report.json").read_text())["cases"]
    if report["outcome"] == "skipped":
        sys.exit(f"{case} is skipped here: {report['skipped_because']}")
    return "; ".join(report["findings"])


def main():
    faults = tomllib.loads((HERE / "faults.toml").read_text())["fault"]
    wanted = [fault for fault in faults if not sys.argv[1:] or fault["name"] in sys.argv[1:]]
    sources = Sources("planted-hil", ["-p", "punctual-hil", "-p", "punctual-daemon", "-p", "punctual", "--bins"])
    sources.build()
    print("| fault | case | with it | without |\n|---|---|---|---|")
    missed = False
    without = {case: run(sources, case) for case in {fault["case"] for fault in wanted}}
    for fault in wanted:
        with sources.planted(fault):
            found = run(sources, fault["case"])
        clean = without[fault["case"]]
        missed |= not found or bool(clean)
        print(f"| {fault['name']} | `{fault['case']}` | {found or 'HOLDS'} | {clean or 'holds'} |", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
