//! The loop that executes a warp, and what instructions do to the flow of control.

use crate::access;
use crate::arithmetic;
use crate::environment::Environment;
use crate::fault::Violation;
use crate::instruction::{Condition, Exchange, Op, Order, Reg, Vote};
use crate::tensor;
use crate::warp::{Warp, Words};

/// Why a warp stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It has run long enough.
    Turn,
    /// It waits for the block, and brings whether any or all of its lanes voted for it.
    Barrier {
        vote: Vote,
        holds: bool,
    },
    Ended,
    /// The launch is to end.
    Stopped,
}

/// Runs a warp until it waits, ends, or has had its turn.
pub(crate) fn run(
    warp: &mut Warp,
    environment: &mut Environment<'_>,
    turn: u32,
) -> Result<Pause, Violation> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        return unsafe { run_with_avx2(warp, environment, turn) };
    }
    run_any(warp, environment, turn)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_with_avx2(
    warp: &mut Warp,
    environment: &mut Environment<'_>,
    turn: u32,
) -> Result<Pause, Violation> {
    run_any(warp, environment, turn)
}

#[inline(always)]
fn run_any(warp: &mut Warp, e: &mut Environment<'_>, turn: u32) -> Result<Pause, Violation> {
    for _ in 0..turn {
        if warp.at >= warp.meet {
            warp.join();
        }
        let instruction = &e.kernel.code[warp.at as usize];
        e.counts.instructions += 1;
        let Some(guard) = instruction.guard else {
            if let Some(pause) = step(warp, e, &instruction.op)? {
                return Ok(pause);
            }
            continue;
        };
        let all = warp.lanes;
        let able = warp.condition(e.kernel, guard)? & all;
        let at = warp.at;
        match able {
            0 => warp.at += 1,
            able if able == all => {
                if let Some(pause) = step(warp, e, &instruction.op)? {
                    return Ok(pause);
                }
            }
            able => {
                // The others go on behind it; lanes that have executed it meet them there, or go elsewhere.
                warp.put_aside(at + 1, all & !able, false);
                warp.lanes = able;
                if let Some(pause) = step(warp, e, &instruction.op)? {
                    return Ok(pause);
                }
            }
        }
    }
    Ok(Pause::Turn)
}

/// Executes one instruction for the lanes that run, and moves them on. `Some`: the warp stands still.
#[inline(always)]
fn step(warp: &mut Warp, e: &mut Environment<'_>, op: &Op) -> Result<Option<Pause>, Violation> {
    match *op {
        Op::Branch(to) => {
            warp.at = to;
            return Ok(None);
        }
        Op::Return => return Ok(end_lanes(warp)),
        Op::Barrier(vote, _, from) => return barrier(warp, e, vote, from),
        Op::Shuffle { .. } | Op::LoadMatrices(..) | Op::MultiplyMatrices { .. } => {
            if !together(warp, e, op)? {
                return Ok(None);
            }
        }
        Op::Sleep => {
            warp.at += 1;
            return Ok(Some(Pause::Turn));
        }
        Op::Load(ref access) => {
            if access.order == Order::Relaxed {
                e.counts.looks += 1;
                if !(e.look)(e.counts) {
                    return Ok(Some(Pause::Stopped));
                }
            }
            access::load(warp, e, access)?;
        }
        Op::Store(ref access) => access::store(warp, e, access)?,
        Op::Fence => {}
        Op::Atomic(..) | Op::CopyAsync { .. } | Op::CopyCommit | Op::CopyWait(_) | Op::Timer(_) => {
            access::seldom(warp, e, op)?
        }
        _ => arithmetic::compute(warp, e, op)?,
    }
    warp.at += 1;
    Ok(None)
}

