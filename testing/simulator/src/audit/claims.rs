//! What was promised, and since when the assumptions behind the promises hold.

use std::collections::BTreeSet;

use punctual_core::{Config, Criticality, Instant, Nanos, PartitionId, TaskConfig, TaskId};

use super::schedulability::is_schedulable;

/// What the guarantee assumes of the world, found broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A stage ran, or a stopped one stayed, longer than the profile allows.
    Overrun,
    /// A device reported an error, or answers that cannot be attributed.
    DeviceFailed,
    /// A device did not start an action inside its window.
    NotStarted,
}

/// A span in which nothing is claimed about the tasks of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Which domain: a partition, or the whole device (0) if tasks can move between partitions.
    pub domain: usize,
    /// The first assumption that broke.
    pub cause: Broken,
    pub from: Instant,
    /// From here on the claim holds again: nothing promised was left over. None: not yet.
    pub until: Option<Instant>,
}

const GAPS_KEPT: usize = 1_000;

/// Partitions between which promises can depend on each other.
#[derive(Clone, Debug)]
struct Domain {
    /// The offline test passes, by the auditor's own reading of it.
    schedulable: bool,
    /// Raised whenever an assumption breaks: promises of an earlier epoch are void.
    epoch: u64,
    /// The assumptions hold, and nothing is left over from a time when they did not.
    holds: bool,
    /// They held since the start, so that no scale was raised and no task is in debt.
    unbroken: bool,
    /// Accepted real-time requests whose mandatory part is not done.
    mandatory: usize,
    /// Actions in flight that promised work has to wait for to the end: real-time ones, and
    /// best-effort ones that did not stop in time.
    flights: usize,
}

/// How a task has kept its contract so far.
#[derive(Clone, Copy, Debug)]
struct Contract {
    regular: bool,
    last_captured: Option<Instant>,
    last_prepared: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Claims {
    domains: Vec<Domain>,
    /// By task: where it may run.
    places: Vec<BTreeSet<u16>>,
    contracts: Vec<Contract>,
    moves: bool,
    pub(super) gaps: Vec<Gap>,
}

impl Claims {
    pub(super) fn new(config: &Config, promises: bool) -> Self {
        let assignments = assignments(config);
        let moves = assignments.len() > 1;
        let places: Vec<BTreeSet<u16>> = (0..config.tasks.len())
            .map(|task| assignments.iter().map(|of| of[task].0).collect())
            .collect();
        let domain = |schedulable| Domain {
            schedulable,
            epoch: 0,
            holds: schedulable,
            unbroken: true,
            mandatory: 0,
            flights: 0,
        };
        let passes = |index: usize| {
            promises && is_schedulable_in_every_layout(config, PartitionId(index as u16))
        };
        let mut each = (0..config.partitions.len()).map(passes);
        let domains = if moves {
            vec![domain(each.all(|passes| passes))]
        } else {
            each.map(domain).collect()
        };
        let contract = Contract {
            regular: true,
            last_captured: None,
            last_prepared: None,
        };
        Self {
            domains,
            places,
            contracts: vec![contract; config.tasks.len()],
            moves,
            gaps: Vec::new(),
        }
    }

    /// Whether a task can be on this partition.
    pub(super) fn may_run_on(&self, task: TaskId, partition: PartitionId) -> bool {
        self.places[task.index()].contains(&partition.0)
    }

    pub(super) fn places(&self, task: TaskId) -> impl Iterator<Item = PartitionId> + '_ {
        self.places[task.index()].iter().map(|&p| PartitionId(p))
    }

    fn of(&mut self, partition: PartitionId) -> &mut Domain {
        let index = if self.moves { 0 } else { partition.index() };
        &mut self.domains[index]
    }

    /// The epoch in which a promise made now for `partition` is made, if the claim holds.
    pub(super) fn epoch(&mut self, partition: PartitionId) -> Option<u64> {
        let domain = self.of(partition);
        domain.holds.then_some(domain.epoch)
    }

    /// Whether a reservation on `partition` must be honoured now.
    pub(super) fn is_unbroken(&mut self, partition: PartitionId) -> bool {
        let domain = self.of(partition);
        domain.holds && domain.unbroken
    }

    /// An assumption broke for the promises of some partitions.
    pub(super) fn broke(&mut self, homes: &[PartitionId], at: Instant, cause: Broken) {
        for &home in homes {
            self.broke_at(home, at, cause);
        }
    }

    fn broke_at(&mut self, partition: PartitionId, at: Instant, cause: Broken) {
        let index = if self.moves { 0 } else { partition.index() };
        let domain = &mut self.domains[index];
        domain.epoch += 1;
        domain.unbroken = false;
        if domain.holds && self.gaps.len() < GAPS_KEPT {
            self.gaps.push(Gap {
                domain: index,
                cause,
                from: at,
                until: None,
            });
        }
        domain.holds = false;
    }

