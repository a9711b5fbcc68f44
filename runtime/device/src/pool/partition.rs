//! The scheduler's end of a partition: what it holds, and the rings to its workers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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

/// Shared by both ends.
pub(super) struct Link {
    /// Rings for an action, a preemption or the end.
    pub(super) bell: Doorbell,
    /// Set to stop the action in that slot. Actions take the slots in turn.
    pub(super) interrupts: [CancelFlag; HELD_MAX],
    /// The device is being dropped.
    pub(super) ended: AtomicBool,
    pub(super) priorities: Priorities,
    /// The leader's.
    pub(super) heart: Heartbeat,
    stopper: Option<Stopper>,
}

/// Of a leader, and thereby of its team: it waits for its helpers in each operator.
impl Pulse for Link {
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

/// The scheduler's end.
pub(super) struct Partition {
    pub(super) link: Arc<Link>,
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

pub(super) fn partition(priorities: Priorities, stopper: Option<Stopper>) -> (Partition, Post) {
    let (order_in, order_out) = RingBuffer::new(HELD_MAX);
    let (event_in, event_out) = RingBuffer::new(HELD_MAX);
    let link = Arc::new(Link {
        bell: Doorbell::new(),
        interrupts: [const { CancelFlag::new() }; HELD_MAX],
        ended: AtomicBool::new(false),
        priorities,
        heart: Heartbeat::new(),
        stopper,
    });
    (
        Partition {
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

    /// # Panics
    /// If the partition is full.
    pub(super) fn submit(&mut self, infer: &Infer) {
        let held = Held {
            action: infer.id,
            model: infer.model,
            slot: self.slot,
            best_effort: infer.criticality == Criticality::BestEffort,
        };
        // The push below publishes it, and the slot's last action has been polled.
        self.link.interrupts[self.slot].clear();
        self.slot = (self.slot + 1) % HELD_MAX;
        let behind_best_effort =
            !held.best_effort && self.held.front().is_some_and(|first| first.best_effort);
        assert!(self.held.push_back(held).is_ok(), "a full partition");
        let pushed = self.orders.push(infer.clone());
        assert!(pushed.is_ok(), "the ring holds what the partition holds");
        if behind_best_effort {
            self.link.priorities.raise();
        }
        self.link.bell.ring();
    }

    pub(super) fn preempt(&self, action: ActionId) {
        let held = self.held.iter().find(|held| held.action == action);
        if let Some(held) = held
            && held.best_effort
        {
            self.link.interrupts[held.slot].set();
            self.link.priorities.raise();
            let runs = self
                .held
                .front()
                .is_some_and(|first| first.action == action);
            if runs && let Some(stop) = &self.link.stopper {
                stop();
            }
            self.link.bell.ring();
        }
    }

    /// The next event, and whose stage it is about.
    pub(super) fn poll(&mut self) -> Option<(ModelId, Event)> {
        let event = self.events.pop().ok()?;
        let held = self.held.pop_front().expect("an action for each event");
        Some((held.model, event))
    }
}
