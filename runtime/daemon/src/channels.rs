//! Every way from thread to thread: single-producer single-consumer rings sized by the plan, and
//! a doorbell (or, for the ingress, which sleeps in epoll, a waker) for each sleeper.
//!
//! ```text
//!  housekeeping ─newcomers─▶ ingress ─inbound─▶ scheduler ─orders─▶ intake (one a client)
//!                               │                ▲    │ ◀─prepared─┘
//!                            refusals            │    └─outbound─▶ egress
//!                               └────────────────┼──────────────────▲
//!  housekeeping ─output areas of a client─▶ scheduler
//!  housekeeping ◀── the pieces of a client that is gone, from ingress, intake, scheduler and egress
//! ```
//! No ring can overflow: a client slot has at most `slots` submissions without a verdict (its
//! channel sees to that), and the scheduler retires a client before its place is given away.

use std::sync::Arc;

use punctual_core::ClientId;
use punctual_ipc::{OutputAreas, PayloadReader, Results, Submissions};
use punctual_plan::Plan;
use punctual_platform::Doorbell;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::messages::{Inbound, IntakeOrder, Outbound, Prepared, Refusal};

/// The scheduler's ends, beside the device.
pub struct SchedulerEnds {
    pub bell: Arc<Doorbell>,
    pub inbound: Consumer<Inbound>,
    pub clients: Vec<SchedulerClientEnds>,
    pub outbound: Producer<Outbound>,
    pub egress_bell: Arc<Doorbell>,
}

/// The scheduler's ends of one client slot.
pub struct SchedulerClientEnds {
    pub orders: Producer<IntakeOrder>,
    pub prepared: Consumer<Prepared>,
    pub intake_bell: Arc<Doorbell>,
    /// The output areas of a client that came, and of one that is gone.
    pub areas: Consumer<OutputAreas>,
    pub areas_returned: Producer<OutputAreas>,
    pub slots: u16,
}

/// The ingress's ends.
pub struct IngressEnds {
    pub newcomers: Consumer<(ClientId, Submissions)>,
    pub returned: Producer<(ClientId, Submissions)>,
    pub inbound: Producer<Inbound>,
    pub scheduler_bell: Arc<Doorbell>,
    pub refusals: Producer<Refusal>,
    pub egress_bell: Arc<Doorbell>,
}

/// The ends of one client slot's intake.
pub struct IntakeEnds {
    pub client: ClientId,
    pub bell: Arc<Doorbell>,
    pub newcomers: Consumer<PayloadReader>,
    pub returned: Producer<PayloadReader>,
    pub orders: Consumer<IntakeOrder>,
    pub prepared: Producer<Prepared>,
    pub scheduler_bell: Arc<Doorbell>,
}

/// The egress's ends.
pub struct EgressEnds {
    pub bell: Arc<Doorbell>,
    pub newcomers: Consumer<(ClientId, Results)>,
    pub returned: Producer<(ClientId, Results)>,
    pub outbound: Consumer<Outbound>,
    pub refusals: Consumer<Refusal>,
}

/// Housekeeping's ends.
pub struct HousekeepingEnds {
    pub to_ingress: Producer<(ClientId, Submissions)>,
    pub from_ingress: Consumer<(ClientId, Submissions)>,
    pub to_egress: Producer<(ClientId, Results)>,
    pub from_egress: Consumer<(ClientId, Results)>,
    pub clients: Vec<HousekeepingClientEnds>,
}

/// Housekeeping's ends of one client slot.
pub struct HousekeepingClientEnds {
    pub to_intake: Producer<PayloadReader>,
    pub from_intake: Consumer<PayloadReader>,
    pub to_scheduler: Producer<OutputAreas>,
    pub from_scheduler: Consumer<OutputAreas>,
}

/// All ends, to be given to their threads.
pub struct Channels {
    pub scheduler: SchedulerEnds,
    pub ingress: IngressEnds,
    pub intakes: Vec<IntakeEnds>,
    pub egress: EgressEnds,
    pub housekeeping: HousekeepingEnds,
}

/// How many entries each shared ring needs at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    pub inbound: usize,
    pub refusals: usize,
    pub outbound: usize,
    pub pieces: usize,
}

impl Capacities {
    /// For client slots with these numbers of channel slots.
    pub fn of(slots: &[u16]) -> Self {
        let clients = slots.len();
        let submissions: usize = slots.iter().map(|&slots| usize::from(slots)).sum();
        Self {
            // Every submission without a verdict, the last word of every client, the drain.
            inbound: submissions + clients + 1,
            // Every submission may be refused.
            refusals: submissions,
            // Every submission may get its verdict, and every client be retired, at once.
            outbound: submissions + clients,
            // A place is given to a newcomer only when the pieces of the last one are back.
            pieces: clients,
        }
    }
}

