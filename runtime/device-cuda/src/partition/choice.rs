//! The first mechanism that holds what it promises, and what is granted by it.

use std::ops::Range;

use libsmctrl_sys::TpcMask;
use punctual_core::Units;

use super::calibration::Refusal;
use super::mechanism::{Granted, Mechanism, NoSuchUnits};
use super::units::{UnitMap, mask_of, sms_of};

/// The mechanism in use, the units that it divides the device into, and why no better one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    mechanism: Mechanism,
    map: UnitMap,
    sms_per_tpc: u32,
    refused: Vec<(Mechanism, Refusal)>,
}

/// TPCs that cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "TPCs {} to {} of {available}: {mechanism} grants whole multiples of {multiple}",
    .tpcs.start, .tpcs.end.saturating_sub(1)
)]
pub struct NotWholeUnits {
    pub tpcs: Range<u16>,
    pub available: u16,
    /// They are granted in multiples of this many.
    pub multiple: u16,
    /// The mechanism that is in use.
    pub mechanism: Mechanism,
}

/// A device before it is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undivided {
    pub map: UnitMap,
    pub sms_per_tpc: u32,
}

impl Choice {
    /// Tries the mechanisms in `order` and takes the first whose units come out; stream priorities, which
    /// need no trial, if there is none.
    pub fn make(
        order: &[Mechanism],
        undivided: Undivided,
        mut calibrated: impl FnMut(Mechanism) -> Result<UnitMap, Refusal>,
    ) -> Self {
        let mut refused = Vec::new();
        let enforced = order.iter().filter(|mechanism| mechanism.is_enforced());
        for mechanism in enforced {
            match calibrated(*mechanism) {
                Ok(map) => {
                    return Self {
                        mechanism: *mechanism,
                        map,
                        sms_per_tpc: undivided.sms_per_tpc,
                        refused,
                    };
                }
                Err(refusal) => refused.push((*mechanism, refusal)),
            }
        }
        Self {
            mechanism: Mechanism::Priority,
            map: undivided.map,
            sms_per_tpc: undivided.sms_per_tpc,
            refused,
        }
    }

    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The units that plans count in.
    #[must_use]
    pub const fn map(&self) -> &UnitMap {
        &self.map
    }

    /// TPCs of a unit, which is what TPCs are granted in multiples of.
    #[must_use]
    pub fn tpcs_per_unit(&self) -> u16 {
        let tpcs = self.map.granularity().div_ceil(self.sms_per_tpc.max(1));
        tpcs.clamp(1, TpcMask::TPCS_MAX) as u16
    }

    /// TPCs that partitions can be made of.
    #[must_use]
    pub fn tpcs(&self) -> u16 {
        self.map.count().saturating_mul(self.tpcs_per_unit())
    }

    /// The units that are these TPCs, numbered from 0 as in plans.
    pub fn units_of_tpcs(&self, tpcs: Range<u16>) -> Result<Units, NotWholeUnits> {
        let unit = self.tpcs_per_unit();
        let whole = tpcs.start.is_multiple_of(unit) && tpcs.end.is_multiple_of(unit);
        if !whole || tpcs.is_empty() || tpcs.end > self.tpcs() {
            return Err(NotWholeUnits {
                tpcs,
                available: self.tpcs(),
                multiple: unit,
                mechanism: self.mechanism,
            });
        }
        Ok(Units {
            first: tpcs.start / unit,
            count: (tpcs.end - tpcs.start) / unit,
        })
    }

    /// Mechanisms that come before the one in use, with the reason against each.
    #[must_use]
    pub fn refused(&self) -> &[(Mechanism, Refusal)] {
        &self.refused
    }

    /// What a range of units really is.
    pub fn grant(&self, range: Units) -> Result<Granted, NoSuchUnits> {
        let units = self.map.range(range).ok_or(self.no_such(range))?;
        Ok(Granted {
            units: range,
            sms: sms_of(units),
            granularity: self.map.granularity(),
            enforced: self.mechanism.is_enforced(),
            mechanism: self.mechanism,
        })
    }

    /// The mask that keeps a stream to a range of units: bits are TPCs, or groups of a split of green
    /// contexts. Without enforcement it enables everything.
    pub fn mask(&self, range: Units) -> Result<TpcMask, NoSuchUnits> {
        let units = self.map.range(range).ok_or(self.no_such(range))?;
        Ok(if self.mechanism.is_enforced() {
            mask_of(units)
        } else {
            TpcMask::UNRESTRICTED
        })
    }

    fn no_such(&self, range: Units) -> NoSuchUnits {
        NoSuchUnits {
            range,
            available: self.map.count(),
            granularity: self.map.granularity(),
            mechanism: self.mechanism,
        }
    }
}

#[cfg(test)]
mod tests;
