//! What each instruction does to the lanes that run.

use crate::fault::Violation;
use crate::float::{self, Arithmetic};
use crate::global::Launched;
use crate::instruction::{
    Access, Compare, Compared, Convert, Divide, Elements, Exchange, Float1, Float2, Logic, Op,
    Order, Pointer, Reg, Rounding, Space, Vote, Word1, Word2,
};
use crate::module::Kernel;
use crate::shared::Shared;
use crate::tensor;
use crate::warp::{Longs, Pending, Warp, Words};

/// Where generic addresses of shared memory begin: no address of a process is there.
const SHARED_WINDOW: u64 = 1 << 56;

/// All that a warp's instructions touch besides its registers.
pub(crate) struct Environment<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) parameters: &'a [u8],
    pub(crate) shared: &'a mut Shared,
    pub(crate) memory: &'a mut Launched,
    pub(crate) arithmetic: Arithmetic,
    /// Called before each look at a word that the host writes; false: the launch is to end.
    pub(crate) look: &'a mut dyn FnMut() -> bool,
    pub(crate) clock: fn() -> u64,
    pub(crate) counts: &'a mut Counts,
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions, of each lane.
    pub instructions: u64,
    /// Instructions, of each warp.
    pub warp_instructions: u64,
    /// Products of fragments.
    pub matrix_products: u64,
    /// Rows of `ldmatrix` that had to wait for another of the same banks.
    pub bank_conflicts: u64,
    /// Looks at words that the host writes.
    pub looks: u64,
    pub barriers: u64,
}

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
    if is_x86_64_detected!("avx2", "fma", "f16c") {
        // SAFETY: the processor has these instructions.
        return unsafe { run_with_avx2(warp, environment, turn) };
    }
    run_any(warp, environment, turn)
}

#[cfg(target_arch = "x86_64")]
macro_rules! is_x86_64_detected {
    ($($feature:tt),*) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
}
#[cfg(target_arch = "x86_64")]
use is_x86_64_detected;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
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
        e.counts.warp_instructions += 1;
        e.counts.instructions += u64::from(warp.lanes.count_ones());
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
                // The others go on behind it; whoever has executed it meets them there, or goes elsewhere.
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

/// One operand to one result, in each lane.
macro_rules! each1 {
    ($warp:ident, $e:ident, $to:expr, $a:expr, |$x:ident| $value:expr) => {{
        let mut out: Words = [0; 32];
        {
            let a = $warp.word($e.kernel, $a)?;
            for lane in 0..32 {
                let $x = a[lane];
                out[lane] = $value;
            }
        }
        $warp.set_word($to, &out);
    }};
}

macro_rules! each2 {
    ($warp:ident, $e:ident, $to:expr, $a:expr, $b:expr, |$x:ident, $y:ident| $value:expr) => {{
        let mut out: Words = [0; 32];
        {
            let (a, b) = ($warp.word($e.kernel, $a)?, $warp.word($e.kernel, $b)?);
            for lane in 0..32 {
                let ($x, $y) = (a[lane], b[lane]);
                out[lane] = $value;
            }
        }
        $warp.set_word($to, &out);
    }};
}

macro_rules! each3 {
    ($warp:ident, $e:ident, $to:expr, $a:expr, $b:expr, $c:expr, |$x:ident, $y:ident, $z:ident| $value:expr) => {{
        let mut out: Words = [0; 32];
        {
            let (a, b) = ($warp.word($e.kernel, $a)?, $warp.word($e.kernel, $b)?);
            let c = $warp.word($e.kernel, $c)?;
            for lane in 0..32 {
                let ($x, $y, $z) = (a[lane], b[lane], c[lane]);
                out[lane] = $value;
            }
        }
        $warp.set_word($to, &out);
    }};
}

macro_rules! long2 {
    ($warp:ident, $e:ident, $to:expr, $a:expr, $b:expr, |$x:ident, $y:ident| $value:expr) => {{
        let mut out: Longs = [0; 32];
        {
            let (a, b) = ($warp.long($e.kernel, $a)?, $warp.long($e.kernel, $b)?);
            for lane in 0..32 {
                let ($x, $y) = (a[lane], b[lane]);
                out[lane] = $value;
            }
        }
        $warp.set_long($to, &out);
    }};
}

