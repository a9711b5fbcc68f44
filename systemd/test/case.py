"""Cases: each has a limit, starts from a pristine machine, and says in a line how it went."""

import dataclasses
import signal
import time
import traceback
import xml.etree.ElementTree as ElementTree

from machine import Failure, Skip

CASES = []


def case(limit_s):
    """Makes a function of the machine a case; its name is what it says."""

    def register(function):
        CASES.append(Case(function, limit_s))
        return function

    return register


@dataclasses.dataclass
class Case:
    function: object
    limit_s: int

    @property
    def name(self):
        return self.function.__name__

    @property
    def group(self):
        return self.function.__module__


@dataclasses.dataclass
class Outcome:
    case: Case
    seconds: float
    # passed, failed, skipped
    state: str
    # What was measured, or what is wrong.
    words: str = ""
    journal: str = ""


def overdue(_signal, _frame):
    raise Failure("it took longer than its limit")


def run(wanted, machine, manifest):
    """Runs one case, whatever becomes of it."""
    begun = time.monotonic()
    signal.signal(signal.SIGALRM, overdue)
    signal.alarm(wanted.limit_s)
    try:
        machine.pristine(manifest)
        words, state, journal = wanted.function(machine) or "", "passed", ""
    except Skip as reason:
        words, state, journal = str(reason), "skipped", ""
    except Exception as problem:
        signal.alarm(0)
        words = str(problem) if isinstance(problem, Failure) else traceback.format_exc()
        state, journal = "failed", last_words(machine)
    finally:
        signal.alarm(0)
    return Outcome(wanted, time.monotonic() - begun, state, words, journal)


def last_words(machine):
    """What the journal has at the end, for whoever looks for the cause."""
    try:
        return machine.journal("-n", "40", "-o", "short-monotonic")
    except Exception as problem:
        return f"no journal: {problem}"


def say(outcome):
    words = f": {outcome.words}" if outcome.words else ""
    print(f"{outcome.state:7} {outcome.seconds:5.1f} s  {outcome.case.name}{words}", flush=True)
    if outcome.state == "failed":
        print("".join(f"        | {line}\n" for line in outcome.journal.splitlines()), end="", flush=True)


def write_junit(outcomes, path):
    """The form that CI systems read."""
    suite = ElementTree.Element("testsuite", name="systemd", tests=str(len(outcomes)))
    for state in ["failed", "skipped"]:
        count = sum(outcome.state == state for outcome in outcomes)
        suite.set("failures" if state == "failed" else state, str(count))
    for outcome in outcomes:
        entry = ElementTree.SubElement(suite, "testcase", name=outcome.case.name,
                                       classname=outcome.case.group, time=f"{outcome.seconds:.3f}")
        if outcome.state == "passed":
            ElementTree.SubElement(entry, "system-out").text = outcome.words
        else:
            tag = "failure" if outcome.state == "failed" else "skipped"
            ElementTree.SubElement(entry, tag, message=outcome.words).text = outcome.journal
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
