//! Small programs: what threads of a block do to each other, and what is reported about those that do it wrong.

use punctual_ptx::{
    Arithmetic, Counts, Fault, Launch, Launched, Machine, Module, Region, Space, Stop, Violation,
};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .extern .shared .align 16 .b8 dynamic_shared[];\n\
    .visible .entry program(.param .u64 to, .param .u64 from, .param .u32 n)\n{\n\
    .reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<30>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<19>;\n\
    ld.param.u64 %rd1, [to];\nld.param.u64 %rd2, [from];\nld.param.u32 %r1, [n];\n\
    mov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\n\
    mad.lo.s32 %r5, %r3, %r4, %r2;\nmul.wide.u32 %rd3, %r5, 4;\n\
    add.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\n\
    shl.b32 %r6, %r2, 2;\nmov.u32 %r7, dynamic_shared;\nadd.s32 %r8, %r7, %r6;\n";

/// What a program is run with.
struct Run<'a> {
    body: &'a str,
    blocks: u32,
    threads: u32,
    input: Vec<u32>,
    outputs: usize,
    n: u32,
    seed: u64,
    /// Looks after which the launch is ended.
    looks: u64,
}

impl<'a> Run<'a> {
    fn of(body: &'a str) -> Self {
        Self {
            body,
            blocks: 1,
            threads: 64,
            input: (0..4096).collect(),
            outputs: 4096,
            n: 0,
            seed: 1,
            looks: u64::MAX,
        }
    }

    fn outcome(&self) -> Result<(Vec<u32>, Counts), Stop> {
        let module =
            Module::read(&format!("{HEAD}{}\nret;\n}}\n", self.body)).expect("well formed");
        let kernel = module.kernel("program").expect("there");
        let mut output = vec![u32::MAX; self.outputs];
        let input = self.input.clone();
        let (to, from) = (
            output.as_mut_ptr().expose_provenance(),
            input.as_ptr().expose_provenance(),
        );
        let space = Space::new();
        space.add(Region::fresh(to as u64, 4 * self.outputs as u64));
        space.add(Region::written(from as u64, 4 * input.len() as u64));
        let mut parameters = Vec::new();
        parameters.extend((to as u64).to_le_bytes());
        parameters.extend((from as u64).to_le_bytes());
        parameters.extend(self.n.to_le_bytes());
        let launch = Launch {
            kernel,
            parameters: &parameters,
            grid: [self.blocks, 1, 1],
            block: [self.threads, 1, 1],
            dynamic_shared: 4096,
            arithmetic: Arithmetic::Exact,
            seed: self.seed,
            clock: || 7,
        };
        let (mut machine, mut memory) = (Machine::new(), Launched::new(&space));
        let mut left = self.looks;
        let mut look = |_: &Counts| {
            let goes_on = left > 0;
            left = left.saturating_sub(1);
            goes_on
        };
        for block in 0..launch.blocks() {
            machine.run(&launch, &mut memory, launch.position(block), 3, &mut look)?;
        }
        Ok((std::hint::black_box(output), machine.counts()))
    }

    fn output(&self) -> Vec<u32> {
        self.outcome().unwrap_or_else(|stop| panic!("{stop}")).0
    }

    fn fault(&self) -> Fault {
        match self.outcome() {
            Err(Stop::Fault(fault)) => *fault,
            other => panic!("no fault: {other:?}"),
        }
    }

    fn violation(&self) -> Violation {
        self.fault().violation
    }
}

const REVERSE: &str = "ld.global.u32 %r9, [%rd5];\nst.shared.u32 [%r8], %r9;\nbar.sync 0;\n\
    sub.s32 %r10, %r4, %r2;\nshl.b32 %r10, %r10, 2;\nadd.s32 %r10, %r7, %r10;\n\
    ld.shared.u32 %r11, [%r10+-4];\nst.global.u32 [%rd4], %r11;";

