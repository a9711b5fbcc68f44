//! Construction of the policy from a plan, and its entry in the list of policies.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::config::{Config, PartitionConfig};
use crate::error::{ConfigError, StateError};
use crate::ids::ActionIds;
use crate::policy::{Contract, DemotionRule, Partitioning, Policy, PolicySpec};
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablations;
use crate::punctual::arrivals::ArrivalPredictor;
use crate::punctual::lifecycle::Lifecycle;
use crate::punctual::load::Load;
use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::places::Places;
use crate::punctual::price::Prices;
use crate::punctual::profile_monitor::ProfileMonitor;
use crate::punctual::readiness::Readiness;
use crate::punctual::reservations::Reservations;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Slot;
use crate::punctual::tables::Tables;
use crate::punctual::utilization::UtilizationCap;
use crate::punctual::view::Holds;
use crate::time::Instant;

impl PolicySpec for PunctualConfig {
    fn name(&self) -> &'static str {
        "punctual"
    }

    fn summary(&self) -> &'static str {
        "mandatory first, then as deep as time allows"
    }

    fn contract(&self) -> Contract {
        Contract {
            promises: true,
            pages_weights: true,
            runs_whole: false,
            launch_lead: self.launch_lead,
            lends: self.lending,
            demotion: self.demotion.then_some(DemotionRule {
                overruns: self.demote_overruns,
                of: self.demote_of,
                reinstate_after: self.reinstate_after,
            }),
            ..Contract::best_effort(Partitioning::Planned)
        }
    }

    fn check(&self, _config: &Config) -> Result<(), ConfigError> {
        self.obeys(self.broken_rule())
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Box::new(Punctual::from_plan(config, *self))
    }

    fn restore(&self, config: &Config, state: &[u8]) -> Result<Box<dyn Policy>, StateError> {
        Ok(Box::new(Punctual::restored(config, *self, state)?))
    }
}

impl Punctual {
    /// The policy for a plan that was validated. All memory is allocated here.
    pub(crate) fn from_plan(config: &Config, parameters: PunctualConfig) -> Self {
        let mut tables = Tables::new(config, parameters.batching);
        let places = Places::new(config, parameters.lending);
        tables.find_soonest(&places);
        let priced = parameters.price;
        let indices = 0..config.partitions.len();
        Self {
            parameters,
            prices: priced.then(|| Prices::new(config, tables.tasks(), parameters.price_margin)),
            load: Load::new(config.tasks.len()),
            life: Lifecycle::new(config, &tables),
            reservations: Reservations::new(config.tasks.len()),
            readiness: Readiness::whole(config),
            arrivals: alloc::vec![ArrivalPredictor::default(); config.tasks.len()].into(),
            partitions: Partitions::new(
                indices
                    .clone()
                    .map(|index| partition(config, &parameters, &places, index)),
            ),
            scans: indices.map(|index| scan(config, index)).collect(),
            limits: alloc::vec![Instant::ZERO; config.partitions.len()].into(),
            places,
            holds: Holds::default(),
            now: Instant::ZERO,
            ids: ActionIds::default(),
            undelivered: heapless::Vec::new(),
            stale_events: 0,
            tables,
            ablations: Ablations::default(),
        }
    }
}

fn partition(
    config: &Config,
    parameters: &PunctualConfig,
    places: &Places,
    index: usize,
) -> Partition {
    let plan = &config.partitions[index];
    Partition::new(
        // P with δ, as the proof counts it: the order to preempt takes up to δ to reach the device.
        Slot::new(plan.preemption_bound + config.dispatch_cost),
        ProfileMonitor::new(config.models.len(), parameters),
        UtilizationCap::new(plan.share_max),
        overlapping(&config.partitions, index),
        away(places, index),
    )
}

/// The scan of a partition, with memory for all open requests and its reserved tasks.
fn scan(config: &Config, index: usize) -> SlackScan {
    let tasks = config.tasks.iter();
    let reserved = tasks.filter(|task| task.partition.index() == index && task.reserved);
    SlackScan::new(usize::from(config.request_buffers), reserved.count())
}

/// The other partitions that share a compute unit with this one.
fn overlapping(partitions: &[PartitionConfig], index: usize) -> Box<[u16]> {
    let own = partitions[index].units;
    let others = partitions.iter().enumerate();
    let others = others.filter(|(other, plan)| *other != index && plan.units.overlaps(own));
    others.map(|(other, _)| other as u16).collect()
}

/// The places on other compute units on which requests of a home may run.
fn away(places: &Places, home: usize) -> Box<[u16]> {
    let mut away: Vec<u16> = places.all_of(home).collect();
    away.retain(|&place| !places.overlap(home, place.into()));
    away.sort_unstable();
    away.dedup();
    away.into()
}
