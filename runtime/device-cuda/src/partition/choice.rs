//! The first mechanism that holds what it promises, and what is granted by it.

use punctual_core::Units;

use super::calibration::Refusal;
use super::units::{UnitMap, mask_of, sms_of};
use super::{Granted, Mechanism, NoSuchUnits};
use libsmctrl_sys::TpcMask;

/// The mechanism in use, the units that it divides the device into, and why no better one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    mechanism: Mechanism,
    map: UnitMap,
    refused: Vec<(Mechanism, Refusal)>,
}

impl Choice {
    /// Tries the mechanisms in `order` and takes the first whose units come out; stream priorities, which
    /// need no trial, if there is none. `undivided` is the device as one unit.
    pub fn make(
        order: &[Mechanism],
        undivided: UnitMap,
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
                        refused,
                    };
                }
                Err(refusal) => refused.push((*mechanism, refusal)),
            }
        }
        Self {
            mechanism: Mechanism::Priority,
            map: undivided,
            refused,
        }
    }

    /// The mechanism in use.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The units that plans count in.
    #[must_use]
    pub const fn map(&self) -> &UnitMap {
        &self.map
    }

    /// Mechanisms that come before the one in use, with the reason against each.
    #[must_use]
    pub fn refused(&self) -> &[(Mechanism, Refusal)] {
        &self.refused
    }

    /// What a range of units really is.
    ///
    /// # Errors
    /// If the device has not all of it.
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
    ///
    /// # Errors
    /// If the device has not all of it.
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
