//! What a partition does next.

use crate::action::{Action, Infer, Window};
use crate::actions::Actions;
use crate::config::{Criticality, StageTime};
use crate::ids::{ActionId, PartitionId};
use crate::lost::{LOST_FLOOR, lost_from};
use crate::punctual::Punctual;
use crate::punctual::choice::Choice;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::{Kind, Running};
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

/// An action started later than ordered by up to this many dispatch costs is still run, if there
/// is slack for it: a wake-up that takes a little longer shall not cost a round trip.
const LATENESS_IN_DISPATCH_COSTS: u64 = 8;

impl Punctual {
    /// Starts something on a free partition, or tells best-effort work to make room.
    pub(super) fn dispatch(&mut self, index: usize, actions: &mut Actions) {
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
                let (view, scan) = self.look(index);
                if view.has_to_stop(scan) {
                    self.preempt(index, actions);
                }
            }
            Some(_) => self.look_ahead(index, actions),
        }
    }

    /// Optional work that endangers nothing, then the most urgent promise, then best-effort work;
    /// in overload the promise before optional work.
    fn choose(&mut self, index: usize, actions: &mut Actions) -> Option<Choice> {
        let queues = &self.life.queues[index];
        if !(queues.mandatory().is_empty() && queues.optional().is_empty()) {
            let (view, scan) = self.look(index);
            view.scan(scan, view.now, None);
            if scan.least() < 0 && self.drop_hopeless(index, actions) {
                let (view, scan) = self.look(index);
                view.scan(scan, view.now, None);
            }
            let (view, scan) = self.look(index);
            if let Some(choice) = view.real_time(scan, view.now) {
                let waits = view.waits_until(scan, &choice);
                self.partitions[index].waits = waits;
                return waits.is_none().then_some(choice);
            }
        }
        // No promised work is pending. Then blocking by P is within what the offline test allows
        // for at all times (B >= P), so no slack needs to be asked.
        let (view, scan) = self.look(index);
        let (task, choice) = view.best_effort(view.room_for_demoted(scan))?;
        self.life.service.choose(task, index);
        choice
    }

    pub(super) fn preempt(&mut self, index: usize, actions: &mut Actions) {
        let action = self.partitions[index].slot.preempt(self.now);
        actions.push(Action::Preempt {
            partition: PartitionId(index as u16),
            action,
        });
    }

    /// Hands the next action over, if it is time and endangers nothing.
    fn look_ahead(&mut self, index: usize, actions: &mut Actions) {
        let (view, scan) = self.look(index);
        if let Some(free) = view.looks_ahead_to()
            && let Some(choice) = view.choose_ahead(scan, free)
        {
            self.start(index, &choice, free, actions);
        }
    }

    /// Hands a choice over, for when the partition is free.
    fn start(&mut self, index: usize, choice: &Choice, free: Instant, actions: &mut Actions) {
        let id = self.ids.next();
        let (running, window) = self.view(index).action(id, choice, free);
        let row = self.tables.row(running.row);
        let infer = Infer {
            id,
            partition: PartitionId(index as u16),
            model: row.model,
            stage: row.stage,
            batch: row.sizes[running.size],
            members: running.members.clone(),
            window,
            criticality: match running.kind {
                Kind::BestEffort => Criticality::BestEffort,
                Kind::Mandatory | Kind::Optional | Kind::Demoted => Criticality::RealTime,
            },
        };
        self.partitions[index].slot.start(running);
        let cohort = (!self.parameters.rebatching).then_some(id.0 + 1);
        self.life.begin(&choice.members, cohort, &self.tables);
        actions.push(Action::Infer(infer));
    }
}

impl View<'_> {
    /// The real-time work to start at `start`, after a scan for that time.
    pub fn real_time(&self, scan: &SlackScan, start: Instant) -> Option<Choice> {
        // More is asked than was planned for while an extra waits: a first answer for it is worth
        // more than a deeper one for another, and more extras find slack.
        let overloaded = self.parameters.mandatory_first && self.queues.extra_waits();
        if overloaded || self.share_is_spent(Voluntary::Depth) {
            return self.mandatory(scan, start);
        }
        self.optional(scan, start)
            .or_else(|| self.mandatory(scan, start))
    }

    /// Whether best-effort work has to go: promised work could run if the partition were free, or
    /// deeper stages that endanger nothing, or no best-effort work is to run at all.
    fn has_to_stop(&self, scan: &mut SlackScan) -> bool {
        if !self.queues.mandatory().is_empty() || self.holds.shedding {
            return true;
        }
        if self.queues.optional().is_empty() || self.share_is_spent(Voluntary::Depth) {
            return false;
        }
        let free = self.free_from();
        self.scan(scan, free, None);
        self.optional(scan, free).is_some()
    }

    /// Whether real-time work has had so much of the partition's time that `work` has to be given up.
    pub fn share_is_spent(&self, work: Voluntary) -> bool {
        self.partition.share_is_spent(work, self.now)
    }

    /// A choice as an action that begins when the partition is `free`, and when it may begin.
    fn action(&self, id: ActionId, choice: &Choice, free: Instant) -> (Running, Window) {
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
            Kind::Demoted => self.stretched_cost(choice.row),
            _ => row.cost[choice.size],
        };
        let until = free + cost + lateness;
        let window = Window {
            earliest: self.now,
            latest: free + delta + lateness,
        };
        let time = StageTime {
            budget: row.budget[choice.size],
            max_seen: row.max_seen[choice.size],
        };
        let lost_from = lost_from(self.now, window.latest, time);
        let members = choice.members.iter();
        let running = Running {
            id,
            kind: choice.kind,
            row: choice.row,
            size: choice.size,
            members: members.map(|&b| self.life.requests.id(b)).collect(),
            ordered: self.now,
            promised: until,
            until,
            preempting: false,
            overran: false,
            lost_from: match choice.kind {
                // It was given the time that its model is known to take.
                Kind::Demoted => lost_from.max(until + LOST_FLOOR),
                _ => lost_from,
            },
            lost: false,
        };
        (running, window)
    }
}