/// A bit for each lane for which it holds.
macro_rules! test2 {
    ($file:ident, $warp:ident, $e:ident, $a:expr, $b:expr, |$x:ident, $y:ident| $holds:expr) => {{
        let (a, b) = ($warp.$file($e.kernel, $a)?, $warp.$file($e.kernel, $b)?);
        let mut bits = 0u32;
        for lane in 0..32 {
            let ($x, $y) = (a[lane], b[lane]);
            bits |= u32::from($holds) << lane;
        }
        bits
    }};
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
        Op::Barrier(vote, _, from) => {
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
            return Ok(Some(Pause::Barrier { vote, holds }));
        }
        Op::Shuffle { members, .. } => {
            let members = warp.word(e.kernel, members)?;
            let wanted = members[warp.lanes.trailing_zeros() as usize];
            if !warp.gather(wanted, &e.kernel.lines)? {
                return Ok(None);
            }
            if warp.lanes & !wanted != 0 {
                return Err(Violation::NotMembers {
                    lanes: warp.lanes & !wanted,
                });
            }
            shuffle(warp, e, op)?;
        }
        Op::LoadMatrices(to, pointer) => {
            if !warp.gather(u32::MAX, &e.kernel.lines)? {
                return Ok(None);
            }
            load_matrices(warp, e, to, pointer)?;
        }
        Op::MultiplyMatrices { to, a, b, c } => {
            if !warp.gather(u32::MAX, &e.kernel.lines)? {
                return Ok(None);
            }
            multiply_matrices(warp, e, to, (a, b, c))?;
        }
        Op::Sleep => {
            warp.at += 1;
            return Ok(Some(Pause::Turn));
        }
        Op::Load(ref access) => {
            if access.order == Order::Relaxed {
                e.counts.looks += 1;
                if !(e.look)() {
                    return Ok(Some(Pause::Stopped));
                }
            }
            load(warp, e, access)?;
        }
        Op::Store(ref access) => store(warp, e, access)?,
        Op::Compare(compare, compared, to, a, b) => {
            let holds = comparison(warp, e, compare, compared, a, b)?;
            warp.set_predicate(to, holds);
        }
        Op::Word2(op, to, a, b) => word2(warp, e, op, to, a, b)?,
        Op::Float2(op, to, a, b) => float2(warp, e, op, to, a, b)?,
        Op::FusedMultiplyAdd(rounding, to, a, b, c) => {
            let f = f32::from_bits;
            match rounding {
                Rounding::Nearest => {
                    each3!(warp, e, to, a, b, c, |x, y, z| f(x)
                        .mul_add(f(y), f(z))
                        .to_bits());
                }
                _ => each3!(warp, e, to, a, b, c, |x, y, z| float::fused(
                    f(x),
                    f(y),
                    f(z),
                    rounding
                )
                .to_bits()),
            }
        }
        Op::MultiplyAdd(to, a, b, c) => {
            each3!(warp, e, to, a, b, c, |x, y, z| x
                .wrapping_mul(y)
                .wrapping_add(z));
        }
        Op::Long2(op, to, a, b) => long2(warp, e, op, to, a, b)?,
        Op::Convert(convert, to, a) => conversion(warp, e, convert, to, a)?,
        Op::Select(to, a, b, condition) => {
            let chosen = warp.condition(e.kernel, condition)?;
            let mut out: Words = [0; 32];
            // The value that is not chosen may be undefined.
            let (a, b) = (&warp.words[usize::from(a)], &warp.words[usize::from(b)]);
            for lane in 0..32 {
                out[lane] = if chosen >> lane & 1 == 1 {
                    a[lane]
                } else {
                    b[lane]
                };
            }
            warp.set_word(to, &out);
        }
        Op::Logic(logic, to, a, b) => {
            let (a, b) = (warp.condition(e.kernel, a)?, warp.condition(e.kernel, b)?);
            let holds = match logic {
                Logic::And => a & b,
                Logic::Or => a | b,
                Logic::Xor => a ^ b,
            };
            warp.set_predicate(to, holds);
        }
        _ => rare(warp, e, op)?,
    }
    warp.at += 1;
    Ok(None)
}

fn end_lanes(warp: &mut Warp) -> Option<Pause> {
    warp.alive &= !warp.lanes;
    warp.lanes = 0;
    if warp.has_ended() {
        return Some(Pause::Ended);
    }
    if !warp.next_group() {
        // Whoever waits for lanes that have ended finds that out.
        for group in &mut warp.others {
            group.waits = false;
        }
        warp.next_group();
    }
    None
}

