//! Descriptors in: the one thread that reads what clients submit. It checks what needs no payload
//! and hands the rest to the scheduler.

use std::sync::Arc;

use punctual_core::{Arrival, ClientId, Instant, Nanos, TaskId, Ticket};
use punctual_ipc::{ChannelFault, Descriptor, Submissions};
use punctual_platform::clock;
use punctual_platform::heartbeat::Heartbeat;
use punctual_platform::poll::{Poller, Readiness};

use crate::channels::IngressEnds;
use crate::drain::{DrainOrder, Flag};
use crate::messages::{Inbound, Payload, Refusal, Refused};
use crate::metrics::{Metrics, count};
use crate::pace::Pace;
use crate::rt_events::client_fault;

/// What the ingress thread works with.
pub struct Ingress {
    pub ends: IngressEnds,
    pub poller: Poller,
    /// What the poller reported, copied out of its borrow.
    pub ready: Vec<Readiness>,
    pub clients: Box<[Place]>,
    pub metrics: Arc<Metrics>,
    pub drain: Arc<DrainOrder>,
    pub stop: Arc<Flag>,
    pub heart: Arc<Heartbeat>,
    /// Wakes housekeeping, which sleeps in epoll too.
    pub housekeeping: punctual_platform::poll::Waker,
    /// Whether the scheduler was told that no more arrivals follow.
    pub drained: bool,
}

/// A client slot as the ingress sees it.
pub struct Place {
    task: TaskId,
    slots: u16,
    /// How fast its client may submit.
    pace: Option<Pace>,
    /// Of the client that holds the slot now.
    submissions: Option<Submissions>,
    /// Whether it was not read to the end.
    unread: bool,
}

impl Place {
    /// A place without a client. Its clients submit to `task`, have `slots` slots, and, if there is a period, submit
    /// no faster than that in the long run.
    pub fn new(task: TaskId, slots: u16, period: Option<Nanos>) -> Self {
        Self {
            task,
            slots,
            pace: period.map(|period| Pace::new(period, slots)),
            submissions: None,
            unread: false,
        }
    }

    fn is_in_pace(&mut self, now_ns: u64) -> bool {
        self.pace.as_mut().is_none_or(|pace| pace.admits(now_ns))
    }
}

impl Ingress {
    /// Works until the stop flag is set. Returns itself, so that nothing is freed on this thread.
    pub fn serve(mut self) -> Self {
        loop {
            let stopping = self.stop.is_raised();
            self.look_for_orders();
            self.welcome();
            self.end_broken();
            if stopping {
                // One last look at every client: what it submitted gets its refusal.
                for client in 0..self.clients.len() {
                    self.read(client);
                }
                return self;
            }
            self.heart.waiting();
            // A client that was not read to the end has no new edge: the poller does not report it again.
            let unread = self.clients.iter().any(|place| place.unread);
            let limit = unread.then_some(0);
            self.ready.clear();
            self.ready.extend(self.poller.wait(limit));
            self.heart.working();
            self.look_for_orders();
            for client in 0..self.clients.len() {
                if self.clients[client].unread {
                    self.read(client);
                }
            }
            for at in 0..self.ready.len() {
                self.hear(self.ready[at]);
            }
        }
    }

    /// A client has rung, or is gone.
    fn hear(&mut self, ready: Readiness) {
        let client = ready.token as usize;
        let Some(submissions) = self.clients[client].submissions.as_mut() else {
            return;
        };
        if ready.hung_up {
            // What it submitted before it closed the connection counts, and gets its verdict.
            self.read(client);
            return self.dismiss(client);
        }
        match submissions.rung() {
            Ok(()) => self.read(client),
            Err(fault) => self.end(client, &fault),
        }
    }

    /// Clients that the egress found to break the protocol. It wakes this thread.
    fn end_broken(&mut self) {
        for client in 0..self.clients.len() {
            let submissions = self.clients[client].submissions.as_ref();
            if submissions.is_some_and(Submissions::is_broken) {
                self.dismiss(client);
            }
        }
    }

    /// A drain's first sign: everything that arrives from now on is refused here, so the scheduler
    /// can be told that it has seen the last arrival.
    fn look_for_orders(&mut self) {
        if !self.drained && self.drain.bound_ns().is_some() {
            self.drained = true;
            self.tell(Inbound::Drain);
        }
    }

