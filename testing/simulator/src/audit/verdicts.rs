//! Whether a verdict fits what happened, and whether it breaks a promise.

use punctual_core::{Delivery, Failure, PartitionId, Rejection, Reply, Verdict};

use super::auditor::{Auditor, Subject};
use super::claims::is_real_time;
use super::floor::Flight;
use super::request_log::{Key, Place, Submission, key};
use super::violation::Violation;

impl Auditor {
    /// Closes the submission that `reply` is about.
    pub(super) fn verdict(&mut self, reply: &Reply) -> Result<(), Violation> {
        let key = key(reply.ticket);
        let open = self.log.open.get(&key);
        if open.is_none_or(|s| s.origin != reply.task || s.request != reply.request) {
            return Err(Violation::VerdictWithoutSubmission {
                task: reply.task,
                sequence: reply.ticket.sequence,
            });
        }
        let room = self.check_room(reply);
        let Some(submission) = self.log.close(key) else {
            return Ok(());
        };
        let partition = self.task(submission.task).partition;
        let taken_on = !matches!(reply.verdict, Verdict::Rejected(_));
        if self.subject == Subject::Prepared(key) && taken_on {
            // Over in the step that took it on: there is no place to keep any more.
            self.made_way.clear();
        }
        if submission.mandatory {
            self.claims.mandatory(partition, false);
        }
        let mandatory_exit = self.task(submission.task).mandatory_exit.0;
        let others = [
            self.check_buffer(reply, &submission),
            check_answer(reply, &submission, mandatory_exit),
            self.check_fit(key, reply, &submission),
            room,
        ];
        for violation in others.into_iter().filter_map(Result::err) {
            self.found(violation);
        }
        if reply.verdict == Verdict::Rejected(Rejection::Superseded) {
            self.make_way(key, submission);
            return Ok(());
        }
        self.check_promise(reply, &submission, partition)
    }

    /// No thread may be writing to a buffer whose request has ended, but for a stage of which nothing is expected any more:
    /// then the buffer stays locked.
    fn check_buffer(&self, reply: &Reply, submission: &Submission) -> Result<(), Violation> {
        let Some(request) = submission.request else {
            return Ok(());
        };
        let untouched = match submission.place {
            Place::Arriving | Place::Waiting | Place::Unreadable => true,
            Place::Preparing => false,
            Place::Running(action) => {
                let flight = self.floor.flights.get(&action.0);
                let lost = flight.is_none_or(|f| f.lost_from() <= self.now);
                let mandatory = self.task(submission.task).mandatory_exit;
                let counts = submission.answer.is_some_and(|(exit, _)| exit >= mandatory);
                match reply.verdict {
                    Verdict::Failed(_) => lost,
                    // The last moment has come for an answer that it holds: what still runs is a deeper stage.
                    Verdict::OnTime | Verdict::Late => counts && submission.leave_by <= self.now,
                    Verdict::Rejected(_) => false,
                }
            }
        };
        if untouched {
            return Ok(());
        }
        Err(Violation::BufferTouched {
            task: submission.task,
            request,
        })
    }

    /// A request that is refused for lack of room must find none.
    fn check_room(&self, reply: &Reply) -> Result<(), Violation> {
        if reply.verdict != Verdict::Rejected(Rejection::QueueFull) {
            return Ok(());
        }
        let task = reply.task.index();
        let (open, held) = (self.log.inside[task], self.log.held);
        let kept: usize = self.kept.iter().sum();
        let place = open + self.kept[task] < usize::from(self.config.tasks[task].queue_max);
        let buffer = held + kept < usize::from(self.config.request_buffers);
        if place && buffer {
            return Err(Violation::RoomDenied {
                task: reply.task,
                open,
                held,
            });
        }
        Ok(())
    }

