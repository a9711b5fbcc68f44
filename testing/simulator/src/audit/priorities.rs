//! Promised work that is ready neither waits for an idle partition nor behind best-effort work that may run on.

use punctual_core::PartitionId;

use super::auditor::Auditor;
use super::request_log::Place;
use super::violation::Violation;

impl Auditor {
    /// At the end of a step.
    pub(super) fn check_priorities(&mut self) {
        if !self.punctual {
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
                if self.keeps_from_starting(here) {
                    return None;
                }
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

    /// Whether an action elsewhere keeps a partition from starting its next promised request: one that holds some
    /// of its units, or one that runs promised work of it with more of that left.
    fn keeps_from_starting(&self, here: PartitionId) -> bool {
        let mut flights = self.floor.flights.values();
        flights.any(|flight| {
            let holds = self.floor.overlap(flight.infer.partition, here);
            let mut members = flight.infer.members.iter();
            holds
                || members.any(|id| {
                    let mut open = self.log.open.values();
                    let member = open.find(|s| s.request == Some(*id));
                    member.is_some_and(|s| {
                        let task = self.task(s.task);
                        let rest = flight.infer.stage < task.mandatory_exit;
                        s.mandatory && rest && task.partition == here
                    })
                })
        })
    }
}
