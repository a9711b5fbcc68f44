//! Every way from thread to thread: single-producer single-consumer rings sized by the plan, and
//! a doorbell (or, for a port, which sleeps in epoll, a waker) for each sleeper.
//!
//! ```text
//!  housekeeping ─newcomers─▶ port (one a client) ─inbound─▶ scheduler ─orders─▶ intake (one a client)
//!                                ▲                             │  ▲ ◀─prepared─┘
//!                                └─────────outbound────────────┘  │
//!  housekeeping ─output areas of a client─────────────────────────┘
//!  housekeeping ◀── the pieces of a client that is gone, from port, intake and scheduler
//! ```
//! No ring can overflow: a client has at most as many submissions in its ring as slots, and at most `results` without a
//! verdict that it has read (its channel sees to both), and the scheduler retires a client before its place is given away.

use std::sync::Arc;

use punctual_core::{ClientId, TaskId};
use punctual_device::frames::SharedPreparer;
use punctual_ipc::{OutputAreas, PayloadReader, Results, Submissions};
use punctual_plan::{ClientSlotPlan, Plan};
use punctual_platform::poll::{Poller, Waker};
use punctual_platform::{Doorbell, OsError};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::messages::{Inbound, IntakeOrder, Outbound, Prepared};

/// The scheduler's ends of all channels; the device is not one of them.
pub struct SchedulerEnds {
    pub bell: Arc<Doorbell>,
    pub clients: Vec<SchedulerClientEnds>,
}

/// The scheduler's ends of one client slot.
pub struct SchedulerClientEnds {
    pub inbound: Consumer<Inbound>,
    pub outbound: Producer<Outbound>,
    pub port: Waker,
    pub orders: Producer<IntakeOrder>,
    pub prepared: Consumer<Prepared>,
    pub intake_bell: Arc<Doorbell>,
    /// The output areas of a client that came, and of one that is gone.
    pub areas: Consumer<OutputAreas>,
    pub areas_returned: Producer<OutputAreas>,
    pub slots: u16,
    /// The most crops of a frame.
    pub parts: u8,
}

/// What a port has of a client.
pub struct Newcomer {
    pub submissions: Submissions,
    pub results: Results,
    /// The task that it asked for.
    pub asked: TaskId,
}

/// The ends of one client slot's port.
pub struct PortEnds {
    pub client: ClientId,
    /// Woken by the scheduler and by housekeeping.
    pub poller: Poller,
    pub newcomers: Consumer<Newcomer>,
    pub submissions_returned: Producer<Submissions>,
    pub results_returned: Producer<Results>,
    pub inbound: Producer<Inbound>,
    pub outbound: Consumer<Outbound>,
    pub scheduler_bell: Arc<Doorbell>,
    pub slots: u16,
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

/// Housekeeping's ends of one client slot.
pub struct HousekeepingClientEnds {
    pub port: Waker,
    pub to_port: Producer<Newcomer>,
    pub submissions: Consumer<Submissions>,
    pub results: Consumer<Results>,
    pub to_intake: Producer<PayloadReader>,
    pub from_intake: Consumer<PayloadReader>,
    pub to_scheduler: Producer<OutputAreas>,
    pub from_scheduler: Consumer<OutputAreas>,
    /// What prepares its frames on a device, which must know where they lie.
    pub frames: Option<SharedPreparer>,
}

/// What the rings of a client slot have room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub slots: u16,
    /// All that its submissions get without a verdict that was read.
    pub records: usize,
    /// The most crops of a frame.
    pub parts: u8,
}

/// All ends, to be given to their threads.
pub struct Channels {
    pub scheduler: SchedulerEnds,
    pub ports: Vec<PortEnds>,
    pub intakes: Vec<IntakeEnds>,
    pub housekeeping: Vec<HousekeepingClientEnds>,
}

impl Channels {
    /// All rings and bells of a plan; the only allocation.
    pub fn new(plan: &Plan) -> Result<Self, OsError> {
        let room = plan.client_slots.iter().map(|client| {
            let channel = &plan.task(client.task).channel;
            Room {
                slots: channel.slots,
                records: usize::from(channel.results) * usize::from(channel.records),
                parts: parts_of(plan, *client),
            }
        });
        Self::with_room(&room.collect::<Vec<_>>())
    }

