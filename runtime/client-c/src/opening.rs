//! How to open a client, from the program's options.

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use punctual_client::Layout;

use crate::abi::{self, NO_RECONNECT, Options};
use crate::status::Error;
use crate::{given, text};

/// As many as a plan can give slots.
const BUFFERS_MAX: u32 = 64;

/// The client library's options for the program's.
///
/// # Safety
/// As for `punctual_open`.
pub(crate) unsafe fn options(pointer: *const Options) -> Result<punctual_client::Options, Error> {
    if pointer.is_null() {
        return Err(Error::Argument("options"));
    }
    let known = size_of::<Options>() as u32;
    // SAFETY: the size is the first field in every release; the rest is there if it is right.
    let found = unsafe { pointer.cast::<u32>().read() };
    if found != known {
        let initial = "PUNCTUAL_OPTIONS_INIT";
        return Err(Error::Size {
            initial,
            found,
            known,
        });
    }
    // SAFETY: the header asks for initialised options; they have the size of ours.
    let given = unsafe { given(pointer, "options") }?;
    // SAFETY: the header asks for strings.
    let socket = unsafe { text(given.socket, "options.socket") }?;
    // SAFETY: as above.
    let task = unsafe { text(given.task, "options.task") }?;
    let task = task.to_str().map_err(|_| Error::Argument("options.task"))?;
    let format = abi::format(given.format).ok_or(Error::Argument("options.format"))?;
    if given.flags & !NO_RECONNECT != 0 {
        return Err(Error::Argument("options.flags"));
    }
    let socket = OsStr::from_bytes(socket.to_bytes());
    let options = punctual_client::Options::new(socket, task, format)
        .spin_ns(given.spin_ns)
        .reconnect(given.flags & NO_RECONNECT == 0)
        // SAFETY: the header asks for `buffer_count` open descriptors.
        .buffers(unsafe { buffers(given.buffers, given.buffer_count) }?);
    if given.row_stride == 0 {
        return Ok(options);
    }
    Ok(options.layout(Layout {
        offset: given.offset,
        row_stride: given.row_stride,
        chroma_offset: given.chroma_offset,
        chroma_stride: given.chroma_stride,
    }))
}

/// Duplicates of the program's descriptors.
///
/// # Safety
/// `first` points to `count` open descriptors, or `count` is 0.
unsafe fn buffers(first: *const RawFd, count: u32) -> Result<Vec<OwnedFd>, Error> {
    const BAD: Error = Error::Argument("options.buffers");
    if count == 0 {
        return Ok(Vec::new());
    }
    if first.is_null() || count > BUFFERS_MAX {
        return Err(BAD);
    }
    // SAFETY: the caller's duty.
    let given = unsafe { std::slice::from_raw_parts(first, count as usize) };
    let duplicate = |&fd: &RawFd| {
        if fd < 0 {
            return Err(BAD);
        }
        // SAFETY: open as long as this call takes, as the header asks; not -1.
        let lent = unsafe { BorrowedFd::borrow_raw(fd) };
        lent.try_clone_to_owned().map_err(|_| BAD)
    };
    given.iter().map(duplicate).collect()
}
