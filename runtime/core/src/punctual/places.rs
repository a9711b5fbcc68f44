//! The places of a plan: partitions on which work of other homes may run while their compute units are idle.
//! The *home* of a task is the partition to which the plan assigns it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::config::Config;
use crate::ids::ModelId;

/// The most partitions of a plan with places: one bit each.
pub const PLACED_PARTITIONS_MAX: usize = Set::BITS as usize;

/// The most that work on a place may use, in compute units times time, if it uses `at_home` at home. On the own
/// compute units it must not take more of them, for longer, than the home would. On those of others, which are idle,
/// a quarter more is allowed.
#[must_use]
pub const fn use_allowed(at_home: u64, on_own_units: bool) -> u64 {
    if on_own_units {
        at_home
    } else {
        at_home.saturating_add(at_home / 4)
    }
}

/// A set of partitions, one bit each.
pub type Set = u128;

/// The relations between homes and places, computed once. A plan without places has no homes here, and so nothing that
/// depends on them.
#[derive(Clone, Debug, Default)]
pub struct Places {
    all: Set,
    /// By partition: those that share a compute unit with it, and itself.
    overlaps: Box<[Set]>,
    /// By partition: its number of compute units.
    widths: Box<[u16]>,
    /// The partitions with tasks.
    homes: Set,
    /// By partition, then by model: where stages of the model may run for tasks whose home the partition is, by
    /// rising width. The home itself is among them. Empty if the partition is no home.
    offered: Box<[Box<[u16]>]>,
    models: usize,
}

impl Places {
    pub fn new(config: &Config, lending: bool) -> Self {
        let partitions = config.partitions.len();
        if !lending || !config.has_places() {
            return Self::default();
        }
        let units = |index: usize| config.partitions[index].units;
        let overlaps = |index: usize| {
            let others = (0..partitions).filter(|&other| units(other).overlaps(units(index)));
            others.fold(0, |set, other| set | bit(other))
        };
        let homes = config.tasks.iter().map(|task| task.partition.index());
        let homes = homes.fold(0, |set, home| set | bit(home));
        let mut offered = Vec::with_capacity(partitions * config.models.len());
        for home in 0..partitions {
            for model in &config.models {
                let is_home = homes & bit(home) != 0;
                let mut places = Vec::new();
                if is_home {
                    // The home's own budgets are at least as short as those of a place with the same units.
                    let others = model.places.iter().map(|place| place.0);
                    places.extend(others.filter(|&place| units(place.into()) != units(home)));
                    places.push(home as u16);
                }
                places.sort_by_key(|&place| (units(place.into()).count, place));
                offered.push(places.into());
            }
        }
        Self {
            all: (0..partitions).fold(0, |set, partition| set | bit(partition)),
            overlaps: (0..partitions).map(overlaps).collect(),
            widths: (0..partitions).map(|index| units(index).count).collect(),
            homes,
            offered: offered.into(),
            models: config.models.len(),
        }
    }

    /// Where stages of a model may run for tasks of a home, by rising width, the home among them.
    pub fn of(&self, home: usize, model: ModelId) -> &[u16] {
        &self.offered[home * self.models + model.index()]
    }

    /// Where stages of any model may run for tasks of a home.
    pub fn all_of(&self, home: usize) -> impl Iterator<Item = u16> {
        let models = self.models;
        let offered = self.offered.iter().skip(home * models).take(models);
        offered.flat_map(|places| places.iter().copied())
    }

    pub fn width(&self, partition: usize) -> u16 {
        self.widths[partition]
    }

    pub fn is_home(&self, partition: usize) -> bool {
        self.homes & bit(partition) != 0
    }

    /// The homes, by rising position.
    pub fn homes(&self) -> impl Iterator<Item = usize> + use<> {
        members(self.homes)
    }

    /// The partitions that are no homes.
    pub fn beside_homes(&self) -> impl Iterator<Item = usize> + use<> {
        members(self.all & !self.homes)
    }

    /// The homes that share a compute unit with a partition.
    pub fn homes_under(&self, partition: usize) -> Set {
        self.overlaps[partition] & self.homes
    }

    /// The partitions that share a compute unit with one of a set.
    pub fn touching(&self, set: Set) -> Set {
        members(set).fold(0, |all, partition| all | self.overlaps[partition])
    }

    pub fn overlap(&self, a: usize, b: usize) -> bool {
        self.overlaps[a] & bit(b) != 0
    }

    /// The partitions whose compute units are all idle, if these run actions.
    pub fn idle(&self, runs: impl Fn(usize) -> bool) -> Set {
        let running = members(self.all).filter(|&at| runs(at));
        let busy = running.fold(0, |set, at| set | self.overlaps[at]);
        self.all & !busy
    }

    /// How many of the idle partitions are no longer idle if work starts on this one.
    pub fn blocked(&self, partition: usize, idle: Set) -> u32 {
        (self.overlaps[partition] & idle).count_ones()
    }
}

pub const fn bit(partition: usize) -> Set {
    1 << partition
}

/// The partitions of a set, by rising position.
pub fn members(set: Set) -> impl Iterator<Item = usize> {
    let mut left = set;
    core::iter::from_fn(move || {
        let next = left.trailing_zeros();
        (left != 0).then(|| {
            left &= left - 1;
            next as usize
        })
    })
}