/// What is executed seldom: kept out of the loop's code.
#[inline(never)]
fn rare(warp: &mut Warp, e: &mut Environment<'_>, op: &Op) -> Result<(), Violation> {
    match *op {
        Op::Word1(op, to, a) => word1(warp, e, op, to, a)?,
        Op::Long1(op, to, a) => long1(warp, e, op, to, a)?,
        Op::Float1(op, to, a) => float1(warp, e, op, to, a)?,
        Op::Divide(op, to, a, b) => divide(warp, e, op, to, a, b)?,
        Op::LongDivide(op, to, a, b) => divide_longs(warp, e, op, to, a, b)?,
        Op::LongShift(op, to, a, by) => {
            let mut out: Longs = [0; 32];
            let (a, by) = (warp.long(e.kernel, a)?, warp.word(e.kernel, by)?);
            for lane in 0..32 {
                let (value, by) = (a[lane], by[lane]);
                out[lane] = match op {
                    Word2::ShiftLeft => value.checked_shl(by).unwrap_or(0),
                    Word2::ShiftRight => value.checked_shr(by).unwrap_or(0),
                    _ => (value as i64 >> by.min(63)) as u64,
                };
            }
            warp.set_long(to, &out);
        }
        Op::LongMultiplyAdd(to, a, b, c) => {
            let mut out: Longs = [0; 32];
            let (a, b) = (warp.long(e.kernel, a)?, warp.long(e.kernel, b)?);
            let c = warp.long(e.kernel, c)?;
            for lane in 0..32 {
                out[lane] = a[lane].wrapping_mul(b[lane]).wrapping_add(c[lane]);
            }
            warp.set_long(to, &out);
        }
        Op::MultiplyWide(signed, to, a, b) => multiply_wide(warp, e, signed, to, (a, b, None))?,
        Op::MultiplyAddWide(signed, to, a, b, c) => {
            multiply_wide(warp, e, signed, to, (a, b, Some(c)))?;
        }
        Op::MovePredicate(to, from) => {
            let holds = warp.condition(e.kernel, from)?;
            warp.set_predicate(to, holds);
        }
        Op::SelectLong(to, a, b, condition) => {
            let chosen = warp.condition(e.kernel, condition)?;
            let (a, b) = (&warp.longs[usize::from(a)], &warp.longs[usize::from(b)]);
            let out = std::array::from_fn(|lane| match chosen >> lane & 1 {
                1 => a[lane],
                _ => b[lane],
            });
            warp.set_long(to, &out);
        }
        Op::FloatsToHalves(to, high, low) => {
            let f = f32::from_bits;
            each2!(warp, e, to, high, low, |x, y| float::to_half(f(x)) << 16
                | float::to_half(f(y)));
        }
        Op::Insert(to, a, b, at, count) => {
            let at = *warp.word(e.kernel, at)?;
            let count = *warp.word(e.kernel, count)?;
            let (a, b) = (warp.word(e.kernel, a)?, warp.word(e.kernel, b)?);
            let out = std::array::from_fn(|lane| {
                let mask = field(at[lane], count[lane]) as u32;
                let shifted = a[lane].checked_shl(at[lane] & 0xff).unwrap_or(0);
                b[lane] & !mask | shifted & mask
            });
            warp.set_word(to, &out);
        }
        Op::InsertLong(to, a, b, at, count) => {
            let at = *warp.word(e.kernel, at)?;
            let count = *warp.word(e.kernel, count)?;
            let (a, b) = (warp.long(e.kernel, a)?, warp.long(e.kernel, b)?);
            let out = std::array::from_fn(|lane| {
                let mask = field(at[lane], count[lane]);
                let shifted = a[lane].checked_shl(at[lane] & 0xff).unwrap_or(0);
                b[lane] & !mask | shifted & mask
            });
            warp.set_long(to, &out);
        }
        Op::Extract(to, a, at, count) => {
            each3!(warp, e, to, a, at, count, |x, y, z| x
                .checked_shr(y & 0xff)
                .unwrap_or(0)
                & field(0, z) as u32);
        }
        Op::Permute(to, a, b, selector) => {
            each3!(warp, e, to, a, b, selector, |x, y, z| permuted(x, y, z));
        }
        Op::Logic3(table, to, a, b, c) => {
            each3!(warp, e, to, a, b, c, |x, y, z| logic3(table, x, y, z));
        }
        Op::FunnelShift {
            left,
            wraps,
            to,
            low,
            high,
            by,
        } => each3!(warp, e, to, low, high, by, |x, y, z| funnel(
            left, wraps, x, y, z
        )),
        Op::DotBytes(first, second, to, a, b, c) => {
            each3!(warp, e, to, a, b, c, |x, y, z| dot_bytes(
                first, second, x, y, z
            ));
        }
        Op::Atomic(op, to, pointer, value) => {
            let addresses = warp.addresses(e.kernel, pointer)?;
            let values = *warp.word(e.kernel, value)?;
            let mut out: Words = [0; 32];
            for lane in warp.each_lane() {
                out[lane] = e.memory.atomic(op, addresses[lane], values[lane])?;
            }
            warp.set_word(to, &out);
        }
        Op::CopyAsync { to, from, valid } => copy_async(warp, e, to, from, valid)?,
        Op::CopyCommit => {
            for lane in warp.each_lane() {
                warp.committed[lane] += 1;
            }
        }
        Op::CopyWait(left) => copy_wait(warp, e, left)?,
        Op::Timer(to) => {
            let now = (e.clock)();
            warp.set_long(to, &[now; 32]);
        }
        Op::Fence => {}
        _ => between_files(warp, e, op)?,
    }
    Ok(())
}

/// Words from longs and halves, and back.
fn between_files(warp: &mut Warp, e: &Environment<'_>, op: &Op) -> Result<(), Violation> {
    match *op {
        Op::Widen(signed, bits, to, from) => {
            let words = warp.word(e.kernel, from)?;
            let out = std::array::from_fn(|lane| {
                let value = extended(words[lane], signed, bits);
                if signed {
                    i64::from(value as i32) as u64
                } else {
                    u64::from(value)
                }
            });
            warp.set_long(to, &out);
        }
        Op::Narrow(to, from) => {
            let longs = warp.long(e.kernel, from)?;
            let out = std::array::from_fn(|lane| longs[lane] as u32);
            warp.set_word(to, &out);
        }
        Op::PackHalves(to, low, high) => {
            each2!(warp, e, to, low, high, |x, y| x & 0xffff | y << 16);
        }
        Op::UnpackHalves(low, high, from) => {
            let words = *warp.word(e.kernel, from)?;
            if let Some(low) = low {
                warp.set_word(low, &words.map(|word| word & 0xffff));
            }
            if let Some(high) = high {
                warp.set_word(high, &words.map(|word| word >> 16));
            }
        }
        Op::PackWords(to, low, high) => {
            let (low, high) = (warp.word(e.kernel, low)?, warp.word(e.kernel, high)?);
            let out =
                std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32);
            warp.set_long(to, &out);
        }
        Op::UnpackWords(low, high, from) => {
            let longs = *warp.long(e.kernel, from)?;
            if let Some(low) = low {
                warp.set_word(low, &longs.map(|long| long as u32));
            }
            if let Some(high) = high {
                warp.set_word(high, &longs.map(|long| (long >> 32) as u32));
            }
        }
        Op::ToShared(to, from) => {
            let longs = warp.long(e.kernel, from)?;
            let out = std::array::from_fn(|lane| longs[lane].wrapping_sub(SHARED_WINDOW));
            warp.set_long(to, &out);
        }
        Op::FromShared(to, from) => {
            let longs = warp.long(e.kernel, from)?;
            let out = std::array::from_fn(|lane| longs[lane].wrapping_add(SHARED_WINDOW));
            warp.set_long(to, &out);
        }
        _ => unreachable!("every other instruction is executed above"),
    }
    Ok(())
}

