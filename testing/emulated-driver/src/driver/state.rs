//! Everything that the driver knows.
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, LockResult, Mutex, MutexGuard};

use super::connections::Connections;
use super::external::External;
use super::fault::{Fates, Faults};
use super::gate::Hold;
use super::memory::Memory;
use super::objects::{Event, Function, Green, Module, Primary, Progress, Record, Stream};
use super::timed::Timed;
use crate::code::{Code, Outcome};
use crate::config::{CallFault, Config, ENVIRONMENT};
use crate::versions;
use crate::virtual_time::Loads;

pub(crate) struct State {
    /// From the test, before `cuInit`; without it, from the environment.
    pub(crate) config: Option<Config>,
    /// There from `cuInit` on.
    pub(crate) device: Option<Device>,
    pub(crate) faults: Faults,
    /// How many machines there were: a thread that waited on one of them must not go on with another.
    pub(crate) machines: u64,
    /// How often each call was made.
    pub(crate) calls: BTreeMap<&'static str, u64>,
}

/// A GPU, and all that was made on it.
pub(crate) struct Device {
    pub(crate) config: Config,
    pub(crate) primary: Primary,
    pub(crate) memory: Memory,
    pub(crate) modules: BTreeMap<usize, Module>,
    pub(crate) functions: BTreeMap<usize, Function>,
    /// By a number that is never used again, destroyed ones included until their work is done.
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) green: BTreeMap<usize, Green>,
    pub(crate) external: BTreeMap<usize, External>,
    /// Descriptions of resources: the multiprocessors that each names.
    pub(crate) descriptions: BTreeMap<usize, Vec<u32>>,
    /// Of all launches, in the order of submission.
    pub(crate) records: VecDeque<Record>,
    pub(crate) launches: u64,
    pub(crate) begun: u64,
    /// What becomes of launches to come.
    pub(crate) fates: Fates,
    /// What the last kernel that went wrong said.
    pub(crate) complaint: Option<String>,
    pub(crate) connections: Connections,
    /// Whether a kernel is loaded when its function is first asked for.
    pub(crate) lazy: bool,
    /// In virtual time launches take time and compute nothing.
    pub(crate) timed: Option<Timed>,
    /// What was loaded so far.
    pub(crate) loads: Loads,
    /// What streams that are made from now on begin with.
    pub(crate) hold_new: Hold,
    next: u64,
}

/// The one driver of the process.
pub(crate) static DRIVER: Driver = Driver {
    state: Mutex::new(State {
        config: None,
        device: None,
        faults: Faults::new(),
        machines: 0,
        calls: BTreeMap::new(),
    }),
    changed: Condvar::new(),
};

pub(crate) struct Driver {
    state: Mutex<State>,
    changed: Condvar,
}

fn even_if_poisoned<T>(result: LockResult<T>) -> T {
    // A panic is a defect of the emulation that the call reports; the state is still there.
    result.unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Driver {
    pub(crate) fn lock(&self) -> MutexGuard<'static, State>
    where
        Self: 'static,
    {
        even_if_poisoned(DRIVER.state.lock())
    }

    /// Tells all who wait that something is different now.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for the next [`notify`](Self::notify).
    pub(crate) fn wait(&self, state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
        even_if_poisoned(self.changed.wait(state))
    }
}

impl State {
    /// Begins to be the configured machine. Again: nothing.
    pub(crate) fn initialise(&mut self) -> Outcome {
        if self.device.is_some() {
            return Ok(());
        }
        let config = self.configuration()?.clone();
        if config.devices == 0 {
            return Err(Code::NO_DEVICE);
        }
        self.device = Some(Device::new(config));
        self.machines += 1;
        Ok(())
    }

    /// The configuration of the machine: as the test said, else as the environment says.
    fn configuration(&mut self) -> Outcome<&Config> {
        if self.config.is_none() {
            let config = from_environment()?;
            self.configure(config);
        }
        self.config.as_ref().ok_or(Code::UNKNOWN)
    }

    /// Before the first call counts, as it may be the one that is to fail.
    pub(crate) fn ensure_configured(&mut self) {
        // A text that is wrong is `cuInit`'s to report.
        let _ = self.configuration();
    }

    /// The machine from the next `cuInit` on.
    pub(crate) fn configure(&mut self, config: Config) {
        self.faults = Faults::new();
        self.calls.clear();
        self.plan_faults(&config);
        self.config = Some(config);
    }

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

    /// The GPU, if `cuInit` was called.
    pub(crate) fn device(&mut self) -> Outcome<&mut Device> {
        self.device.as_mut().ok_or(Code::NOT_INITIALIZED)
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

fn from_environment() -> Outcome<Config> {
    let Some(text) = std::env::var_os(ENVIRONMENT) else {
        return Ok(Config::default());
    };
    text.to_string_lossy().parse().map_err(|error| {
        // A driver has no other way to say why it does not start.
        eprintln!("{ENVIRONMENT}: {error}");
        Code::INVALID_VALUE
    })
}

/// Whether kernels are loaded lazily, given what the environment says.
fn is_lazy(config: &Config, said: Option<&str>) -> bool {
    let asked = config.lazy.or(match said {
        Some("LAZY") => Some(true),
        Some("EAGER") => Some(false),
        _ => None,
    });
    versions::can_be_lazy(config.driver)
        && asked.unwrap_or_else(|| versions::is_lazy(config.driver))
}

impl Device {
    fn new(config: Config) -> Self {
        let mut fates = Fates::default();
        for fault in &config.launch_faults {
            fates.plan(fault, 0);
        }
        Self {
            memory: Memory::new(config.memory_bytes),
            connections: Connections::of(&config),
            lazy: is_lazy(
                &config,
                std::env::var("CUDA_MODULE_LOADING").ok().as_deref(),
            ),
            timed: None,
            loads: Loads::default(),
            config,
            fates,
            complaint: None,
            primary: Primary::default(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            green: BTreeMap::new(),
            external: BTreeMap::new(),
            descriptions: BTreeMap::new(),
            records: VecDeque::new(),
            launches: 0,
            begun: 0,
            hold_new: Hold::Open,
            next: 1,
        }
    }

    /// A number that was never used before.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A handle that looks like an address and was never used before.
    pub(crate) fn handle(&mut self) -> usize {
        0x1000 + 16 * self.number() as usize
    }

    /// All is lost that was made in the context. The threads of its streams have ended their work.
    pub(crate) fn forget_everything(&mut self) {
        for record in &mut self.records {
            if matches!(record.progress, Progress::Waiting | Progress::Running) {
                record.progress = Progress::Dropped;
            }
        }
        self.streams.clear();
        self.connections.clear();
        self.modules.clear();
        self.functions.clear();
        self.events.clear();
        self.green.clear();
        self.descriptions.clear();
        self.external.clear();
        self.memory.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_loaded_lazily_by_the_drivers_age_unless_somebody_says_otherwise() {
        let of = |driver, lazy, said| {
            let config = Config {
                driver,
                lazy,
                ..Config::default()
            };
            is_lazy(&config, said)
        };
        assert!(of(12060, None, None) && !of(12010, None, None));
        assert!(!of(12060, None, Some("EAGER")) && of(12010, None, Some("LAZY")));
        assert!(of(12060, None, Some("DEFAULT")) && !of(12060, Some(false), Some("LAZY")));
        assert!(!of(11060, Some(true), Some("LAZY")), "it cannot");
    }
}
