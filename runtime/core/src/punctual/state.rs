//! What a policy has learned and promised, as bytes: a copy that is made from them goes on as the original would.
//!
//! What the plan alone decides (tables, prices, places) is not in it, nor what is computed anew in each step.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::StateError;
use crate::ids::{ActionIds, ModelId, PartitionId};
use crate::policy::Policy as _;
use crate::punctual::Punctual;
use crate::punctual::arrivals::ArrivalPredictor;
use crate::punctual::lifecycle::Lifecycle;
use crate::punctual::load::Load;
use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::Partitions;
use crate::punctual::readiness::Readiness;
use crate::punctual::reservations::Reservations;
use crate::punctual::tables::SCALES;
use crate::punctual::view::Holds;
use crate::time::Instant;

#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// By partition: what its budgets are multiplied by, a position in [`SCALES`].
    levels: Box<[usize]>,
    readiness: Readiness,
    load: Load,
    life: Lifecycle,
    reservations: Reservations,
    arrivals: Box<[ArrivalPredictor]>,
    partitions: Partitions,
    holds: Holds,
    now: Instant,
    ids: ActionIds,
    stale_events: u64,
}

/// The same, to be written, in the same order.
#[derive(Debug, Serialize)]
struct Present<'p> {
    levels: &'p [usize],
    readiness: &'p Readiness,
    load: &'p Load,
    life: &'p Lifecycle,
    reservations: &'p Reservations,
    arrivals: &'p [ArrivalPredictor],
    partitions: &'p Partitions,
    holds: Holds,
    now: Instant,
    ids: ActionIds,
    stale_events: u64,
}

impl<'p> Present<'p> {
    fn of(policy: &'p Punctual) -> Self {
        debug_assert!(
            policy.undelivered.is_empty(),
            "a step delivers what it decides"
        );
        Self {
            levels: policy.tables.levels(),
            readiness: &policy.readiness,
            load: &policy.load,
            life: &policy.life,
            reservations: &policy.reservations,
            arrivals: &policy.arrivals,
            partitions: &policy.partitions,
            holds: policy.holds,
            now: policy.now,
            ids: policy.ids,
            stale_events: policy.stale_events,
        }
    }
}

impl State {
    /// Whether its lists are as long as those of this plan.
    fn fits(&self, fresh: &Punctual) -> bool {
        self.levels.len() == fresh.partitions.len()
            && self.levels.iter().all(|&level| level < SCALES.len())
            && self.readiness.fits(&fresh.readiness)
            && self.arrivals.len() == fresh.arrivals.len()
            && self.load.fits(&fresh.load)
            && self.life.fits(&fresh.life)
            && self.reservations.fits(&fresh.reservations)
            && self.partitions.fit(&fresh.partitions)
    }
}

impl Punctual {
    pub(super) fn saved(&self) -> Vec<u8> {
        postcard::to_allocvec(&Present::of(self)).expect("plain data always serialises")
    }

    /// Writes the same bytes without an allocation; how many, if there is room for them.
    pub(super) fn save_into(&self, into: &mut [u8]) -> Option<usize> {
        let written = postcard::to_slice(&Present::of(self), into).ok()?;
        Some(written.len())
    }

    /// Of a plan, with the state that another of the same plan had.
    pub(super) fn restored(
        config: &Config,
        parameters: PunctualConfig,
        bytes: &[u8],
    ) -> Result<Self, StateError> {
        let state: State = postcard::from_bytes(bytes).map_err(|_| StateError::Unreadable)?;
        let mut policy = Self::from_plan(config, parameters);
        if !state.fits(&policy) {
            return Err(StateError::OtherPlan);
        }
        for (partition, &level) in (0..).map(PartitionId).zip(&state.levels) {
            policy.tables.set_level(partition, level);
        }
        for model in (0..config.models.len()).map(|model| ModelId(model as u16)) {
            policy.tables.set_ready(model, &state.readiness);
        }
        policy.readiness = state.readiness;
        policy.tables.find_soonest(&policy.places);
        policy.load = state.load;
        policy.life = state.life;
        policy.reservations = state.reservations;
        policy.arrivals = state.arrivals;
        policy.partitions = state.partitions;
        policy.holds = state.holds;
        policy.now = state.now;
        policy.ids = state.ids;
        policy.stale_events = state.stale_events;
        policy.check().map_err(StateError::Broken)?;
        Ok(policy)
    }
}