/// `count` ones from bit `at` on.
fn field(at: u32, count: u32) -> u64 {
    let (at, count) = (at & 0xff, count & 0xff);
    let ones = 1u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1);
    ones.checked_shl(at).unwrap_or(0)
}

/// The lowest `bits` bits, filled with zeros or with the sign.
#[inline(always)]
fn extended(value: u32, signed: bool, bits: u8) -> u32 {
    let unused = 32 - u32::from(bits);
    match signed {
        true => ((value << unused) as i32 >> unused) as u32,
        false => value << unused >> unused,
    }
}

fn permuted(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(a) | u64::from(b) << 32;
    let mut out = 0;
    for i in 0..4 {
        let select = selector >> (4 * i) & 0xf;
        let byte = (bytes >> (8 * (select & 7)) & 0xff) as u32;
        let value = match select & 8 {
            0 => byte,
            _ => 0xff * (byte >> 7),
        };
        out |= value << (8 * i);
    }
    out
}

#[inline(always)]
fn logic3(table: u8, a: u32, b: u32, c: u32) -> u32 {
    let mut out = 0;
    for row in 0..8 {
        if table >> row & 1 == 1 {
            let of = |value: u32, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
            out |= of(a, 2) & of(b, 1) & of(c, 0);
        }
    }
    out
}

fn funnel(left: bool, wraps: bool, low: u32, high: u32, by: u32) -> u32 {
    let by = if wraps { by & 31 } else { by.min(32) };
    let both = u64::from(low) | u64::from(high) << 32;
    match left {
        true => ((both << by) >> 32) as u32,
        false => (both >> by) as u32,
    }
}

#[inline(always)]
fn dot_bytes(first: bool, second: bool, a: u32, b: u32, sum: u32) -> u32 {
    let byte = |word: u32, i: u32, signed| extended(word >> (8 * i), signed, 8);
    (0..4).fold(sum, |sum, i| {
        sum.wrapping_add(byte(a, i, first).wrapping_mul(byte(b, i, second)))
    })
}

fn word1(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Word1,
    to: Reg,
    a: Reg,
) -> Result<(), Violation> {
    match op {
        Word1::Move => each1!(warp, e, to, a, |x| x),
        Word1::Not => each1!(warp, e, to, a, |x| !x),
        Word1::Negate => each1!(warp, e, to, a, |x| x.wrapping_neg()),
        Word1::Absolute => each1!(warp, e, to, a, |x| (x as i32).wrapping_abs() as u32),
        Word1::CountOnes => each1!(warp, e, to, a, |x| x.count_ones()),
        Word1::LeadingZeros => each1!(warp, e, to, a, |x| x.leading_zeros()),
        Word1::Reverse => each1!(warp, e, to, a, |x| x.reverse_bits()),
    }
    Ok(())
}

#[inline(always)]
fn word2(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Word2,
    to: Reg,
    a: Reg,
    b: Reg,
) -> Result<(), Violation> {
    match op {
        Word2::Add => each2!(warp, e, to, a, b, |x, y| x.wrapping_add(y)),
        Word2::Subtract => each2!(warp, e, to, a, b, |x, y| x.wrapping_sub(y)),
        Word2::MultiplyLow => each2!(warp, e, to, a, b, |x, y| x.wrapping_mul(y)),
        Word2::MultiplyShort => each2!(warp, e, to, a, b, |x, y| (x & 0xffff) * (y & 0xffff)),
        Word2::MultiplyHighUnsigned => {
            each2!(
                warp,
                e,
                to,
                a,
                b,
                |x, y| (u64::from(x) * u64::from(y) >> 32) as u32
            );
        }
        Word2::MultiplyHighSigned => each2!(warp, e, to, a, b, |x, y| {
            (i64::from(x as i32) * i64::from(y as i32) >> 32) as u32
        }),
        Word2::MinSigned => each2!(warp, e, to, a, b, |x, y| (x as i32).min(y as i32) as u32),
        Word2::MinUnsigned => each2!(warp, e, to, a, b, |x, y| x.min(y)),
        Word2::MaxSigned => each2!(warp, e, to, a, b, |x, y| (x as i32).max(y as i32) as u32),
        Word2::MaxUnsigned => each2!(warp, e, to, a, b, |x, y| x.max(y)),
        Word2::And => each2!(warp, e, to, a, b, |x, y| x & y),
        Word2::Or => each2!(warp, e, to, a, b, |x, y| x | y),
        Word2::Xor => each2!(warp, e, to, a, b, |x, y| x ^ y),
        Word2::ShiftLeft => {
            each2!(warp, e, to, a, b, |x, y| if y > 31 {
                0
            } else {
                x << (y & 31)
            });
        }
        Word2::ShiftRight => {
            each2!(warp, e, to, a, b, |x, y| if y > 31 {
                0
            } else {
                x >> (y & 31)
            });
        }
        Word2::ShiftRightSigned => {
            each2!(warp, e, to, a, b, |x, y| (x as i32 >> y.min(31)) as u32);
        }
    }
    Ok(())
}

