//! Actions in flight, the units that they hold, and the times that they report.

use std::collections::BTreeMap;
use std::ops::Range;

use punctual_core::{ActionId, Config, Criticality, Finished, Infer, Instant, Nanos, PartitionId};

use super::violation::Violation;

/// An action that was ordered and has not been reported.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) infer: Infer,
    /// The partitions of tasks that depend on its end: those of its members, and those with units of it.
    pub(super) homes: Vec<PartitionId>,
    pub(super) ordered: Instant,
    /// Its stage runs as it was measured, as far as was known then.
    pub(super) as_measured: bool,
    /// When it was preempted.
    pub(super) told: Option<Instant>,
    /// What it may take: its budget, stretched while its model is demoted.
    pub(super) budget: Nanos,
    /// The longest that the profile knows of.
    pub(super) longest: Nanos,
    /// The assumption that it ends within its budget was found broken.
    pub(super) overran: bool,
}

impl Flight {
    pub(super) fn is_best_effort(&self) -> bool {
        self.infer.criticality == Criticality::BestEffort
    }

    /// The last moment at which it is reported if the device keeps to the profile; none for work
    /// that no promise relies upon.
    pub(super) fn due(&self, stop: Nanos) -> Option<Instant> {
        match (self.is_best_effort(), self.told) {
            (false, _) => Some(self.infer.window.latest + self.budget),
            (true, Some(told)) => Some(told + stop),
            (true, None) => None,
        }
    }

    /// The last moment at which it starts, if the device does its duty.
    fn starts_by(&self) -> Instant {
        self.infer
            .window
            .latest
            .min(self.ordered + super::LOST_FLOOR)
    }

    /// From here on it is taken for lost (see the page of [`super`]).
    pub(super) fn lost_from(&self) -> Instant {
        let patience = self.longest.saturating_mul(super::LOST_FACTOR);
        self.starts_by() + patience.max(self.budget) + super::LOST_FLOOR
    }

    /// How much longer than the profile knows of it has taken until `now`, up to its loss.
    pub(super) fn excess(&self, now: Instant) -> Nanos {
        now.min(self.lost_from()).since(self.ordered + self.longest)
    }
}

/// The device, as far as the record shows it.
#[derive(Clone, Debug)]
pub(super) struct Floor {
    units: Vec<Range<usize>>,
    /// Whether actions may hold the same units (REEF's streams).
    shared: bool,
    /// How many actions one partition may hold.
    depth: usize,
    pub(super) flights: BTreeMap<u64, Flight>,
    /// By unit: the end of the last action reported there.
    busy_until: Vec<Instant>,
    last_name: Option<u64>,
}

impl Floor {
    pub(super) fn new(config: &Config, shared: bool, depth: usize) -> Self {
        let range = |p: &punctual_core::PartitionConfig| {
            usize::from(p.units.first)..usize::from(p.units.end())
        };
        let units: Vec<Range<usize>> = config.partitions.iter().map(range).collect();
        let all = units.iter().map(|range| range.end).max().unwrap_or(0);
        Self {
            units,
            shared,
            depth,
            flights: BTreeMap::new(),
            busy_until: vec![Instant::ZERO; all],
            last_name: None,
        }
    }

    /// Whether two partitions have a unit in common.
    pub(super) fn overlap(&self, a: PartitionId, b: PartitionId) -> bool {
        let (a, b) = (&self.units[a.index()], &self.units[b.index()]);
        a.start < b.end && b.start < a.end
    }

    /// Names rise: a name that was used before would make reports ambiguous.
    pub(super) fn is_new(&mut self, id: ActionId) -> bool {
        let new = self.last_name.is_none_or(|last| last < id.0);
        self.last_name = self.last_name.max(Some(id.0));
        new
    }

    pub(super) fn take_off(
        &mut self,
        now: Instant,
        infer: &Infer,
        homes: Vec<PartitionId>,
        budget: Nanos,
        longest: Nanos,
    ) -> Result<(), Violation> {
        let window = infer.window;
        let holder = self.holder(infer.partition);
        let flight = Flight {
            infer: infer.clone(),
            homes,
            ordered: now,
            as_measured: true,
            told: None,
            budget,
            longest,
            overran: false,
        };
        self.flights.insert(infer.id.0, flight);
        if let Some(holder) = holder {
            return Err(Violation::UnitsHeld {
                action: infer.id,
                partition: infer.partition,
                holder,
            });
        }
        if window.latest < window.earliest || window.earliest < now {
            return Err(wrong_window(now, infer));
        }
        Ok(())
    }

    /// Who keeps a new action off a partition.
    fn holder(&self, partition: PartitionId) -> Option<ActionId> {
        let mut queued = 0;
        for flight in self.flights.values() {
            let there = flight.infer.partition;
            if there == partition {
                queued += 1;
                if queued >= self.depth {
                    return Some(flight.infer.id);
                }
            } else if !self.shared && self.overlap(there, partition) {
                return Some(flight.infer.id);
            }
        }
        None
    }

    pub(super) fn tell(&mut self, now: Instant, partition: PartitionId, id: ActionId) -> bool {
        match self.flights.get_mut(&id.0) {
            Some(flight)
                if flight.infer.partition == partition
                    && flight.is_best_effort()
                    && flight.told.is_none() =>
            {
                flight.told = Some(now);
                true
            }
            _ => false,
        }
    }

    /// Checks the times of an action that ran.
    pub(super) fn ran(&mut self, flight: &Flight, finished: &Finished) -> Result<(), Violation> {
        let (window, started) = (flight.infer.window, finished.started);
        let end = started + finished.measured;
        let mut busy = Instant::ZERO;
        for unit in self.units[flight.infer.partition.index()].clone() {
            busy = busy.max(self.busy_until[unit]);
            self.busy_until[unit] = self.busy_until[unit].max(end);
        }
        if started < window.earliest || started > window.latest {
            return Err(Violation::StartedOutsideWindow {
                action: flight.infer.id,
                started,
                earliest: window.earliest,
                latest: window.latest,
            });
        }
        if !self.shared && started < busy {
            return Err(Violation::RanTogether {
                action: flight.infer.id,
                started,
                busy_until: busy,
            });
        }
        Ok(())
    }
}

pub(super) const fn wrong_window(at: Instant, infer: &Infer) -> Violation {
    Violation::WrongWindow {
        action: infer.id,
        at,
        earliest: infer.window.earliest,
        latest: infer.window.latest,
    }
}
