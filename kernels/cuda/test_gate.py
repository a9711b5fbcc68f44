"""What gate.py must refuse, planted into small kernels: `python3 -m unittest discover -s kernels/cuda`."""

import unittest

import gate
import sass

GUARD = """
 ISETP.NE.AND P1, PT, R0, RZ, PT
 @!P1 LDG.E.STRONG.SYS R9, [R16.64]
 ISETP.NE.AND P0, PT, R9, c[0x0][0x178], PT
 BAR.RED.OR.DEFER_BLOCKING 0x0, P0
 B2R.RESULT RZ, P0
"""
BEGUN = """
 @!P1 MOV R16, c[0x0][0x160]
 @!P1 MOV R17, c[0x0][0x164]
 @!P1 LDG.E.STRONG.SYS R9, [R16.64]
 @!P2 MOV R7, c[0x0][0x17c]
 @!P2 MOV R18, c[0x0][0x170]
 @!P2 MOV R19, c[0x0][0x174]
 @!P2 IADD3 R7, R7, 0x1, RZ
 @!P2 STG.E.STRONG.SYS [R18.64], R7
 ISETP.NE.AND P0, PT, R9, c[0x0][0x178], PT
 BAR.RED.OR.DEFER_BLOCKING 0x0, P0
 B2R.RESULT RZ, P0
"""
EVICTED = """
 ISETP.NE.OR P2, PT, R0, RZ, !P0
 @!P2 RED.E.MIN.STRONG.GPU [R14.64], R17
"""
WRITE = " STG.E.128 [R4.64], R8\n"
EXIT = " EXIT\n"
LOOP = """
.L_x_1:
 FFMA R3, R4, R5, R3
 IADD3 R2, R2, 0x1, RZ
 ISETP.GE.U32.AND P4, PT, R2, R1, PT
 @!P4 BRA `(.L_x_1)
"""
LOOKING_LOOP = """
.L_x_2:
 LDG.E.STRONG.SYS R9, [R16.64]
 ISETP.NE.AND P0, PT, R9, c[0x0][0x178], PT
 BAR.RED.OR 0x0, P0
 B2R.RESULT RZ, P0
 @P0 EXIT
.L_x_3:
 FFMA R3, R4, R5, R3
 @!P5 BRA `(.L_x_3)
 IADD3 R2, R2, 0x1, RZ
 ISETP.GE.U32.AND P4, PT, R2, R1, PT
 @!P4 BRA `(.L_x_2)
"""


def kernel(*parts: str, name: str = "copy") -> sass.Kernel:
    """A kernel of these lines, as nvdisasm prints it."""
    lines, at = [f"//--------------------- .text.{name}     --------------------------"], 0
    for line in "".join(parts).splitlines():
        if line.startswith("."):
            lines.append(line)
        elif line:
            lines.append(f"        /*{at:04x}*/                  {line} ;")
            at += 16
    return sass.kernels("\n".join(lines))[0]


