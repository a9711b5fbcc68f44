//! What was promised, and since when the assumptions behind the promises hold.

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

/// A span in which nothing is claimed about the tasks of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub partition: usize,
    /// The first assumption that broke.
    pub cause: Broken,
    pub from: Instant,
    /// From here on the claim holds again: nothing promised was left over. None: not yet.
    pub until: Option<Instant>,
}

const GAPS_KEPT: usize = 1_000;

/// What the promises of one partition rest on.
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
    /// How many frames had that capture time.
    of_last: u8,
    /// A capture time, and how many frames were said to have it.
    announced: Option<(Instant, u8)>,
    last_prepared: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Claims {
    /// By partition.
    domains: Vec<Domain>,
    /// By task.
    contracts: Vec<Contract>,
    pub(super) gaps: Vec<Gap>,
}

impl Claims {
    pub(super) fn new(config: &Config, promises: bool) -> Self {
        let domain = |index: usize| {
            let schedulable = promises && is_schedulable(config, PartitionId(index as u16));
            Domain {
                schedulable,
                epoch: 0,
                holds: schedulable,
                unbroken: true,
                mandatory: 0,
                flights: 0,
            }
        };
        let contract = Contract {
            regular: true,
            last_captured: None,
            of_last: 0,
            announced: None,
            last_prepared: None,
        };
        Self {
            domains: (0..config.partitions.len()).map(domain).collect(),
            contracts: vec![contract; config.tasks.len()],
            gaps: Vec::new(),
        }
    }

    fn of(&mut self, partition: PartitionId) -> &mut Domain {
        &mut self.domains[partition.index()]
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
        let domain = &mut self.domains[partition.index()];
        domain.epoch += 1;
        domain.unbroken = false;
        if domain.holds && self.gaps.len() < GAPS_KEPT {
            self.gaps.push(Gap {
                partition: partition.index(),
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

    /// At the end of a step: a partition on which nothing is left over is as good as new.
    pub(super) fn settle(&mut self, at: Instant) {
        for (index, domain) in self.domains.iter_mut().enumerate() {
            let idle = domain.mandatory == 0 && domain.flights == 0;
            if domain.holds || !domain.schedulable || !idle {
                continue;
            }
            domain.holds = true;
            let open = |gap: &&mut Gap| gap.partition == index && gap.until.is_none();
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
        now: Instant,
        captured: Instant,
        own_deadline: bool,
    ) -> bool {
        let contract = &mut self.contracts[id.index()];
        let is_of_burst = contract.last_captured == Some(captured);
        contract.of_last = if is_of_burst {
            contract.of_last.saturating_add(1)
        } else {
            1
        };
        let spaced = if is_of_burst {
            let announced = contract.announced.filter(|(at, _)| *at == captured);
            contract.of_last <= announced.map_or(task.burst, |(_, most)| most.min(task.burst))
        } else {
            let last = contract.last_captured;
            last.is_none_or(|last| last + task.period <= captured)
        };
        let in_time = now + task.prepare <= captured + task.jitter;
        contract.last_captured = contract.last_captured.max(Some(captured));
        contract.regular &= spaced;
        task.reserved && contract.regular && in_time && !own_deadline
    }

    /// How many frames have a capture time. What was said first counts. They use the reservation of the period even if there
    /// are none.
    pub(super) fn announced(
        &mut self,
        id: TaskId,
        task: &TaskConfig,
        captured: Instant,
        requests: u8,
    ) {
        let contract = &mut self.contracts[id.index()];
        let last = contract.last_captured;
        if last.is_none_or(|last| last + task.period <= captured) {
            contract.last_captured = Some(captured);
            contract.of_last = 0;
        }
        if contract.announced.is_none_or(|(at, _)| at != captured) {
            contract.announced = Some((captured, requests));
        }
    }

    /// Whether a frame that kept to the contract so far was prepared as the contract says.
    pub(super) fn prepared(
        &mut self,
        id: TaskId,
        task: &TaskConfig,
        now: Instant,
        captured: Instant,
    ) -> bool {
        let contract = &mut self.contracts[id.index()];
        let in_order = contract
            .last_prepared
            .is_none_or(|last| last < captured || last == captured && task.burst > 1);
        contract.last_prepared = contract.last_prepared.max(Some(captured));
        contract.regular &= in_order;
        contract.regular && now <= captured + task.jitter
    }
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