#[test]
fn a_barrier_lets_threads_read_what_others_wrote() {
    for seed in 0..5 {
        let run = Run {
            blocks: 4,
            threads: 256,
            seed,
            ..Run::of(REVERSE)
        };
        let expected: Vec<u32> = (0..4u32)
            .flat_map(|b| (256 * b..256 * (b + 1)).rev())
            .collect();
        assert_eq!(run.output()[..1024], expected);
    }
}

#[test]
fn a_missing_barrier_is_a_race_or_a_read_of_nothing_in_every_order() {
    let body = REVERSE.replace("bar.sync 0;", "");
    for seed in 0..20 {
        let run = Run {
            threads: 256,
            seed,
            ..Run::of(&body)
        };
        let violation = run.violation();
        let caught = matches!(
            violation,
            Violation::Race { .. } | Violation::UninitialisedShared { .. }
        );
        assert!(caught, "{violation}");
    }
}

const WARP_SUM: &str = "ld.global.u32 %r9, [%rd5];\n\
    shfl.sync.bfly.b32 %r10, %r9, 16, 31, -1;\nadd.s32 %r9, %r9, %r10;\n\
    shfl.sync.bfly.b32 %r10, %r9, 8, 31, -1;\nadd.s32 %r9, %r9, %r10;\n\
    shfl.sync.bfly.b32 %r10, %r9, 4, 31, -1;\nadd.s32 %r9, %r9, %r10;\n\
    shfl.sync.bfly.b32 %r10, %r9, 2, 31, -1;\nadd.s32 %r9, %r9, %r10;\n\
    shfl.sync.bfly.b32 %r10, %r9, 1, 31, -1;\nadd.s32 %r9, %r9, %r10;\nst.global.u32 [%rd4], %r9;";

#[test]
fn lanes_exchange_within_their_warp_only() {
    for threads in [32u32, 96, 1024] {
        let run = Run {
            threads,
            ..Run::of(WARP_SUM)
        };
        for (thread, &sum) in run.output()[..threads as usize].iter().enumerate() {
            let first = thread as u32 / 32 * 32;
            assert_eq!(sum, (first..first + 32).sum::<u32>(), "thread {thread}");
        }
    }
    let half = Run {
        threads: 40,
        ..Run::of(WARP_SUM)
    };
    assert_eq!(half.violation(), Violation::AbsentLane { lane: 16 });
}

#[test]
fn shuffles_of_all_kinds_find_their_lane_or_say_that_it_is_out_of_range() {
    let shuffled = |kind: &str| {
        let body = format!(
            "shfl.sync.{kind}.b32 %r9|%p1, %r2, %r1, %r11, -1;\nselp.u32 %r10, 1000, 0, %p1;\n\
             add.s32 %r9, %r9, %r10;\nst.global.u32 [%rd4], %r9;"
        );
        let limit = if kind == "up" { 0 } else { 31 };
        let body = format!("mov.u32 %r11, {limit};\n{body}");
        let run = Run {
            threads: 32,
            n: 3,
            ..Run::of(&body)
        };
        run.output()
    };
    let up = shuffled("up");
    assert_eq!((up[0], up[2], up[3], up[31]), (0, 2, 1000, 1028));
    let down = shuffled("down");
    assert_eq!((down[0], down[28], down[29]), (1003, 1031, 29));
    assert_eq!(shuffled("idx")[17], 1003);
    assert_eq!(shuffled("bfly")[17], 1018);
}

#[test]
fn a_vote_counts_all_threads_of_a_block() {
    let vote = |kind: &str, input: u32| {
        let body = format!(
            "ld.global.u32 %r9, [%rd5];\nsetp.ne.u32 %p1, %r9, 0;\nbar.red.{kind}.pred %p2, 0, %p1;\n\
             selp.u32 %r10, 1, 0, %p2;\nst.global.u32 [%rd4], %r10;"
        );
        let mut values = vec![input; 64];
        values[40] = 1 - input;
        let run = Run {
            input: values,
            ..Run::of(&body)
        };
        let output = run.output();
        assert!(output[..64].iter().all(|&vote| vote == output[0]));
        output[0]
    };
    assert_eq!((vote("or", 0), vote("and", 1)), (1, 0));
}