fn long1(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Word1,
    to: Reg,
    a: Reg,
) -> Result<(), Violation> {
    let longs = *warp.long(e.kernel, a)?;
    let out = match op {
        Word1::Not => longs.map(|long| !long),
        Word1::Negate => longs.map(u64::wrapping_neg),
        _ => longs,
    };
    warp.set_long(to, &out);
    Ok(())
}

#[inline(always)]
fn long2(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Word2,
    to: Reg,
    a: Reg,
    b: Reg,
) -> Result<(), Violation> {
    match op {
        Word2::Add => long2!(warp, e, to, a, b, |x, y| x.wrapping_add(y)),
        Word2::Subtract => long2!(warp, e, to, a, b, |x, y| x.wrapping_sub(y)),
        Word2::MultiplyLow => long2!(warp, e, to, a, b, |x, y| x.wrapping_mul(y)),
        Word2::MultiplyHighUnsigned => {
            long2!(
                warp,
                e,
                to,
                a,
                b,
                |x, y| (u128::from(x) * u128::from(y) >> 64) as u64
            );
        }
        Word2::MultiplyHighSigned => long2!(warp, e, to, a, b, |x, y| {
            (i128::from(x as i64) * i128::from(y as i64) >> 64) as u64
        }),
        Word2::MinSigned => long2!(warp, e, to, a, b, |x, y| (x as i64).min(y as i64) as u64),
        Word2::MinUnsigned => long2!(warp, e, to, a, b, |x, y| x.min(y)),
        Word2::MaxSigned => long2!(warp, e, to, a, b, |x, y| (x as i64).max(y as i64) as u64),
        Word2::MaxUnsigned => long2!(warp, e, to, a, b, |x, y| x.max(y)),
        Word2::And => long2!(warp, e, to, a, b, |x, y| x & y),
        Word2::Or => long2!(warp, e, to, a, b, |x, y| x | y),
        _ => long2!(warp, e, to, a, b, |x, y| x ^ y),
    }
    Ok(())
}

fn divide(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Divide,
    to: Reg,
    a: Reg,
    b: Reg,
) -> Result<(), Violation> {
    let (a, b) = (*warp.word(e.kernel, a)?, *warp.word(e.kernel, b)?);
    let mut out: Words = [0; 32];
    for lane in warp.each_lane() {
        let (x, y) = (a[lane], b[lane]);
        if y == 0 {
            return Err(Violation::DivisionByZero);
        }
        out[lane] = match op {
            Divide::Unsigned => x / y,
            Divide::UnsignedRemainder => x % y,
            Divide::Signed => (x as i32).wrapping_div(y as i32) as u32,
            Divide::SignedRemainder => (x as i32).wrapping_rem(y as i32) as u32,
        };
    }
    warp.set_word(to, &out);
    Ok(())
}

fn divide_longs(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Divide,
    to: Reg,
    a: Reg,
    b: Reg,
) -> Result<(), Violation> {
    let (a, b) = (*warp.long(e.kernel, a)?, *warp.long(e.kernel, b)?);
    let mut out: Longs = [0; 32];
    for lane in warp.each_lane() {
        let (x, y) = (a[lane], b[lane]);
        if y == 0 {
            return Err(Violation::DivisionByZero);
        }
        out[lane] = match op {
            Divide::Unsigned => x / y,
            Divide::UnsignedRemainder => x % y,
            Divide::Signed => (x as i64).wrapping_div(y as i64) as u64,
            Divide::SignedRemainder => (x as i64).wrapping_rem(y as i64) as u64,
        };
    }
    warp.set_long(to, &out);
    Ok(())
}

fn multiply_wide(
    warp: &mut Warp,
    e: &Environment<'_>,
    signed: bool,
    to: Reg,
    (a, b, c): (Reg, Reg, Option<Reg>),
) -> Result<(), Violation> {
    let added = match c {
        Some(c) => *warp.long(e.kernel, c)?,
        None => [0; 32],
    };
    let (a, b) = (warp.word(e.kernel, a)?, warp.word(e.kernel, b)?);
    let mut out: Longs = [0; 32];
    for lane in 0..32 {
        let product = match signed {
            true => (i64::from(a[lane] as i32) * i64::from(b[lane] as i32)) as u64,
            false => u64::from(a[lane]) * u64::from(b[lane]),
        };
        out[lane] = product.wrapping_add(added[lane]);
    }
    warp.set_long(to, &out);
    Ok(())
}

