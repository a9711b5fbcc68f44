//! The plan's places for clients, the clients in them, and the lines of the log about both.
//!
//! A client that comes and goes a hundred times a second must not fill the log: of a user's clients for one task the first
//! few within a minute are told, and then how many more came. The same holds for frames without an answer: the first of each
//! reason is told by the thread that sees it, and [`ClientPlaces::tell_unanswered`] counts the others.

use std::sync::Arc;

use punctual_core::{ClientId, ModelId, PartitionId, TaskId};
use punctual_events::{DaemonEvent, Names, say, say_later};
use punctual_ipc::PeerCredentials;
use punctual_plan::Plan;
use punctual_platform::clock;

use crate::metrics::{Counted, Metrics, Outcome};
use crate::rate_limit::{REPEATS_NS, RateLimit, Repeats, Who};
use crate::report::ClientReport;

/// How often frames without an answer are counted for the log, in ns.
const UNANSWERED_NS: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Pieces of its client that exist; 0: the place is free.
    pieces: u8,
    pid: i32,
    uid: u32,
    /// The task that it asked for; none before a first client came.
    asked: Option<TaskId>,
    /// Whether the log has its client.
    is_told: bool,
    /// What the log has of its frames.
    told: Counted,
}

pub struct ClientPlaces {
    plan: Arc<Plan>,
    metrics: Arc<Metrics>,
    /// By client slot.
    places: Box<[Place]>,
    comings: Repeats,
    next_ns: u64,
}

impl ClientPlaces {
    pub fn new(plan: Arc<Plan>, metrics: Arc<Metrics>) -> Self {
        Self {
            places: vec![Place::default(); plan.client_slots.len()].into(),
            plan,
            metrics,
            comings: Repeats::default(),
            next_ns: clock::now_ns() + UNANSWERED_NS,
        }
    }

    /// A free one among these slots.
    pub fn free(&self, slots: &[u16]) -> Option<ClientId> {
        let mut slots = slots.iter();
        let free = slots.find(|slot| self.places[usize::from(**slot)].pieces == 0);
        free.map(|slot| ClientId(*slot))
    }

    /// A client is about to get this place, in as many pieces.
    pub fn reserve(&mut self, client: ClientId, asked: TaskId, pieces: u8, of: PeerCredentials) {
        let PeerCredentials { pid, uid, .. } = of;
        self.metrics.clients[client.index()].begin_anew();
        self.places[client.index()] = Place {
            pieces,
            pid,
            uid,
            asked: Some(asked),
            ..Place::default()
        };
    }

    pub fn add_piece(&mut self, client: ClientId) {
        self.places[client.index()].pieces += 1;
    }

    pub fn free_unused(&mut self, client: ClientId) {
        self.places[client.index()].pieces = 0;
    }

    /// The client has its place.
    pub fn came(&mut self, client: ClientId, log: &mut RateLimit) {
        let who = Who {
            uid: self.uid_of(client),
            task: Some(self.task(client)),
        };
        let is_told = self.comings.permits(who, clock::now_ns());
        self.places[client.index()].is_told = is_told;
        if is_told {
            let event = DaemonEvent::ClientAdmitted { client };
            log.say_with(&event, self);
        }
    }

    /// One piece of the client is no more. With the last one the place is free.
    pub fn drop_piece(&mut self, client: ClientId, log: &mut RateLimit) {
        let place = &mut self.places[client.index()];
        place.pieces -= 1;
        if place.pieces == 0 && place.is_told {
            let served = words(&self.metrics.clients[client.index()].now());
            log.say_with(&DaemonEvent::ClientGone { client, served }, self);
        }
    }

    /// Says how many clients came that the log does not have, of users and tasks of which the first came long enough
    /// before `now_ns`.
    pub fn tell_untold(&mut self, now_ns: u64) {
        while let Some((who, count)) = self.comings.untold(now_ns) {
            let task = who.task.map(|task| self.plan.task(task).name.clone());
            say(&DaemonEvent::ClientsCame {
                uid: who.uid,
                task: task.unwrap_or_default(),
                count,
                within_s: REPEATS_NS / 1_000_000_000,
            });
        }
    }

    /// Says how many frames of each client have no answer, and why, if it is time to.
    pub fn tell_unanswered(&mut self, now_ns: u64) {
        if now_ns < self.next_ns {
            return;
        }
        self.next_ns = now_ns + UNANSWERED_NS;
        for slot in 0..self.places.len() {
            let client = ClientId(slot as u16);
            let now = self.metrics.clients[slot].now();
            let place = &mut self.places[slot];
            let before = std::mem::replace(&mut place.told, now);
            if place.pieces > 0
                && let Some(unanswered) = Unanswered::between(&before, &now)
            {
                let event = DaemonEvent::FramesUnanswered {
                    client,
                    count: unanswered.count,
                    of: now.submitted.saturating_sub(before.submitted),
                    reasons: unanswered.reasons,
                };
                say_later(&event, now_ns, self);
            }
        }
    }