#[test]
fn threads_that_wait_for_different_things_are_an_error_that_names_them() {
    let ended = Run::of("setp.eq.u32 %p1, %r2, 5;\n@%p1 bra $end;\nbar.sync 0;\n$end:");
    let fault = ended.fault();
    assert_eq!(fault.violation, Violation::EndedLanes { missing: 1 << 5 });
    assert!(
        fault.to_string().contains("program, block (0, 0, 0)"),
        "{fault}"
    );
    assert!(fault.instruction.starts_with("bar.sync"), "{fault}");

    let warp = Run::of("setp.ge.u32 %p1, %r2, 32;\n@%p1 bra $end;\nbar.sync 0;\n$end:");
    assert_eq!(warp.violation(), Violation::EndedAtBarrier);

    let other = "setp.ge.u32 %p1, %r2, 32;\n@%p1 bra $other;\nbar.sync 0;\nbra.uni $end;\n$other:\nbar.sync 0;\n$end:";
    assert!(matches!(
        Run::of(other).violation(),
        Violation::DivergentBarrier { .. }
    ));

    let lanes = "setp.ge.u32 %p1, %r2, 5;\n@%p1 bra $other;\nshfl.sync.idx.b32 %r9, %r2, 0, 31, -1;\n\
        bra.uni $end;\n$other:\nshfl.sync.idx.b32 %r9, %r2, 0, 31, -1;\n$end:";
    assert!(matches!(
        Run::of(lanes).violation(),
        Violation::Divergent { .. }
    ));
}

#[test]
fn lanes_that_part_meet_again() {
    let body = "mov.u32 %r9, 0;\n$loop:\nadd.s32 %r9, %r9, 3;\nsetp.lt.u32 %p1, %r9, %r2;\n@%p1 bra $loop;\n\
        shfl.sync.bfly.b32 %r10, %r9, 1, 31, -1;\nst.global.u32 [%rd4], %r10;";
    let output = Run::of(body).output();
    let steps = |lane: u32| lane.div_ceil(3).max(1) * 3;
    for lane in 0..64 {
        assert_eq!(output[lane as usize], steps(lane ^ 1), "lane {lane}");
    }
}

const COPY: &str = "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra $end;\nmov.u32 %r9, 4;\n\
    cp.async.cg.shared.global [%r7], [%rd2], 16;\n\
    cp.async.cg.shared.global [%r7+16], [%rd2+16], 16, %r9;\ncp.async.commit_group;\n\
    cp.async.cg.shared.global [%r7+32], [%rd2+32], 16;\ncp.async.commit_group;\n\
    cp.async.wait_group 1;\nld.shared.u32 %r10, [%r7+4];\nst.global.u32 [%rd1], %r10;\n\
    ld.shared.v2.u32 {%r10, %r11}, [%r7+16];\nst.global.v2.u32 [%rd1+8], {%r10, %r11};\n$end:";

#[test]
fn copies_arrive_when_their_group_is_waited_for_and_bring_zeros_for_what_is_not_read() {
    let output = Run::of(COPY).output();
    assert_eq!((output[0], output[2], output[3]), (1, 4, 0));
    let too_early = COPY.replace("[%r7+4]", "[%r7+36]");
    assert_eq!(
        Run::of(&too_early).violation(),
        Violation::InFlight { offset: 36 }
    );
    let unread = COPY.replace("cp.async.wait_group 1;", "");
    assert_eq!(
        Run::of(&unread).violation(),
        Violation::InFlight { offset: 4 }
    );
}

