#!/usr/bin/env python3
"""The house in figures: lines, files, arrows between crates, circles of files, documentation that says little; and how widely
the vocabulary of operators is spread.

    python3 testing/house/figures.py [--circles] [--operators]

Counts what git tracks. A circle is a set of files of one crate that all reach each other by `use` lines, through what modules
pass on; `use` lines of tests do not count.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def tracked():
    out = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in out.stdout.split()]


def without_tests(text):
    """The text before its unit tests, which stand at the end."""
    begin = r"^#\[cfg\((?:all\()?test\b.*\n(?:#\[.*\n)*(?:pub(?:\([^)]*\))? )?mod tests? \{"
    return re.split(begin, text, maxsplit=1, flags=re.M)[0]


def is_test(path):
    parts = path.relative_to(ROOT).parts
    return "tests" in parts or "benches" in parts or path.name == "tests.rs"


def module_of(path, source):
    """The path of a file's module within its crate."""
    parts = list(path.relative_to(source).with_suffix("").parts)
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def imports(text, module):
    """Paths that a file's `use` lines name, absolute within the crate."""
    children = set(re.findall(r"^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);", text, flags=re.M))
    for use in re.findall(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]*);", text, flags=re.M):
        first = re.match(r"\w*", use)[0]
        if first not in children | {"crate", "super", "self"}:
            continue
        for path in expand(re.sub(r"\s+", "", re.sub(r"//.*", "", use).replace(" as ", "@"))):
            names = [name.split("@")[0] for name in path.split("::")]
            base = [] if names[0] == "crate" else list(module)
            for name in names:
                if name == "super":
                    base = base[:-1]
                elif name not in ("crate", "self"):
                    base.append(name)
            yield tuple(base)


def expand(path):
    head, brace, rest = path.partition("{")
    if not brace:
        return [path]
    items, depth, item = [], 0, ""
    for letter in rest[: rest.rindex("}")] + ",":
        if letter == "," and depth == 0:
            items += [item] if item else []
            item = ""
            continue
        depth += {"{": 1, "}": -1}.get(letter, 0)
        item += letter
    return [full for item in items for full in expand(head + item)]


def circles(graph):
    """Strongly connected components of more than one file (Tarjan)."""
    index, low, stack, found, count = {}, {}, [], [], [0]

    def visit(node):
        index[node] = low[node] = count[0]
        count[0] += 1
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(component)

    for node in graph:
        if node not in index:
            visit(node)
    return found


def imported(source):
    """The files of a crate that each of its files takes something from."""
    modules = {module_of(path, source): path for path in source.rglob("*.rs") if not is_test(path)}
    uses = {module: list(imports(without_tests(path.read_text()), module)) for module, path in modules.items()}
    # What a module passes on: item -> where it comes from.
    passed = {module: {target[-1]: target for target in uses[module] if target} for module in modules}

    def file_of(target, steps=8):
        """The file that has the item, through those that pass it on."""
        module = target
        while module not in modules:
            module = module[:-1]
        item = target[len(module) : len(module) + 1]
        if item and steps and item[0] in passed[module]:
            return file_of(passed[module][item[0]] + target[len(module) + 1 :], steps - 1)
        return modules[module] if module else None

    return {
        path: {file for target in uses[module] if (file := file_of(target)) and file != path}
        for module, path in modules.items()
    }


def floors(source):
    """On how many floors the folders and files of a crate's source stand, if each stands above all that it takes from."""

    def room(path):
        return path.relative_to(source).parts[0].removesuffix(".rs")

    graph = collections.defaultdict(set)
    for path, taken in imported(source).items():
        graph[room(path)] |= {room(other) for other in taken} - {room(path)}
    # Rooms of a circle stand on one floor.
    together = {name: frozenset(circle) for circle in circles(graph) for name in circle}
    floor = {}

    def floor_of(name):
        circle = together.get(name, frozenset([name]))
        if circle not in floor:
            below = {other for member in circle for other in graph[member]} - circle
            floor[circle] = 1 + max(map(floor_of, below), default=0)
        return floor[circle]

    return max(map(floor_of, list(graph)))


# Operators by which the spread of the vocabulary is measured, and the folders of the engine.
MEASURED = ("GridSample", "TopK", "Recurrent")
ENGINE = ("kernels", "runtime/model", "runtime/compile", "runtime/device-cpu", "runtime/device-cuda")


# Written by a program from what another file says.
GENERATED = ("kernels/cuda/src/params.cuh",)


def is_product(path):
    """Whether somebody writes the file and it ships: no test, bench, example, nor anything that stands in a folder of such."""
    name = str(path.relative_to(ROOT))
    return name not in GENERATED and name.startswith(("kernels/", "runtime/")) and not is_test(path) and "/examples/" not in name


