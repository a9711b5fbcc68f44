//! Whether a verdict fits what happened, and whether it breaks a promise.

use punctual_core::{Answers, Delivery, Failure, Instant, PartitionId, Rejection, Reply, Verdict};

use super::auditor::{Auditor, Subject};
use super::claims::is_real_time;
use super::floor::Flight;
use super::request_log::{Delivered, Key, Place, Submission, key};
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
        self.query_verdict(reply, &submission);
        let partition = self.task(submission.task).partition;
        let taken_on = !matches!(reply.verdict, Verdict::Rejected(_));
        if self.subject == Subject::Prepared(key) && taken_on {
            // Over in the step that took it on: there is no place to keep any more, but older frames make way to it.
            self.made_way.clear();
            let newest = self.taken_on.entry((key.0, submission.origin.0));
            let newest = newest.or_insert(submission.order);
            *newest = (*newest).max(submission.order);
        }
        if submission.mandatory {
            self.claims.mandatory(partition, false);
        }
        let mandatory_exit = self.task(submission.task).mandatory_exit.0;
        let others = [
            self.check_buffer(reply, &submission),
            check_answer(reply, &submission, mandatory_exit),
            check_delivered(reply, &submission),
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
                    Verdict::OnTime | Verdict::Late => {
                        counts && (lost || submission.leave_by <= self.now)
                    }
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

    fn is_in_time(&self, at: Instant, submission: &Submission) -> bool {
        at + self.config.egress_bound <= submission.deadline
    }

    /// An answer goes to its client before the verdict.
    pub(super) fn delivered(&mut self, reply: &Reply) -> Result<(), Violation> {
        let key = key(reply.ticket);
        let Some(submission) = self.log.open.get(&key) else {
            return Err(Violation::VerdictWithoutSubmission {
                task: reply.task,
                sequence: reply.ticket.sequence,
            });
        };
        let verdict = if self.is_in_time(self.now, submission) {
            Verdict::OnTime
        } else {
            Verdict::Late
        };
        let wanted = self.task(submission.origin).answers == Answers::EachExit && !submission.gone;
        let mandatory = self.task(submission.task).mandatory_exit;
        let before = submission.delivered.map(|delivered| delivered.answer.0);
        let answer = submission
            .answer
            .filter(|(exit, _)| *exit >= mandatory && Some(*exit) > before);
        let right = wanted
            && (reply.task, reply.request) == (submission.origin, submission.request)
            && (reply.answer, reply.verdict, reply.delivered) == (answer, verdict, None);
        let Some(answer) = answer.filter(|_| right) else {
            return Err(wrong_delivery(reply));
        };
        let at = self.now;
        if let Some(submission) = self.log.open.get_mut(&key) {
            submission.delivered = Some(Delivered { answer, at });
        }
        Ok(())
    }

    /// The client of each open request has the deepest answer that it holds and that came in time.
    pub(super) fn check_deliveries(&mut self) {
        let kept_back = |submission: &&Submission| {
            let mandatory = self.task(submission.task).mandatory_exit;
            let delivered = submission.delivered;
            self.task(submission.origin).answers == Answers::EachExit
                && !submission.gone
                && (delivered.is_none() || self.is_in_time(self.now, submission))
                && submission.answer.is_some_and(|answer| {
                    answer.0 >= mandatory && delivered.is_none_or(|it| it.answer != answer)
                })
        };
        let late = self.log.open.iter().filter(|(_, s)| kept_back(s));
        let found: Vec<_> = late.map(|(key, s)| (s.origin, key.2)).collect();
        for (task, sequence) in found {
            self.found(Violation::WrongDelivery { task, sequence });
        }
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
        let in_time = self.is_in_time(reply.delivered.unwrap_or(self.now), submission);
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
            Verdict::Rejected(Rejection::NotReady) => {
                !self.is_ready(submission.task) || self.may_stay_general(submission.task)
            }
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
        // What came too late does not replace what the client has.
        let is_delivered = reply.delivered.is_some();
        (is_delivered || reply.answer == submission.answer)
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

/// An answer that its client has stays, or is replaced by a deeper one.
fn check_delivered(reply: &Reply, submission: &Submission) -> Result<(), Violation> {
    let gone = reply.verdict == Verdict::Failed(Failure::ClientGone);
    let right = match (submission.delivered, reply.answer) {
        (None, _) => reply.delivered.is_none(),
        (Some(before), Some(answer)) if before.answer == answer => {
            reply.delivered == Some(before.at)
        }
        (Some(before), Some(deeper)) => deeper.0 > before.answer.0 && reply.delivered.is_none(),
        (Some(_), None) => gone,
    };
    right.then_some(()).ok_or(wrong_delivery(reply))
}

fn wrong_delivery(reply: &Reply) -> Violation {
    Violation::WrongDelivery {
        task: reply.task,
        sequence: reply.ticket.sequence,
    }
}
