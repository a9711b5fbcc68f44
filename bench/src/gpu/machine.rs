//! What is measured on, by which program, when.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use punctual_device_cuda::driver::{Attribute, Driver, Gpu, OpenError};
use punctual_platform::clock;
use serde::{Deserialize, Serialize};

/// A GPU, as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub device: String,
    /// What tells it from every other one.
    pub uuid: String,
    /// E.g. `8.7`.
    pub compute_capability: String,
    /// Streaming multiprocessors, as many as the power mode leaves.
    pub multiprocessors: u32,
    pub memory_bytes: u64,
    /// It shares the host's memory.
    pub integrated: bool,
    /// The CUDA version that the driver speaks.
    pub driver: String,
    /// Highest clocks of multiprocessors and memory, in MHz, as the driver says; and the present ones, as tools report them.
    pub clocks: String,
    /// As the tools of the board or of the driver say.
    pub power_mode: String,
    pub host: String,
    /// No GPU but our emulated driver, which says nothing about time.
    pub emulated: bool,
}

/// What the emulated driver's devices are called at the beginning.
const EMULATED: &str = "emulated";

impl Machine {
    /// Asks the driver and the tools that are there.
    pub fn find(ordinal: u32) -> Result<Self, OpenError> {
        let driver = Driver::open()?;
        let gpu = driver.device(ordinal)?;
        let name = gpu.name()?;
        let (major, minor) = gpu.compute_capability()?;
        Ok(Self {
            uuid: gpu.uuid()?.map(|byte| format!("{byte:02x}")).concat(),
            compute_capability: format!("{major}.{minor}"),
            multiprocessors: gpu.attribute(Attribute::Multiprocessors)?,
            memory_bytes: gpu.memory_bytes()? as u64,
            integrated: gpu.can(Attribute::Integrated)?,
            driver: driver.version()?.to_string(),
            clocks: clocks(gpu, ordinal)?,
            power_mode: power_mode(ordinal),
            host: punctual_device_cpu::machine(),
            emulated: name.to_lowercase().starts_with(EMULATED),
            device: name,
        })
    }

    /// Whether it is the same GPU under the same driver with as many multiprocessors. Clocks may differ:
    /// those of the moment always do.
    pub fn is(&self, other: &Self) -> bool {
        let key = |machine: &Self| {
            let Self { uuid, driver, .. } = machine;
            (uuid.clone(), driver.clone(), machine.multiprocessors)
        };
        key(self) == key(other)
    }
}

fn clocks(gpu: Gpu, ordinal: u32) -> Result<String, OpenError> {
    let mhz = |attribute| gpu.attribute(attribute).map(|khz| khz / 1000);
    let (cores, memory) = (mhz(Attribute::ClockKhz)?, mhz(Attribute::MemoryClockKhz)?);
    let now = nvidia_smi(
        ordinal,
        "clocks.sm,clocks.mem,clocks_throttle_reasons.active",
    );
    let now = now.map_or_else(String::new, |now| {
        format!("; now {now} (multiprocessors, memory, reasons to throttle)")
    });
    Ok(format!("at most {cores} MHz, memory {memory} MHz{now}"))
}

/// Of a Jetson its mode, of another GPU the limit of its power and whether the driver stays loaded.
fn power_mode(ordinal: u32) -> String {
    said("nvpmodel", &["-q"])
        .map(|text| text.lines().collect::<Vec<_>>().join(", "))
        .or_else(|| nvidia_smi(ordinal, "power.limit,persistence_mode"))
        .unwrap_or_else(|| "unknown".to_owned())
}

fn nvidia_smi(ordinal: u32, query: &str) -> Option<String> {
    let query = format!("--query-gpu={query}");
    said(
        "nvidia-smi",
        &[&query, "--format=csv,noheader", "-i", &ordinal.to_string()],
    )
}

/// What a program says, if it is there and ends well.
pub fn said(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// This program: its version, and the commit that it was built from.
pub fn program() -> String {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("PUNCTUAL_COMMIT"));
    format!("punctual {version}, commit {commit}")
}

/// The present, for people.
pub fn date() -> String {
    clock::date_of(clock::unix_seconds())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::machine;
    use super::*;

    #[test]
    fn the_same_gpu_at_other_clocks_is_the_same_and_with_fewer_multiprocessors_it_is_not() {
        let (now, mut later) = (machine("a"), machine("a"));
        later.clocks = "at most 900 MHz".into();
        assert!(now.is(&later));
        later.multiprocessors = 8;
        assert!(!now.is(&later));
    }

    #[test]
    fn a_program_that_is_not_there_says_nothing() {
        assert_eq!(said("punctual-no-such-program", &[]), None);
        assert_eq!(said("false", &[]), None);
        assert_eq!(said("echo", &["a  "]), Some("a".into()));
    }
}
