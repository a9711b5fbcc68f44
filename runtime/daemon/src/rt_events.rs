//! What real-time threads have to say: an event into a ring, said in words by housekeeping.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use log::{Level, debug, error, info, log_enabled, warn};
use punctual_core::{ActionId, ClientId, Demotion, ModelId, Nanos, PartitionId};
use punctual_ipc::ChannelFault;
use punctual_platform::rt_log::{Record, RtLog};

use crate::log_events::{CLIENT_FAULT, DEMOTED};
use crate::metrics::{Metrics, count};

/// Room between two looks of housekeeping (100 ms apart): faults cost a client its connection, so
/// there are few; failed actions come at the rate of stages at worst.
static LOG: RtLog<RtEvent, 1024> = RtLog::new();

/// Whether details are wanted. Relaxed: it orders nothing.
static DETAILED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtEvent {
    /// A client was disconnected because of what its channel held.
    ClientFault {
        client: ClientId,
        fault: ChannelFault,
    },
    /// The device reported a failed action.
    ActionFailed {
        action: ActionId,
        partition: PartitionId,
    },
    ActionRefused {
        action: ActionId,
        partition: PartitionId,
    },
    /// The device could not bring weights in.
    LoadFailed { action: ActionId },
    /// The device refused to load or unload weights.
    WeightsRefused { model: ModelId },
    /// A payload could not be read or prepared.
    PayloadFault { client: ClientId, slot: u16 },
    /// A model broke its profile, and its tasks are promised nothing.
    Demoted(Demotion),
    /// It kept its profile for long enough.
    Reinstated {
        partition: PartitionId,
        model: ModelId,
    },
    /// A detail: the weights are on the device.
    Loaded { model: ModelId, took: Nanos },
    /// A detail: their pages are another model's to take.
    Unloaded { model: ModelId },
}

/// Leaves it to housekeeping to say; dropped and counted if that cannot keep up. Never blocks.
pub fn emit(event: RtEvent) {
    LOG.write(event);
}

/// As [`emit`], if the log level includes details.
pub fn emit_detail(event: RtEvent) {
    if DETAILED.load(Ordering::Relaxed) {
        emit(event);
    }
}

/// Details come from now on if the log's levels want them.
pub fn look_at_levels() {
    DETAILED.store(log_enabled!(Level::Debug), Ordering::Relaxed);
}

/// Counts and tells what a client did to its channel; that it went away is no fault.
pub fn client_fault(metrics: &Metrics, client: ClientId, fault: ChannelFault) {
    if fault.is_violation() {
        count(&metrics.channel_faults);
        emit(RtEvent::ClientFault { client, fault });
    }
}

/// Takes the oldest event out. Housekeeping only.
pub fn take() -> Option<Record<RtEvent>> {
    LOG.take()
}

pub fn dropped() -> u64 {
    LOG.dropped()
}

/// When it happened, on the machine's monotonic clock.
struct At(u64);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, us) = (self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000);
        write!(f, "{seconds}.{us:06} s")
    }
}

impl RtEvent {
    pub const fn is_detail(&self) -> bool {
        matches!(self, Self::Loaded { .. } | Self::Unloaded { .. })
    }

    /// Says it, with the task and the process of the client that it is about. On an ordinary thread.
    pub fn say<'a>(self, at_ns: u64, who: impl Fn(ClientId) -> (&'a str, i32)) {
        let at = At(at_ns);
        match self {
            Self::ClientFault { client, fault } => {
                let (task, client_pid) = who(client);
                warn!(
                    event = CLIENT_FAULT, task, client_pid;
                    "{at}: client slot {}: disconnected for {}", client.0, fault.name()
                );
            }
            Self::PayloadFault { client, slot } => {
                let (task, client_pid) = who(client);
                warn!(
                    task, client_pid;
                    "{at}: client slot {}: the payload in slot {slot} could not be read", client.0
                );
            }
            Self::ActionFailed { action, partition } => {
                warn!(
                    "{at}: partition {}: action {} failed",
                    partition.0, action.0
                );
            }
            Self::ActionRefused { action, partition } => error!(
                "{at}: partition {}: the device refused action {}, which is a defect of Punctual",
                partition.0, action.0
            ),
            Self::LoadFailed { action } => warn!(
                "{at}: load {}: the weights could not be read, or their hash differs from the package's",
                action.0
            ),
            Self::WeightsRefused { model } => error!(
                "{at}: model {}: the device refused to move its weights, which is a defect of Punctual",
                model.0
            ),
            Self::Demoted(of) => error!(
                event = DEMOTED;
                "{at}: partition {}: model {} demoted: overran {} of {}, worst {}.{:03} times its budget; \
                 its tasks have no promises until it keeps its profile again",
                of.partition.0, of.model.0, of.overran, of.of, of.worst / 1_000, of.worst % 1_000
            ),
            Self::Reinstated { partition, model } => info!(
                event = DEMOTED;
                "{at}: partition {}: model {} keeps its profile again; its tasks have their promises again",
                partition.0, model.0
            ),
            Self::Loaded { model, took } => debug!(
                "{at}: model {}: its weights were loaded in {} us",
                model.0,
                took.as_nanos() / 1_000
            ),
            Self::Unloaded { model } => {
                debug!("{at}: model {}: its weights were evicted", model.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use log::{LevelFilter, Log, Metadata};

    use super::*;

    thread_local! {
        static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    /// Records the lines of this test's thread only.
    struct TestLog;

    impl Log for TestLog {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            HEARD.with_borrow_mut(|heard| heard.push(record.args().to_string()));
        }

        fn flush(&self) {}
    }

    #[test]
    fn what_a_real_time_thread_notes_comes_out_as_a_sentence() {
        log::set_logger(&TestLog).expect("the only logger here");
        log::set_max_level(LevelFilter::Info);
        let events = [
            RtEvent::ClientFault {
                client: ClientId(3),
                fault: ChannelFault::SlotInUse { slot: 5 },
            },
            RtEvent::ActionFailed {
                action: ActionId(7),
                partition: PartitionId(1),
            },
            RtEvent::ActionRefused {
                action: ActionId(8),
                partition: PartitionId(0),
            },
            RtEvent::PayloadFault {
                client: ClientId(2),
                slot: 5,
            },
            RtEvent::LoadFailed {
                action: ActionId(9),
            },
            RtEvent::WeightsRefused { model: ModelId(4) },
            RtEvent::Demoted(Demotion {
                partition: PartitionId(1),
                model: ModelId(2),
                overran: 3,
                of: 8,
                worst: 1_050,
            }),
        ];
        for event in events {
            emit(event);
        }
        let detail = RtEvent::Unloaded { model: ModelId(4) };
        emit_detail(detail);
        let taken = std::iter::from_fn(take).map(|record| record.value);
        // Other tests of this process may emit events of their own meanwhile.
        let taken: Vec<RtEvent> = taken
            .filter(|event| events.contains(event) || *event == detail)
            .collect();
        assert_eq!(taken, events);
        for (number, event) in (0..).zip(taken) {
            event.say(1_000_002_000 * number, |_| ("front", 17));
        }
        let heard = HEARD.take();
        assert_eq!(heard.len(), events.len());
        let fault = "0.000000 s: client slot 3: disconnected for a slot submitted twice";
        assert_eq!(heard[0], fault);
        assert_eq!(heard[1], "1.000002 s: partition 1: action 7 failed");
        let last = "6.000012 s: partition 1: model 2 demoted: overran 3 of 8, worst 1.050 times its budget; \
                    its tasks have no promises until it keeps its profile again";
        assert_eq!(heard[6], last);
    }
}
