//! The scheduler's end of a partition: what it holds, and the rings to its workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heapless::Deque;
use punctual_core::{ActionId, Criticality, Event, Infer, ModelId};
use punctual_platform::Doorbell;
use punctual_platform::heartbeat::{Beat, Heartbeat, Pulse};
use rtrb::{Consumer, Producer, RingBuffer};

use super::priority::Priorities;
use super::{CancelFlag, Stopper};

/// Actions that a partition holds at once: one that runs and one ready to follow. Each is held
/// until its event has been polled, so rings of this size never overflow.
pub(super) const HELD_MAX: usize = 2;

/// What the scheduler's thread shares with a leader, whichever partitions it serves.
pub(super) struct LeaderLink {
    /// Rings for an action, a preemption or the end.
    pub(super) bell: Arc<Doorbell>,
    /// The device is being dropped.
    pub(super) ended: AtomicBool,
    /// An action is about to come.
    announced: AtomicBool,
    pub(super) priorities: Priorities,
    pub(super) heart: Heartbeat,
}

impl LeaderLink {
    pub(super) fn new(bell: Arc<Doorbell>, priorities: Priorities) -> Self {
        Self {
            bell,
            ended: AtomicBool::new(false),
            announced: AtomicBool::new(false),
            priorities,
            heart: Heartbeat::new(),
        }
    }

    pub(super) fn announce(&self) {
        // Relaxed: published by the ring; partner of the load and the swap in `take_announcement`.
        self.announced.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Whether an action was announced since the last time.
    pub(super) fn take_announcement(&self) -> bool {
        // Relaxed: partner of the store in `announce`. A load first, as most often there is none.
        self.announced.load(Ordering::Relaxed) && self.announced.swap(false, Ordering::Relaxed)
    }
}

/// Of a leader, and thereby of its team: it waits for its helpers in each operator.
impl Pulse for LeaderLink {
    fn beat(&self) -> Beat {
        self.heart.read()
    }

    fn nudge(&self) {
        self.bell.ring();
    }

    fn tid(&self) -> i32 {
        self.priorities.leader()
    }
}

/// What it shares with the leader about one partition.
pub(super) struct Link {
    /// Set to stop the action in that slot. Actions take the slots in turn.
    pub(super) interrupts: [CancelFlag; HELD_MAX],
    stopper: Option<Stopper>,
}

/// The scheduler's end.
pub(super) struct Partition {
    pub(super) leader: Arc<LeaderLink>,
    link: Arc<Link>,
    orders: Producer<Infer>,
    events: Consumer<Event>,
    held: Deque<Held, HELD_MAX>,
    /// The slot of the next action.
    slot: usize,
}

struct Held {
    action: ActionId,
    model: ModelId,
    slot: usize,
    best_effort: bool,
}

/// The leader's end.
pub(super) struct Post {
    pub(super) link: Arc<Link>,
    pub(super) orders: Consumer<Infer>,
    pub(super) events: Producer<Event>,
}

/// A partition that `leader` serves.
pub(super) fn partition(leader: Arc<LeaderLink>, stopper: Option<Stopper>) -> (Partition, Post) {
    let (order_in, order_out) = RingBuffer::new(HELD_MAX);
    let (event_in, event_out) = RingBuffer::new(HELD_MAX);
    let link = Arc::new(Link {
        interrupts: [const { CancelFlag::new() }; HELD_MAX],
        stopper,
    });
    (
        Partition {
            leader,
            link: link.clone(),
            orders: order_in,
            events: event_out,
            held: Deque::new(),
            slot: 0,
        },
        Post {
            link,
            orders: order_out,
            events: event_in,
        },
    )
}

impl Partition {
    pub(super) fn is_full(&self) -> bool {
        self.held.is_full()
    }

    /// Whether the action that runs, or begins next, is best-effort.
    pub(super) fn begins_with_best_effort(&self) -> bool {
        self.held.front().is_some_and(|first| first.best_effort)
    }

    /// Hands the action over, and wakes the leader; `urgent`: at its real-time priority.
    ///
    /// # Panics
    /// If the partition is full.
    pub(super) fn submit(&mut self, infer: &Infer, urgent: bool) {
        let held = Held {
            action: infer.id,
            model: infer.model,
            slot: self.slot,
            best_effort: infer.criticality == Criticality::BestEffort,
        };
        // The push below publishes it, and the slot's last action has been polled.
        self.link.interrupts[self.slot].clear();
        self.slot = (self.slot + 1) % HELD_MAX;
        assert!(self.held.push_back(held).is_ok(), "a full partition");
        let pushed = self.orders.push(infer.clone());
        assert!(pushed.is_ok(), "the ring holds what the partition holds");
        if urgent {
            self.leader.priorities.raise();
        }
        self.leader.bell.ring();
    }

    pub(super) fn preempt(&self, action: ActionId) {
        let held = self.held.iter().find(|held| held.action == action);
        if let Some(held) = held
            && held.best_effort
        {
            self.link.interrupts[held.slot].set();
            self.leader.priorities.raise();
            let runs = self
                .held
                .front()
                .is_some_and(|first| first.action == action);
            if runs && let Some(stop) = &self.link.stopper {
                stop();
            }
            self.leader.bell.ring();
        }
    }

    /// The next event, and whose stage it is about.
    pub(super) fn poll(&mut self) -> Option<(ModelId, Event)> {
        let event = self.events.pop().ok()?;
        let held = self.held.pop_front().expect("an action for each event");
        Some((held.model, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_wakes_the_leader_and_is_taken_once() {
        let bell = Arc::new(Doorbell::new());
        let leader = LeaderLink::new(Arc::clone(&bell), Priorities::new(1, None));
        assert!(!leader.take_announcement());
        leader.announce();
        leader.announce();
        assert_eq!(bell.count(), 2);
        assert!(leader.take_announcement());
        assert!(!leader.take_announcement());
    }
}