#[test]
fn a_thread_that_spins_lets_others_run() {
    let body = "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra $other;\n$spin:\nnanosleep.u32 100;\n\
        ld.relaxed.sys.global.u32 %r9, [%rd1];\nsetp.ne.u32 %p2, %r9, 9;\n@%p2 bra $spin;\nbra.uni $end;\n\
        $other:\nsetp.ne.u32 %p3, %r2, 63;\n@%p3 bra $end;\nst.relaxed.sys.global.u32 [%rd1], 9;\n$end:";
    assert_eq!(Run::of(body).output()[0], 9);
}

#[test]
fn a_launch_ends_at_the_look_at_which_it_is_told_to() {
    let body = "$spin:\nld.relaxed.sys.global.u32 %r9, [%rd1];\nbra.uni $spin;";
    let run = Run {
        looks: 5,
        ..Run::of(body)
    };
    assert!(matches!(run.outcome(), Err(Stop::Ended)));
}

#[test]
fn what_no_hardware_would_notice_is_a_violation() {
    let of = |body: &str| Run::of(body).violation();
    let name = "%r20".to_owned();
    assert_eq!(
        of("add.s32 %r21, %r20, 1;"),
        Violation::UninitialisedRegister { name }
    );
    let name = "%p5".to_owned();
    assert_eq!(
        of("@%p5 mov.u32 %r21, 1;"),
        Violation::UninitialisedRegister { name }
    );
    assert_eq!(
        of("ld.shared.u32 %r9, [%r8];"),
        Violation::UninitialisedShared { offset: 0 }
    );
    assert!(matches!(
        of("ld.global.u32 %r9, [%rd4];"),
        Violation::UninitialisedGlobal { .. }
    ));
    assert!(matches!(
        of("ld.global.u32 %r9, [%rd5+2];"),
        Violation::Misaligned { bytes: 4, .. }
    ));
    assert!(matches!(
        of("ld.global.u32 %r9, [%rd5+16384];"),
        Violation::Foreign { bytes: 4, .. }
    ));
    assert!(matches!(
        of("st.global.u32 [%rd1], %r2;"),
        Violation::WrittenTwice { .. }
    ));
    assert!(matches!(
        of("ld.global.u32 %r9, [%rd5];\nst.global.u32 [%rd5], %r9;"),
        Violation::WritesOwnInput { .. }
    ));
    assert!(matches!(
        of("st.global.u32 [%rd4], %r2;\nld.global.u32 %r9, [%rd4];"),
        Violation::ReadsOwnOutput { .. }
    ));
    assert_eq!(of("div.u32 %r9, %r2, %r1;"), Violation::DivisionByZero);
    assert!(matches!(
        of("st.shared.u32 [%r7+4096], %r2;"),
        Violation::OutsideShared { .. }
    ));
    assert!(matches!(
        of("ld.param.u32 %r9, [n+4];"),
        Violation::OutsideParameters { .. }
    ));
}

#[test]
fn bytes_that_a_load_does_not_use_may_be_unwritten() {
    let body = "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra $end;\nst.global.u32 [%rd1], %r2;\n$end:";
    assert_eq!(Run::of(body).output()[0], 0);
    let halves = "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra $end;\n.pragma \"used_bytes_mask 15\";\n\
        ld.global.v2.u32 {%r9, %r10}, [%rd2];\n$end:";
    assert!(Run::of(halves).outcome().is_ok());
}

/// One value of each of the four operands.
fn computed(instruction: &str, [a, b, c]: [u32; 3]) -> u32 {
    let body = format!(
        "ld.global.u32 %r10, [%rd2];\nld.global.u32 %r11, [%rd2+4];\nld.global.u32 %r12, [%rd2+8];\n\
         {instruction}\nst.global.u32 [%rd1], %r9;"
    );
    let run = Run {
        threads: 1,
        input: vec![a, b, c, 0],
        ..Run::of(&body)
    };
    run.output()[0]
}

