//! What a partition runs next, and the window in which the device may start it.

use crate::action::{Action, Infer, Window};
use crate::actions::Actions;
use crate::config::{Criticality, StageTime};
use crate::ids::{ActionId, PartitionId};
use crate::lost::{LOST_FLOOR, lost_from};
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::{Kind, Running};
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

/// The longest window of real-time work, in dispatch costs after the usual latest start, if there is slack
/// for it. Without it, a wake-up that takes a little longer would end in `NotRun` and cost a round trip.
const LATENESS_IN_DISPATCH_COSTS: u64 = 8;

impl Punctual {
    /// Starts an action on a free partition, preempts best-effort work, or hands the next action over.
    pub(super) fn dispatch(&mut self, index: usize, actions: &mut Actions) {
        // Each dispatch decides anew whether to wait, as the arrivals that it waits for may have come.
        self.partitions[index].wait_until(None);
        if self.places.is_home(index) {
            let waits = self.view(index).waits_for_others();
            self.partitions[index].lender_mut().waits(waits, self.now);
        }
        match self.partitions[index].slot().running() {
            None if !self.partitions.may_start(index) => {}
            None => {
                if let Some(choice) = self.choose(index, actions) {
                    self.start(index, &choice, self.now, actions);
                    // The new action may be so short that the next one is already due to be handed over.
                    self.look_ahead(index, actions);
                }
            }
            // A lost action holds the partition until its report; to preempt it would free nothing.
            Some(r) if r.is_preemptable() && !r.lost => {
                let (view, scan) = self.look(index);
                if view.must_preempt(scan) {
                    self.preempt(index, actions);
                }
            }
            Some(_) => self.look_ahead(index, actions),
        }
    }

    /// The work to start now: real-time work if there is any that may run, else best-effort work. `None`
    /// also if real-time work waits for a larger batch.
    fn choose(&mut self, index: usize, actions: &mut Actions) -> Option<Choice> {
        let queues = &self.life.queues[index];
        if !(queues.mandatory().is_empty() && queues.optional().is_empty()) {
            let (view, scan) = self.look(index);
            view.scan(scan, view.now, None);
            // SAFE holds unless a stage overran or the scale rose. Then some requests may be late for
            // certain. If others are dropped for them, the slack changes.
            if scan.least() < 0 && self.drop_less_valuable(index, actions) {
                let (view, scan) = self.look(index);
                view.scan(scan, view.now, None);
            }
            let (view, scan) = self.look(index);
            if let Some(choice) = view.real_time(scan, view.now) {
                let waits = view.waits_until(scan, &choice);
                self.partitions[index].wait_until(waits);
                return waits.is_none().then_some(choice);
            }
        }
        // Promised work that runs on a place comes back soon, and would wait for best-effort work each time.
        if self.life.queues[index].has_promised_work_left() {
            return None;
        }
        // No promised work is pending, so best-effort work needs no slack test: it blocks for P at most, and
        // the offline test allows B >= P at every length. A demoted model's stage cannot be preempted, so it
        // must fit the slack.
        let (view, scan) = self.look(index);
        let (task, choice) = view.best_effort(view.slack_for_demoted(scan))?;
        self.life.service.choose(task, index);
        choice
    }

    pub(super) fn preempt(&mut self, index: usize, actions: &mut Actions) {
        debug_assert!(
            self.partitions[index]
                .slot()
                .running()
                .is_some_and(|r| r.is_preemptable()),
            "only running best-effort work is preempted, and only once"
        );
        let action = self.partitions[index].preempt(self.now);
        actions.push(Action::Preempt {
            partition: PartitionId(index as u16),
            action,
        });
    }

    /// Hands the next action over, if it is time and no promise is at risk.
    fn look_ahead(&mut self, index: usize, actions: &mut Actions) {
        let (view, scan) = self.look(index);
        if let Some(free) = view.look_ahead_start()
            && let Some(choice) = view.choose_ahead(scan, free)
        {
            self.start(index, &choice, free, actions);
        }
    }