    /// An accepted request's mandatory part is (`more`), or is not any longer, to be done.
    pub(super) fn mandatory(&mut self, partition: PartitionId, more: bool) {
        let domain = self.of(partition);
        if more {
            domain.mandatory += 1;
        } else {
            domain.mandatory -= 1;
        }
    }

    /// An action that has to be waited for was ordered (`more`) or reported.
    pub(super) fn flight(&mut self, homes: &[PartitionId], more: bool) {
        for &home in homes {
            let domain = self.of(home);
            if more {
                domain.flights += 1;
            } else {
                domain.flights -= 1;
            }
        }
    }

    /// At the end of a step: a domain that nothing is left over in is as good as new.
    pub(super) fn settle(&mut self, at: Instant) {
        for (index, domain) in self.domains.iter_mut().enumerate() {
            let idle = domain.mandatory == 0 && domain.flights == 0;
            if domain.holds || !domain.schedulable || !idle {
                continue;
            }
            domain.holds = true;
            let open = |gap: &&mut Gap| gap.domain == index && gap.until.is_none();
            if let Some(gap) = self.gaps.iter_mut().rev().find(open) {
                gap.until = Some(at);
            }
        }
    }

    /// Whether a frame of `id` that arrives now, captured then, is one that its reservation is
    /// for. One that comes late, or wants an earlier answer, is not; those after it are. A task whose
    /// frames were ever captured too close to one another is not followed further.
    pub(super) fn arrived(
        &mut self,
        id: TaskId,
        task: &TaskConfig,
        (now, captured): (Instant, Instant),
        own_deadline: bool,
    ) -> bool {
        let contract = &mut self.contracts[id.index()];
        let spaced = contract
            .last_captured
            .is_none_or(|last| last + task.period <= captured);
        let in_time = now + task.prepare <= captured + task.jitter;
        contract.last_captured = contract.last_captured.max(Some(captured));
        contract.regular &= spaced;
        task.reserved && contract.regular && in_time && !own_deadline
    }

    /// Whether a frame that kept to the contract so far was prepared as the contract says.
    pub(super) fn prepared(
        &mut self,
        id: TaskId,
        task: &TaskConfig,
        (now, captured): (Instant, Instant),
    ) -> bool {
        let contract = &mut self.contracts[id.index()];
        let in_order = contract.last_prepared.is_none_or(|last| last < captured);
        contract.last_prepared = contract.last_prepared.max(Some(captured));
        contract.regular &= in_order;
        contract.regular && now <= captured + task.jitter
    }
}

/// Whether everything reserved on a partition can be promised, wherever the tasks are.
pub(crate) fn is_schedulable_in_every_layout(config: &Config, here: PartitionId) -> bool {
    let mut all = assignments(config).into_iter();
    all.all(|of| is_schedulable(config, here, |task| of[task] == here))
}

/// Every assignment of the tasks to partitions that the plan allows, the initial one first.
fn assignments(config: &Config) -> Vec<Vec<PartitionId>> {
    let initial = config.tasks.iter().map(|task| task.partition).collect();
    let others = config
        .layouts
        .iter()
        .map(|layout| layout.partitions.clone());
    std::iter::once(initial).chain(others).collect()
}

/// A bound on how long everything that can be inside takes if the device keeps to the profile:
/// what one request may have to wait beyond its deadline (see the page of [`super`]).
pub(super) fn everything_once(config: &Config) -> Nanos {
    let slowest = |time: &punctual_core::BatchTime| {
        let longest = time.on.iter().map(|t| t.budget.max(t.max_seen));
        longest.max().unwrap_or(Nanos::ZERO) + config.dispatch_cost.saturating_mul(16)
    };
    let stage = |stage: &punctual_core::StageConfig| {
        stage.times.iter().map(slowest).max().unwrap_or(Nanos::ZERO)
    };
    let network = |model: &punctual_core::ModelConfig| {
        let load = model
            .weights
            .as_ref()
            .map_or(Nanos::ZERO, |weights| weights.load);
        model
            .stages
            .iter()
            .map(stage)
            .fold(load, |sum, time| sum + time)
    };
    let longest = config
        .models
        .iter()
        .map(network)
        .max()
        .unwrap_or(Nanos::ZERO);
    let deadlines = config.tasks.iter().filter_map(|task| task.deadline);
    let deadline = deadlines.max().unwrap_or(Nanos::ZERO);
    longest.saturating_mul(u64::from(config.request_buffers) + 1) + deadline.saturating_mul(2)
}

/// Whether the auditor holds a task to real-time rules.
pub(super) fn is_real_time(task: &TaskConfig) -> bool {
    task.criticality == Criticality::RealTime
}