    fn welcome(&mut self) {
        while let Ok((client, submissions)) = self.ends.newcomers.pop() {
            let place = &mut self.clients[client.index()];
            assert!(place.submissions.is_none(), "a place was given away twice");
            let watched = submissions.watch(&self.poller, u64::from(client.0));
            place.submissions = Some(submissions);
            if let Some(pace) = &mut place.pace {
                pace.begin_anew();
            }
            if watched.is_err() {
                // Out of kernel memory for one more descriptor: this client cannot be served.
                self.dismiss(client.index());
            }
        }
    }

    /// Reads what a client has submitted, as many as it has slots: one that submits as fast as it
    /// is refused must not keep this thread from the others. What is left is read the next time.
    fn read(&mut self, client: usize) {
        self.clients[client].unread = false;
        for _ in 0..self.clients[client].slots {
            let Some(submissions) = self.clients[client].submissions.as_mut() else {
                return;
            };
            match submissions.poll() {
                Ok(Some(descriptor)) => self.submit(client, &descriptor),
                Ok(None) => return,
                Err(fault) => return self.end(client, &fault),
            }
        }
        self.clients[client].unread = true;
    }

    /// Ends a client that broke the protocol.
    fn end(&mut self, client: usize, fault: &ChannelFault) {
        client_fault(&self.metrics, ClientId(client as u16), *fault);
        self.dismiss(client);
    }

    fn submit(&mut self, client: usize, descriptor: &Descriptor) {
        let now = clock::now_ns();
        let task = self.clients[client].task;
        let ticket = Ticket {
            client: ClientId(client as u16),
            slot: descriptor.slot,
            sequence: descriptor.sequence,
        };
        let refused = if self.drained {
            Some(Refused::Draining)
        } else if descriptor.captured_ns > now {
            // Without tolerance: client and daemon read the same clock, and the descriptor was
            // written before it was read.
            Some(Refused::CaptureInFuture)
        } else if !self.clients[client].is_in_pace(now) {
            Some(Refused::Quota)
        } else {
            None
        };
        if let Some(reason) = refused {
            return self.refuse(task, ticket, descriptor, reason);
        }
        let arrival = Arrival {
            task,
            ticket,
            captured: Instant::from_nanos(descriptor.captured_ns),
            deadline: descriptor.deadline_ns.map(Instant::from_nanos),
        };
        let payload = Payload {
            slot: descriptor.slot,
            sequence: descriptor.sequence,
            crop_x: descriptor.crop.x,
            crop_y: descriptor.crop.y,
        };
        self.tell(Inbound::Arrived { arrival, payload });
    }

    fn refuse(&mut self, task: TaskId, ticket: Ticket, descriptor: &Descriptor, reason: Refused) {
        let metrics = self.metrics.task(task);
        count(&metrics.submitted);
        count(match reason {
            Refused::Draining => &metrics.draining,
            Refused::CaptureInFuture => &metrics.invalid,
            Refused::Quota => &metrics.quota,
            Refused::NoArea => &metrics.no_area,
        });
        let refusal = Refusal {
            task,
            ticket,
            reason,
            captured_ns: descriptor.captured_ns,
            deadline_ns: descriptor.deadline_ns.unwrap_or(0),
        };
        self.ends
            .refusals
            .push(refusal)
            .expect("the ring holds a refusal for every slot of every client");
        self.ends.egress_bell.ring();
    }

    /// Ends a client: nothing more of it is read, and housekeeping and the scheduler learn that it is gone.
    fn dismiss(&mut self, client: usize) {
        let Some(submissions) = self.clients[client].submissions.take() else {
            return;
        };
        submissions.unwatch(&self.poller);
        self.clients[client].unread = false;
        let client = ClientId(client as u16);
        self.ends
            .returned
            .push((client, submissions))
            .expect("housekeeping takes a client's pieces back before it gives its place away");
        self.housekeeping.wake();
        self.tell(Inbound::Gone(client));
    }

    fn tell(&mut self, inbound: Inbound) {
        self.ends
            .inbound
            .push(inbound)
            .expect("the ring holds every slot's submission and every client's end");
        self.ends.scheduler_bell.ring();
    }
}