    /// Orders a choice from the device, to begin when the partition is `free`.
    pub(super) fn start(
        &mut self,
        index: usize,
        choice: &Choice,
        free: Instant,
        actions: &mut Actions,
    ) {
        let id = self.ids.next();
        let (mut running, window) = self.view(index).action(id, choice, free);
        let row = self.tables.row(running.row);
        debug_assert!(
            (1..=usize::from(row.sizes[running.size])).contains(&running.members.len()),
            "a batch has members, and no more than its compiled size"
        );
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
        debug_assert!(
            running.kind != Kind::BestEffort || free == self.now,
            "best-effort work is not handed over ahead"
        );
        // Action 0 is cohort 1, because cohort 0 means "no cohort".
        let cohort = (!self.parameters.rebatching).then_some(id.0 + 1);
        self.life.begin(&choice.members, cohort, &self.tables);
        running.pins_home = self.view(index).pins_home(choice);
        self.partitions[index].start(running);
        actions.push(Action::Infer(infer));
    }
}

impl View<'_> {
    /// The real-time work to start at `start`, after a scan for that time.
    ///
    /// An optional stage may run before promised work, because it must fit the least slack and so endangers
    /// no promise.
    pub fn real_time(&self, scan: &SlackScan, start: Instant) -> Option<Choice> {
        // A waiting extra means more load than planned. A first answer for it is worth more than a deeper
        // one for another request, and then more extras find slack (docs/decisions/0006).
        let overloaded = self.parameters.mandatory_first && self.queues.has_waiting_extra();
        if overloaded || self.share_is_spent(Voluntary::Depth) {
            return self.mandatory(scan, start);
        }
        self.optional(scan, start)
            .or_else(|| self.mandatory(scan, start))
    }

    /// Whether the running best-effort work must be preempted: for promised work, for an optional stage
    /// that may run as soon as the partition is free, or because best-effort work is shed.
    fn must_preempt(&self, scan: &mut SlackScan) -> bool {
        // Promised work preempts at once and without a test: the proof lets best-effort work block for P.
        if self.queues.has_promised_work_left() || self.holds.shedding {
            return true;
        }
        if self.queues.optional().is_empty() || self.share_is_spent(Voluntary::Depth) {
            return false;
        }
        let free = self.free_from();
        self.scan(scan, free, None);
        self.optional(scan, free).is_some()
    }

    /// Whether real-time work has used enough of the partition's time that `work` must stop.
    pub fn share_is_spent(&self, work: Voluntary) -> bool {
        self.partitions.share_is_spent(self.index, work, self.now)
    }

    /// Whether members of a choice that started here have promised work left on their home, another partition.
    fn pins_home(&self, choice: &Choice) -> bool {
        if choice.home == self.index || self.ablations.has(Ablation::UnpinnedHome) {
            return false;
        }
        let mut promised = self.life.queues[choice.home].mandatory().iter();
        promised.any(|job| job.has_running_rest() && choice.members.contains(&job.buffer))
    }

    /// The action for a choice that begins when the partition is `free`, and its window.
    fn action(&self, id: ActionId, choice: &Choice, free: Instant) -> (Running, Window) {
        let row = self.tables.row(choice.row);
        let delta = self.tables.dispatch_cost();
        // Negative for a head that is late already: it still runs, without any delay.
        let start_slack = Nanos::new(choice.start_slack.max(0) as u64);
        let lateness = if choice.kind == Kind::BestEffort {
            // Nothing is charged: real-time work preempts it.
            start_slack
        } else {
            // Charged to f until the action ends: an extra accepted meanwhile must not rely on time that
            // the late start may take. A longer window would leave less slack for extras.
            start_slack.min(delta.saturating_mul(LATENESS_IN_DISPATCH_COSTS))
        };
        // Assumption 1 of the proof holds for a demoted model with C' in the place of C.
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
            home: choice.home,
            pins_home: false,
            row: choice.row,
            size: choice.size,
            members: members.map(|&b| self.life.requests.id(b)).collect(),
            as_measured: self.readiness.is_measured(row),
            ordered: self.now,
            until,
            preempting: false,
            overran: false,
            lost_from: match choice.kind {
                // Its budget is stretched to the time that its model is known to take. So the policy must not
                // consider it lost within that time.
                Kind::Demoted => lost_from.max(until + LOST_FLOOR),
                _ => lost_from,
            },
            lost: false,
        };
        (running, window)
    }
}
