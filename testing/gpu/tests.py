#!/usr/bin/env python3
"""Runs the tests that take a real GPU's driver, and says which others need the emulated one.

    testing/gpu/tests.py                           builds them with cargo, and runs them on the driver of this machine
    testing/gpu/tests.py --binaries FOLDER         runs test programs that are there already, as build.sh packs them
    testing/gpu/tests.py --only conformance        only these test programs
    testing/gpu/tests.py --emulated                the emulated driver in the place of a real one: that this list stays true
    testing/gpu/tests.py --json

With PUNCTUAL_REAL_DRIVER=1 nothing emulated is loaded. A test that configures a driver, has it go wrong, or asks what only
an emulated one tells is refused: it is listed here with what it needs, and is no failure. Ends with 1 if another test failed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Test programs with what of them is run, and for how many seconds at most: conformance of the device, its known answers, its
# start and eviction, recorded networks, and the daemon.
PROGRAMS = {
    "known_answers": ("punctual-cuda-measuring", [], 60),
    "conformance": ("punctual-device-cuda", [], 240),
    "device": ("punctual-device-cuda", [], 120),
    "weights": ("punctual-device-cuda", [], 60),
    "process": ("punctual-daemon", ["gpu::"], 120),
}
# As testing/emulated-driver has it (REFUSED).
REFUSED = "refused on a real driver: this test"


def built(names):
    """The test programs, built by cargo."""
    packages = sorted({PROGRAMS[name][0] for name in names})
    command = ["cargo", "test", "--no-run", "--locked", "--message-format=json"]
    command += [word for package in packages for word in ("-p", package)]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    found = {}
    for line in output.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable") and artifact.get("profile", {}).get("test"):
            found[artifact["target"]["name"]] = pathlib.Path(artifact["executable"])
    return {name: found[name] for name in names}


def emulated(program):
    """A folder in which the loader finds the emulated driver, which lies beside test programs."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="punctual-driver-"))
    for name in ("libcuda.so", "libcuda.so.1"):
        (folder / name).symlink_to(program.parent / "libemulated_cuda.so")
    return folder


def run(program, filters, seconds, driver):
    """What became of each test of a program; `driver` is the folder of another driver than the machine's."""
    environment = dict(os.environ, PUNCTUAL_REAL_DRIVER="1", RUST_BACKTRACE="0")
    if driver:
        environment["LD_LIBRARY_PATH"] = str(driver)
    command = [str(program), "--test-threads", "1", *filters]
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
        text, ended = ran.stdout + ran.stderr, ran.returncode in (0, 101)
    except subprocess.TimeoutExpired as late:
        text, ended = (late.stdout or b"").decode(errors="replace"), False
    words = dict(re.findall(r"^test (\S+).* \.\.\. (ok|FAILED|ignored)$", text, re.MULTILINE))
    blocks = re.split(r"^---- (\S+) stdout ----$", text, flags=re.MULTILINE)
    said = dict(zip(blocks[1::2], blocks[2::2]))
    result = {"passed": [], "refused": {}, "failed": {}}
    for test, word in words.items():
        message = said.get(test, "")
        if word == "ok":
            result["passed"].append(test)
        elif word == "FAILED" and REFUSED in message:
            result["refused"][test] = message.split(REFUSED, 1)[1].splitlines()[0].strip()
        elif word == "FAILED":
            result["failed"][test] = message.strip()[:2000]
    if not ended or not words:
        result["failed"]["(the program)"] = f"did not end within {seconds} s, or crashed: {text[-2000:]}"
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--list", action="store_true", help="the names of the test programs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(PROGRAMS))
        return 0
    if options.binaries:
        programs = {name: options.binaries / name for name in options.only if (options.binaries / name).exists()}
    else:
        programs = built(options.only)
    results = {}
    driver = emulated(next(iter(programs.values()))) if options.emulated and programs else None
    for name, program in programs.items():
        _, filters, seconds = PROGRAMS[name]
        result = results[name] = run(program, filters, seconds, driver)
        if options.json:
            continue
        counts = ", ".join(f"{len(tests)} {word}" for word, tests in result.items())
        print(f"{name}: {counts}", flush=True)
        for test, needs in sorted(result["refused"].items()):
            print(f"  refused  {test}: it {needs[:120]}")
        for test, message in sorted(result["failed"].items()):
            print(f"  FAILED   {test}\n{message}")
    if options.json:
        json.dump(results, sys.stdout, indent=1)
        print()
    if driver:
        shutil.rmtree(driver)
    passed = sum(len(result["passed"]) for result in results.values())
    return 1 if any(result["failed"] for result in results.values()) or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
