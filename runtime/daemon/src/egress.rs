//! Verdicts out: writes each into its client's result ring, gives the slot back and wakes the client.

use std::sync::Arc;

use punctual_core::ClientId;
use punctual_ipc::{ResultRecord, Results};
use punctual_platform::clock;
use punctual_platform::heartbeat::Heartbeat;
use punctual_platform::poll::Waker;

use crate::channels::EgressEnds;
use crate::describe::Facts;
use crate::drain::Flag;
use crate::messages::{Answered, Outbound, Refusal};
use crate::metrics::Metrics;
use crate::record;
use crate::rt_events::client_fault;

/// What the egress thread works with.
pub struct Egress {
    pub ends: EgressEnds,
    pub stop: Arc<Flag>,
    pub heart: Arc<Heartbeat>,
    pub metrics: Arc<Metrics>,
    pub housekeeping: Waker,
    pub ingress: Waker,
    pub facts: Facts,
    /// One entry a client slot: the result ring of the client that holds it.
    pub clients: Box<[Option<Results>]>,
}

impl Egress {
    /// Works until the stop flag is set. Returns itself, so that nothing is freed on this thread.
    pub fn serve(mut self) -> Self {
        loop {
            // The count and the flag before the rings. So a bell in between ends the wait below, and what was pushed
            // before the flag was raised is still delivered.
            let seen = self.ends.bell.count();
            self.heart.working();
            let stopping = self.stop.is_raised();
            while let Ok(outbound) = self.ends.outbound.pop() {
                match outbound {
                    Outbound::Verdict(answered) => self.verdict(&answered),
                    Outbound::Refused(refusal) => self.refuse(&refusal),
                    Outbound::Retire(client) => self.retire(client),
                }
            }
            self.refusals();
            if stopping {
                return self;
            }
            self.heart.waiting();
            self.ends.bell.wait(seen, None);
        }
    }

    fn verdict(&mut self, answered: &Answered) {
        let (now_ns, reply) = (clock::now_ns(), &answered.reply);
        let exits = &self.facts[reply.task.index()];
        let record = record::of_answered(answered, exits, now_ns);
        self.deliver(reply.ticket.client, &record);
        if reply.answer.is_some() {
            let latency = &self.metrics.task(reply.task).latency;
            latency.record(now_ns.saturating_sub(reply.captured.as_nanos()));
        }
    }

    fn refusals(&mut self) {
        while let Ok(refusal) = self.ends.refusals.pop() {
            self.refuse(&refusal);
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        let record = record::of_refusal(refusal, clock::now_ns());
        self.deliver(refusal.ticket.client, &record);
    }

    fn deliver(&mut self, client: ClientId, record: &ResultRecord) {
        self.welcome();
        // Refusals of a client that closed its connection have no recipient.
        let Some(results) = &mut self.clients[client.index()] else {
            return;
        };
        if let Err(fault) = results.push(record) {
            client_fault(&self.metrics, client, fault);
            // The ingress ends the client, and may sleep in epoll.
            self.ingress.wake();
        }
    }

    /// Takes over the result rings of clients that came since. Housekeeping hands them over
    /// before the ingress gets the client, so they are here before its first verdict.
    fn welcome(&mut self) {
        while let Ok((client, results)) = self.ends.newcomers.pop() {
            self.clients[client.index()] = Some(results);
        }
    }

    fn retire(&mut self, client: ClientId) {
        self.welcome();
        // Its last refusals, before its place can be given to another client, which would get them.
        self.refusals();
        let Some(results) = self.clients[client.index()].take() else {
            return;
        };
        self.ends
            .returned
            .push((client, results))
            .expect("housekeeping takes a client's pieces back before it gives its place away");
        self.housekeeping.wake();
    }
}