    fn check_fit(&self, key: Key, reply: &Reply, submission: &Submission) -> Result<(), Violation> {
        let in_time = self.now + self.config.egress_bound <= submission.deadline;
        let real_time = is_real_time(self.task(submission.task));
        let arriving = self.subject == Subject::Arrived(key);
        let preparing = self.subject == Subject::Prepared(key);
        let fits = match reply.verdict {
            Verdict::OnTime => in_time && !submission.gone,
            Verdict::Late => !in_time && !submission.gone,
            Verdict::Rejected(Rejection::Draining) => self.draining && arriving,
            Verdict::Rejected(Rejection::QueueFull) => arriving,
            Verdict::Rejected(Rejection::Superseded) => {
                let delivery = self.task(submission.origin).delivery;
                delivery == Delivery::LatestFrame && submission.next_stage == 0 && !submission.gone
            }
            Verdict::Rejected(Rejection::Shedding) => self.shedding && !real_time,
            Verdict::Rejected(_) => {
                let at_the_door = arriving || preparing || !real_time;
                (at_the_door
                    || submission.demoted
                    || self.is_unpromised(submission)
                    || !self.punctual)
                    && !submission.gone
            }
            Verdict::Failed(Failure::ClientGone) => submission.gone,
            Verdict::Failed(Failure::Payload | Failure::NotFinite | Failure::Vector) => {
                self.subject == Subject::Unreadable(key)
            }
            Verdict::Failed(Failure::Device) => self.device_failed(submission),
            Verdict::Failed(Failure::Starved) => {
                !self.starved.is_empty() && self.device_failed(submission)
            }
            Verdict::Failed(Failure::Shed) => real_time && !arriving,
        };
        if fits && reply.deadline == submission.deadline {
            return Ok(());
        }
        Err(Violation::WrongVerdict {
            task: submission.task,
            sequence: key.2,
            verdict: reply.verdict,
            at: self.now,
            deadline: submission.deadline,
        })
    }

    /// Whether it waits for weights: nothing is promised before they are there.
    fn is_unpromised(&self, submission: &Submission) -> bool {
        let model = self.task(submission.task).model;
        self.memory.is_paged(model) && !submission.mandatory && submission.answer.is_none()
    }

    /// Its action, or the transfer that it waited for, failed in this step, or an action or a
    /// transfer that keeps it from running is lost.
    fn device_failed(&self, submission: &Submission) -> bool {
        let model = self.task(submission.task).model;
        let of_paged = |flight: &Flight| self.memory.is_paged(flight.infer.model);
        let mut flights = self.floor.flights.values();
        // What a lost action may be reading keeps its pages, perhaps those that this one needs.
        let mut pages_are_lost = || {
            self.memory.has_lost(self.now)
                || flights.any(|flight| flight.lost_from() <= self.now && of_paged(flight))
        };
        if self.is_unpromised(submission)
            && (self.subject == Subject::NotLoaded(model) || pages_are_lost())
        {
            return true;
        }
        let failed = submission
            .request
            .is_some_and(|id| self.failed.contains(&id));
        failed
            || self.floor.flights.values().any(|flight| {
                let here = flight.infer.partition;
                let home = self.task(submission.task).partition;
                let kept = !self.punctual || self.floor.overlap(home, here);
                // On a place it keeps only its own members from running.
                let own = submission.request;
                let member = own.is_some_and(|id| flight.infer.members.contains(&id));
                flight.lost_from() <= self.now && (kept || member)
            })
    }

    /// Invariant 4.
    fn check_promise(
        &mut self,
        reply: &Reply,
        submission: &Submission,
        partition: PartitionId,
    ) -> Result<(), Violation> {
        let excused = submission.gone || !self.punctual || reply.verdict == Verdict::OnTime;
        if excused {
            return Ok(());
        }
        let promised = submission.promised_in;
        if let Some(request) = submission.request
            && promised.is_some()
            && promised == self.claims.epoch(partition)
        {
            return Err(Violation::PromiseBroken {
                task: submission.task,
                request,
                deadline: submission.deadline,
                verdict: reply.verdict,
                at: self.now,
            });
        }
        let refused = matches!(
            reply.verdict,
            Verdict::Rejected(Rejection::LateOnArrival | Rejection::NoSlack | Rejection::QueueFull)
        );
        // Whichever task refused it in the end: the reservation is its own task's.
        let origin = self.task(submission.origin).partition;
        if refused && submission.in_contract && self.claims.is_unbroken(origin) {
            return Err(Violation::ReservationDenied {
                task: submission.origin,
                sequence: reply.ticket.sequence,
                verdict: reply.verdict,
            });
        }
        Ok(())
    }
}

/// An answer is the deepest one reached, and deep enough to count; a refusal has none.
fn check_answer(reply: &Reply, submission: &Submission, mandatory: u8) -> Result<(), Violation> {
    let answered = matches!(reply.verdict, Verdict::OnTime | Verdict::Late);
    let right = if answered {
        reply.answer == submission.answer
            && reply.answer.is_some_and(|(exit, _)| exit.0 >= mandatory)
    } else {
        reply.answer.is_none()
    };
    if right {
        return Ok(());
    }
    Err(Violation::WrongAnswer {
        task: submission.task,
        sequence: reply.ticket.sequence,
    })
}