    pub fn in_use(&self) -> usize {
        let places = self.places.iter();
        places.filter(|place| place.pieces > 0).count()
    }

    /// The clients of now.
    pub fn reports(&self) -> Vec<ClientReport> {
        let places = (0..).map(ClientId).zip(&self.places);
        let taken = places.filter(|(_, place)| place.pieces > 0);
        taken
            .map(|(client, place)| {
                let counted = self.metrics.clients[client.index()].now();
                ClientReport {
                    slot: client.0.into(),
                    task: self.task_of(client).unwrap_or_default().to_owned(),
                    pid: place.pid,
                    uid: place.uid,
                    submitted: counted.submitted,
                    on_time: counted.of(Outcome::OnTime),
                    late: counted.of(Outcome::Late),
                    rejected: counted.rejected(),
                    failed: counted.failed(),
                }
            })
            .collect()
    }

    /// How many places a process holds.
    pub fn streams_of(&self, pid: i32) -> usize {
        let held = |place: &&Place| place.pieces > 0 && place.pid == pid;
        self.places.iter().filter(held).count()
    }

    pub fn uid_of(&self, client: ClientId) -> u32 {
        self.places[client.index()].uid
    }

    /// What the client asked for.
    pub fn task(&self, client: ClientId) -> TaskId {
        let first = self.plan.client_slots[client.index()].task;
        self.places[client.index()].asked.unwrap_or(first)
    }
}

impl Names for ClientPlaces {
    fn partition(&self, id: PartitionId) -> Option<&str> {
        let partition = self.plan.partitions.get(id.index());
        partition.map(|partition| partition.name.as_str())
    }

    fn model(&self, id: ModelId) -> Option<&str> {
        let model = self.plan.models.get(id.index());
        model.map(|model| model.name.as_str())
    }

    fn task_of(&self, client: ClientId) -> Option<&str> {
        self.places.get(client.index())?;
        Some(self.plan.task(self.task(client)).name.as_str())
    }

    /// Of the last client in this place, whose pieces may be back already; 0 if there was none.
    fn pid_of(&self, client: ClientId) -> Option<i32> {
        self.places.get(client.index()).map(|place| place.pid)
    }
}

/// Frames that ended without an answer.
#[derive(Debug, PartialEq, Eq)]
struct Unanswered {
    count: u64,
    reasons: String,
}

impl Unanswered {
    /// None if there were none.
    fn between(before: &Counted, now: &Counted) -> Option<Self> {
        let mut count = 0;
        let mut reasons = Vec::new();
        for outcome in Outcome::ALL {
            let more = now.of(outcome).saturating_sub(before.of(outcome));
            if let Some(reason) = outcome.reason().filter(|_| more > 0) {
                count += more;
                reasons.push(format!("{more} times {reason}"));
            }
        }
        let reasons = reasons.join("; ");
        (count > 0).then_some(Self { count, reasons })
    }
}

/// How a client's frames ended.
fn words(counted: &Counted) -> String {
    let mut words = format!(
        "{} frames: {} on time, {} late, {} rejected, {} failed",
        counted.submitted,
        counted.of(Outcome::OnTime),
        counted.of(Outcome::Late),
        counted.rejected().total(),
        counted.failed().total(),
    );
    if let Some(Unanswered { reasons, .. }) = Unanswered::between(&Counted::default(), counted) {
        words.push_str(" (");
        words.push_str(&reasons);
        words.push(')');
    }
    words
}

#[cfg(test)]
mod tests {
    use crate::metrics::Outcomes;

    use super::*;

    #[test]
    fn frames_without_an_answer_are_counted_by_reason_since_the_last_time() {
        let outcomes = Outcomes::default();
        let end = |outcome, times: u64| {
            for _ in 0..times {
                outcomes.submitted();
                outcomes.ended(outcome);
            }
        };
        end(Outcome::OnTime, 5);
        let first = outcomes.now();
        assert_eq!(Unanswered::between(&Counted::default(), &first), None);
        end(Outcome::NoSlack, 3);
        end(Outcome::QueueFull, 1);
        let second = outcomes.now();
        let unanswered = Unanswered::between(&first, &second).expect("four");
        assert_eq!(unanswered.count, 4);
        let reasons =
            "3 times it would have made promised frames late; 1 times its task's queue was full";
        assert_eq!(unanswered.reasons, reasons);
        assert_eq!(Unanswered::between(&second, &second), None);
        let all = words(&second);
        assert!(
            all.starts_with("9 frames: 5 on time, 0 late, 4 rejected, 0 failed ("),
            "{all}"
        );
    }
}
