//! Instructions with an address: loads, stores, copies and what tensor cores read.

use crate::arithmetic::extended;
use crate::environment::{Environment, SHARED_WINDOW};
use crate::fault::Violation;
use crate::instruction::{Access, Elements, Op, Order, Pointer, Reg, Space};
use crate::warp::{Pending, Warp, Words};

/// Carries out what has an address and is seldom.
#[inline(never)]
pub(crate) fn seldom(warp: &mut Warp, e: &mut Environment<'_>, op: &Op) -> Result<(), Violation> {
    match *op {
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
        _ => unreachable!("only called for what is above"),
    }
    Ok(())
}

/// Each lane names a row of 16 bytes; each gets a pair of halves of each of the four matrices.
pub(crate) fn load_matrices(
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
    if elements.signed {
        ((i64::from_le_bytes(long) << unused) >> unused) as u64
    } else {
        u64::from_le_bytes(long)
    }
}

#[inline(always)]
pub(crate) fn load(
    warp: &mut Warp,
    e: &mut Environment<'_>,
    access: &Access,
) -> Result<(), Violation> {
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
        if elements.long {
            warp.set_long(access.registers[i], &longs[i])
        } else {
            warp.set_word(access.registers[i], &words[i])
        }
    }
    Ok(())
}

#[inline(always)]
pub(crate) fn store(
    warp: &mut Warp,
    e: &mut Environment<'_>,
    access: &Access,
) -> Result<(), Violation> {
    let addresses = warp.addresses(e.kernel, access.pointer)?;
    let (each, count) = (
        usize::from(access.elements.bytes),
        usize::from(access.elements.count),
    );
    let mut values = [[0u8; 16]; 32];
    for (i, &register) in access.registers[..count].iter().enumerate() {
        if access.elements.long {
            let longs = warp.long(e.kernel, register)?;
            for (value, long) in values.iter_mut().zip(longs) {
                value[each * i..each * (i + 1)].copy_from_slice(&long.to_le_bytes()[..each]);
            }
        } else {
            let words = warp.word(e.kernel, register)?;
            for (value, word) in values.iter_mut().zip(words) {
                value[each * i..each * (i + 1)].copy_from_slice(&word.to_le_bytes()[..each]);
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
