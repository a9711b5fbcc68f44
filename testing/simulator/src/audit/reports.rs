//! What the world reports: arrivals, prepared inputs, ends of actions.

use punctual_core::{ActionId, Arrival, Failure, Finished, Instant, Nanos, RequestId};

use super::auditor::{Auditor, Subject};
use super::claims::Broken;
use super::floor::Flight;
use super::request_log::{Place, Submission, key};
use super::violation::Violation;

impl Auditor {
    pub(super) fn arrived(&mut self, arrival: &Arrival) {
        let captured = arrival.captured.min(self.now);
        let task = &self.config.tasks[arrival.task.index()];
        let own = task.deadline.map_or(Instant::FAR_FUTURE, |d| captured + d);
        let deadline = arrival.deadline.map_or(own, |d| d.min(own));
        let leaves_before = self.config.egress_bound.max(arrival.egress);
        let leave_by = match deadline {
            Instant::FAR_FUTURE => deadline,
            deadline => deadline - leaves_before,
        };
        let earlier = deadline < own;
        let in_contract = self
            .claims
            .arrived(arrival.task, task, self.now, captured, earlier);
        // Nothing is claimed of what is not there as it was measured, wherever it is offloaded to.
        let in_contract = in_contract && !self.is_unmeasured(arrival.task);
        let key = key(arrival.ticket);
        self.log.open.insert(
            key,
            Submission {
                task: arrival.task,
                origin: arrival.task,
                arrived: self.now,
                captured,
                deadline,
                leave_by,
                request: None,
                place: Place::Arriving,
                gone: false,
                next_stage: 0,
                answer: None,
                delivered: None,
                in_contract,
                promised_in: None,
                mandatory: false,
                behind_best_effort: Nanos::ZERO,
                limit: None,
                demoted: false,
                order: self.arrivals,
                inherited: None,
            },
        );
        self.arrivals += 1;
        self.query_arrived(key, arrival.task, captured);
        self.subject = Subject::Arrived(key);
    }

    pub(super) fn prepared(&mut self, request: RequestId, ready: Result<(), Failure>) {
        let Some((key, submission)) = self.log.find(request) else {
            return;
        };
        if submission.place != Place::Preparing {
            return;
        }
        submission.place = if ready.is_ok() {
            Place::Waiting
        } else {
            Place::Unreadable
        };
        self.subject = if ready.is_ok() {
            Subject::Prepared(key)
        } else {
            Subject::Unreadable(key)
        };
        if ready.is_ok() {
            let jitter = self.config.tasks[submission.origin.index()].jitter;
            self.query_prepared(key, jitter);
        }
        let Some(submission) = self.log.open.get_mut(&key) else {
            return;
        };
        let task = &self.config.tasks[submission.task.index()];
        if submission.task == submission.origin {
            let (id, captured) = (submission.task, submission.captured);
            submission.in_contract &= self.claims.prepared(id, task, self.now, captured);
        }
        if self.punctual && submission.deadline != Instant::FAR_FUTURE {
            // Faults add to the bound from here on; those of before must not.
            let limit = submission.deadline.max(self.now) + self.patience - self.stolen;
            self.log.bound(key, limit);
        }
    }

    pub(super) fn finished(&mut self, finished: &Finished) {
        let Some(flight) = self.land(finished.action) else {
            return;
        };
        if let Err(violation) = self.floor.ran(&flight, finished) {
            self.found(violation);
        }
        let real_time = !flight.is_best_effort();
        // What was taken for lost says nothing of how a model keeps its profile, nor does what
        // cannot be attributed.
        let lost = flight.lost_from() <= self.now;
        let whole = finished.members.len() == flight.infer.members.len();
        if let Some(time) = self.time_of(&flight.infer)
            && real_time
            && whole
            && !lost
        {
            let budget = time.on[flight.infer.partition.index()].budget;
            if flight.as_measured {
                self.conduct.ran(&flight, budget, finished);
            } else {
                self.loaded.ran(&flight, budget, finished);
            }
        }
        if real_time && finished.measured > flight.budget {
            self.claims.broke(&flight.homes, self.now, Broken::Overrun);
        }
        self.stolen += flight.excess(self.now);
        if !whole {
            // These answers belong to no known request.
            self.failed.extend(flight.infer.members.iter().copied());
            self.claims
                .broke(&flight.homes, self.now, Broken::DeviceFailed);
            return;
        }
        let mut late_places = Vec::new();
        for (id, answer) in flight.infer.members.iter().zip(&finished.members) {
            let Some((_, submission)) = self.log.find(*id) else {
                continue;
            };
            let task = &self.config.tasks[submission.task.index()];
            let stages = &self.config.models[task.model.index()].stages;
            let stage = stages.get(flight.infer.stage.index());
            if stage.is_none_or(|stage| stage.answers) {
                submission.answer = Some((flight.infer.stage, *answer));
            }
            submission.next_stage = flight.infer.stage.0 + 1;
            if submission.mandatory && submission.next_stage > task.mandatory_exit.0 {
                submission.mandatory = false;
                self.claims.mandatory(task.partition, false);
                let late =
                    |(place, _): &(Instant, u64)| *place < self.now + self.config.egress_bound;
                if let Some((place, epoch)) = submission.inherited.filter(late)
                    && self.claims.epoch(task.partition) == Some(epoch)
                {
                    late_places.push((submission.task, *id, place));
                }
            }
        }
        for (task, request, place) in late_places {
            let at = self.now;
            self.found(Violation::PlaceLate {
                task,
                request,
                place,
                at,
            });
        }
    }

    /// An action is over without an answer.
    pub(super) fn did_not_end(&mut self, action: ActionId, broken: Option<Broken>) {
        let Some(flight) = self.land(action) else {
            return;
        };
        if broken.is_some() {
            self.stolen += self.now.since(flight.ordered);
        }
        if broken == Some(Broken::DeviceFailed) {
            self.failed.extend(flight.infer.members.iter().copied());
        }
        if let Some(cause) = broken.filter(|_| !flight.is_best_effort()) {
            self.claims.broke(&flight.homes, self.now, cause);
        }
    }

    /// Removes an action that has ended; its members wait again.
    fn land(&mut self, action: ActionId) -> Option<Flight> {
        let flight = self.floor.flights.remove(&action.0)?;
        if flight.overran || !flight.is_best_effort() {
            self.claims.flight(&flight.homes, false);
        }
        for id in &flight.infer.members {
            self.log.unlock(*id);
            if let Some((_, submission)) = self.log.find(*id)
                && submission.place == Place::Running(action)
            {
                submission.place = Place::Waiting;
            }
        }
        Some(flight)
    }
}
