//! Keeping cores from deep idle states: what `/dev/cpu_dma_latency` is for
//! (admin-guide/pm/cpuidle in the kernel's documentation).

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

use crate::error::OsError;

/// While this lives, no core of the machine enters an idle state that takes longer to leave than was
/// asked for. It costs power, on every core.
#[derive(Debug)]
pub struct IdleHold {
    /// The kernel keeps to it until the descriptor is closed.
    _device: File,
}

impl IdleHold {
    /// At most `us` microseconds to leave an idle state; 0: cores do not go idle but spin.
    pub fn take(us: u32) -> Result<Self, OsError> {
        let failed = |source: io::Error| OsError {
            call: "open /dev/cpu_dma_latency",
            source,
        };
        let device = OpenOptions::new().write(true).open("/dev/cpu_dma_latency");
        let mut device = device.map_err(failed)?;
        // The device takes one signed 32-bit number in binary (power/pm_qos_interface in the kernel's documentation).
        let us = i32::try_from(us).unwrap_or(i32::MAX);
        device.write_all(&us.to_ne_bytes()).map_err(failed)?;
        Ok(Self { _device: device })
    }
}
