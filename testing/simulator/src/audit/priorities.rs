//! Promised work that is ready neither waits for an idle partition nor behind best-effort work that may run on.

use super::auditor::Auditor;
use super::request_log::Place;
use super::violation::Violation;

impl Auditor {
    /// At the end of a step. While the layout changes promised work waits; that it is in time is claimed all the same.
    pub(super) fn check_priorities(&mut self) {
        if !self.punctual || !self.config.layouts.is_empty() {
            return;
        }
        let open = self.log.open.values();
        let ready = open.filter(|s| s.mandatory && s.place == Place::Waiting);
        let found = ready.filter_map(|s| {
            let (task, request) = (s.task, s.request?);
            let here = self.task(task).partition;
            let mut flights = self.floor.flights.values();
            // The oldest runs; what was handed over ahead is real-time.
            let runs = flights.find(|flight| flight.infer.partition == here);
            let Some(flight) = runs else {
                let idle = Violation::IdleWhilePromised { task, request };
                return (!self.may_wait).then_some(idle);
            };
            let runs_on = flight.is_best_effort() && flight.told.is_none();
            let action = flight.infer.id;
            (runs_on && flight.lost_from() > self.now).then_some(Violation::NotToldToStop {
                task,
                request,
                action,
            })
        });
        for violation in found.collect::<Vec<_>>() {
            self.found(violation);
        }
    }
}