fn float1(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Float1,
    to: Reg,
    a: Reg,
) -> Result<(), Violation> {
    let f = f32::from_bits;
    match op {
        Float1::Negate => each1!(warp, e, to, a, |x| x ^ 0x8000_0000),
        Float1::Absolute => each1!(warp, e, to, a, |x| x & 0x7fff_ffff),
        Float1::Reciprocal => each1!(warp, e, to, a, |x| (1.0 / f(x)).to_bits()),
        Float1::SquareRoot => each1!(warp, e, to, a, |x| f(x).sqrt().to_bits()),
        Float1::RoundDown => each1!(warp, e, to, a, |x| f(x).floor().to_bits()),
        Float1::RoundUp => each1!(warp, e, to, a, |x| f(x).ceil().to_bits()),
        Float1::RoundToEven => each1!(warp, e, to, a, |x| f(x).round_ties_even().to_bits()),
        Float1::RoundToZero => each1!(warp, e, to, a, |x| f(x).trunc().to_bits()),
        Float1::Saturate => each1!(warp, e, to, a, |x| {
            let clamped = f(x).clamp(0.0, 1.0);
            if clamped.is_nan() {
                0
            } else {
                clamped.to_bits()
            }
        }),
        _ => {
            let values = *warp.word(e.kernel, a)?;
            let mut out: Words = [0; 32];
            for lane in warp.each_lane() {
                out[lane] = float::approximate(op, f(values[lane]), e.arithmetic).to_bits();
            }
            warp.set_word(to, &out);
        }
    }
    Ok(())
}

#[inline(always)]
fn float2(
    warp: &mut Warp,
    e: &Environment<'_>,
    op: Float2,
    to: Reg,
    a: Reg,
    b: Reg,
) -> Result<(), Violation> {
    let f = f32::from_bits;
    match op {
        Float2::Add => each2!(warp, e, to, a, b, |x, y| (f(x) + f(y)).to_bits()),
        Float2::Subtract => each2!(warp, e, to, a, b, |x, y| (f(x) - f(y)).to_bits()),
        Float2::Multiply => each2!(warp, e, to, a, b, |x, y| (f(x) * f(y)).to_bits()),
        Float2::Divide | Float2::DivideApprox => {
            each2!(warp, e, to, a, b, |x, y| (f(x) / f(y)).to_bits());
        }
        Float2::Min => each2!(warp, e, to, a, b, |x, y| float::min(f(x), f(y)).to_bits()),
        Float2::Max => each2!(warp, e, to, a, b, |x, y| float::max(f(x), f(y)).to_bits()),
        Float2::CopySign => {
            each2!(warp, e, to, a, b, |x, y| x & 0x8000_0000 | y & 0x7fff_ffff);
        }
        Float2::AddTowardsZero => {
            each2!(warp, e, to, a, b, |x, y| float::add(
                f(x),
                f(y),
                Rounding::Zero
            )
            .to_bits());
        }
        Float2::MultiplyTowardsZero => {
            each2!(warp, e, to, a, b, |x, y| float::multiply(
                f(x),
                f(y),
                Rounding::Zero
            )
            .to_bits());
        }
    }
    Ok(())
}

/// The lanes for which a comparison holds.
#[inline(always)]
fn comparison(
    warp: &Warp,
    e: &Environment<'_>,
    compare: Compare,
    compared: Compared,
    a: Reg,
    b: Reg,
) -> Result<u32, Violation> {
    macro_rules! compared {
        ($file:ident, |$x:ident| $value:expr) => {
            match compare {
                Compare::Equal => test2!($file, warp, e, a, b, |p, q| {
                    let (p, q) = (
                        {
                            let $x = p;
                            $value
                        },
                        {
                            let $x = q;
                            $value
                        },
                    );
                    p == q
                }),
                Compare::NotEqual => test2!($file, warp, e, a, b, |p, q| {
                    let (p, q) = (
                        {
                            let $x = p;
                            $value
                        },
                        {
                            let $x = q;
                            $value
                        },
                    );
                    p != q
                }),
                Compare::Less => test2!($file, warp, e, a, b, |p, q| {
                    let (p, q) = (
                        {
                            let $x = p;
                            $value
                        },
                        {
                            let $x = q;
                            $value
                        },
                    );
                    p < q
                }),
                Compare::LessOrEqual => test2!($file, warp, e, a, b, |p, q| {
                    let (p, q) = (
                        {
                            let $x = p;
                            $value
                        },
                        {
                            let $x = q;
                            $value
                        },
                    );
                    p <= q
                }),
                Compare::Greater => test2!($file, warp, e, a, b, |p, q| {
                    let (p, q) = (
                        {
                            let $x = p;
                            $value
                        },
                        {
                            let $x = q;
                            $value
                        },
                    );
                    p > q
                }),
                Compare::GreaterOrEqual => test2!($file, warp, e, a, b, |p, q| {
                    let (p, q) = (
                        {
                            let $x = p;
                            $value
                        },
                        {
                            let $x = q;
                            $value
                        },
                    );
                    p >= q
                }),
            }
        };
    }
    let f = f32::from_bits;
    let nan = |warp: &Warp| -> Result<u32, Violation> {
        Ok(test2!(word, warp, e, a, b, |p, q| f(p).is_nan() || f(q).is_nan()))
    };
    Ok(match compared {
        Compared::Unsigned32 => compared!(word, |x| x),
        Compared::Signed32 => compared!(word, |x| x as i32),
        Compared::Signed16 => compared!(word, |x| x as i16),
        Compared::Unsigned64 => compared!(long, |x| x),
        Compared::Signed64 => compared!(long, |x| x as i64),
        Compared::Ordered if compare == Compare::NotEqual => {
            compared!(word, |x| f(x)) & !nan(warp)?
        }
        Compared::Ordered => compared!(word, |x| f(x)),
        Compared::Unordered => compared!(word, |x| f(x)) | nan(warp)?,
        Compared::IsNan => nan(warp)?,
        Compared::IsNumber => !nan(warp)?,
    })
}