    pub fn with_room(clients: &[Room]) -> Result<Self, OsError> {
        let bell = Arc::new(Doorbell::new());
        let mut channels = Self {
            scheduler: SchedulerEnds {
                bell: Arc::clone(&bell),
                clients: Vec::with_capacity(clients.len()),
            },
            ports: Vec::with_capacity(clients.len()),
            intakes: Vec::with_capacity(clients.len()),
            housekeeping: Vec::with_capacity(clients.len()),
        };
        for (client, room) in (0..).zip(clients) {
            channels.add(ClientId(client), *room, &bell)?;
        }
        Ok(channels)
    }

    fn add(
        &mut self,
        client: ClientId,
        Room {
            slots,
            records,
            parts,
        }: Room,
        scheduler_bell: &Arc<Doorbell>,
    ) -> Result<(), OsError> {
        // The client's bell, and its end.
        let poller = Poller::new(2)?;
        let submissions = usize::from(slots);
        // Every submission that holds a slot, and the client's last word or the Retire behind them.
        let (inbound_in, inbound) = RingBuffer::new(submissions + 1);
        // A slot is free before its submission has a verdict. So while the port waits for its client, more verdicts may
        // come than there are slots.
        let (outbound, outbound_out) = RingBuffer::new(records + 1);
        let prepared = submissions * (1 + usize::from(parts));
        let (orders, orders_out) = RingBuffer::new(prepared + 1);
        // An answer to every order.
        let (prepared_in, prepared) = RingBuffer::new(prepared);
        // One client at a time.
        let (to_port, newcomers) = RingBuffer::new(1);
        let (submissions_returned, submissions) = RingBuffer::new(1);
        let (results_returned, results) = RingBuffer::new(1);
        let (to_intake, readers) = RingBuffer::new(1);
        let (readers_returned, from_intake) = RingBuffer::new(1);
        let (to_scheduler, areas) = RingBuffer::new(1);
        let (areas_returned, from_scheduler) = RingBuffer::new(1);
        let intake_bell = Arc::new(Doorbell::new());
        self.housekeeping.push(HousekeepingClientEnds {
            port: poller.waker(),
            to_port,
            submissions,
            results,
            to_intake,
            from_intake,
            to_scheduler,
            from_scheduler,
            frames: None,
        });
        self.scheduler.clients.push(SchedulerClientEnds {
            inbound,
            outbound,
            port: poller.waker(),
            orders,
            prepared,
            intake_bell: Arc::clone(&intake_bell),
            areas,
            areas_returned,
            slots,
            parts,
        });
        self.intakes.push(IntakeEnds {
            client,
            bell: intake_bell,
            newcomers: readers,
            returned: readers_returned,
            orders: orders_out,
            prepared: prepared_in,
            scheduler_bell: Arc::clone(scheduler_bell),
        });
        self.ports.push(PortEnds {
            client,
            poller,
            newcomers,
            submissions_returned,
            results_returned,
            inbound: inbound_in,
            outbound: outbound_out,
            scheduler_bell: Arc::clone(scheduler_bell),
            slots,
        });
        Ok(())
    }
}

/// The most crops of a frame of a client.
fn parts_of(plan: &Plan, client: ClientSlotPlan) -> u8 {
    let bursts = client.parts();
    let bursts = bursts.map(|task| plan.scheduler.tasks[task.index()].burst);
    bursts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ring_holds_the_worst_burst_of_its_client() {
        let room = |slots, records| Room {
            slots,
            records,
            parts: 0,
        };
        let channels = Channels::with_room(&[room(4, 24), room(1, 2)]).expect("descriptors");
        let rings = channels.scheduler.clients.iter().zip(&channels.ports);
        for ((scheduler, port), (slots, records)) in rings.zip([(4, 24), (1, 2)]) {
            // Every submission, and the client's last word; every order and record, and the Retire.
            assert_eq!(port.inbound.slots(), slots + 1);
            assert_eq!(scheduler.orders.slots(), slots + 1);
            assert_eq!(scheduler.outbound.slots(), records + 1);
        }
        assert_eq!(channels.intakes[0].prepared.slots(), 4);
    }
}
