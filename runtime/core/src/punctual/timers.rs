//! What is due without an event: answers for which no deeper stage can start in time, best-effort requests
//! that found no time to run, actions that should have ended.

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::ids::RequestId;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::queues::{BestEffortJob, OptionalJob};
use crate::punctual::lifecycle::requests::State;
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

impl Punctual {
    /// Answers the requests that no longer wait for a deeper answer, and ends the best-effort requests that
    /// found no time to run. It runs after the dispatch, which can start both at their last moment. A deeper stage that
    /// runs beyond the last moment goes on alone: the answer does not wait for it.
    pub(super) fn expire(&mut self, index: usize, actions: &mut Actions) {
        while let Some(buffer) = self.view(index).next_final_answer() {
            let request = self.life.requests.get(buffer);
            let lender = self.partitions[index].lender_mut();
            if lender.has_waited_since(request.captured) {
                let work = self.tables.cost_to_answer(request.task, request.stage);
                lender.lost(work, self.now);
            }
            self.life.withdraw(buffer, &self.tables);
            self.life.answer(buffer, self.now, actions);
        }
        while let Some(id) = self.view(index).next_left_behind() {
            let verdict = self.life.requests.get(id.buffer).verdict_at(self.now);
            self.life.finish_running(id, verdict, &self.tables, actions);
        }
        while let Some((buffer, reason)) = self.view(index).next_unserved() {
            self.life.withdraw(buffer, &self.tables);
            // An answer that counts is better than a rejection.
            if self.life.has_mandatory_answer(buffer, &self.tables) {
                self.life.answer(buffer, self.now, actions);
            } else {
                let verdict = Verdict::Rejected(reason);
                self.life.finish(buffer, verdict, actions);
            }
        }
    }
}

impl View<'_> {
    /// The next time at which a decision about this partition may change without an event.
    pub fn timer(&self) -> Option<Instant> {
        let partition = self.partition;
        let optional = self.queues.optional().iter();
        let optional = optional.map(|job| self.last_start_of_optional(job));
        let best_effort = self.queues.best_effort().iter();
        let best_effort = best_effort
            .filter(|job| job.due != Instant::FAR_FUTURE)
            .map(|job| self.last_start_of_best_effort(job));
        // One dispatch cost after f, as the report of an action that ends at f may take that long. At least
        // 1 ns after f: before that, the action has not overrun.
        let overrun = partition
            .slot()
            .running()
            .filter(|r| !r.lost && !r.is_preemptable())
            .map(|r| r.end(self.now, self.tables))
            .map(|end| end + self.tables.dispatch_cost().max(Nanos::new(1)));
        // Optional stages may wait for nothing but the utilization cap. A running best-effort stage is not
        // interrupted for them: the time until the cap is used again is so short that each stage would be
        // preempted, and none would ever end.
        let utilization = (partition.slot().running().is_none()
            && !self.queues.optional().is_empty())
        .then(|| partition.share_recovers_at(Voluntary::Depth))
        .filter(|at| *at > self.now);
        let in_flight = || partition.slot().in_flight().filter(|r| !r.lost);
        let lost = in_flight().map(|r| r.lost_from);
        let held = in_flight().flat_map(|r| &r.members);
        let held = held.filter_map(|id| self.leaves_running(*id));
        optional
            .chain(best_effort)
            .chain(overrun)
            .chain(lost)
            .chain(held)
            .chain(utilization)
            .chain(partition.waits())
            .chain(self.look_ahead_due())
            .min()
    }

    /// When a member of an action gets the answer that it holds, if it holds one that counts.
    fn leaves_running(&self, id: RequestId) -> Option<Instant> {
        let request = self.life.requests.get(id.buffer);
        let holds = request.holds_answer_from(self.tables.task(request.task).mandatory_exit);
        let leaves = holds && request.state == State::Running && !request.gone;
        leaves
            .then_some(request.leave_by)
            .filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// A member of an action in flight whose answer must leave now, although a deeper stage runs.
    fn next_left_behind(&self) -> Option<RequestId> {
        let in_flight = self.partition.slot().in_flight().filter(|r| !r.lost);
        let mut members = in_flight.flat_map(|r| &r.members);
        let is_due = |id: &&RequestId| self.leaves_running(**id).is_some_and(|at| at <= self.now);
        members.find(is_due).copied()
    }

    /// A request whose present answer is final: its task wants it at once, no deeper stage can start in
    /// time, or none is worth its time.
    fn next_final_answer(&self) -> Option<u16> {
        let is_final = |job: &&OptionalJob| {
            let too_late = self.last_start_of_optional(job) <= self.now;
            job.answer_early || too_late || !self.is_worth_it(job)
        };
        let job = self.queues.optional().iter().find(is_final)?;
        Some(job.buffer)
    }

    /// A best-effort request that is shed, gives up depth, or can no longer be on time, and the reason of its
    /// rejection if it holds no answer.
    fn next_unserved(&self) -> Option<(u16, Rejection)> {
        self.queues.best_effort().iter().find_map(|job| {
            // Shedding spares the requests of demoted models, which are real-time work.
            if self.sheds(job.task) {
                return Some((job.buffer, Rejection::Shedding));
            }
            let too_late = self.last_start_of_best_effort(job) <= self.now;
            (too_late || self.gives_up_depth(job)).then_some((job.buffer, Rejection::NoSlack))
        })
    }

    /// d - C of the stages up to the next exit: a start after it gives no answer by the deadline.
    pub fn last_start_of_optional(&self, job: &OptionalJob) -> Instant {
        let stage = self.tables.row(job.row).stage;
        job.due - self.tables.soonest_answer(job.task, stage)
    }

    /// The last start that can give an answer by the deadline: a deeper one if the request holds a mandatory
    /// answer, else its first one.
    pub fn last_start_of_best_effort(&self, job: &BestEffortJob) -> Instant {
        if job.due == Instant::FAR_FUTURE {
            return Instant::FAR_FUTURE;
        }
        let request = self.life.requests.get(job.buffer);
        let table = self.tables.task(request.task);
        if request.holds_answer_from(table.mandatory_exit) {
            return job.due - self.tables.cost_to_answer(request.task, request.stage);
        }
        job.due - table.work_from(request.stage)
    }
}
