//! The device: there is at most one.
use super::attributes;
use super::state::{DRIVER, Device, State};
use crate::code::{Code, Outcome};

pub(crate) fn init(flags: u32) -> Outcome {
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    DRIVER.lock().initialise()
}

/// Works before `cuInit`, too.
pub(crate) fn driver_version() -> Outcome<i32> {
    let mut state = DRIVER.lock();
    state.ensure_configured();
    let config = state.config.as_ref().ok_or(Code::UNKNOWN)?;
    Ok(config.driver as i32)
}

pub(super) fn known(state: &mut State, device: i32) -> Outcome<&mut Device> {
    let known = state.device()?;
    if device == 0 {
        Ok(known)
    } else {
        Err(Code::INVALID_DEVICE)
    }
}

pub(crate) fn count() -> Outcome<i32> {
    DRIVER.lock().device().map(|_| 1)
}

pub(crate) fn get(ordinal: i32) -> Outcome<i32> {
    known(&mut DRIVER.lock(), ordinal).map(|_| 0)
}

/// Begins with "Emulated", by which it can be told from any other.
pub(crate) fn name(device: i32) -> Outcome<String> {
    let mut state = DRIVER.lock();
    let config = &known(&mut state, device)?.config;
    let (major, minor) = config.compute;
    Ok(format!(
        "Emulated GPU sm_{major}{minor}, {} TPCs",
        config.tpcs
    ))
}

pub(crate) fn uuid(device: i32) -> Outcome<[u8; 16]> {
    let mut state = DRIVER.lock();
    let config = &known(&mut state, device)?.config;
    let mut uuid = *b"emulated-gpu----";
    let (major, minor) = config.compute;
    uuid[12..].copy_from_slice(&[
        major as u8,
        minor as u8,
        config.tpcs as u8,
        config.sms_per_tpc as u8,
    ]);
    Ok(uuid)
}

pub(crate) fn total_memory(device: i32) -> Outcome<usize> {
    let mut state = DRIVER.lock();
    Ok(known(&mut state, device)?.config.memory_bytes as usize)
}

pub(crate) fn attribute(which: u32, device: i32) -> Outcome<i32> {
    let mut state = DRIVER.lock();
    attributes::device(&known(&mut state, device)?.config, which)
}
