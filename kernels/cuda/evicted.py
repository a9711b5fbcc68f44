"""Where control gets in a kernel whose launch is evicted, as every barrier that judges a look says; and what is written there.

An interpretation over what is known of registers and predicates: constants, and what follows from the verdict. What is not
known may be anything, so that a place which is not reached here is reached by no evicted block.
"""

from __future__ import annotations

import re

from sass import Instruction, Kernel

_ALL = 0xFFFFFFFF
# Bits that may be one, and bits that may be zero.
Bits = tuple[int, int]
ANYTHING: Bits = (_ALL, _ALL)
State = dict[str, Bits]


def constant(value: int) -> Bits:
    return value & _ALL, ~value & _ALL


def _flag(value: bool | None) -> Bits:
    """A predicate as a register of one bit."""
    return ANYTHING if value is None else constant(int(value))


def _predicate(state: State, text: str) -> bool | None:
    """`P3`, `!P3`, `PT`; `None`: not known. An empty text is what has no condition."""
    name = text.lstrip("!")
    if name in ("", "PT", "UPT"):
        value: bool | None = True
    else:
        ones, zeros = state.get(name, ANYTHING)
        value = True if not zeros & 1 else False if not ones & 1 else None
    return value if value is None or not text.startswith("!") else not value


def _value(state: State, text: str) -> Bits:
    """A register, RZ, or an immediate number; anything else is not known."""
    name = text.removesuffix(".reuse")
    if name in ("RZ", "URZ", "SRZ"):
        return constant(0)
    if re.fullmatch(r"U?R\d+", name):
        return state.get(name, ANYTHING)
    if re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", name):
        return constant(int(name, 0))
    return ANYTHING


def _looked_up(table: int, inputs: list[Bits]) -> Bits:
    """A function of three bits, by its table, of each bit."""
    ones = zeros = 0
    for index in range(8):
        possible = _ALL
        for position, (may_be_one, may_be_zero) in enumerate(inputs):
            possible &= may_be_one if index >> (2 - position) & 1 else may_be_zero
        if table >> index & 1:
            ones |= possible
        else:
            zeros |= possible
    return ones, zeros


def _is_not_zero(bits: Bits) -> bool | None:
    ones, zeros = bits
    return True if ~zeros & _ALL else False if not ones else None


def _and(one: bool | None, other: bool | None) -> bool | None:
    return False if False in (one, other) else None if None in (one, other) else True


def _or(one: bool | None, other: bool | None) -> bool | None:
    return True if True in (one, other) else None if None in (one, other) else False


def _compared(state: State, one: Instruction) -> State:
    """`ISETP.cmp.bool P, Q, a, b, C`: `P = (a cmp b) bool C`, `Q = !(a cmp b) bool C`."""
    parts, operands = one.opcode.split("."), one.operands
    first, second = _value(state, operands[2]), _value(state, operands[3])
    holds: bool | None = None
    if "EX" not in parts and one.name in ("ISETP", "UISETP") and second == constant(0):
        differs = _is_not_zero(first)
        if differs is not None and parts[1] in ("NE", "EQ"):
            holds = differs if parts[1] == "NE" else not differs
    join = _or if "OR" in parts else _and if "AND" in parts else lambda *_: None
    with_ = _predicate(state, operands[4])
    complement = None if holds is None else not holds
    return {operands[0]: _flag(join(holds, with_)), operands[1]: _flag(join(complement, with_))}


