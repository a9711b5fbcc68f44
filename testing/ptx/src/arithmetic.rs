//! Instructions that compute: from registers to registers, each lane for itself.

use crate::environment::{Environment, SHARED_WINDOW};
use crate::fault::Violation;
use crate::float;
use crate::instruction::{
    Compare, Compared, Convert, Divide, Float1, Float2, Logic, Op, Reg, Rounding, Word1, Word2,
};
use crate::warp::{Longs, Warp, Words};

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

/// Carries out an instruction that computes.
#[inline(always)]
pub(crate) fn compute(warp: &mut Warp, e: &Environment<'_>, op: &Op) -> Result<(), Violation> {
    match *op {
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
        _ => seldom(warp, e, op)?,
    }
    Ok(())
}

/// What is executed seldom: kept out of the loop's code.
#[inline(never)]
fn seldom(warp: &mut Warp, e: &Environment<'_>, op: &Op) -> Result<(), Violation> {
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
        Op::MultiplyWide(signed, to, a, b) => multiply_wide(warp, e, signed, to, a, b, None)?,
        Op::MultiplyAddWide(signed, to, a, b, c) => {
            multiply_wide(warp, e, signed, to, a, b, Some(c))?;
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
        _ => return bits(warp, e, op),
    }
    Ok(())
}

/// What works on the bits of words.
fn bits(warp: &mut Warp, e: &Environment<'_>, op: &Op) -> Result<(), Violation> {
    match *op {
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
        _ => return between_files(warp, e, op),
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
pub(crate) fn extended(value: u32, signed: bool, bits: u8) -> u32 {
    let unused = 32 - u32::from(bits);
    if signed {
        ((value << unused) as i32 >> unused) as u32
    } else {
        value << unused >> unused
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
    if left {
        ((both << by) >> 32) as u32
    } else {
        (both >> by) as u32
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
                |x, y| ((u64::from(x) * u64::from(y)) >> 32) as u32
            );
        }
        Word2::MultiplyHighSigned => each2!(warp, e, to, a, b, |x, y| {
            ((i64::from(x as i32) * i64::from(y as i32)) >> 32) as u32
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
                |x, y| ((u128::from(x) * u128::from(y)) >> 64) as u64
            );
        }
        Word2::MultiplyHighSigned => long2!(warp, e, to, a, b, |x, y| {
            ((i128::from(x as i64) * i128::from(y as i64)) >> 64) as u64
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
    a: Reg,
    b: Reg,
    c: Option<Reg>,
) -> Result<(), Violation> {
    let added = match c {
        Some(c) => *warp.long(e.kernel, c)?,
        None => [0; 32],
    };
    let (a, b) = (warp.word(e.kernel, a)?, warp.word(e.kernel, b)?);
    let mut out: Longs = [0; 32];
    for lane in 0..32 {
        let product = if signed {
            (i64::from(a[lane] as i32) * i64::from(b[lane] as i32)) as u64
        } else {
            u64::from(a[lane]) * u64::from(b[lane])
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
        Float2::Divide => each2!(warp, e, to, a, b, |x, y| (f(x) / f(y)).to_bits()),
        Float2::DivideApprox => {
            each2!(warp, e, to, a, b, |x, y| float::quotient(
                f(x),
                f(y),
                e.arithmetic
            )
            .to_bits());
        }
        Float2::DivideApproxFlushed => each2!(warp, e, to, a, b, |x, y| {
            let (x, y) = (float::flushed(f(x)), float::flushed(f(y)));
            float::flushed(float::quotient(x, y, e.arithmetic)).to_bits()
        }),
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