impl Channels {
    /// All rings and bells of a plan; the only allocation.
    pub fn new(plan: &Plan) -> Self {
        let slots: Vec<u16> = plan
            .client_slots
            .iter()
            .map(|client| plan.task(client.task).channel.slots)
            .collect();
        Self::for_slots(&slots)
    }

    /// For client slots with these numbers of channel slots.
    pub fn for_slots(slots: &[u16]) -> Self {
        let capacities = Capacities::of(slots);
        let scheduler_bell = Arc::new(Doorbell::new());
        let egress_bell = Arc::new(Doorbell::new());
        let (inbound_in, inbound_out) = RingBuffer::new(capacities.inbound);
        let (refusals_in, refusals_out) = RingBuffer::new(capacities.refusals);
        let (outbound_in, outbound_out) = RingBuffer::new(capacities.outbound);
        let (to_ingress, ingress_newcomers) = RingBuffer::new(capacities.pieces);
        let (ingress_returned, from_ingress) = RingBuffer::new(capacities.pieces);
        let (to_egress, egress_newcomers) = RingBuffer::new(capacities.pieces);
        let (egress_returned, from_egress) = RingBuffer::new(capacities.pieces);
        let mut scheduler = SchedulerEnds {
            bell: Arc::clone(&scheduler_bell),
            inbound: inbound_out,
            clients: Vec::with_capacity(slots.len()),
            outbound: outbound_in,
            egress_bell: Arc::clone(&egress_bell),
        };
        let mut housekeeping = HousekeepingEnds {
            to_ingress,
            from_ingress,
            to_egress,
            from_egress,
            clients: Vec::with_capacity(slots.len()),
        };
        let mut intakes = Vec::with_capacity(slots.len());
        for (client, &slots) in slots.iter().enumerate() {
            let client = ClientId(client as u16);
            let ends = client_ends(client, slots, &scheduler_bell);
            scheduler.clients.push(ends.0);
            intakes.push(ends.1);
            housekeeping.clients.push(ends.2);
        }
        Self {
            scheduler,
            ingress: IngressEnds {
                newcomers: ingress_newcomers,
                returned: ingress_returned,
                inbound: inbound_in,
                scheduler_bell,
                refusals: refusals_in,
                egress_bell: Arc::clone(&egress_bell),
            },
            intakes,
            egress: EgressEnds {
                bell: egress_bell,
                newcomers: egress_newcomers,
                returned: egress_returned,
                outbound: outbound_out,
                refusals: refusals_out,
            },
            housekeeping,
        }
    }
}

fn client_ends(
    client: ClientId,
    slots: u16,
    scheduler_bell: &Arc<Doorbell>,
) -> (SchedulerClientEnds, IntakeEnds, HousekeepingClientEnds) {
    let bell = Arc::new(Doorbell::new());
    // An order for every submission, and the Retire behind them.
    let (orders_in, orders_out) = RingBuffer::new(usize::from(slots) + 1);
    // An answer to every order.
    let (prepared_in, prepared_out) = RingBuffer::new(usize::from(slots));
    // One client at a time.
    let (to_intake, newcomers) = RingBuffer::new(1);
    let (returned, from_intake) = RingBuffer::new(1);
    let (to_scheduler, areas) = RingBuffer::new(1);
    let (areas_returned, from_scheduler) = RingBuffer::new(1);
    (
        SchedulerClientEnds {
            orders: orders_in,
            prepared: prepared_out,
            intake_bell: Arc::clone(&bell),
            areas,
            areas_returned,
            slots,
        },
        IntakeEnds {
            client,
            bell: Arc::clone(&bell),
            newcomers,
            returned,
            orders: orders_out,
            prepared: prepared_in,
            scheduler_bell: Arc::clone(scheduler_bell),
        },
        HousekeepingClientEnds {
            to_intake,
            from_intake,
            to_scheduler,
            from_scheduler,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::Capacities;

    #[test]
    fn every_ring_holds_the_worst_burst_of_all_clients() {
        let capacities = Capacities::of(&[4, 8, 1]);
        assert_eq!(capacities.inbound, 13 + 3 + 1);
        assert_eq!(capacities.refusals, 13);
        assert_eq!(capacities.outbound, 13 + 3);
        assert_eq!(capacities.pieces, 3);
    }
}