def _results(state: State, one: Instruction) -> State:
    """What is known of an instruction's results."""
    operands = one.operands
    if one.opcode.startswith("B2R.RESULT"):
        return {operands[-1]: state.get("BARRIER", ANYTHING)}
    if one.name in ("ISETP", "UISETP", "FSETP", "HSETP2", "DSETP", "UFSETP") and len(operands) >= 5:
        return _compared(state, one)
    if one.name in ("PLOP3", "UPLOP3"):
        inputs = [_flag(_predicate(state, text)) for text in operands[2:5]]
        tables = [int(text, 16) for text in operands[5:7]]
        return {name: _flag(_bit(_looked_up(table, inputs))) for name, table in zip(operands[:2], tables)}
    if one.name in ("LOP3", "ULOP3"):
        has_flag = re.fullmatch(r"U?P(\d+|T)", operands[0]) is not None
        register, first, second, third, table = operands[has_flag : has_flag + 5]
        found = _looked_up(int(table, 16), [_value(state, text) for text in (first, second, third)])
        join = _and if ".PAND" in one.opcode else _or
        flag = _flag(join(_is_not_zero(found), _predicate(state, operands[-1])))
        return {register: found} | ({operands[0]: flag} if has_flag else {})
    if one.name in ("SEL", "USEL"):
        takes = _predicate(state, operands[3])
        return {} if takes is None else {operands[0]: _value(state, operands[1 if takes else 2])}
    if one.name in ("MOV", "UMOV", "R2UR", "CS2R") and len(operands) == 2:
        return {operands[0]: _value(state, operands[1])}
    if one.opcode in ("IMAD.MOV.U32", "IMAD.MOV", "IMAD.U32", "UIMAD.MOV.U32") and operands[1] in ("RZ", "URZ"):
        return {operands[0]: _value(state, operands[3])}
    if one.name in ("P2R", "R2P"):
        return _moved_predicates(state, one)
    return {}


def _bit(bits: Bits) -> bool | None:
    return True if not bits[1] & 1 else False if not bits[0] & 1 else None


def _moved_predicates(state: State, one: Instruction) -> State:
    """`P2R R, PR, a, mask` packs predicates into the bits of a register, `R2P PR, a, mask` the reverse."""
    if "." in one.opcode or not re.fullmatch(r"0x[0-9a-f]+", one.operands[-1]):
        return {}
    mask = int(one.operands[-1], 16)
    if one.name == "R2P":
        ones, zeros = _value(state, one.operands[1])
        moved = {f"P{at}": (ones >> at & 1, zeros >> at & 1) for at in range(7) if mask >> at & 1}
        return moved | {f"P{at}": state.get(f"P{at}", ANYTHING) for at in range(7) if not mask >> at & 1}
    ones, zeros = (bits & ~mask for bits in _value(state, one.operands[2]))
    for at in range(7):
        if mask >> at & 1:
            flag = state.get(f"P{at}", ANYTHING)
            ones, zeros = ones | (flag[0] & 1) << at, zeros | (flag[1] & 1) << at
    return {one.operands[0]: (ones, zeros)}


def _after(state: State, one: Instruction, judges: bool) -> State:
    """The state behind an instruction."""
    if one.calls:
        return {}
    written = one.results()
    if not written:
        return state
    takes_place = _predicate(state, one.guard)
    if takes_place is False:
        return state
    if "BARRIER" in written:
        known = {"BARRIER": constant(1)} if judges else {}
    else:
        known = _results(state, one)
    after = dict(state)
    for name in written:
        bits = known.get(name, ANYTHING)
        if takes_place is None:
            before = state.get(name, ANYTHING)
            bits = bits[0] | before[0], bits[1] | before[1]
        after[name] = bits
    return after


def _joined(one: State, other: State) -> State:
    """What is known on both ways."""
    both = {}
    for name in one.keys() & other.keys():
        bits = one[name][0] | other[name][0], one[name][1] | other[name][1]
        if bits != ANYTHING:
            both[name] = bits
    return both


def _ways(state: State, kernel: Kernel, at: int) -> list[int]:
    """Where control may go on."""
    one = kernel.code[at]
    conditions = [one.guard]
    if one.name in ("BRA", "EXIT"):
        conditions += [text for text in one.operands if re.fullmatch(r"!?U?P(\d+|T)", text)]
    jumps: bool | None = True
    for text in conditions:
        jumps = _and(jumps, _predicate(state, text))
    if ".DIV" in one.opcode:
        jumps = None
    if one.name in ("WARPSYNC", "CALL"):
        return one.next
    passes = [to for to in one.next if to == at + 1]
    if one.name == "EXIT":
        return [] if jumps else passes
    if jumps is False:
        return passes
    # The way to the next instruction is the last, where there is one.
    if jumps and one.is_jump and len(one.next) > 1 and one.may_pass:
        return one.next[:-1]
    return one.next


