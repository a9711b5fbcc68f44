//! Calls that allocate memory, give it back and register it.
use punctual_ptx::Region;

use super::context;
use super::memory::{Kind, Range};
use super::state::{DRIVER, Device};
use crate::code::{Code, Outcome};

pub(crate) fn allocate(bytes: usize) -> Outcome<u64> {
    context::with(|device| Ok(device.memory.allocate(bytes, Kind::Device)? as u64))
}

pub(crate) fn host_allocate(bytes: usize) -> Outcome<usize> {
    context::with(|device| device.memory.allocate(bytes, Kind::Host))
}

/// Gives a range back when everything that was submitted before has ended.
fn free_when_idle(address: usize, kind: Kind, unknown: Code) -> Outcome {
    if !context::with(|device| {
        Ok(device
            .memory
            .ranges
            .get(&address)
            .is_some_and(|r| r.kind == kind))
    })? {
        return Err(unknown);
    }
    context::synchronize()?;
    context::with(|device| device.memory.remove(address, kind).map(drop).ok_or(unknown))
}

pub(crate) fn free(address: u64) -> Outcome {
    if address == 0 {
        return Ok(());
    }
    let address = address as usize;
    let kind = context::with(|device| {
        let range = device.memory.ranges.get(&address);
        let kind = range.map(|range| range.kind);
        Ok(kind.filter(|kind| *kind == Kind::External))
    })?;
    let kind = kind.unwrap_or(Kind::Device);
    free_when_idle(address, kind, Code::INVALID_VALUE)
}

pub(crate) fn free_host(address: usize) -> Outcome {
    free_when_idle(address, Kind::Host, Code::INVALID_VALUE)
}

pub(crate) fn info() -> Outcome<(usize, usize)> {
    context::with(|device| {
        let total = device.memory.total;
        let free = total - device.memory.in_use(Kind::Device).bytes;
        Ok((free as usize, total as usize))
    })
}

pub(crate) fn register(address: usize, bytes: usize, read_only: bool) -> Outcome {
    context::with(|device| {
        let config = &device.config;
        if !config.host_register || read_only && !config.host_register_read_only {
            return Err(Code::NOT_SUPPORTED);
        }
        if address == 0 || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if device.memory.overlaps(address, bytes) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let range = Range {
            bytes,
            kind: Kind::Registered,
            _mapping: None,
        };
        let region = Region::written(address as u64, bytes as u64);
        device.memory.space.add(region);
        device.memory.ranges.insert(address, range);
        Ok(())
    })
}

pub(crate) fn unregister(address: usize) -> Outcome {
    free_when_idle(address, Kind::Registered, Code::HOST_MEMORY_NOT_REGISTERED)
}

/// The address by which the device knows a byte of page-locked memory: the same.
pub(crate) fn device_pointer(address: usize) -> Outcome<u64> {
    context::with(|device| {
        if device.memory.is_locked(address, 1) {
            Ok(address as u64)
        } else {
            Err(Code::INVALID_VALUE)
        }
    })
}

impl Device {
    /// Refuses an access to memory that is not there, which breaks the context.
    pub(crate) fn check_access(&mut self, address: u64, bytes: usize) -> Outcome {
        if self.memory.is_there(address as usize, bytes) {
            return Ok(());
        }
        self.break_context(Code::ILLEGAL_ADDRESS);
        DRIVER.notify();
        Err(Code::ILLEGAL_ADDRESS)
    }
}
