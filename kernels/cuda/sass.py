"""Machine code as nvdisasm prints it: instructions, flow of control, loops, and where a look at the epoch is judged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

_SECTION = re.compile(r"//-+ \.text\.(\S+) ")
_LABEL = re.compile(r"^(\S+):$")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+\{?\s*(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\(([^)]+)\)")
_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]*)"')
_NAME = re.compile(r"(?<![\w.])(UR\d+|R\d+|UP\d+|P\d+|PR)(?![\w])")
_PREDICATE = re.compile(r"^!?U?P(\d+|T)$")
_REGISTER = re.compile(r"^U?R(\d+|Z)(\.\w+)*$")

_COMPARISONS = ("ISETP", "FSETP", "HSETP2", "DSETP", "PLOP3", "PSETP", "UISETP", "UFSETP", "UPLOP3", "UPSETP")
_JUMPS = ("BRA", "BRX", "BRXU")
# These name a label, or change the flow of control, and do not leave the next instruction.
_NO_JUMPS = ("BSSY", "BSYNC", "BREAK", "BMOV", "CALL")
_STORES = ("STG", "ST", "RED", "REDG", "ATOM", "ATOMG")
# Of these the first operand is no result.
_WITHOUT_RESULT = (
    *_JUMPS, *_NO_JUMPS, "STG", "ST", "STS", "STL", "RED", "REDG", "LDGSTS", "EXIT", "RET", "BAR", "WARPSYNC", "MEMBAR",
    "NANOSLEEP", "YIELD", "NOP", "CCTL", "DEPBAR", "LDGDEPBAR", "ERRBAR",
)  # fmt: skip
# What begins like this jumps or writes memory: one that is not among these is refused, as nobody here knows what it does.
_SUSPECT = re.compile(r"J|BR|UBR|UJ|KILL|BPT|RTT|PRET|LEPC|ST|UST|RED|URED|ATOM|SUST|SURED|SUATOM|UTMA|UBLK")
_KNOWN = (*_JUMPS, *_NO_JUMPS, *_STORES, "STS", "STL", "STSM", "ATOMS", "REDUX")


INSTRUCTION_BYTES = 16


class Unreadable(Exception):
    """A form of machine code that the rules here do not know."""


@dataclass
class Instruction:
    """One instruction; `next` are the places of those that may follow it."""

    guard: str
    opcode: str
    operands: list[str]
    text: str
    next: list[int] = field(default_factory=list)
    # It goes to a label; and if so, whether it may also go to the next instruction, which is then the last of `next`.
    is_jump: bool = False
    may_pass: bool = False

    @property
    def name(self) -> str:
        return self.opcode.split(".")[0]

    @property
    def is_look(self) -> bool:
        """The relaxed load from the whole system's memory that nothing but a look at the epoch is."""
        return self.name == "LDG" and ".STRONG.SYS" in self.opcode

    @property
    def is_store(self) -> bool:
        """Writes global memory, or memory whose space only its address says."""
        return self.name in _STORES

    def results(self) -> set[str]:
        """Registers and predicates that it writes."""
        if self.name in _WITHOUT_RESULT:
            return {"BARRIER"} if self.opcode.startswith("BAR.RED") else set()
        if self.name == "R2P":
            return {f"P{number}" for number in range(7)}
        count = self._result_count()
        names = {name for operand in self.operands[:count] for name in _NAME.findall(operand)}
        width = self._width()
        for name in [name for name in names if "R" in name]:
            letters, number = re.match(r"(U?R)(\d+)", name).groups()
            names |= {f"{letters}{int(number) + further}" for further in range(1, width)}
        return names

    def _width(self) -> int:
        """Registers that a result takes, at most."""
        parts = set(self.opcode.split("."))
        if self.name in ("SHF", "USHF"):
            # A half of what is shifted.
            return 1
        if parts & {"256"}:
            return 8
        if parts & {"128", "HMMA", "IMMA", "DMMA", "LDSM"}:
            return 4
        if parts & {"64", "F64", "S64", "U64", "WIDE", "CS2R"} or self.name.startswith("D"):
            return 2
        return 1

    @property
    def calls(self) -> bool:
        """Calls a function, which may write any register and comes back."""
        return self.name == "CALL" and not self.is_jump

    def _result_count(self) -> int:
        if self.name in _COMPARISONS:
            return 2
        if self.name == "FCHK":
            return 1
        # Predicates, a register, and predicates again (carries, the verdict of a barrier).
        count = 0
        while count < len(self.operands) and _PREDICATE.match(self.operands[count]):
            count += 1
        if count < len(self.operands) and _REGISTER.match(self.operands[count]):
            count += 1
            while self.name in ("IADD3", "UIADD3", "IMAD", "UIMAD", "LEA", "ULEA", "B2R", "SHFL", "VOTE", "VOTEU") and (
                count < len(self.operands) and re.match(r"^U?P(\d+|T)$", self.operands[count])
            ):
                count += 1
        return count

    def sources(self) -> set[str]:
        """Registers and predicates that its results depend on."""
        if self.name in _WITHOUT_RESULT:
            count = 0
        else:
            count = self._result_count()
        names = {name for operand in [self.guard, *self.operands[count:]] for name in _NAME.findall(operand)}
        if "PR" in names:
            names |= {f"P{number}" for number in range(7)}
        if self.opcode.startswith("B2R.RESULT"):
            names.add("BARRIER")
        return names