#[inline(always)]
fn conversion(
    warp: &mut Warp,
    e: &Environment<'_>,
    convert: Convert,
    to: Reg,
    a: Reg,
) -> Result<(), Violation> {
    let f = f32::from_bits;
    match convert {
        Convert::HalfToFloat => each1!(warp, e, to, a, |x| float::from_half(x & 0xffff).to_bits()),
        Convert::FloatToHalf => each1!(warp, e, to, a, |x| float::to_half(f(x))),
        Convert::SignedToFloat => each1!(warp, e, to, a, |x| (x as i32 as f32).to_bits()),
        Convert::UnsignedToFloat => each1!(warp, e, to, a, |x| (x as f32).to_bits()),
        Convert::Unsigned16ToFloat => each1!(warp, e, to, a, |x| f32::from(x as u16).to_bits()),
        Convert::Signed16ToFloat => each1!(warp, e, to, a, |x| f32::from(x as i16).to_bits()),
        Convert::Unsigned8ToFloat => each1!(warp, e, to, a, |x| f32::from(x as u8).to_bits()),
        Convert::Signed8ToFloat => each1!(warp, e, to, a, |x| f32::from(x as i8).to_bits()),
        Convert::FloatToSigned => each1!(warp, e, to, a, |x| f(x) as i32 as u32),
        Convert::FloatToUnsigned => each1!(warp, e, to, a, |x| f(x) as u32),
        Convert::FloatToSignedNearest => {
            each1!(warp, e, to, a, |x| f(x).round_ties_even() as i32 as u32);
        }
        Convert::FloatToUnsignedNearest => {
            each1!(warp, e, to, a, |x| f(x).round_ties_even() as u32);
        }
        Convert::Integer {
            signed,
            from,
            to: into,
        } => each1!(warp, e, to, a, |x| extended(
            extended(x, signed, from),
            false,
            into
        )),
    }
    Ok(())
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

/// Each lane names a row of 16 bytes; each gets a pair of halves of each of the four matrices.
fn load_matrices(
    warp: &mut Warp,
    e: &mut Environment<'_>,
    to: [Reg; 4],
    pointer: Pointer,
) -> Result<(), Violation> {
    let addresses = warp.addresses(e.kernel, pointer)?;
    let mut out = [[0u32; 32]; 4];
    for (matrix, words) in out.iter_mut().enumerate() {
        let mut banks = 0u8;
        for row in 0..8 {
            let lane = 8 * matrix + row;
            let thread = warp.first_thread + lane as u16;
            let bytes = e.shared.read(addresses[lane], 16, thread, u16::MAX)?;
            for (quarter, pair) in bytes.as_chunks::<4>().0.iter().enumerate() {
                words[4 * row + quarter] = u32::from_le_bytes(*pair);
            }
            // Eight groups of four banks serve eight rows at once if each is of another group.
            let group = 1u8 << (addresses[lane] / 16 % 8);
            e.counts.bank_conflicts += u64::from(banks & group != 0);
            banks |= group;
        }
    }
    for (register, words) in to.into_iter().zip(&out) {
        warp.set_word(register, words);
    }
    Ok(())
}

fn multiply_matrices(
    warp: &mut Warp,
    e: &mut Environment<'_>,
    to: [Reg; 4],
    (a, b, c): ([Reg; 4], [Reg; 2], [Reg; 4]),
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

fn copy_async(
    warp: &mut Warp,
    e: &mut Environment<'_>,
    to: Pointer,
    from: Pointer,
    valid: Option<Reg>,
) -> Result<(), Violation> {
    let (to, from) = (
        warp.addresses(e.kernel, to)?,
        warp.addresses(e.kernel, from)?,
    );
    let valid = match valid {
        Some(valid) => *warp.word(e.kernel, valid)?,
        None => [16; 32],
    };
    for lane in warp.each_lane() {
        e.shared.expect(to[lane], warp.first_thread + lane as u16)?;
        let valid = valid[lane].min(16) as u8;
        if valid > 0 {
            // It must be there now; it is read when it arrives.
            e.memory.read(from[lane], 16, u16::MAX >> (16 - valid))?;
        }
        warp.pending.push(Pending {
            lane: lane as u8,
            valid,
            group: warp.committed[lane],
            to: to[lane],
            from: from[lane],
        });
    }
    Ok(())
}

/// Copies arrive as late as they may: when a lane waits for their group.
fn copy_wait(warp: &mut Warp, e: &mut Environment<'_>, left: u32) -> Result<(), Violation> {
    let mut kept = Vec::new();
    for copy in std::mem::take(&mut warp.pending) {
        let lane = usize::from(copy.lane);
        let due = copy.group + left < warp.committed[lane];
        if warp.lanes >> lane & 1 == 0 || !due {
            kept.push(copy);
            continue;
        }
        let mut value = [0; 16];
        if copy.valid > 0 {
            let used = u16::MAX >> (16 - copy.valid);
            value = e.memory.read(copy.from, 16, used)?;
            value[usize::from(copy.valid)..].fill(0);
        }
        e.shared
            .arrive(copy.to, &value, warp.first_thread + lane as u16);
    }
    warp.pending = kept;
    Ok(())
}

/// One lane's part of a load.
#[inline(always)]
fn load_lane(
    e: &mut Environment<'_>,
    access: &Access,
    address: u64,
    thread: u16,
) -> Result<[u8; 16], Violation> {
    let bytes = u32::from(access.elements.bytes) * u32::from(access.elements.count);
    let mut value = [0; 16];
    match access.space {
        Space::Parameter => {
            let end = address + u64::from(bytes);
            let found = e.parameters.get(address as usize..end as usize);
            let found = found.ok_or(Violation::OutsideParameters {
                offset: address,
                end,
                size: e.parameters.len() as u32,
            })?;
            value[..bytes as usize].copy_from_slice(found);
        }
        Space::Shared => {
            let found = e.shared.read(address, bytes, thread, access.used)?;
            value[..bytes as usize].copy_from_slice(found);
        }
        Space::Generic if address >= SHARED_WINDOW => {
            let found = e
                .shared
                .read(address - SHARED_WINDOW, bytes, thread, access.used)?;
            value[..bytes as usize].copy_from_slice(found);
        }
        Space::Global | Space::Generic if access.order == Order::Plain => {
            value = e.memory.read(address, bytes, access.used)?;
        }
        Space::Global | Space::Generic => {
            let word = e.memory.load_relaxed(address)?;
            value[..4].copy_from_slice(&word.to_le_bytes());
        }
    }
    Ok(value)
}

/// Element `i`, as a long.
fn long_element(value: &[u8; 16], i: usize, elements: Elements) -> u64 {
    let bytes = usize::from(elements.bytes);
    let mut long = [0; 8];
    long[..bytes].copy_from_slice(&value[bytes * i..bytes * (i + 1)]);
    let unused = 64 - 8 * u32::from(elements.bytes);
    match elements.signed {
        true => ((i64::from_le_bytes(long) << unused) >> unused) as u64,
        false => u64::from_le_bytes(long),
    }
}

#[inline(always)]
fn load(warp: &mut Warp, e: &mut Environment<'_>, access: &Access) -> Result<(), Violation> {
    let addresses = warp.addresses(e.kernel, access.pointer)?;
    let elements = access.elements;
    let first = addresses[warp.lanes.trailing_zeros() as usize];
    // Parameters are mostly the same for all lanes.
    let uniform =
        access.space == Space::Parameter && warp.each_lane().all(|lane| addresses[lane] == first);
    let mut words = [[0u32; 32]; 4];
    let mut longs = [[0u64; 32]; 4];
    let mut deposit = |lane: usize, value: &[u8; 16]| match elements.bytes {
        _ if elements.long => {
            for (i, long) in longs
                .iter_mut()
                .enumerate()
                .take(usize::from(elements.count))
            {
                long[lane] = long_element(value, i, elements);
            }
        }
        4 => {
            for (word, bytes) in words.iter_mut().zip(value.as_chunks::<4>().0) {
                word[lane] = u32::from_le_bytes(*bytes);
            }
        }
        2 => {
            for (word, bytes) in words.iter_mut().zip(value.as_chunks::<2>().0) {
                let value = u32::from(u16::from_le_bytes(*bytes));
                word[lane] = extended(value, elements.signed, 16);
            }
        }
        _ => {
            for (word, &byte) in words.iter_mut().zip(value) {
                word[lane] = extended(u32::from(byte), elements.signed, 8);
            }
        }
    };
    if uniform {
        let value = load_lane(e, access, first, 0)?;
        for lane in 0..32 {
            deposit(lane, &value);
        }
    } else {
        for lane in warp.each_lane() {
            let thread = warp.first_thread + lane as u16;
            let value = load_lane(e, access, addresses[lane], thread)?;
            deposit(lane, &value);
        }
    }
    let count = usize::from(elements.count);
    for i in 0..count {
        match elements.long {
            true => warp.set_long(access.registers[i], &longs[i]),
            false => warp.set_word(access.registers[i], &words[i]),
        }
    }
    Ok(())
}

#[inline(always)]
fn store(warp: &mut Warp, e: &mut Environment<'_>, access: &Access) -> Result<(), Violation> {
    let addresses = warp.addresses(e.kernel, access.pointer)?;
    let (each, count) = (
        usize::from(access.elements.bytes),
        usize::from(access.elements.count),
    );
    let mut values = [[0u8; 16]; 32];
    for (i, &register) in access.registers[..count].iter().enumerate() {
        match access.elements.long {
            true => {
                let longs = warp.long(e.kernel, register)?;
                for (value, long) in values.iter_mut().zip(longs) {
                    value[each * i..each * (i + 1)].copy_from_slice(&long.to_le_bytes()[..each]);
                }
            }
            false => {
                let words = warp.word(e.kernel, register)?;
                for (value, word) in values.iter_mut().zip(words) {
                    value[each * i..each * (i + 1)].copy_from_slice(&word.to_le_bytes()[..each]);
                }
            }
        }
    }
    for lane in warp.each_lane() {
        let (address, value) = (addresses[lane], &values[lane][..each * count]);
        let thread = warp.first_thread + lane as u16;
        match access.space {
            Space::Shared => e.shared.write(address, value, thread)?,
            Space::Generic if address >= SHARED_WINDOW => {
                e.shared.write(address - SHARED_WINDOW, value, thread)?;
            }
            _ if access.order == Order::Plain => e.memory.write(address, value)?,
            _ => {
                let word = u32::from_le_bytes(values[lane][..4].try_into().unwrap_or_default());
                e.memory
                    .store(address, word, access.order == Order::Release)?;
            }
        }
    }
    Ok(())
}
