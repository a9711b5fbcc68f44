//! What real-time threads have to say: numbers into a ring, sentences made by housekeeping.

use std::fmt;

use punctual_core::{ActionId, ClientId, Demotion, ModelId, PartitionId};
use punctual_ipc::ChannelFault;
use punctual_plan::Plan;
use punctual_platform::rt_log::{LogRecord, RtLog};

use crate::metrics::{Metrics, count};
use crate::say::{Event, Line};

/// Room between two looks of housekeeping (100 ms apart): faults cost a client its connection, so
/// there are few; failed actions come at the rate of stages at worst.
static LOG: RtLog<1024> = RtLog::new();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A client was disconnected because of what its channel held.
    ClientFault { client: ClientId, fault: u32 },
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
}

const CLIENT_FAULT: u32 = 1;
const ACTION_FAILED: u32 = 2;
const ACTION_REFUSED: u32 = 3;
const PAYLOAD_FAULT: u32 = 4;
const LOAD_FAILED: u32 = 5;
const WEIGHTS_REFUSED: u32 = 6;
const DEMOTED: u32 = 7;
const REINSTATED: u32 = 8;

/// Says it; dropped and counted if housekeeping cannot keep up. Never blocks.
pub fn note(note: Note) {
    let (code, arguments) = match note {
        Note::ClientFault { client, fault } => {
            (CLIENT_FAULT, [u64::from(client.0), u64::from(fault), 0])
        }
        Note::ActionFailed { action, partition } => {
            (ACTION_FAILED, [action.0, u64::from(partition.0), 0])
        }
        Note::ActionRefused { action, partition } => {
            (ACTION_REFUSED, [action.0, u64::from(partition.0), 0])
        }
        Note::LoadFailed { action } => (LOAD_FAILED, [action.0, 0, 0]),
        Note::WeightsRefused { model } => (WEIGHTS_REFUSED, [u64::from(model.0), 0, 0]),
        Note::PayloadFault { client, slot } => {
            (PAYLOAD_FAULT, [u64::from(client.0), u64::from(slot), 0])
        }
        Note::Demoted(of) => (
            DEMOTED,
            [
                place(of.partition, of.model),
                u64::from(of.overran) << 8 | u64::from(of.of),
                u64::from(of.worst),
            ],
        ),
        Note::Reinstated { partition, model } => (REINSTATED, [place(partition, model), 0, 0]),
    };
    LOG.write(code, arguments);
}

/// A partition and a model as one argument.
const fn place(partition: PartitionId, model: ModelId) -> u64 {
    (partition.0 as u64) << 16 | model.0 as u64
}

const fn of_place(place: u64) -> (PartitionId, ModelId) {
    (PartitionId((place >> 16) as u16), ModelId(place as u16))
}

/// Counts and notes what a client did to its channel; that it went away is no fault.
pub fn client_fault(metrics: &Metrics, client: ClientId, fault: &ChannelFault) {
    if fault.is_violation() {
        count(&metrics.channel_faults);
        note(Note::ClientFault {
            client,
            fault: fault.code(),
        });
    }
}

/// Takes the oldest note out, with its time in ns. Housekeeping only.
pub fn take() -> Option<(u64, Note)> {
    loop {
        let record = LOG.take()?;
        if let Some(note) = decode(&record) {
            return Some((record.at_ns, note));
        }
    }
}

pub fn dropped() -> u64 {
    LOG.dropped()
}

