//! What a partition does next.

use crate::action::{Action, Infer, Window};
use crate::actions::Actions;
use crate::config::{Criticality, StageTime};
use crate::ids::{ActionId, BATCH_MAX, PartitionId, RequestId};
use crate::lost::{LOST_FLOOR, lost_from};
use crate::punctual::Punctual;
use crate::punctual::requests::State;
use crate::punctual::share::Voluntary;
use crate::punctual::slot::{Kind, Running};
use crate::punctual::tables::Row;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

/// An action started later than ordered by up to this many dispatch costs is still run, if there
/// is slack for it: a wake-up that takes a little longer shall not cost a round trip.
const LATENESS_IN_DISPATCH_COSTS: u64 = 8;

/// A stage to run, with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) kind: Kind,
    pub(crate) row: Row,
    /// Position of the batch size in the row's sizes.
    pub(crate) size: usize,
    /// Buffers.
    pub(crate) members: heapless::Vec<u16, BATCH_MAX>,
    /// How much later than now it may start without harm, in nanoseconds (m of the policy); not
    /// positive: not at all. Best-effort: without regard to real-time work, which preempts it.
    pub(crate) spare: i64,
}

impl Punctual {
    /// Starts something on a free partition, or tells best-effort work to make room.
    pub(crate) fn dispatch(&mut self, index: usize, actions: &mut Actions) {
        self.partitions[index].waits = None;
        match self.partitions[index].slot.running() {
            None if !self.partitions.may_start(index, self.now) => {}
            None => {
                if let Some(choice) = self.choose(index, actions) {
                    self.start(index, &choice, self.now, actions);
                    self.look_ahead(index, actions);
                }
            }
            Some(r) if r.is_stoppable() && !r.lost => {
                if self.has_to_stop(index) {
                    self.preempt(index, actions);
                }
            }
            Some(_) => self.look_ahead(index, actions),
        }
    }

    /// Optional work that endangers nothing, then the most urgent promise, then best-effort work;
    /// in overload the promise before optional work.
    fn choose(&mut self, index: usize, actions: &mut Actions) -> Option<Choice> {
        let partition = &self.partitions[index];
        if !(partition.queues.promised().is_empty() && partition.queues.parked().is_empty()) {
            self.scan(index, self.now, None);
            if self.partitions[index].scan.least() < 0 && self.shed(index, actions) {
                self.scan(index, self.now, None);
            }
            let choice = self.view(index).real_time(self.now);
            if let Some(choice) = choice {
                self.partitions[index].waits = self.view(index).waits_until(&choice);
                return self.partitions[index].waits.is_none().then_some(choice);
            }
        }
        // No promised work is pending. Then blocking by P is within what the offline test allows
        // for at all times (B >= P), so no slack needs to be asked.
        self.best_effort(index)
    }

    /// Whether best-effort work has to go: promised work could run if the partition were free, or
    /// deeper stages that endanger nothing, or no best-effort work is to run at all.
    fn has_to_stop(&mut self, index: usize) -> bool {
        let partition = &self.partitions[index];
        if !partition.queues.promised().is_empty() || self.is_shedding() {
            return true;
        }
        if partition.queues.parked().is_empty()
            || partition.share_is_spent(Voluntary::Depth, self.now)
        {
            return false;
        }
        let free = self.partitions.free_from(index, self.now);
        self.scan(index, free, None);
        self.view(index).optional(free).is_some()
    }

    pub(crate) fn preempt(&mut self, index: usize, actions: &mut Actions) {
        let action = self.partitions[index].slot.preempt(self.now);
        actions.push(Action::Preempt {
            partition: PartitionId(index as u16),
            action,
        });
    }