class Rules(unittest.TestCase):
    def refused(self, what: str, one: sass.Kernel) -> None:
        self.assertTrue(any(what in broken for broken in gate.broken_rules(one)), gate.broken_rules(one))

    def accepted(self, one: sass.Kernel) -> None:
        self.assertEqual(gate.broken_rules(one), [])

    def test_a_kernel_that_leaves_when_it_is_evicted_and_writes_otherwise_is_accepted(self):
        self.accepted(kernel(GUARD, EVICTED, " @P0 EXIT\n", WRITE, EXIT))

    def test_a_verdict_that_is_handed_on_through_a_register_and_joined_with_others_is_accepted(self):
        joined = " SEL R7, RZ, 0x1, !P0\n LOP3.LUT P6, RZ, R7, R5, R0, 0xfe, !PT\n @P6 BRA `(.L_x_9)\n"
        self.accepted(kernel(GUARD, joined, WRITE, ".L_x_9:\n", EXIT))

    def test_a_write_under_a_predicate_of_the_verdict_is_accepted(self):
        self.accepted(kernel(GUARD, " @!P0 STG.E.STRONG.SYS [R4.64], R7\n @P0 EXIT\n", WRITE, EXIT))

    def test_a_kernel_without_a_guard_is_refused(self):
        self.refused("a write that an evicted launch gets to", kernel(WRITE, EXIT))

    def test_the_store_that_says_that_the_launch_begins_is_accepted_before_the_verdict(self):
        self.accepted(kernel(BEGUN, EVICTED, " @P0 EXIT\n", WRITE, EXIT))
        wide = BEGUN.replace(" @!P2 MOV R18, c[0x0][0x170]\n @!P2 MOV R19, c[0x0][0x174]", " @!P2 LDC.64 R18, c[0x0][0x170]")
        wide = wide.replace("[R18.64]", "desc[UR4][R18.64]")
        self.accepted(kernel(wide, EVICTED, " @P0 EXIT\n", WRITE, EXIT))
        uniform = wide.replace("@!P2 LDC.64 R18", "LDCU.64 UR6").replace(
            " @!P2 IADD3", " MOV R18, UR6\n MOV R19, UR7\n @!P2 IADD3"
        )
        self.accepted(kernel(uniform, EVICTED, " @P0 EXIT\n", WRITE, EXIT))

    def test_any_other_store_before_the_verdict_is_refused(self):
        store = " @!P2 STG.E.STRONG.SYS [R18.64], R7\n"
        others = [
            # Where `done` and tensors lie among the parameters, and half of the word's address.
            BEGUN.replace("0x170", "0x1a8").replace("0x174", "0x1ac"),
            BEGUN.replace("0x174", "0x1ac"),
            # The word's address, but not the word.
            BEGUN.replace("[R18.64]", "[R18.64+0x80]"),
            BEGUN.replace("STG.E.STRONG.SYS", "STG.E.128"),
            BEGUN.replace("STG.E.STRONG.SYS", "STG.E"),
            # The address may be another's.
            BEGUN.replace(store, " @P3 IADD3 R18, R18, R4, RZ\n" + store),
            BEGUN.replace("@!P2 MOV R18", "@!P3 MOV R18"),
            BEGUN.replace(store, " ISETP.NE.AND P2, PT, R0, R1, PT\n" + store),
            BEGUN.replace(store, " CALL.REL.NOINC `($__internal_0_$f)\n" + store),
            BEGUN.replace(store, " @P3 BRA `(.L_x_8)\n MOV R18, R4\n.L_x_8:\n" + store),
            # A second one, and one behind a barrier.
            BEGUN.replace(store, store + " @!P2 STG.E.STRONG.SYS [R4.64], R7\n"),
            BEGUN.replace(store, "") + store,
            " BAR.SYNC 0x0\n" + BEGUN,
        ]
        for other in others:
            self.refused("a write that an evicted launch gets to", kernel(other, EVICTED, " @P0 EXIT\n", WRITE, EXIT))

    def test_a_kernel_that_nothing_evicts_may_write_and_must_not_judge(self):
        report = " LDG.E.STRONG.SYS R9, [R16.64]\n STG.E.STRONG.SYS [R4.64], R9\n"
        self.accepted(kernel(report, EXIT, name="report_evicted"))
        self.refused("UNGUARDED", kernel(BEGUN, " @P0 EXIT\n", WRITE, EXIT, name="report_evicted"))

    def test_a_write_before_the_verdict_is_refused(self):
        self.refused("a write that an evicted launch gets to", kernel(WRITE, GUARD, " @P0 EXIT\n", EXIT))

    def test_a_verdict_that_decides_nothing_is_refused(self):
        self.refused("a write that an evicted launch gets to", kernel(GUARD, WRITE, EXIT))
        self.refused("a write that an evicted launch gets to", kernel(GUARD, " @P0 MOV R7, R8\n", WRITE, EXIT))

    def test_a_decision_that_goes_the_wrong_way_is_refused(self):
        self.refused("a write that an evicted launch gets to", kernel(GUARD, EVICTED, " @!P0 EXIT\n", WRITE, EXIT))

    def test_a_decision_whose_ways_meet_again_before_the_write_is_refused(self):
        around = " @!P0 BRA `(.L_x_7)\n RED.E.MIN.STRONG.GPU [R14.64], R17\n.L_x_7:\n"
        self.accepted(kernel(GUARD, around, " @P0 EXIT\n", WRITE, EXIT))
        self.refused("a write that an evicted launch gets to", kernel(GUARD, around, WRITE, EXIT))

    def test_a_verdict_packed_into_a_register_with_other_predicates_is_accepted(self):
        packed = " P2R R7, PR, RZ, 0x1\n ISETP.NE.AND P0, PT, R1, RZ, PT\n R2P PR, R7, 0x1\n @P0 EXIT\n"
        self.accepted(kernel(GUARD, packed, WRITE, EXIT))

    def test_what_is_known_of_a_register_is_forgotten_when_a_wide_result_or_a_function_may_write_it(self):
        verdict = " SEL R7, RZ, 0x1, !P0\n"
        left = " ISETP.NE.AND P6, PT, R7, RZ, PT\n @P6 EXIT\n"
        self.accepted(kernel(GUARD, verdict, left, WRITE, EXIT))
        for other in (" LDG.E.64 R6, [R2.64]\n", " CS2R R6, SRZ\n", " CALL.REL.NOINC `($__internal_0_$f)\n"):
            self.refused("a write that an evicted launch gets to", kernel(GUARD, verdict, other, left, WRITE, EXIT))

    def test_a_guard_whose_look_comes_later_in_a_loop_is_refused(self):
        without = GUARD.replace(" @!P1 LDG.E.STRONG.SYS R9, [R16.64]\n", "")
        late = ".L_x_6:\n" + without + " @P0 EXIT\n LDG.E.STRONG.SYS R9, [R16.64]\n @P5 BRA `(.L_x_6)\n"
        self.refused("a write that an evicted launch gets to", kernel(late, WRITE, EXIT, name="linear"))

    def test_a_barrier_that_judges_something_else_than_a_look_is_refused(self):
        other = GUARD.replace("LDG.E.STRONG.SYS", "LDG.E")
        self.refused("a write that an evicted launch gets to", kernel(other, " @P0 EXIT\n", WRITE, EXIT))

    def test_a_way_around_the_guard_is_refused(self):
        around = kernel(" @P3 BRA `(.L_x_8)\n", GUARD, " @P0 EXIT\n", ".L_x_8:\n", WRITE, EXIT)
        self.refused("a write that an evicted launch gets to", around)

    def test_a_predicate_that_was_written_anew_since_the_verdict_is_no_guard(self):
        anew = " ISETP.NE.AND P0, PT, R1, RZ, PT\n @P0 EXIT\n"
        self.refused("a write that an evicted launch gets to", kernel(GUARD, anew, WRITE, EXIT))

    def test_a_reduction_in_global_memory_counts_as_a_write(self):
        self.refused("a write that an evicted launch gets to", kernel(" RED.E.ADD.STRONG.GPU [R4.64], R8\n", EXIT))
        self.refused("a write that an evicted launch gets to", kernel(" ATOMG.E.ADD.STRONG.GPU PT, R2, [R4.64], R8\n", EXIT))

    def test_spills_are_refused(self):
        self.refused("local memory", kernel(GUARD, " @P0 EXIT\n STL [R1], R5\n", WRITE, EXIT))
        self.refused("local memory", kernel(GUARD, " @P0 EXIT\n LDL.LU R5, [R1]\n", WRITE, EXIT))

    def test_a_main_loop_that_looks_is_accepted_and_measured(self):
        linear = kernel(GUARD, " @P0 EXIT\n", LOOKING_LOOP, WRITE, EXIT, name="linear")
        self.accepted(linear)
        self.assertEqual(gate.loops(linear), gate.Loops(instructions=18, main_loop=10, main_loop_work=1))

    def test_a_main_loop_without_a_look_is_refused(self):
        linear = kernel(GUARD, " @P0 EXIT\n", LOOP, WRITE, EXIT, name="linear")
        self.refused("no loop looks at the epoch", linear)

    def test_a_loop_of_arithmetic_beside_the_one_that_looks_is_refused(self):
        linear = kernel(GUARD, " @P0 EXIT\n", LOOKING_LOOP, LOOP, WRITE, EXIT, name="linear")
        self.refused("in none that looks", linear)

    def test_a_look_that_a_loop_does_not_judge_is_refused(self):
        unjudged = LOOKING_LOOP.replace(" BAR.RED.OR 0x0, P0\n", "")
        self.refused("no loop looks", kernel(GUARD, " @P0 EXIT\n", unjudged, WRITE, EXIT, name="linear"))

    def test_a_kernel_that_looks_in_a_loop_must_be_in_the_list(self):
        self.refused("LOOKING", kernel(GUARD, " @P0 EXIT\n", LOOKING_LOOP, WRITE, EXIT, name="copy"))

    def test_a_write_in_a_called_function_is_refused(self):
        called = " CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div_u64)\n"
        body = kernel(GUARD, " @P0 EXIT\n", called, WRITE, EXIT, WRITE, " RET.REL.NODEC R4 `(copy)\n")
        self.refused("a write in a function", body)

    def test_a_jump_that_cannot_be_followed_is_an_error(self):
        with self.assertRaises(sass.Unreadable):
            kernel(" BRX R2 -0x1210\n", EXIT)
        with self.assertRaises(sass.Unreadable):
            kernel(" @P0 BRA `(.L_x_7)\n", EXIT)
        with self.assertRaises(sass.Unreadable):
            kernel(" JMP 0x100\n", EXIT)

    def test_a_line_that_is_not_read_is_an_error(self):
        with self.assertRaises(sass.Unreadable):
            sass.kernels("//--- .text.copy ---\n /*0000*/ NOP ;\n /*0010*/ ??? ;\n /*0020*/ EXIT ;\n")

    def test_a_form_of_write_that_the_rules_do_not_know_is_an_error(self):
        with self.assertRaises(sass.Unreadable):
            kernel(" UTMASTG.2D [UR8], [UR4]\n", EXIT)


class Occupancy(unittest.TestCase):
    """As the tests of contract.rs have it."""

    def test_what_is_scarcest_limits_the_blocks(self):
        orin = gate.LIMITS["sm_87"]
        self.assertEqual(orin.blocks_of(128, 16, 0), 12, "threads")
        self.assertEqual(orin.blocks_of(32, 16, 0), 16, "blocks")
        self.assertEqual(orin.blocks_of(256, 128, 0), 2, "registers")
        self.assertEqual(orin.blocks_of(256, 129, 0), 1, "registers come in units")
        self.assertEqual(orin.blocks_of(128, 64, 48 * 1024), 3, "shared memory")

    def test_every_architecture_has_its_limits_and_every_kernel_its_threads(self):
        architectures = {architecture for _, architecture in gate.build.TARGETS.values()}
        self.assertEqual(set(gate.LIMITS), {name for name in architectures if name.startswith("sm_")})
        self.assertLessEqual(gate.LOOKING, set(gate.threads_by_kernel()))


if __name__ == "__main__":
    unittest.main()
