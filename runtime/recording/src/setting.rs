//! What the recorded scheduler was made from.

use punctual_core::{Config, ModelId, PartitionId, TaskId, Ticket};
use serde::{Deserialize, Serialize};

use crate::frames::FrameId;

/// The attachment that holds it, as JSON.
pub const SETTING: &str = "setting.json";

/// The scheduler's part of a plan, and the names of what it knows by number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub config: Config,
    /// The policy's name with its parameters, as a map of one entry.
    pub policy: serde_json::Value,
    pub names: Names,
}

/// Names of a plan, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    pub tasks: Vec<String>,
    pub models: Vec<String>,
    /// Places among them.
    pub partitions: Vec<String>,
}

impl Names {
    /// The task's name, or its number if it has none here.
    #[must_use]
    pub fn task(&self, id: TaskId) -> String {
        named(&self.tasks, id.index(), "task")
    }

    /// A frame as people call it: `TASK/CLIENT/SEQUENCE`, with `.PART` if it is a crop of one.
    #[must_use]
    pub fn frame(&self, frame: FrameId) -> String {
        let Ticket {
            client,
            part,
            sequence,
            ..
        } = frame.ticket;
        let name = format!("{}/{}/{sequence}", self.task(frame.task), client.0);
        match part {
            0 => name,
            part => format!("{name}.{part}"),
        }
    }

    #[must_use]
    pub fn model(&self, id: ModelId) -> String {
        named(&self.models, id.index(), "model")
    }

    #[must_use]
    pub fn partition(&self, id: PartitionId) -> String {
        named(&self.partitions, id.index(), "partition")
    }
}

fn named(names: &[String], index: usize, kind: &str) -> String {
    let name = names.get(index);
    name.map_or_else(|| format!("{kind} {index}"), String::clone)
}
