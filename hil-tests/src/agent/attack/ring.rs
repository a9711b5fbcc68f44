//! As little of `io_uring(7)` as lets one thread wait thousands of times for a descriptor; see [`super::own`] for why it is here.
#![allow(unsafe_code, reason = "our dependencies have no interface to it")]

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use super::own::Mapped;

/// Of `linux/io_uring.h`.
const SUBMISSIONS_AT: libc::off_t = 0;
const ENTRIES_AT: libc::off_t = 0x1000_0000;
const POLL_ADD: u8 = 6;

/// Waits of one ring.
pub const WAITS: u32 = 4096;

/// Where the kernel put the parts of the ring of submissions.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Offsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Parameters {
    submissions: u32,
    completions: u32,
    others: [u32; 8],
    submission_ring: Offsets,
    completion_ring: Offsets,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Entry {
    operation: u8,
    flags: u8,
    priority: u16,
    descriptor: i32,
    offset: u64,
    address: u64,
    length: u32,
    events: u32,
    user_data: u64,
    others: [u64; 3],
}

/// A ring that waits for urgent data at this descriptor as often as it can, which never comes; none where the kernel has none for us.
pub fn wait_often(descriptor: RawFd) -> Option<OwnedFd> {
    let mut parameters = Parameters::default();
    // SAFETY: the kernel fills in the structure, and the descriptor is ours alone.
    let ring = unsafe {
        let ring = libc::syscall(libc::SYS_io_uring_setup, WAITS, &raw mut parameters);
        (ring >= 0).then(|| OwnedFd::from_raw_fd(ring as RawFd))?
    };
    let at = parameters.submission_ring;
    let count = parameters.submissions;
    let queue = Mapped::part_of(&ring, SUBMISSIONS_AT, (at.array + 4 * count) as usize)?;
    let entries = Mapped::part_of(&ring, ENTRIES_AT, count as usize * size_of::<Entry>())?;
    for number in 0..count {
        let entry = Entry {
            operation: POLL_ADD,
            descriptor,
            events: libc::POLLPRI as u32,
            ..Entry::default()
        };
        // SAFETY: both mappings have room for as many as there are, and the kernel reads none before the call below.
        unsafe {
            entries
                .as_mut_ptr()
                .cast::<Entry>()
                .add(number as usize)
                .write(entry);
            let array = queue.as_mut_ptr().add(at.array as usize).cast::<u32>();
            array.add(number as usize).write(number);
        }
    }
    // SAFETY: the ring's tail, which only we write.
    unsafe {
        queue
            .as_mut_ptr()
            .add(at.tail as usize)
            .cast::<u32>()
            .write_volatile(count)
    };
    // SAFETY: numbers only.
    let taken = unsafe {
        let none = std::ptr::null::<libc::sigset_t>();
        libc::syscall(
            libc::SYS_io_uring_enter,
            ring.as_raw_fd(),
            count,
            0,
            0,
            none,
            0,
        )
    };
    (taken > 0).then_some(ring)
}
