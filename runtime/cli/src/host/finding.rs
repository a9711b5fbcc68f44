//! What a finding says, and the cores that findings are about.

use serde::Serialize;

use super::machine::Machine;
use super::subject::Subject;

/// How much a finding matters. There is no `Ord`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gravity {
    Good,
    /// Not the best; costs little, or only sometimes.
    Notice,
    Costly,
    /// Promises cannot be kept like this.
    Grave,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub subject: Subject,
    pub gravity: Gravity,
    /// What was found, with units.
    pub found: String,
    /// The commands or settings that mend it; none where nothing does, or nothing must be.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(subject: Subject, gravity: Gravity, found: impl Into<String>) -> Self {
        Self {
            subject,
            gravity,
            found: found.into(),
            remedy: None,
        }
    }

    pub(super) fn good(subject: Subject, found: impl Into<String>) -> Self {
        Self::new(subject, Gravity::Good, found)
    }

    pub(super) fn mended_by(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The cores that findings are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    pub partitions: Vec<u16>,
    /// Those of the daemon's other threads.
    pub daemon: Vec<u16>,
}

impl Cores {
    pub fn of(plan: &punctual_plan::Plan) -> Self {
        let sorted = |mut cores: Vec<u16>| {
            cores.sort_unstable();
            cores.dedup();
            cores
        };
        let partitions = plan.partitions.iter().flat_map(|p| p.cores.clone());
        Self {
            partitions: sorted(partitions.collect()),
            daemon: sorted(plan.housekeeping_cores.clone()),
        }
    }

    /// Without a plan: the first core is the daemon's, the others run stages, as in a plan that names none.
    pub fn of_machine(machine: &Machine) -> Self {
        let online = machine.cores("/sys/devices/system/cpu/online");
        let online = online.unwrap_or_default();
        match online.split_first() {
            Some((first, others)) if !others.is_empty() => Self {
                partitions: others.to_vec(),
                daemon: vec![*first],
            },
            _ => Self {
                partitions: online.clone(),
                daemon: online,
            },
        }
    }

    /// All of them, rising.
    pub fn all(&self) -> Vec<u16> {
        let mut all = [&self.partitions[..], &self.daemon[..]].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}
