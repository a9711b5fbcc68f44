//! Copies and fills.
use super::context;
use super::objects::{Command, Source};
use super::state::DRIVER;
use super::stream::DEFAULT;
use crate::code::{Code, Outcome};

/// Which side of a copy is the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToDevice,
    ToHost,
    OnDevice,
}

/// A copy and when the call returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub(crate) way: Way,
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) bytes: usize,
}

/// Waits until stream `number` has completed `count` commands.
fn wait_for(number: u64, count: u64) -> Outcome {
    DRIVER.wait_in_context(|device| device.has_completed(number, count).then_some(Ok(())))
}

impl Copy {
    /// Appends it to a stream, and says until when to wait: for page-locked memory not at all; from other
    /// memory it is read now, into other memory the call waits.
    ///
    /// # Safety
    /// The host's side is memory of the program of that many bytes, for as long as the copy takes.
    unsafe fn submit(self, stream: usize) -> Outcome<(u64, u64, bool)> {
        context::with(|device| {
            let number = device.stream_number(stream)?;
            let host = match self.way {
                Way::ToDevice => Some(self.from),
                Way::ToHost => Some(self.to),
                Way::OnDevice => None,
            };
            if host == Some(0) && self.bytes > 0 {
                return Err(Code::INVALID_VALUE);
            }
            if self.way != Way::ToHost {
                device.check_access(self.to, self.bytes)?;
            }
            if self.way != Way::ToDevice {
                device.check_access(self.from, self.bytes)?;
            }
            let locked = host.is_none_or(|host| device.memory.is_locked(host as usize, self.bytes));
            let from = match self.way {
                Way::ToDevice if !locked => {
                    // SAFETY: the caller's promise.
                    let staged =
                        unsafe { std::slice::from_raw_parts(self.from as *const u8, self.bytes) };
                    Source::Staged(staged.into())
                }
                _ => Source::Address(self.from as usize),
            };
            let command = Command::Copy {
                to: self.to as usize,
                from,
                bytes: self.bytes,
            };
            if self.way == Way::ToDevice {
                device.loads.copied_bytes += self.bytes as u64;
            }
            let count = device.submit(number, command)?;
            Ok((number, count, self.way == Way::ToHost && !locked))
        })
    }

    /// # Safety
    /// As of `submit`.
    pub(crate) unsafe fn now(self) -> Outcome {
        // SAFETY: the caller's promise; it waits here.
        let (number, count, _) = unsafe { self.submit(DEFAULT as usize) }?;
        wait_for(number, count)
    }

    /// # Safety
    /// As of `submit`.
    pub(crate) unsafe fn later(self, stream: usize) -> Outcome {
        // SAFETY: the caller's promise.
        let (number, count, wait) = unsafe { self.submit(stream) }?;
        if wait {
            return wait_for(number, count);
        }
        Ok(())
    }
}

fn submit_fill(
    to: u64,
    pattern: u32,
    width: usize,
    words: usize,
    stream: usize,
) -> Outcome<(u64, u64)> {
    context::with(|device| {
        let number = device.stream_number(stream)?;
        let bytes = words.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
        if !to.is_multiple_of(width as u64) {
            return Err(Code::INVALID_VALUE);
        }
        device.check_access(to, bytes)?;
        let command = Command::Fill {
            to: to as usize,
            pattern,
            width,
            words,
        };
        Ok((number, device.submit(number, command)?))
    })
}

/// `words` times the lowest `width` bytes of `pattern`, before the call returns.
pub(crate) fn fill_now(to: u64, pattern: u32, width: usize, words: usize) -> Outcome {
    let (number, count) = submit_fill(to, pattern, width, words, DEFAULT as usize)?;
    wait_for(number, count)
}

/// Likewise, in a stream.
pub(crate) fn fill_later(
    to: u64,
    pattern: u32,
    width: usize,
    words: usize,
    stream: usize,
) -> Outcome {
    submit_fill(to, pattern, width, words, stream).map(drop)
}
