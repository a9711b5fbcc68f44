//! Streams: queues of commands, each worked off by a thread of its own.
use std::sync::Arc;

use super::context::{self, PRIORITIES};
use super::fragile;
use super::gate::Hold;
use super::mask;
use super::objects::{Command, Stream};
use super::state::{DRIVER, Device};
use super::worker;
use crate::code::{Code, Outcome};

/// The number of the default stream.
pub(super) const DEFAULT: u64 = 0;
/// `CU_STREAM_LEGACY`.
const LEGACY: usize = 1;
/// `CU_STREAM_NON_BLOCKING`.
pub(super) const NON_BLOCKING: u32 = 1;

impl Device {
    /// The number of the stream that a handle means.
    pub(super) fn stream_number(&mut self, handle: usize) -> Outcome<u64> {
        if handle == 0 || handle == LEGACY {
            if !self.streams.contains_key(&DEFAULT) {
                self.begin_stream(DEFAULT, Stream::new(0, true, None, self.hold_new))?;
            }
            return Ok(DEFAULT);
        }
        self.streams
            .iter()
            .find(|(_, stream)| stream.handle() == handle && !stream.destroyed)
            .map(|(&number, _)| number)
            .ok_or(Code::INVALID_HANDLE)
    }

    fn begin_stream(&mut self, number: u64, mut stream: Stream) -> Outcome {
        if let Some(seed) = self.config.fragile {
            fragile::fill(seed, stream.object(), mask::words(&self.config));
        }
        stream.connection = self.connections.give();
        worker::start(number, Arc::clone(&stream.signals))?;
        self.streams.insert(number, stream);
        Ok(())
    }

    /// Makes a stream on the multiprocessors of a green context, or on all.
    pub(super) fn new_stream(
        &mut self,
        flags: u32,
        priority: i32,
        green: Option<Vec<u32>>,
    ) -> Outcome<usize> {
        if flags & !NON_BLOCKING != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (least, greatest) = PRIORITIES;
        let stream = Stream::new(
            priority.clamp(greatest, least),
            flags & NON_BLOCKING == 0,
            green,
            self.hold_new,
        );
        let handle = stream.handle();
        let number = self.number();
        self.begin_stream(number, stream)?;
        Ok(handle)
    }

    /// Appends a command, behind what the default stream's rules put before it, and says how many
    /// commands the stream has completed when it is done.
    pub(super) fn submit(&mut self, number: u64, command: Command) -> Outcome<u64> {
        let mut before = Vec::new();
        let own = self.streams.get(&number).ok_or(Code::INVALID_HANDLE)?;
        for (&id, other) in &self.streams {
            let ordered = id != number
                && (number == DEFAULT && other.blocking || id == DEFAULT && own.blocking);
            if ordered && other.submitted > other.completed {
                let count = other.submitted;
                before.push(Command::AwaitStream { id, count });
            }
        }
        let stream = self.streams.get_mut(&number).ok_or(Code::INVALID_HANDLE)?;
        if matches!(command, Command::Launch(_)) {
            stream.launches_waiting += 1;
        }
        stream.submitted += before.len() as u64 + 1;
        for _ in 0..=before.len() {
            self.connections.push(stream.connection, number);
        }
        stream.queue.extend(before);
        stream.queue.push_back(command);
        let count = stream.submitted;
        if self.timed.is_none() {
            DRIVER.notify();
        }
        Ok(count)
    }

    /// Whether stream `number` has completed `count` commands, or is gone.
    pub(super) fn has_completed(&self, number: u64, count: u64) -> bool {
        self.streams
            .get(&number)
            .is_none_or(|stream| stream.completed >= count)
    }
}

pub(crate) fn create(flags: u32, priority: i32) -> Outcome<usize> {
    context::with(|device| device.new_stream(flags, priority, None))
}

pub(crate) fn destroy(handle: usize) -> Outcome {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    let number = device.stream_number(handle)?;
    if number == DEFAULT {
        return Err(Code::INVALID_HANDLE);
    }
    if let Some(stream) = device.streams.get_mut(&number) {
        // Its thread does what was asked of it, and takes it out.
        stream.destroyed = true;
        stream.set_hold(Hold::Open);
    }
    DRIVER.notify();
    Ok(())
}

pub(crate) fn priority(handle: usize) -> Outcome<i32> {
    context::with(|device| {
        let number = device.stream_number(handle)?;
        Ok(device.streams[&number].priority)
    })
}

pub(crate) fn query(handle: usize) -> Outcome {
    context::with(|device| {
        let number = device.stream_number(handle)?;
        if device.streams[&number].is_idle() {
            Ok(())
        } else {
            Err(Code::NOT_READY)
        }
    })
}

pub(crate) fn synchronize(handle: usize) -> Outcome {
    // What was asked of the stream so far, looked up within the wait: a reset before it is not taken for the end of it all.
    let mut asked = None;
    DRIVER.wait_in_context(|device| {
        let (number, count) = match asked {
            Some(asked) => asked,
            None => match device.stream_number(handle) {
                Ok(number) => *asked.insert((number, device.streams[&number].submitted)),
                Err(code) => return Some(Err(code)),
            },
        };
        device.has_completed(number, count).then_some(Ok(()))
    })
}

pub(crate) fn write_value(handle: usize, to: u64, value: u32) -> Outcome {
    context::with(|device| {
        let number = device.stream_number(handle)?;
        if !to.is_multiple_of(4) {
            return Err(Code::INVALID_VALUE);
        }
        device.check_access(to, 4)?;
        let to = to as usize;
        device.submit(number, Command::Write { to, value })?;
        Ok(())
    })
}
