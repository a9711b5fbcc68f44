//! Contiguous ranges of the compute units that the manifest's partitions own, as further partitions: places, and those among
//! which a policy chooses while it runs.

use punctual_core::Units;
use punctual_diagnostics::Place;

use super::partition::UnitUse;
use super::placement::{Placed, Placement};
use crate::inputs::DeviceKind;

/// Contiguous compute units of one device: positions among the cores of all partitions, or TPCs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) name: String,
    pub(crate) device: DeviceKind,
    pub(crate) units: Units,
}

/// The owners of the units of which ranges are cut.
pub(super) struct Owners<'a> {
    pub(super) placement: &'a Placement,
    /// Cores of partitions by position.
    pub(super) cores: Vec<u16>,
}

impl<'a> Owners<'a> {
    pub(super) fn of(placement: &'a Placement) -> Self {
        Self {
            placement,
            cores: placement.units(),
        }
    }

    /// The machine's numbers of compute units.
    pub(super) fn units(&self, device: DeviceKind, units: Units) -> Vec<u16> {
        let positions = units.first..units.end();
        if device.runs_on_cores() {
            positions.map(|at| self.cores[usize::from(at)]).collect()
        } else {
            positions.collect()
        }
    }

    /// A range as a partition. Those of TPCs get their leaders from [`lead`](Self::lead).
    pub(super) fn partition(&self, range: Range, usage: UnitUse, place: &Place) -> Placed {
        let units = self.units(range.device, range.units);
        let (cores, tpcs) = if range.device.runs_on_cores() {
            (units, Vec::new())
        } else {
            (Vec::new(), units)
        };
        Placed {
            name: range.name,
            cores,
            tpcs,
            device: range.device,
            usage,
            place: place.clone(),
        }
    }

    /// The TPCs at which ranges begin, and no partition does; rising.
    pub(super) fn begin_inside(&self, ranges: &[Placed]) -> Vec<u16> {
        let begins = ranges.iter().filter_map(|range| range.tpcs.first());
        let mut inside: Vec<u16> = begins
            .copied()
            .filter(|&first| self.leader_at(first).is_none())
            .collect();
        inside.sort_unstable();
        inside.dedup();
        inside
    }

    /// Gives ranges of TPCs their leaders. Two that begin at one TPC never work at once, so they have one leader: that of
    /// the partition that begins there, or one of `leaders`, in turn.
    pub(super) fn lead(&self, ranges: &mut [Placed], leaders: &[u16]) {
        let inside = self.begin_inside(ranges);
        for range in ranges {
            let Some(&first) = range.tpcs.first() else {
                continue;
            };
            let own = || {
                let turn = inside.iter().position(|begin| *begin == first)?;
                leaders.get(turn % leaders.len().max(1)).copied()
            };
            // Without one, which was noted, any core will do.
            let leader = self.leader_at(first).or_else(own);
            range.cores = vec![leader.unwrap_or(self.placement.first())];
        }
    }

    /// The leader of the partition that begins at a TPC.
    fn leader_at(&self, first: u16) -> Option<u16> {
        let mut owners = self.placement.partitions.iter();
        let owner = owners.find(|owner| owner.tpcs.first() == Some(&first));
        owner.map(|owner| owner.cores[0])
    }
}
