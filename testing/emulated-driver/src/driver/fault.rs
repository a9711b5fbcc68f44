//! Things that go wrong because a test said so.
use std::collections::BTreeMap;

use crate::code::Code;
use crate::config::LaunchFault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Runs,
    /// Runs no block, and breaks its context.
    Fails(Code),
    /// Runs no block until it is released or its context is reset.
    Hangs,
}

pub(crate) struct Faults {
    /// With the count of calls of that name at which it does.
    pub(super) calls: Vec<(String, u64, Code)>,
}

impl Faults {
    pub(crate) const fn new() -> Self {
        Self { calls: Vec::new() }
    }
}

/// Launches that will go wrong, by number.
#[derive(Default)]
pub(crate) struct Fates {
    planned: BTreeMap<u64, Fate>,
    /// Launches below this number hang no more.
    pub(crate) released: u64,
}

impl Fates {
    /// `launches`: how many there were so far.
    pub(crate) fn plan(&mut self, fault: &LaunchFault, launches: u64) {
        let fate = fault
            .code
            .map_or(Fate::Hangs, |code| Fate::Fails(Code(code)));
        self.planned.insert(launches + fault.nth, fate);
    }

    pub(super) fn of(&mut self, launch: u64) -> Fate {
        self.planned.remove(&launch).unwrap_or(Fate::Runs)
    }
}