@dataclass
class Kernel:
    """The code of a kernel; `[0]` is where it begins. Functions that it calls follow."""

    name: str
    code: list[Instruction]

    @cached_property
    def judges(self) -> set[int]:
        """Places of barriers at which the block judges what a look at the epoch found. Loops are gone through once, so that
        the first time round counts: a look later in a loop is not one for its first barrier."""
        known: dict[int, frozenset[str]] = {0: frozenset()}
        rank = {at: index for index, at in enumerate(self.order)}
        judges = set()
        for at in self.order:
            # Names of what depends on a look, on some way here.
            names, one = known[at], self.code[at]
            if results := one.results():
                depends = one.is_look or not names.isdisjoint(one.sources())
                if depends and one.opcode.startswith("BAR.RED.OR"):
                    judges.add(at)
                names = names | results if depends else names if one.guard else names - results
            for to in one.next:
                if rank[to] > rank[at]:
                    known[to] = known.get(to, frozenset()) | names
        return judges

    @cached_property
    def before(self) -> dict[int, list[int]]:
        """The places from which control gets to each place."""
        before: dict[int, list[int]] = {at: [] for at in range(len(self.code))}
        for at in self.order:
            for to in self.code[at].next:
                before[to].append(at)
        return before

    @cached_property
    def behind_barriers(self) -> set[int]:
        """Places that are reached through a barrier of the block, on some way."""
        open_ = [at for at in self.order if self.code[at].name == "BAR"]
        behind: set[int] = set()
        while open_:
            for to in self.code[open_.pop()].next:
                if to not in behind:
                    behind.add(to)
                    open_.append(to)
        return behind

    @cached_property
    def loops(self) -> list[frozenset[int]]:
        """Each natural loop: the places that lie on a way from its head back to it."""
        before, order = self.before, self.order
        rank = {at: index for index, at in enumerate(order)}
        above = _dominators(order, before, rank)

        def dominates(head: int, at: int) -> bool:
            while rank[at] > rank[head]:
                at = above[at]
            return at == head

        bodies: dict[int, set[int]] = {}
        for at in order:
            for head in self.code[at].next:
                if rank[head] <= rank[at] and dominates(head, at):
                    body = bodies.setdefault(head, {head})
                    open_ = [at]
                    while open_:
                        inner = open_.pop()
                        if inner not in body:
                            body.add(inner)
                            open_ += before[inner]
        return [frozenset(body) for body in bodies.values()]

    @cached_property
    def order(self) -> list[int]:
        """Reachable places, each before those that follow it but for backward jumps (reverse postorder)."""
        seen, done = {0}, []
        path = [(0, iter(self.code[0].next))]
        while path:
            at, rest = path[-1]
            to = next((to for to in rest if to not in seen), None)
            if to is None:
                done.append(at)
                path.pop()
            else:
                seen.add(to)
                path.append((to, iter(self.code[to].next)))
        return done[::-1]


def _dominators(order: list[int], before: dict[int, list[int]], rank: dict[int, int]) -> dict[int, int]:
    """The nearest place that all ways to a place go through (Cooper, Harvey, Kennedy: A Simple, Fast Dominance
    Algorithm)."""
    above = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for at in order[1:]:
            new = None
            for other in before[at]:
                if other not in above:
                    continue
                if new is None:
                    new = other
                    continue
                while new != other:
                    while rank[new] > rank[other]:
                        new = above[new]
                    while rank[other] > rank[new]:
                        other = above[other]
            if new is not None and above.get(at) != new:
                above[at] = new
                changed = True
    return above


def _operands(text: str) -> list[str]:
    text = re.sub(r"\(\*.*?\*\)", "", text)
    return [operand.strip().removesuffix(".reuse") for operand in text.split(",") if operand.strip()]


def _link(name: str, code: list[Instruction], labels: dict[str, int]) -> None:
    """Fills in what follows each instruction."""
    for at, one in enumerate(code):
        if _SUSPECT.match(one.name) and one.name not in _KNOWN:
            raise Unreadable(f"{name}: {one.text}")
        listed = _TARGETS.search(one.text)
        targets = listed[1].split(",") if listed else _TARGET.findall(one.text)
        # A call of a function returns; one of a place within the kernel is a jump.
        is_jump = one.name in _JUMPS or one.name == "WARPSYNC" or (one.name == "CALL" and ".L_x" in one.text)
        if is_jump and one.name != "WARPSYNC" and not targets:
            raise Unreadable(f"{name}: {one.text}: no target")
        if is_jump:
            for target in targets:
                if target not in labels:
                    raise Unreadable(f"{name}: {one.text}: no label {target}")
                one.next.append(labels[target])
        has_condition = one.guard != "" or (one.name == "BRA" and (len(one.operands) > 1 or ".DIV" in one.opcode))
        ends = one.name in (*_JUMPS, "EXIT", "RET")
        one.is_jump = is_jump
        one.may_pass = (not ends or has_condition) and at + 1 < len(code)
        if one.may_pass:
            one.next.append(at + 1)


def kernels(disassembly: str) -> list[Kernel]:
    """The kernels of what `nvdisasm -c` prints."""
    found: list[Kernel] = []
    code: list[Instruction] = []
    labels: dict[str, int] = {}

    def finish() -> None:
        if found:
            _link(found[-1].name, code, labels)
            found[-1].code = list(code)
            code.clear()
            labels.clear()

    for line in disassembly.splitlines():
        section = _SECTION.search(line)
        if section:
            finish()
            found.append(Kernel(section[1], []))
            continue
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(code)
            continue
        instruction = _INSTRUCTION.search(line)
        if instruction and found:
            address, guard, opcode, operands = instruction.groups()
            text = line.split("*/", 1)[1].strip()
            if int(address, 16) != INSTRUCTION_BYTES * len(code):
                raise Unreadable(f"{found[-1].name}: a line before {text} at {address}")
            always = guard in (None, "PT", "UPT")
            code.append(Instruction("" if always else guard, opcode, _operands(operands), text))
    finish()
    return found
