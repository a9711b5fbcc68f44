"""Tests Punctual's units on a booted systemd: python3 systemd/test [--help]"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import case
import machine
# In this order they run.
import units
import life
import refusals

HERE = Path(__file__).resolve().parent

EPILOG = """\
examples:
  cargo build --release -p punctual -p punctual-daemon
  cargo build --release -p punctual-client --example steadfast
  sudo python3 systemd/test
  sudo python3 systemd/test --binaries target/debug --only recovery --junit systemd.xml

Needs root, systemd-nspawn and, once, debootstrap with the distribution's mirror; the root that it makes is
kept in --cache. Everything else is in a container that is gone at the end.

termination codes: 0 every case passed, or the machine cannot boot a container and says why; 1 a case
failed; 2 wrong usage."""


def arguments():
    parser = argparse.ArgumentParser(prog="systemd/test", description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, default=machine.REPOSITORY / "target/release",
                        help="folder of punctual and punctuald (target/release)")
    parser.add_argument("--client", type=Path, help="the client `steadfast` (BINARIES/examples/steadfast)")
    parser.add_argument("--cache", type=Path, default=machine.REPOSITORY / "target/debian-root",
                        help="where the container's root is kept (target/debian-root)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose names have this in them")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the result in JUnit's form")
    parser.add_argument("--list", action="store_true", help="list the cases and their limits")
    return parser.parse_args()


def measured(binaries, folder):
    """A profile of the demonstration network on this machine, for the tests' manifest."""
    text = (HERE / "manifest.toml").read_text()
    package = folder / "signs.punctual"
    package.write_bytes((machine.REPOSITORY / "models/signs/signs.punctual").read_bytes())
    manifest = folder / "manifest.toml"
    manifest.write_text(text.replace("/usr/share/punctual/models/signs.punctual", "signs.punctual"))
    command = [binaries / "punctual", "profile", manifest, "--quick", "--direct"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode != 0:
        raise machine.Skip(f"no profile could be measured: {done.stdout.strip()}")
    return folder / "signs.profile.json"


def boot(options):
    reason = machine.missing_here(options.cache)
    if reason:
        raise machine.Skip(reason)
    machine.make_root(options.cache)
    client = options.client or options.binaries / "examples/steadfast"
    for program in [options.binaries / "punctuald", options.binaries / "punctual", client]:
        if not program.exists():
            sys.exit(f"systemd/test: {program} is not there: build it first (--help)")
    folder = options.cache.parent / "systemd-profile"
    folder.mkdir(parents=True, exist_ok=True)
    profile = measured(options.binaries, folder)
    return machine.Machine(options.cache, options.binaries, client, (HERE / "manifest.toml").read_text(), profile)


def main():
    options = arguments()
    cases = [each for each in case.CASES if options.only in each.name]
    if options.list:
        for each in cases:
            print(f"{each.limit_s:4} s  {each.name}")
        return 0
    begun = time.monotonic()
    try:
        booted = boot(options)
    except machine.Skip as reason:
        print(f"skipped: {reason}")
        return 0
    outcomes = []
    try:
        booted.boot()
        print(f"booted {time.monotonic() - begun:5.1f} s", flush=True)
        manifest = (HERE / "manifest.toml").read_text()
        for each in cases:
            outcomes.append(case.run(each, booted, manifest))
            case.say(outcomes[-1])
    except machine.Skip as reason:
        print(f"skipped: {reason}")
    finally:
        booted.end()
    if options.junit:
        case.write_junit(outcomes, options.junit)
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    print(f"{len(outcomes)} cases, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
