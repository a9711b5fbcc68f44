//! Which bit of a mask governs which multiprocessors, found out by looking.
//!
//! A mask is trusted once every multiprocessor is governed by exactly one bit, and every mask tried did
//! what the bits say. First one bit at a time is *disabled*, all others staying enabled: from
//! Hopper on, masks have bits for TPCs that the chip was sold without, and a launch that may use
//! nothing but such a one would never run. Then one live bit at a time is *enabled*, alone; then halves of the
//! units; then everything again, as a mask must be undone, too.

use libsmctrl_sys::TpcMask;
use serde::{Deserialize, Serialize};

use super::sms::SmSet;
use super::units::{Unit, UnitMap};

/// Looks where a launch runs under a mask.
pub trait Probe {
    /// The multiprocessors that blocks of a launch ran on which could use those that `mask` enables.
    /// There are enough blocks to reach each of them.
    fn observe(&mut self, mask: TpcMask) -> Result<SmSet, Refusal>;
}

/// What is known of a device and a mechanism beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Multiprocessors that the mechanism disposes of.
    pub sms: u32,
    /// Bits of its masks: 128 at most.
    pub bits: u32,
}

/// Why a mechanism is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Where the driver keeps masks is not known.
    #[error(
        "no public source says where a driver for {driver} keeps a stream's mask: this mechanism is left out, and the \
         next one is tried; `punctual board detect --search` looks for the place, some minutes long"
    )]
    UnknownDriver {
        /// Version, processor and system on a chip.
        driver: String,
    },
    /// libsmctrl is not there, or did not stand its trial.
    #[error("{said}")]
    Libsmctrl {
        /// In the words of `libsmctrl_sys::raw::RawError`, which do not leave their process otherwise.
        said: String,
    },
    #[error("the driver has no {symbol}: green contexts need one of CUDA 12.5 or later")]
    NoSymbol { symbol: String },
    /// A mask could not be set.
    #[error("{said}")]
    NotMasked { said: String },
    /// The driver does not tell of launches.
    #[error("{said}")]
    NoCallback { said: String },
    /// The device is too small to be divided.
    #[error("this device has {groups} group of TPCs; two are needed to divide it")]
    Indivisible { groups: u32 },
    /// A call failed under a mask.
    #[error("{call} failed with {result}")]
    CallFailed { call: String, result: String },
    #[error("a launch under a mask was not over after {limit_ms} ms")]
    NeverEnded {
        /// How long it was waited for.
        limit_ms: u64,
    },
    /// A block that did not say where it ran.
    #[error("block {block} reports that it ran on multiprocessor {sm}, which does not exist")]
    Nowhere { block: u32, sm: u32 },
    /// There is no driver, or not this device.
    #[error("{said}")]
    NoDriver { said: String },
    /// There is no kernel for this device to look with.
    #[error("there is no image for compute capability {major}.{minor}")]
    NoImage { major: u32, minor: u32 },
    /// It was not tried, and there is no record of a trial.
    #[error("it was not tried on this device and driver yet: run `punctual board detect`")]
    NotTried,
    /// There was no process to try it in.
    #[error("the process to try it in cannot be started: {said}")]
    NotStarted {
        /// In the words of the operating system.
        said: String,
    },
    /// The process that tried it did not come back.
    #[error("the process that tried it {how}")]
    Died { how: String },
    /// Without any mask, blocks reached other multiprocessors than the device has.
    #[error("without a mask, blocks ran on multiprocessors {seen}; the device has {expected}")]
    Unreached { seen: SmSet, expected: u32 },
    /// No bit keeps anything from running anywhere.
    #[error("no bit of the mask has an effect: it is not where the table places it")]
    NoEffect,
    /// Some multiprocessors work whatever bit is set.
    #[error("no bit of the mask disables multiprocessors {sms}")]
    Ungoverned { sms: SmSet },
    /// A multiprocessor that more than one bit disables.
    #[error("bits {first} and {second} both disable multiprocessors {sms}")]
    Shared { first: u8, second: u8, sms: SmSet },
    /// Blocks ran where the mask forbids it.
    #[error(
        "with TPCs {enabled:#x} enabled, blocks ran on multiprocessors {sms}, which are not theirs"
    )]
    Escaped {
        /// A set bit is an enabled TPC.
        enabled: u128,
        /// Where they should not have run.
        sms: SmSet,
    },
    /// The mask keeps blocks from where they may run.
    #[error(
        "with TPCs {enabled:#x} enabled, no block ran on multiprocessors {sms}, which are theirs"
    )]
    KeptOut {
        /// A set bit is an enabled TPC.
        enabled: u128,
        sms: SmSet,
    },
}

/// How far a refusal says what the next trial on the same device and driver would come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// What is merely missing may be there the next time, and costs nothing to look for.
    Not,
    /// It may be chance (a busy machine, a process that was ended): it lasts once some trials came to it.
    IfRepeated,
    Always,
}

impl Refusal {
    /// Whether masks at another place may be what this refusal misses; otherwise no place can mend it.
    #[must_use]
    pub const fn is_of_the_place(&self) -> bool {
        match self {
            Self::UnknownDriver { .. }
            | Self::NotMasked { .. }
            | Self::CallFailed { .. }
            | Self::NeverEnded { .. }
            | Self::Nowhere { .. }
            | Self::Died { .. }
            | Self::Unreached { .. }
            | Self::NoEffect
            | Self::Ungoverned { .. }
            | Self::Shared { .. }
            | Self::Escaped { .. }
            | Self::KeptOut { .. } => true,
            Self::Libsmctrl { .. }
            | Self::NoSymbol { .. }
            | Self::NoCallback { .. }
            | Self::Indivisible { .. }
            | Self::NoDriver { .. }
            | Self::NoImage { .. }
            | Self::NotTried
            | Self::NotStarted { .. } => false,
        }
    }

