//! What falls due as time passes: overruns, waits for best-effort work, bounds on verdicts.

use punctual_core::{Instant, Nanos};

use super::auditor::Auditor;
use super::claims::Broken;
use super::floor::Flight;
use super::readiness::STOPS_WITHIN;
use super::request_log::Place;
use super::violation::Violation;

impl Auditor {
    fn stop_bound(&self, flight: &Flight) -> Nanos {
        let partition = &self.config.partitions[flight.infer.partition.index()];
        let stop = partition.preemption_bound + self.config.dispatch_cost;
        stop.saturating_mul(if flight.as_measured { 1 } else { STOPS_WITHIN })
    }

    /// The time since the last event, and what fell due in it.
    pub(super) fn pass_time(&mut self, now: Instant) {
        let (before, now) = (self.now, self.now.max(now));
        self.now = now;
        self.count_waiting_for_best_effort(before);
        let mut overran = Vec::new();
        for flight in self.floor.flights.values() {
            let due = flight.due(self.stop_bound(flight));
            // Best-effort work that was not told to stop has no due time, but may be lost.
            let lost = flight.lost_from() <= now;
            if !flight.overran && (lost || due.is_some_and(|due| due < now)) {
                overran.push((flight.infer.id, flight.homes.clone()));
            }
        }
        for (id, homes) in overran {
            if let Some(flight) = self.floor.flights.get_mut(&id.0) {
                flight.overran = true;
                if flight.is_best_effort() {
                    // From here on it is in the way like promised work.
                    self.claims.flight(&homes, true);
                }
            }
            self.claims.broke(&homes, now, Broken::Overrun);
        }
        self.check_limits();
    }

    /// Invariant 5: adds what each promised request waited for best-effort work since `before`.
    fn count_waiting_for_best_effort(&mut self, before: Instant) {
        if !self.punctual {
            return;
        }
        let mut late = Vec::new();
        for flight in self.floor.flights.values().filter(|f| f.is_best_effort()) {
            let bound = self.stop_bound(flight);
            // Beyond the bound it is the device that keeps everybody waiting.
            let blamed_until = flight
                .told
                .map_or(self.now, |told| self.now.min(told + bound));
            let span = blamed_until.since(before.max(flight.ordered));
            if span == Nanos::ZERO {
                continue;
            }
            for submission in self.log.open.values_mut() {
                let waits = submission.mandatory && submission.place == Place::Waiting;
                let here = flight.infer.partition;
                let home = self.config.tasks[submission.task.index()].partition;
                if !waits || !self.floor.overlap(home, here) {
                    continue;
                }
                let waited = submission.behind_best_effort;
                submission.behind_best_effort = waited + span;
                if waited <= bound && waited + span > bound {
                    late.push((submission.task, submission.request, waited + span, bound));
                }
            }
        }
        for (task, request, waited, bound) in late {
            let request = request.expect("what waits between two stages has a buffer");
            self.found(Violation::BestEffortInTheWay {
                task,
                request,
                waited,
                bound,
            });
        }
    }

    /// Invariant 1: the requests whose bound on verdicts has passed.
    fn check_limits(&mut self) {
        let in_flight = self.floor.flights.values();
        let excess = in_flight.map(|flight| flight.excess(self.now));
        let stolen = excess.fold(self.stolen, |sum, excess| sum + excess);
        while let Some(&(limit, key)) = self.log.limits.first() {
            let limit = limit + stolen;
            if limit >= self.now {
                return;
            }
            self.log.limits.pop_first();
            let Some(submission) = self.log.open.get_mut(&key) else {
                continue;
            };
            submission.limit = None;
            let (task, request) = (submission.task, submission.request);
            let request = request.expect("only prepared requests have a bound");
            let overdue = self.now.since(limit);
            self.found(Violation::Overdue {
                task,
                request,
                overdue,
            });
        }
    }
}
