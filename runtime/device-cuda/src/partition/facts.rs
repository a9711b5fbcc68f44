//! A device, as its driver and the machine describe it.

use std::collections::BTreeMap;

use libsmctrl_sys::stream_mask::{self, Row};
use libsmctrl_sys::{CudaVersion, DriverKey, NoDrivers, Soc};

use super::units::sms_per_tpc;
use crate::driver::{Attribute, CallError, Gpu, MaskError};
use crate::host::Host;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub name: String,
    /// What tells it from every other GPU, in hexadecimal digits.
    pub uuid: String,
    pub device: u32,
    /// The CUDA version of the driver.
    pub version: CudaVersion,
    /// The driver's build; none where the machine does not tell.
    pub driver_build: Option<String>,
    /// The board's power mode; none where it has but one.
    pub power_mode: Option<String>,
    /// What its speed depends on, where the kernel shows it.
    pub settings: BTreeMap<String, String>,
    pub compute_capability: (u32, u32),
    pub multiprocessors: u32,
    /// Whether it shares the processor's memory.
    pub integrated: bool,
    /// Bytes of its memory; the processor's, if it is integrated.
    pub memory_bytes: u64,
    /// Highest clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// Highest clock of the memory, in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory's bus, in bits.
    pub memory_bus_bits: u32,
}

impl Facts {
    pub(super) fn of(gpu: Gpu, device: u32, host: &Host) -> Result<Self, CallError> {
        let version = gpu.driver().version()?;
        let narrow = |number| u16::try_from(number).unwrap_or(u16::MAX);
        let uuid = gpu.uuid()?;
        Ok(Self {
            name: gpu.name()?,
            uuid: uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
            device,
            version: CudaVersion::new(narrow(version.major), narrow(version.minor)),
            driver_build: host.driver_build(),
            power_mode: host.power_mode(),
            settings: host.settings(),
            compute_capability: gpu.compute_capability()?,
            multiprocessors: gpu.attribute(Attribute::Multiprocessors)?,
            integrated: gpu.can(Attribute::Integrated)?,
            memory_bytes: gpu.memory_bytes()? as u64,
            clock_khz: gpu.attribute(Attribute::ClockKhz)?,
            memory_clock_khz: gpu.attribute(Attribute::MemoryClockKhz)?,
            memory_bus_bits: gpu.attribute(Attribute::MemoryBusBits)?,
        })
    }

    #[must_use]
    pub const fn sms_per_tpc(&self) -> u32 {
        let (major, minor) = self.compute_capability;
        sms_per_tpc(major, minor)
    }

    /// What an offset in the driver's objects depends on.
    pub(super) fn driver_key(&self) -> Result<DriverKey, NoDrivers> {
        let (major, minor) = self.compute_capability;
        DriverKey::here(self.version, Soc::of_compute_capability(major, minor))
    }

    /// Where this driver keeps the mask of a stream, by our table.
    pub fn mask_row(&self) -> Result<&'static Row, MaskError> {
        Ok(stream_mask::find(self.driver_key()?)?)
    }
}
