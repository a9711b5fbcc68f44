//! Events.
use std::sync::Arc;

use super::context;
use super::objects::{Command, Event, Mark};
use super::state::DRIVER;
use crate::code::{Code, Outcome};

/// `CU_EVENT_BLOCKING_SYNC`, `CU_EVENT_DISABLE_TIMING`, `CU_EVENT_INTERPROCESS`.
const FLAGS: u32 = 7;
const DISABLE_TIMING: u32 = 2;

pub(crate) fn create(flags: u32) -> Outcome<usize> {
    context::with(|device| {
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let handle = device.handle();
        let event = Event {
            latest: None,
            timing: flags & DISABLE_TIMING == 0,
        };
        device.events.insert(handle, event);
        Ok(handle)
    })
}

pub(crate) fn destroy(handle: usize) -> Outcome {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    device
        .events
        .remove(&handle)
        .map(drop)
        .ok_or(Code::INVALID_HANDLE)
}

pub(crate) fn record(handle: usize, stream: usize) -> Outcome {
    context::with(|device| {
        let number = device.stream_number(stream)?;
        let mark = Arc::new(Mark::default());
        let event = device.events.get_mut(&handle).ok_or(Code::INVALID_HANDLE)?;
        event.latest = Some(Arc::clone(&mark));
        device.submit(number, Command::Record(mark))?;
        Ok(())
    })
}

/// Lets a stream wait for the recording that the event has now.
pub(crate) fn stream_wait(stream: usize, handle: usize) -> Outcome {
    context::with(|device| {
        let number = device.stream_number(stream)?;
        let event = device.events.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        if let Some(mark) = event.latest.clone() {
            device.submit(number, Command::AwaitEvent(mark))?;
        }
        Ok(())
    })
}

fn latest(handle: usize) -> Outcome<Option<Arc<Mark>>> {
    context::with(|device| {
        let event = device.events.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        Ok(event.latest.clone())
    })
}

pub(crate) fn query(handle: usize) -> Outcome {
    match latest(handle)? {
        Some(mark) if mark.reached().is_none() => Err(Code::NOT_READY),
        _ => Ok(()),
    }
}

pub(crate) fn synchronize(handle: usize) -> Outcome {
    let Some(mark) = latest(handle)? else {
        return Ok(());
    };
    DRIVER.wait_in_context(|_| mark.reached().map(|_| Ok(())))
}

/// Milliseconds between two recordings: real ones of this machine, which say nothing about a GPU.
pub(crate) fn elapsed(from: usize, to: usize) -> Outcome<f32> {
    context::with(|device| {
        let at = |handle: usize| {
            let event = device.events.get(&handle).ok_or(Code::INVALID_HANDLE)?;
            let mark = event.latest.as_ref().ok_or(Code::INVALID_HANDLE)?;
            if !event.timing {
                return Err(Code::INVALID_HANDLE);
            }
            mark.reached().ok_or(Code::NOT_READY)
        };
        let (from, to) = (at(from)?, at(to)?);
        Ok((to as f64 - from as f64) as f32 / 1e6)
    })
}
