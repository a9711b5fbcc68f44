//! Units of a device, and the multiprocessors behind them.

use libsmctrl_sys::TpcMask;
use punctual_core::Units;
use serde::{Deserialize, Serialize};

use super::sms::{NoSuchSm, SmSet};

/// The smallest part of a device that a mechanism can give away: a TPC to a stream mask, several of
/// them to a green context, all of the device to stream priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// What the mechanism calls it: the number of a TPC's bit, or of a group of a split.
    pub bit: u8,
    /// The multiprocessors that work as long as the unit is enabled.
    pub sms: SmSet,
}

/// The units of a device, in the order in which plans number them. Each has multiprocessors, and none shares one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Unit>", into = "Vec<Unit>")]
pub struct UnitMap {
    units: Vec<Unit>,
}

/// A list of units that no device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    #[error("a device has at least one unit")]
    Nothing,
    #[error("unit of bit {bit} has no multiprocessor")]
    Empty { bit: u8 },
    /// A bit that masks have no place for.
    #[error("bit {bit}: masks have bits 0 to {}", TpcMask::TPCS_MAX - 1)]
    Bit { bit: u8 },
    /// Two units that are not two.
    #[error("units of bits {first} and {second} share a bit or multiprocessors ({shared})")]
    Shared {
        first: u8,
        second: u8,
        shared: SmSet,
    },
}

impl UnitMap {
    pub fn new(units: Vec<Unit>) -> Result<Self, MapError> {
        if units.is_empty() {
            return Err(MapError::Nothing);
        }
        for (at, unit) in units.iter().enumerate() {
            if unit.sms.is_empty() {
                return Err(MapError::Empty { bit: unit.bit });
            }
            if u32::from(unit.bit) >= TpcMask::TPCS_MAX {
                return Err(MapError::Bit { bit: unit.bit });
            }
            let clash = units[..at]
                .iter()
                .find(|other| other.bit == unit.bit || !other.sms.is_disjoint(unit.sms));
            if let Some(other) = clash {
                return Err(MapError::Shared {
                    first: other.bit,
                    second: unit.bit,
                    shared: other.sms.intersection(unit.sms),
                });
            }
        }
        Ok(Self { units })
    }

    /// A device that is not divided.
    pub fn undivided(sms: u32) -> Result<Self, NoSuchSm> {
        let sms = SmSet::first(sms)?;
        Ok(Self {
            units: vec![Unit { bit: 0, sms }],
        })
    }

    #[must_use]
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// How many units there are: at most 128.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.units.len() as u16
    }

    #[must_use]
    pub fn granularity(&self) -> u32 {
        self.units
            .iter()
            .map(|unit| unit.sms.count())
            .max()
            .unwrap_or(0)
    }

    #[must_use]
    pub fn all(&self) -> SmSet {
        self.units
            .iter()
            .fold(SmSet::default(), |all, unit| all.union(unit.sms))
    }

    /// The units of a range; none if the device has not all of it, or the range is empty.
    #[must_use]
    pub fn range(&self, range: Units) -> Option<&[Unit]> {
        let units = self
            .units
            .get(usize::from(range.first)..usize::from(range.end()));
        units.filter(|units| !units.is_empty())
    }
}

/// Multiprocessors of a TPC, by compute capability. Recalled: Maxwell and the smaller Pascals have one, all
/// later chips two.
#[must_use]
pub const fn sms_per_tpc(major: u32, minor: u32) -> u32 {
    match (major, minor) {
        (0..=5, _) | (6, 1..) => 1,
        _ => 2,
    }
}

#[must_use]
pub fn sms_of(units: &[Unit]) -> SmSet {
    units
        .iter()
        .fold(SmSet::default(), |all, unit| all.union(unit.sms))
}

/// The mask that enables some units and nothing else.
#[must_use]
pub fn mask_of(units: &[Unit]) -> TpcMask {
    TpcMask::enabling(units.iter().map(|unit| u32::from(unit.bit)))
}

impl TryFrom<Vec<Unit>> for UnitMap {
    type Error = MapError;

    fn try_from(units: Vec<Unit>) -> Result<Self, MapError> {
        Self::new(units)
    }
}

impl From<UnitMap> for Vec<Unit> {
    fn from(map: UnitMap) -> Self {
        map.units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(bit: u8, sms: &[u32]) -> Unit {
        Unit {
            bit,
            sms: SmSet::of(sms.iter().copied()).expect("small numbers"),
        }
    }

    #[test]
    fn a_range_of_units_is_a_mask_and_a_set_of_multiprocessors() {
        let map = UnitMap::new(vec![unit(0, &[0, 1]), unit(2, &[2, 3]), unit(5, &[4])])
            .expect("three units");
        let range = map
            .range(Units { first: 1, count: 2 })
            .expect("it is there");
        assert_eq!(mask_of(range), TpcMask::enabling([2, 5]));
        assert_eq!(sms_of(range).to_string(), "2-4");
        assert_eq!((map.count(), map.granularity()), (3, 2));
        assert_eq!(map.all().to_string(), "0-4");
    }

    #[test]
    fn a_range_that_is_not_there_is_none() {
        let map = UnitMap::undivided(16).expect("16 multiprocessors");
        assert_eq!(map.range(Units { first: 0, count: 2 }), None);
        assert_eq!(map.range(Units { first: 0, count: 0 }), None);
        assert_eq!(
            map.range(Units {
                first: u16::MAX,
                count: u16::MAX
            }),
            None
        );
        assert_eq!(map.range(Units { first: 0, count: 1 }), Some(map.units()));
    }

    #[test]
    fn units_of_no_device_are_refused() {
        assert_eq!(UnitMap::new(vec![]), Err(MapError::Nothing));
        assert_eq!(
            UnitMap::new(vec![unit(3, &[])]),
            Err(MapError::Empty { bit: 3 })
        );
        assert_eq!(
            UnitMap::new(vec![unit(128, &[1])]),
            Err(MapError::Bit { bit: 128 })
        );
        let shared = UnitMap::new(vec![unit(0, &[0, 1]), unit(1, &[1, 2])]);
        assert!(matches!(
            shared,
            Err(MapError::Shared {
                first: 0,
                second: 1,
                ..
            })
        ));
        let same_bit = UnitMap::new(vec![unit(0, &[0]), unit(0, &[1])]);
        assert!(matches!(same_bit, Err(MapError::Shared { .. })));
    }
}