def sources():
    out = subprocess.run(
        ["git", "ls-files", "*.rs", "*.cu", "*.cuh"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in out.stdout.split()]


def functions(text):
    """Name and text of each function, by the layout of rustfmt."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        begin = re.match(r"( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?fn (\w+)", line)
        if begin:
            end = next((i for i in range(at, len(lines)) if lines[i] == begin[1] + "}"), at)
            yield begin[2], lines[at : end + 1]


def kinds():
    """The variants of the model's `OperatorKind`."""
    for path in tracked():
        found = re.search(r"pub enum OperatorKind\S* \{\n(.*?)\n\}", path.read_text(), flags=re.S)
        if found:
            return set(re.findall(r"^    ([A-Z]\w*)", found[1], flags=re.M))
    raise SystemExit("no OperatorKind")


def operators():
    """Where operators are named: files for each of some, functions that tell many kinds apart, lines of the engine."""
    product = [path for path in sources() if is_product(path)]
    for operator in MEASURED:
        files = [path for path in product if re.search(rf"\b{operator}", path.read_text())]
        print(f"product files that name {operator}: {len(files)}")
        if "--operators" in sys.argv:
            print("".join(f"    {path.relative_to(ROOT)}\n" for path in files), end="")
    names, found = kinds(), []
    for path in product:
        if path.suffix == ".rs":
            for name, lines in functions(without_tests(path.read_text())):
                told = set(re.findall(r"\b(?:[A-Z]\w*|Self)::([A-Z]\w*)\b", "\n".join(lines))) & names
                if len(told) >= 6:
                    found.append((len(lines), path, name))
    print(f"functions that tell six or more kinds apart: {len(found)}, {sum(lines for lines, _, _ in found):,} lines")
    if "--operators" in sys.argv:
        for lines, path, name in sorted(found, key=lambda each: -each[0]):
            print(f"    {lines:4} {path.relative_to(ROOT)} {name}")
    for room in ENGINE:
        inside = [path for path in sources() if str(path.relative_to(ROOT)).startswith(room + "/")]
        print(f"lines of {room}: {sum(path.read_text().count(chr(10)) for path in inside):,}")
    print(f"floors of runtime/device-cuda: {floors(ROOT / 'runtime/device-cuda/src')}")


def main():
    sys.setrecursionlimit(10_000)
    files = tracked()
    lines, count = collections.Counter(), collections.Counter()
    short_docs = product = 0
    for path in files:
        text = path.read_text()
        room = path.relative_to(ROOT).parts[0]
        lines[room] += text.count("\n")
        count[room] += 1
        if room == "runtime" and not is_test(path):
            product += without_tests(text).count("\n")
        docs = re.findall(r"^\s*//[/!] ?(.*)$", text, flags=re.M)
        short_docs += sum(1 for doc in docs if 0 < len(doc.split()) <= 5 and not doc.startswith(("|", "```")))
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )
    packages = json.loads(metadata.stdout)["packages"]
    ours = {package["name"] for package in packages}
    arrows = {
        (package["name"], dependency["name"])
        for package in packages
        for dependency in package["dependencies"]
        if dependency["name"] in ours and dependency["kind"] is None
    }
    binaries = sum(
        "test" in target["kind"] for package in packages for target in package["targets"]
    )
    found = []
    for package in packages:
        source = pathlib.Path(package["manifest_path"]).parent / "src"
        found += circles(imported(source)) if source.is_dir() else []
    print(f"| folder | lines | files |\n|---|---|---|")
    for room in sorted(lines):
        print(f"| {room} | {lines[room]:,} | {count[room]} |")
    print(f"| all | {sum(lines.values()):,} | {sum(count.values())} |\n")
    print(f"runtime without tests: {product:,} lines")
    print(f"crates: {len(packages)}, arrows between them: {len(arrows)}")
    print(f"circles of files: {len(found)}, largest {max(map(len, found), default=0)}")
    print(f"integration test binaries: {binaries}")
    way = (ROOT / "docs/ARCHITECTURE.md").read_text().split("## The way of a frame")[1].split("\n## ")[0]
    passed = set(re.findall(r"`([\w/.-]+\.rs)`", "\n".join(line for line in way.split("\n") if line.startswith("|"))))
    print(f"files that a frame passes, as docs/ARCHITECTURE.md tells its way: {len(passed)}")
    print(f"lines of documentation of five words or fewer: {short_docs:,}")
    operators()
    if "--circles" in sys.argv:
        for circle in sorted(found, key=len, reverse=True):
            print(f"\n{len(circle)}: " + " ".join(str(path.relative_to(ROOT)) for path in sorted(circle)))


main()