/// A barrier of the block: the warp waits there once all of its lanes have come.
fn barrier(
    warp: &mut Warp,
    e: &Environment<'_>,
    vote: Vote,
    from: Option<Condition>,
) -> Result<Option<Pause>, Violation> {
    if !warp.gather(warp.present, &e.kernel.lines)? {
        return Ok(None);
    }
    let holds = match from {
        None => false,
        Some(from) => {
            let votes = warp.condition(e.kernel, from)? & warp.lanes;
            match vote {
                Vote::And => votes == warp.lanes,
                _ => votes != 0,
            }
        }
    };
    Ok(Some(Pause::Barrier { vote, holds }))
}

/// What lanes do together. False: they wait for others.
fn together(warp: &mut Warp, e: &mut Environment<'_>, op: &Op) -> Result<bool, Violation> {
    let members = match *op {
        Op::Shuffle { members, .. } => {
            let members = warp.word(e.kernel, members)?;
            members[warp.lanes.trailing_zeros() as usize]
        }
        _ => u32::MAX,
    };
    if !warp.gather(members, &e.kernel.lines)? {
        return Ok(false);
    }
    let strangers = warp.lanes & !members;
    if strangers != 0 {
        return Err(Violation::NotMembers { lanes: strangers });
    }
    match *op {
        Op::LoadMatrices(to, pointer) => access::load_matrices(warp, e, to, pointer)?,
        Op::MultiplyMatrices { to, a, b, c } => multiply_matrices(warp, e, to, a, b, c)?,
        _ => shuffle(warp, e, op)?,
    }
    Ok(true)
}

fn end_lanes(warp: &mut Warp) -> Option<Pause> {
    warp.alive &= !warp.lanes;
    warp.lanes = 0;
    if warp.has_ended() {
        return Some(Pause::Ended);
    }
    if !warp.next_group() {
        // Groups that wait for lanes that have ended find that out.
        for group in &mut warp.others {
            group.waits = false;
        }
        warp.next_group();
    }
    None
}

fn shuffle(warp: &mut Warp, e: &Environment<'_>, op: &Op) -> Result<(), Violation> {
    let Op::Shuffle {
        exchange,
        to,
        valid,
        from,
        lane,
        clamp,
        ..
    } = *op
    else {
        unreachable!("only called for shuffles");
    };
    let values = *warp.word(e.kernel, from)?;
    let by = *warp.word(e.kernel, lane)?;
    let clamp = *warp.word(e.kernel, clamp)?;
    let mut out: Words = [0; 32];
    let mut in_range = 0;
    for lane in warp.each_lane() {
        let (own, limit, segments) = (lane as u32, clamp[lane] & 31, clamp[lane] >> 8 & 31);
        let last = own & segments | limit & !segments;
        let first = own & segments;
        let by = by[lane] & 31;
        let (source, found) = match exchange {
            Exchange::Up => (own.wrapping_sub(by), own >= by + last),
            Exchange::Down => (own + by, own + by <= last),
            Exchange::Butterfly => (own ^ by, own ^ by <= last),
            Exchange::Index => {
                let source = first | by & !segments;
                (source, source <= last)
            }
        };
        let source = if found { source } else { own };
        if warp.lanes >> source & 1 == 0 {
            return Err(Violation::AbsentLane { lane: source });
        }
        out[lane] = values[source as usize];
        in_range |= u32::from(found) << lane;
    }
    warp.set_word(to, &out);
    if let Some(valid) = valid {
        warp.set_predicate(valid, in_range);
    }
    Ok(())
}

fn multiply_matrices(
    warp: &mut Warp,
    e: &mut Environment<'_>,
    to: [Reg; 4],
    a: [Reg; 4],
    b: [Reg; 2],
    c: [Reg; 4],
) -> Result<(), Violation> {
    let word = |register| warp.word(e.kernel, register);
    let sums = tensor::multiply_add(
        [word(a[0])?, word(a[1])?, word(a[2])?, word(a[3])?],
        [word(b[0])?, word(b[1])?],
        [word(c[0])?, word(c[1])?, word(c[2])?, word(c[3])?],
        e.arithmetic,
    );
    e.counts.matrix_products += 1;
    for (register, words) in to.into_iter().zip(&sums) {
        warp.set_word(register, words);
    }
    Ok(())
}