    /// Whether some mask changed where launches ran.
    #[must_use]
    pub const fn shows_an_effect(&self) -> bool {
        matches!(
            self,
            Self::Ungoverned { .. }
                | Self::Shared { .. }
                | Self::Escaped { .. }
                | Self::KeptOut { .. }
        )
    }

    /// Whether it is worth another trial.
    #[must_use]
    pub const fn lasting(&self) -> Lasting {
        match self {
            Self::UnknownDriver { .. }
            | Self::NotTried
            | Self::NotStarted { .. }
            | Self::NoDriver { .. }
            | Self::NoImage { .. }
            | Self::Libsmctrl { .. } => Lasting::Not,
            Self::Died { .. } | Self::NeverEnded { .. } | Self::KeptOut { .. } => {
                Lasting::IfRepeated
            }
            _ => Lasting::Always,
        }
    }
}

/// The units of a device under a mechanism.
pub fn calibrate(probe: &mut dyn Probe, expected: Expected) -> Result<UnitMap, Refusal> {
    let all = probe.observe(TpcMask::UNRESTRICTED)?;
    if all.count() != expected.sms {
        return Err(Refusal::Unreached {
            seen: all,
            expected: expected.sms,
        });
    }
    let units = governed(probe, all, expected.bits)?;
    confirm(probe, &units)?;
    expect(probe, TpcMask::UNRESTRICTED, all)?;
    Ok(UnitMap::new(units).expect("disjoint units of a device that has multiprocessors"))
}

/// Among this number of bits there is at least one whose TPC the chip was sold with.
const FIRST_BITS: u32 = 16;

/// Whether disabling any of the first bits keeps anything from running anywhere: far less than calibration asks, and
/// soon over where nothing does.
pub fn has_effect(probe: &mut dyn Probe, expected: Expected) -> Result<(), Refusal> {
    let all = probe.observe(TpcMask::UNRESTRICTED)?;
    for bit in 0..expected.bits.min(FIRST_BITS) {
        if probe.observe(TpcMask::from_disabled_bits(1 << bit))? != all {
            return Ok(());
        }
    }
    Err(Refusal::NoEffect)
}

/// Disables one bit at a time: the units, which have each multiprocessor once.
fn governed(probe: &mut dyn Probe, all: SmSet, bits: u32) -> Result<Vec<Unit>, Refusal> {
    let mut units: Vec<Unit> = Vec::new();
    for bit in 0..bits.min(TpcMask::TPCS_MAX) {
        let mask = TpcMask::from_disabled_bits(1 << bit);
        let seen = probe.observe(mask)?;
        let escaped = seen.without(all);
        if !escaped.is_empty() {
            return Err(Refusal::Escaped {
                enabled: mask.enabled_bits(),
                sms: escaped,
            });
        }
        let unit = Unit {
            bit: bit as u8,
            sms: all.without(seen),
        };
        let clash = units.iter().find(|u| !u.sms.is_disjoint(unit.sms));
        if let Some(other) = clash {
            return Err(Refusal::Shared {
                first: other.bit,
                second: unit.bit,
                sms: other.sms.intersection(unit.sms),
            });
        }
        if !unit.sms.is_empty() {
            units.push(unit);
        }
    }
    if units.is_empty() {
        return Err(Refusal::NoEffect);
    }
    let free = all.without(super::units::sms_of(&units));
    if free.is_empty() {
        Ok(units)
    } else {
        Err(Refusal::Ungoverned { sms: free })
    }
}

/// Enables each unit alone, then halves: of those whose position has a certain binary digit, which
/// tells any two apart, and the others.
fn confirm(probe: &mut dyn Probe, units: &[Unit]) -> Result<(), Refusal> {
    for unit in units {
        expect_units(probe, std::slice::from_ref(unit))?;
    }
    let digits = usize::BITS - (units.len() - 1).leading_zeros();
    for digit in 0..digits {
        for value in [0, 1] {
            let half = units.iter().enumerate();
            let half = half.filter(|(at, _)| at >> digit & 1 == value);
            let half: Vec<Unit> = half.map(|(_, unit)| *unit).collect();
            expect_units(probe, &half)?;
        }
    }
    Ok(())
}

fn expect_units(probe: &mut dyn Probe, units: &[Unit]) -> Result<(), Refusal> {
    let (mask, sms) = (super::units::mask_of(units), super::units::sms_of(units));
    expect(probe, mask, sms)
}

fn expect(probe: &mut dyn Probe, mask: TpcMask, sms: SmSet) -> Result<(), Refusal> {
    let seen = probe.observe(mask)?;
    let enabled = mask.enabled_bits();
    let escaped = seen.without(sms);
    if !escaped.is_empty() {
        return Err(Refusal::Escaped {
            enabled,
            sms: escaped,
        });
    }
    let kept_out = sms.without(seen);
    if !kept_out.is_empty() {
        return Err(Refusal::KeptOut {
            enabled,
            sms: kept_out,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
