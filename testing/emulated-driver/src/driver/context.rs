//! Contexts: the device's primary one, and those that stand for green contexts.
use std::cell::RefCell;

use super::state::{DRIVER, Device, Driver, State};
use crate::code::{Code, Outcome, Stays};
use crate::config::HungReset;

/// The handle of the primary context; there is one device.
const PRIMARY: usize = 0x1000;

/// As an H200 had them, with and without a context.
const CLOCK_BUSY_HZ: u32 = 1_980_000_000;
const CLOCK_IDLE_HZ: u32 = 345_000_000;

thread_local! {
    /// The contexts of this thread; the last one is current. 0: none.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The device, if a context of it is current on this thread and has no error.
pub(crate) fn current(state: &mut State) -> Outcome<&mut Device> {
    let device = any_current(state)?;
    device.primary.error.map_or(Ok(device), Err)
}

/// As [`current`], whatever the error.
pub(crate) fn any_current(state: &mut State) -> Outcome<&mut Device> {
    let device = state.device()?;
    let handle = STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0));
    if handle == 0 || !is_context(device, handle) {
        return Err(Code::INVALID_CONTEXT);
    }
    if !device.is_active() {
        return Err(Code::CONTEXT_IS_DESTROYED);
    }
    Ok(device)
}

fn is_context(device: &Device, handle: usize) -> bool {
    handle == PRIMARY || device.green.values().any(|green| green.context == handle)
}

/// With the current context's device, under the lock.
pub(crate) fn with<T>(body: impl FnOnce(&mut Device) -> Outcome<T>) -> Outcome<T> {
    body(current(&mut DRIVER.lock())?)
}

impl Driver {
    /// Waits until `done` says something, with the context that the calling thread has.
    pub(crate) fn wait_in_context<T>(
        &self,
        mut done: impl FnMut(&mut Device) -> Option<Outcome<T>>,
    ) -> Outcome<T> {
        let mut state = self.lock();
        let resets = current(&mut state)?.primary.resets;
        loop {
            let device = current(&mut state)?;
            if device.primary.resets != resets {
                return Err(Code::CONTEXT_IS_DESTROYED);
            }
            device.carry_out_copies();
            if let Some(outcome) = done(device) {
                return outcome;
            }
            state = self.wait(state);
        }
    }
}

impl Device {
    /// Notes that a kernel or a copy went wrong.
    pub(crate) fn break_context(&mut self, code: Code) {
        // The first one counts.
        self.primary.error.get_or_insert(code);
    }

    /// The error that every call returns until the process ends.
    pub(crate) fn lost(&self) -> Option<Code> {
        let stays = |error: &Code| error.stays() == Some(Stays::UntilProcessEnds);
        self.primary.error.filter(stays)
    }

    fn is_hung(&self) -> bool {
        self.streams.values().any(|stream| stream.hangs)
    }

    /// Writes the clock that the multiprocessors have from now on, where it is asked for.
    fn show_clock(&self, hz: u32) {
        if let Some(file) = &self.config.clock_file {
            std::fs::write(file, format!("{hz}\n")).expect("the file of the clock can be written");
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.primary.retained > 0 || !self.green.is_empty()
    }
}

pub(crate) fn retain(device: i32) -> Outcome<usize> {
    let mut state = DRIVER.lock();
    let device = super::device::known(&mut state, device)?;
    device.primary.retained += 1;
    if device.primary.retained == 1 {
        device.loads.contexts += 1;
        device.show_clock(CLOCK_BUSY_HZ);
    }
    Ok(PRIMARY)
}

pub(crate) fn release(device: i32) -> Outcome {
    let mut state = DRIVER.lock();
    let device = super::device::known(&mut state, device)?;
    if device.primary.retained == 0 {
        return Err(Code::INVALID_CONTEXT);
    }
    device.primary.retained -= 1;
    if device.primary.retained == 0 {
        device.show_clock(CLOCK_IDLE_HZ);
    }
    if !device.is_active() {
        drop(state);
        await_hung_kernels()?;
        empty();
    }
    Ok(())
}

pub(crate) fn reset(device: i32) -> Outcome {
    super::device::known(&mut DRIVER.lock(), device)?;
    await_hung_kernels()?;
    empty();
    Ok(())
}

/// Before a context is destroyed: does what the configuration says about kernels that hang. An error if the machine was shut down
/// meanwhile.
fn await_hung_kernels() -> Outcome {
    let mut state = DRIVER.lock();
    let machine = state.machines;
    let hung_at_first = state.device.as_ref().is_some_and(Device::is_hung);
    loop {
        let same = state.machines == machine;
        let device = state.device.as_mut().filter(|_| same);
        let device = device.ok_or(Code::CONTEXT_IS_DESTROYED)?;
        let goes_on = match device.config.hung_reset {
            HungReset::Ends => true,
            HungReset::Waits => !device.is_hung(),
            HungReset::Blocks => !hung_at_first,
        };
        device.primary.waits = !goes_on;
        if goes_on {
            return Ok(());
        }
        state = DRIVER.wait(state);
    }
}

pub(crate) fn primary_state(device: i32) -> Outcome<(u32, i32)> {
    let mut state = DRIVER.lock();
    let device = super::device::known(&mut state, device)?;
    Ok((0, i32::from(device.is_active())))
}

/// Ends all work, also what hangs, and everything that was made in the context.
pub(crate) fn empty() {
    let mut state = DRIVER.lock();
    let Some(device) = &mut state.device else {
        return;
    };
    device.primary.resets += 1;
    for stream in device.streams.values_mut() {
        stream.give_up();
    }
    DRIVER.notify();
    // A block or a copy that runs is waited for: memory must not vanish under it.
    while state
        .device
        .as_ref()
        .is_some_and(|device| device.streams.values().any(|stream| stream.running))
    {
        state = DRIVER.wait(state);
    }
    if let Some(device) = &mut state.device {
        device.forget_everything();
        device.primary.error = device.lost();
    }
    DRIVER.notify();
}

pub(crate) fn set_current(context: usize) -> Outcome {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    if context != 0 && !is_context(device, context) {
        return Err(Code::INVALID_CONTEXT);
    }
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
    Ok(())
}

pub(crate) fn get_current() -> Outcome<usize> {
    DRIVER.lock().device()?;
    Ok(STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0)))
}

pub(crate) fn push(context: usize) -> Outcome {
    let mut state = DRIVER.lock();
    if !is_context(state.device()?, context) {
        return Err(Code::INVALID_CONTEXT);
    }
    STACK.with_borrow_mut(|stack| stack.push(context));
    Ok(())
}

pub(crate) fn pop() -> Outcome<usize> {
    DRIVER.lock().device()?;
    STACK.with_borrow_mut(Vec::pop).ok_or(Code::INVALID_CONTEXT)
}

/// Waits until no stream has anything left to do.
pub(crate) fn synchronize() -> Outcome {
    DRIVER.wait_in_context(|device| {
        let idle = device.streams.values().all(|stream| stream.is_idle());
        idle.then_some(Ok(()))
    })
}

/// The least and the greatest priority of streams: smaller is greater.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);

pub(crate) fn priority_range() -> Outcome<(i32, i32)> {
    with(|_| Ok(PRIORITIES))
}

pub(crate) fn current_device() -> Outcome<i32> {
    any_current(&mut DRIVER.lock())?;
    Ok(0)
}