#[test]
fn bits_are_inserted_permuted_combined_and_shifted_as_the_manual_says() {
    let word = [0x1234_5678, 0x9abc_def0, 8];
    assert_eq!(
        computed("bfi.b32 %r9, %r10, %r11, 8, 12;", word),
        0x9ab6_78f0
    );
    assert_eq!(computed("bfe.u32 %r9, %r10, 4, 8;", word), 0x67);
    assert_eq!(
        computed("prmt.b32 %r9, %r10, %r11, 0x7520;", word),
        0x9ade_3478
    );
    assert_eq!(
        computed(
            "lop3.b32 %r9, %r10, %r11, %r12, 0xE8;",
            [0b1100, 0b1010, 0b1001]
        ),
        0b1000 | 0b1000
    );
    assert_eq!(
        computed("shf.l.wrap.b32 %r9, %r10, %r11, %r12;", word),
        0xbcde_f012
    );
    assert_eq!(
        computed("shf.r.clamp.b32 %r9, %r10, %r11, 40;", word),
        0x9abc_def0
    );
    assert_eq!(computed("shl.b32 %r9, %r10, 32;", word), 0);
    assert_eq!(computed("shr.s32 %r9, %r11, 40;", word), u32::MAX);
    assert_eq!(
        computed("dp4a.u32.s32 %r9, %r10, %r11, %r12;", [0xff, 0xff, 8]),
        8u32.wrapping_sub(255)
    );
    assert_eq!(computed("mul.hi.u32 %r9, %r10, %r11;", word), 0x0b00_ea4e);
    assert_eq!(
        computed("cvt.u16.u32 %rs1, %r11;\ncvt.u32.u16 %r9, %rs1;", word),
        0xdef0
    );
    assert_eq!(
        computed("cvt.u16.u32 %rs1, %r11;\ncvt.s32.s16 %r9, %rs1;", word),
        0xffff_def0
    );
    assert_eq!(
        computed(
            "mov.b32 {%rs1, %rs2}, %r10;\nmov.b32 %r9, {%rs2, %rs1};",
            word
        ),
        0x5678_1234
    );
}

#[test]
fn comparisons_with_no_number_hold_only_if_they_are_unordered() {
    let nan = f32::NAN.to_bits();
    let holds = |compare: &str, a: u32, b: u32| {
        let text = format!(
            "mov.b32 %f1, %r10;\nmov.b32 %f2, %r11;\nsetp.{compare}.f32 %p1, %f1, %f2;\nselp.u32 %r9, 1, 0, %p1;"
        );
        computed(&text, [a, b, 0]) == 1
    };
    let (one, two) = (1f32.to_bits(), 2f32.to_bits());
    for compare in ["eq", "ne", "lt", "le", "gt", "ge"] {
        assert!(!holds(compare, nan, one), "{compare}");
        assert!(holds(&format!("{compare}u"), one, nan), "{compare}u");
    }
    assert!(holds("lt", one, two) && !holds("ltu", two, one) && holds("ne", one, two));
    assert!(holds("nan", nan, one) && holds("num", one, two));
}

#[test]
fn what_the_interpreter_does_not_have_is_refused_by_name() {
    let text = format!(
        "{HEAD}tex.2d.v4.f32.s32 {{%r9, %r9, %r9, %r9}}, [%rd1, {{%r1, %r2}}];\nret;\n}}\n"
    );
    assert!(Module::read(&text).is_err());
    let text = format!("{HEAD}vote.sync.any.pred %p1, %p2, -1;\nret;\n}}\n");
    let error = Module::read(&text)
        .expect_err("no such instruction")
        .to_string();
    assert!(
        error.contains("vote.sync.any.pred") && error.contains("line"),
        "{error}"
    );
    let text = format!("{HEAD}add.s32 %r99, %r1, 1;\nret;\n}}\n");
    let error = Module::read(&text).expect_err("undeclared").to_string();
    assert!(error.contains("%r99 is not declared"), "{error}");
}
