//! Things that go wrong because a test said so.
use std::collections::BTreeMap;

use super::state::{DRIVER, State};
use crate::code::Code;
use crate::config::{CallFault, Config, LaunchFault};

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
    calls: Vec<(String, u64, Code)>,
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

impl State {
    pub(crate) fn plan_call_fault(&mut self, fault: &CallFault) {
        let so_far = self.calls.get(fault.name.as_str()).copied().unwrap_or(0);
        self.faults
            .calls
            .push((fault.name.clone(), so_far + fault.nth, Code(fault.code)));
    }

    pub(super) fn plan_faults(&mut self, config: &Config) {
        for fault in &config.call_faults {
            self.plan_call_fault(fault);
        }
    }

    /// Counts a call, and says with what a test wants it to fail.
    fn count_call(&mut self, name: &'static str) -> Option<Code> {
        self.ensure_configured();
        let calls = self.calls.entry(name).or_default();
        let this = *calls;
        *calls += 1;
        let planned = &mut self.faults.calls;
        let at = planned
            .iter()
            .position(|(of, nth, _)| of == name && *nth == this)?;
        let (_, _, code) = planned.swap_remove(at);
        if code.stays().is_some()
            && let Some(device) = &mut self.device
        {
            device.break_context(code);
        }
        Some(code)
    }
}

/// Calls that say nothing about the device: they work after any error.
const ABOUT_NOTHING: [&str; 5] = [
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

/// Counts a call, and says with what it is to fail.
pub(super) fn count(name: &'static str) -> Option<Code> {
    let mut state = DRIVER.lock();
    let planned = state.count_call(name);
    let lost = || state.device.as_ref()?.lost();
    planned.or_else(|| lost().filter(|_| !ABOUT_NOTHING.contains(&name)))
}