def _constant(kernel: Kernel, at: int, name: str) -> int | None:
    """Where in the constant bank that has the parameters a register was read from, as the instruction at `at` finds it, on
    whatever way control got there. `None`: it is not certain to have been read from one place."""
    found: set[int | None] = set()
    # Where to go on backwards, and under which conditions what is written there is what the instruction finds.
    open_ = [(at, frozenset({"", kernel.code[at].guard}))]
    seen = set(open_)
    while open_:
        at, conditions = open_.pop()
        if at == 0:
            return None
        for earlier in kernel.before[at]:
            one = kernel.code[earlier]
            written = one.results()
            if one.calls or (name in written and one.guard not in conditions):
                return None
            if name in written:
                found.add(_read_from(kernel, earlier, name))
                continue
            # Further back, a predicate that is written here is another.
            state = (earlier, frozenset(text for text in conditions if text.lstrip("!") not in written))
            if state not in seen:
                seen.add(state)
                open_.append(state)
    return found.pop() if len(found) == 1 else None


def _read_from(kernel: Kernel, at: int, name: str) -> int | None:
    """Where in the constant bank the instruction at `at` reads from what it writes to a register."""
    one = kernel.code[at]
    copies = one.name in ("MOV", "UMOV", "R2UR") or (one.opcode.startswith("IMAD.MOV") and one.operands[1] == "RZ")
    if not copies and one.name not in ("LDC", "ULDC", "LDCU"):
        return None
    source = re.fullmatch(r"c\[0x0\]\[(0x[0-9a-f]+)\]", one.operands[-1])
    if source:
        return int(source[1], 16) + 4 * (int(name.lstrip("UR")) - int(one.operands[0].lstrip("UR")))
    return _constant(kernel, at, one.operands[-1]) if copies else None


def _parameter(kernel: Kernel, at: int) -> int | None:
    """Where the parameter lies whose value is the address that an instruction accesses."""
    address = next((text for text in kernel.code[at].operands if "[" in text), "")
    register = re.fullmatch(r"(?:desc\[UR\d+\])?\[(U?R)(\d+)(?:\.64)?\]", address)
    if not register:
        return None
    low, high = (_constant(kernel, at, f"{register[1]}{int(register[2]) + half}") for half in range(2))
    return low if low is not None and high == low + 4 else None


# `begun` behind `epoch_now`, in bytes: the fields of Guard.
_BEGUN = 16


def _says_that_it_begins(kernel: Kernel, at: int) -> bool:
    """Whether the instruction is the store of the guard's word `begun`: before all barriers, to an address that lies in the
    parameters where it does, seen from the address that is looked at."""
    if not kernel.code[at].opcode.startswith("STG.E.STRONG.SYS") or at in kernel.behind_barriers:
        return False
    looks = {_parameter(kernel, look) for look, one in enumerate(kernel.code) if one.is_look} - {None}
    return _parameter(kernel, at) in {look + _BEGUN for look in looks}


def writes(kernel: Kernel) -> list[Instruction]:
    """Writes of global memory in an evicted block, but the store that says that the launch begins, and the minimum that says
    that it is evicted."""
    known: dict[int, State] = {0: {}}
    open_ = [0]
    while open_:
        at = open_.pop()
        after = _after(known[at], kernel.code[at], at in kernel.judges)
        for to in _ways(known[at], kernel, at):
            joined = _joined(known[to], after) if to in known else after
            if known.get(to) != joined:
                known[to] = joined
                open_.append(to)
    return [
        one
        for at, one in enumerate(kernel.code)
        if at in known
        and one.is_store
        and ".MIN." not in one.opcode
        and _predicate(known[at], one.guard) is not False
        and not _says_that_it_begins(kernel, at)
    ]
