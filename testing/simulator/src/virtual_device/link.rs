//! The way of weights to the device: one transfer at a time, in the order of the orders
//! (Clockwork, section 5.2: loads on a stream of their own).

use std::collections::VecDeque;

use punctual_core::{ActionId, Instant, ModelId, Nanos};

/// Transfers under way and waiting.
#[derive(Debug, Default)]
pub(super) struct Link {
    waiting: VecDeque<Order>,
    running: Option<Transfer>,
}

/// A transfer to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) action: ActionId,
    pub(super) model: ModelId,
    pub(super) load: Nanos,
}

/// A transfer that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) action: ActionId,
    pub(super) model: ModelId,
    pub(super) started: Instant,
    pub(super) ends: Instant,
}

impl Link {
    pub(super) fn ends(&self) -> Option<Instant> {
        self.running.map(|transfer| transfer.ends)
    }

    pub(super) fn enqueue(&mut self, order: Order) {
        self.waiting.push_back(order);
    }

    /// The order to start next, if the link is free.
    pub(super) fn next(&mut self) -> Option<Order> {
        match self.running {
            None => self.waiting.pop_front(),
            Some(_) => None,
        }
    }

    pub(super) fn start(&mut self, order: Order, at: Instant, took: Nanos) {
        self.running = Some(Transfer {
            action: order.action,
            model: order.model,
            started: at,
            ends: at + took,
        });
    }

    /// The transfer that has ended by `now`, if one has.
    pub(super) fn end(&mut self, now: Instant) -> Option<Transfer> {
        self.running.take_if(|transfer| transfer.ends <= now)
    }
}