impl Note {
    /// The line that says it, with the task and the client's process that it is about.
    pub fn line(&self, text: String, plan: &Plan, pid: impl Fn(ClientId) -> i32) -> Line {
        let task = |client: ClientId| {
            let slot = plan.client_slots.get(client.index());
            slot.map_or("", |slot| plan.tasks[slot.task.index()].name.as_str())
        };
        match *self {
            Self::ClientFault { client, .. } => Line::warning(text)
                .event(Event::ClientFault)
                .task(task(client))
                .client_pid(pid(client)),
            Self::PayloadFault { client, .. } => Line::warning(text)
                .task(task(client))
                .client_pid(pid(client)),
            Self::ActionRefused { .. } | Self::WeightsRefused { .. } => Line::error(text),
            Self::ActionFailed { .. } | Self::LoadFailed { .. } => Line::warning(text),
            Self::Demoted(_) => Line::error(text).event(Event::Demoted),
            Self::Reinstated { .. } => Line::notice(text).event(Event::Demoted),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientFault { client, fault } => {
                let names = ChannelFault::NAMES;
                let name = names.get(*fault as usize).copied().unwrap_or("unknown");
                write!(f, "client slot {}: disconnected for {name}", client.0)
            }
            Self::ActionFailed { action, partition } => {
                write!(f, "partition {}: action {} failed", partition.0, action.0)
            }
            Self::ActionRefused { action, partition } => write!(
                f,
                "partition {}: the device refused action {}, which is a defect of Punctual",
                partition.0, action.0
            ),
            Self::LoadFailed { action } => write!(
                f,
                "load {}: the weights could not be read from their package, or are not what it says",
                action.0
            ),
            Self::WeightsRefused { model } => write!(
                f,
                "model {}: the device refused to move its weights, which is a defect of Punctual",
                model.0
            ),
            Self::Demoted(of) => write!(
                f,
                "partition {}: model {} demoted: overran {} of {}, worst {}.{:03} times its budget; \
                 its tasks are promised nothing until it keeps its profile again",
                of.partition.0,
                of.model.0,
                of.overran,
                of.of,
                of.worst / 1_000,
                of.worst % 1_000
            ),
            Self::Reinstated { partition, model } => write!(
                f,
                "partition {}: model {} keeps its profile again and has its promises back",
                partition.0, model.0
            ),
            Self::PayloadFault { client, slot } => write!(
                f,
                "client slot {}: the payload in slot {slot} could not be read",
                client.0
            ),
        }
    }
}

fn decode(record: &LogRecord) -> Option<Note> {
    let [a, b, c] = record.arguments;
    Some(match record.code {
        CLIENT_FAULT => Note::ClientFault {
            client: ClientId(a as u16),
            fault: b as u32,
        },
        ACTION_FAILED => Note::ActionFailed {
            action: ActionId(a),
            partition: PartitionId(b as u16),
        },
        ACTION_REFUSED => Note::ActionRefused {
            action: ActionId(a),
            partition: PartitionId(b as u16),
        },
        LOAD_FAILED => Note::LoadFailed {
            action: ActionId(a),
        },
        WEIGHTS_REFUSED => Note::WeightsRefused {
            model: ModelId(a as u16),
        },
        DEMOTED => {
            let (partition, model) = of_place(a);
            Note::Demoted(Demotion {
                partition,
                model,
                overran: (b >> 8) as u8,
                of: b as u8,
                worst: c as u32,
            })
        }
        REINSTATED => {
            let (partition, model) = of_place(a);
            Note::Reinstated { partition, model }
        }
        PAYLOAD_FAULT => Note::PayloadFault {
            client: ClientId(a as u16),
            slot: b as u16,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_real_time_thread_notes_comes_out_as_a_sentence() {
        let notes = [
            Note::ClientFault {
                client: ClientId(3),
                fault: 3,
            },
            Note::ActionFailed {
                action: ActionId(7),
                partition: PartitionId(1),
            },
            Note::ActionRefused {
                action: ActionId(8),
                partition: PartitionId(0),
            },
            Note::PayloadFault {
                client: ClientId(2),
                slot: 5,
            },
            Note::LoadFailed {
                action: ActionId(9),
            },
            Note::WeightsRefused { model: ModelId(4) },
        ];
        for written in notes {
            note(written);
        }
        let taken: Vec<Note> = std::iter::from_fn(take).map(|(_, note)| note).collect();
        assert_eq!(taken, notes);
        let sentence = taken[0].to_string();
        assert_eq!(
            sentence,
            "client slot 3: disconnected for a slot submitted twice"
        );
    }
}
