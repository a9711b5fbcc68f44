//! Masks of TPCs in the objects of streams, where drivers keep them.
//!
//! Offsets and layouts were read in the public copies of libsmctrl, once more than by the crate that writes
//! the masks: what is tested here must not come from what it tests.
use std::sync::atomic::{AtomicU32, Ordering};

use super::objects::{OBJECT_WORDS, Stream};
use crate::config::Config;

/// Bytes from the start of a stream's object to its mask, by the driver's version.
fn known_offset(driver: u32) -> Option<u32> {
    let version = driver / 10;
    if cfg!(target_arch = "aarch64") {
        return Some(match version {
            900 => 0x128,
            1002 => 0x24c,
            1104 => 0x394,
            1202 | 1205 => 0x50c,
            1204 => 0x4c4,
            1206 => 0x514,
            // That of Thor; a DGX Spark has 0x53c.
            1300 => 0x54c,
            _ => return None,
        });
    }
    Some(match version {
        900..=901 => 0x130,
        902 => 0x140,
        1000..=1002 => 0x244,
        1100 => 0x274,
        1101 => 0x2c4,
        1102..=1105 => 0x37c,
        1106 => 0x38c,
        1107 => 0x3c4,
        1108 => 0x47c,
        1200..=1201 => 0x4cc,
        1202 => 0x4e4,
        1203 => 0x49c,
        1204 => 0x4ac,
        1205..=1206 => 0x4ec,
        1207..=1208 => 0x4fc,
        1300 => 0x51c,
        1303 => 0x5fc,
        _ => return None,
    })
}

/// The words of a stream's object that are its mask; none of a driver that has none, or of which it is not known.
pub(super) fn words(config: &Config) -> std::ops::Range<usize> {
    let offset = if config.masks {
        config.mask_offset.or_else(|| known_offset(config.driver))
    } else {
        None
    };
    let count = if config.driver < 12000 { 2 } else { 5 };
    let first = offset.map(|offset| offset as usize / 4);
    first.map_or(0..0, |first| first..first + count)
}

/// The TPC bits that a stream's mask switches off.
fn disabled(config: &Config, object: &[AtomicU32; OBJECT_WORDS]) -> u128 {
    let words = words(config);
    if words.is_empty() {
        return 0;
    }
    let first = words.start;
    // Relaxed: the thread that writes the mask then launches, and the launch takes a lock.
    let word = |at: usize| {
        object
            .get(first + at)
            .map_or(0, |word| u128::from(word.load(Ordering::Relaxed)))
    };
    if config.driver < 12000 {
        return word(0) << 32 | word(1);
    }
    match word(0) {
        0 => 0,
        _ => (1..=4).fold(0, |mask, at| mask | word(at) << (32 * (at - 1))),
    }
}

/// The multiprocessors that a launch into this stream may use, `described` being the bits that its descriptor
/// switches off, where anybody was called back for it: the driver writes the stream's mask there before.
pub(super) fn allowed(config: &Config, stream: &Stream, described: Option<u128>) -> Vec<u32> {
    let own = disabled(config, stream.object());
    let disabled = described.filter(|&bits| bits != 0).unwrap_or(own);
    let named = |bit: u32| match config.tpc_of_bit.as_slice() {
        [] => Some(bit),
        bits => bits.get(bit as usize).copied().flatten(),
    };
    let set = (0..128_u32).filter(|bit| disabled >> bit & 1 == 1);
    let off: Vec<u32> = set.filter_map(named).collect();
    let mut sms: Vec<u32> = (0..config.tpcs)
        .filter(|tpc| !off.contains(tpc))
        .flat_map(|tpc| config.sms_of(tpc))
        .filter(|sm| stream.green.as_ref().is_none_or(|green| green.contains(sm)))
        .collect();
    sms.sort_unstable();
    sms
}