    /// Hands a choice over, for when the partition is free.
    pub(crate) fn start(
        &mut self,
        index: usize,
        choice: &Choice,
        free: Instant,
        actions: &mut Actions,
    ) {
        let id = ActionId(self.actions_ordered);
        self.actions_ordered += 1;
        let row = self.tables.row(choice.row);
        let delta = self.tables.dispatch_cost();
        let spare = Nanos::new(choice.spare.max(0) as u64);
        let lateness = if choice.kind == Kind::BestEffort {
            spare
        } else {
            // Charged to f until the action ends: an extra accepted meanwhile must not rely on
            // time that the start may take.
            spare.min(delta.saturating_mul(LATENESS_IN_DISPATCH_COSTS))
        };
        let cost = match choice.kind {
            Kind::Demoted => self.view(index).stretched_cost(choice.row),
            _ => row.cost[choice.size],
        };
        let until = free + cost + lateness;
        let mut members = heapless::Vec::<RequestId, BATCH_MAX>::new();
        for &buffer in &choice.members {
            let full = members.push(self.requests.id(buffer));
            full.expect("a choice has no more members than an action");
        }
        let window = Window {
            earliest: self.now,
            latest: free + delta + lateness,
        };
        let time = StageTime {
            budget: row.budget[choice.size],
            max_seen: row.max_seen[choice.size],
        };
        let lost_from = lost_from(self.now, window.latest, time);
        let lost_from = match choice.kind {
            // It was given the time that its model is known to take.
            Kind::Demoted => lost_from.max(until + LOST_FLOOR),
            _ => lost_from,
        };
        let infer = Infer {
            id,
            partition: PartitionId(index as u16),
            model: row.model,
            stage: row.stage,
            batch: row.sizes[choice.size],
            members: members.clone(),
            window,
            criticality: match choice.kind {
                Kind::BestEffort => Criticality::BestEffort,
                Kind::Mandatory | Kind::Optional | Kind::Demoted => Criticality::RealTime,
            },
        };
        let running = Running {
            id,
            kind: choice.kind,
            row: choice.row,
            size: choice.size,
            members,
            ordered: self.now,
            promised: until,
            until,
            told_to_stop: false,
            overran: false,
            lost_from,
            lost: false,
        };
        let partition = &mut self.partitions[index];
        partition.slot.start(running);
        let cohort = (!self.parameters.rebatching).then_some(id.0 + 1);
        for &buffer in &choice.members {
            let from = self.requests.begin(buffer, cohort);
            partition.queues.begin(buffer, from, &self.tables);
        }
        actions.push(Action::Infer(infer));
    }

    /// Puts the members of an action that did not run back where they waited.
    pub(crate) fn requeue(&mut self, index: usize, buffer: u16) {
        let request = *self.requests.get(buffer);
        let table = self.tables.task(request.task);
        if request.demoted {
            // What was promised before it was demoted, and was in an action then.
            self.remove_pending(index, buffer);
            return self.enqueue_demoted(&request, buffer);
        }
        if table.criticality == Criticality::BestEffort {
            return self.enqueue_best_effort(&request, buffer);
        }
        if request.stage.0 > table.mandatory_exit.0 {
            self.requests.transition(buffer, State::Parked);
            let queues = &mut self.partitions[table.partition.index()].queues;
            return queues.park(&request, buffer, table, &self.tables);
        }
        self.requests.transition(buffer, State::Pending);
        let queues = &mut self.partitions[index].queues;
        queues.put_back(&request, buffer, table, &self.tables);
    }
}

impl View<'_> {
    /// The real-time work to start at `start`, after a scan for that time.
    pub fn real_time(&self, start: Instant) -> Option<Choice> {
        // More is asked than was planned for while an extra waits: a first answer for it is worth
        // more than a deeper one for another, and more extras find slack.
        let partition = self.partition;
        let overloaded = self.parameters.mandatory_first && partition.queues.extra_waits();
        if overloaded || partition.share_is_spent(Voluntary::Depth, self.now) {
            return self.mandatory(start);
        }
        self.optional(start).or_else(|| self.mandatory(start))
    }
}

/// `a - b` in nanoseconds, saturating.
pub(crate) fn signed(a: Instant, b: Instant) -> i64 {
    let wide = i128::from(a.as_nanos()) - i128::from(b.as_nanos());
    wide.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// A span as a signed number of nanoseconds. Spans are validated to be far below 2^63.
pub(crate) fn ns(span: Nanos) -> i64 {
    span.as_nanos() as i64
}
