//! Processor time of both sides' processes, as the kernel accounts it.

use std::fs;
use std::io;

use punctual_client::now_ns;
use punctual_platform::stall::StallProbe;

use crate::usage::{Usage, UsageError};

/// What `/proc/PID/stat` counts in: `USER_HZ`, 100 on every architecture that we build for.
const TICK_NS: u64 = 10_000_000;

#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    #[error("/proc/{path}: {source}")]
    Process { path: String, source: io::Error },
    #[error(transparent)]
    Thread(#[from] UsageError),
}

/// Since its beginning.
pub struct ProcessorTime {
    daemon: Option<u32>,
    begun_ns: u64,
    used_ns: u64,
}

impl ProcessorTime {
    /// Of this process, without the probes, and of the daemon if there is one.
    pub fn begin(daemon: Option<u32>, probes: &[StallProbe]) -> Result<Self, ProcessorError> {
        Ok(Self {
            daemon,
            begun_ns: now_ns(),
            used_ns: used_ns(daemon, probes)?,
        })
    }

    /// How many cores were busy since, on average.
    pub fn cores_used(&self, probes: &[StallProbe]) -> Result<f64, ProcessorError> {
        let used_ns = used_ns(self.daemon, probes)? - self.used_ns;
        Ok(used_ns as f64 / (now_ns() - self.begun_ns) as f64)
    }
}

fn used_ns(daemon: Option<u32>, probes: &[StallProbe]) -> Result<u64, ProcessorError> {
    let own = process_ns("self".to_owned())?;
    let daemon = daemon.map(|id| process_ns(id.to_string())).transpose()?;
    let probes = probes
        .iter()
        .map(|probe| Usage::of_thread(probe.thread().tid()));
    let probes = probes.map(|usage| usage.map(|usage| usage.ran_ns));
    let probes = probes.sum::<Result<u64, UsageError>>()?;
    Ok((own + daemon.unwrap_or(0)).saturating_sub(probes))
}

fn process_ns(id: String) -> Result<u64, ProcessorError> {
    let path = format!("{id}/stat");
    let ns = fs::read_to_string(format!("/proc/{path}")).and_then(|text| {
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "it has another form");
        of_stat(&text).ok_or_else(unknown)
    });
    ns.map_err(|source| ProcessorError::Process { path, source })
}

/// User and system time: the 12th and 13th field behind the name, which may contain anything.
fn of_stat(text: &str) -> Option<u64> {
    let (_, behind) = text.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_what_it_used_in_user_and_system_mode() {
        let stat = "12 (a) b) S 1 12 12 0 -1 4194560 5 0 0 0 250 50 7 7 20 0 9 0";
        assert_eq!(of_stat(stat), Some(3_000_000_000));
        assert_eq!(of_stat("12 (a) S 1"), None);
        assert!(process_ns("self".to_owned()).is_ok());
    }
}
