//! What has no safe interface in our dependencies: to own descriptors that came over a socket and to wait on a
//! word of shared memory, as attackers do, and to take signals as a service manager's children do.
#![allow(unsafe_code, reason = "see above; nothing else of the rig needs it")]

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// A program started from here on takes hang-ups (SIGHUP), even if the program that started us ignores them, as nohup(1) does.
pub fn take_hang_ups() {
    // SAFETY: no handler is installed, and the signal has one disposition for the whole process either way.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
}

/// How long one wait lasts at most, so that a waiter notices the end of its time, in ns.
const WAIT_NS: i64 = 100_000_000;

/// Takes over descriptors that `recvmsg` put into this process just now.
pub fn received(raw: Vec<RawFd>) -> Vec<OwnedFd> {
    let owned = raw.into_iter().map(|fd| {
        // SAFETY: the kernel made this descriptor for us in `recvmsg`, and each is taken over once.
        unsafe { OwnedFd::from_raw_fd(fd) }
    });
    owned.collect()
}

/// Waits (not private) while the word at this address has this value; at most a tenth of a second.
pub fn wait_while(address: u64, value: u32) {
    let limit = libc::timespec {
        tv_sec: 0,
        tv_nsec: WAIT_NS,
    };
    // SAFETY: the kernel checks the address, only reads there, and answers EFAULT where nothing is.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            address,
            libc::FUTEX_WAIT,
            value,
            &raw const limit,
        );
    }
}

/// Words that one call waits for.
const WORDS: usize = 128;

#[repr(C)]
#[derive(Clone, Copy)]
struct Waiter {
    value: u64,
    address: u64,
    /// A word of 32 bits, not private.
    flags: u32,
    reserved: u32,
}

/// Waits 128 times (`futex_waitv`) while the word at this address has this value; at most so long.
pub fn wait_often(address: u64, value: u32, limit_ns: u64) {
    let waiter = Waiter {
        value: value.into(),
        address,
        flags: 2,
        reserved: 0,
    };
    let waiters = [waiter; WORDS];
    let mut limit = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both structures are ours; the kernel checks the addresses, and only reads there.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut limit);
        limit.tv_nsec += limit_ns as i64;
        limit.tv_sec += limit.tv_nsec / 1_000_000_000;
        limit.tv_nsec %= 1_000_000_000;
        let (all, count) = (waiters.as_ptr(), WORDS);
        libc::syscall(
            libc::SYS_futex_waitv,
            all,
            count,
            0,
            &raw const limit,
            libc::CLOCK_MONOTONIC,
        );
    }
}

/// The word at an address of this process that is mapped.
pub fn word_at(address: u64) -> u32 {
    // SAFETY: of the mapping that /proc/self/maps told of, which nothing unmaps meanwhile.
    unsafe { (address as *const u32).read_volatile() }
}

/// The address of those whose waiters take longest to wake, though no thread waits there: others are in the same queue.
pub fn slowest_to_wake(addresses: impl Iterator<Item = u64>) -> u64 {
    let took = |address: u64| {
        let tries = (0..5).map(|_| {
            let before = punctual_client::now_ns();
            // SAFETY: the kernel checks the address and touches nothing there.
            unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, 1) };
            punctual_client::now_ns() - before
        });
        tries.min().unwrap_or(0)
    };
    let slowest = addresses.max_by_key(|address| took(*address));
    slowest.unwrap_or(0)
}

/// Has this process's group told of every event by a signal that does nothing, and takes leases and locks; how many of these the
/// kernel granted.
pub fn hang_hooks(descriptor: RawFd) -> u64 {
    // SAFETY: a plain structure of ours, for which zeros are a value: all of the file.
    let whole: libc::flock = unsafe {
        libc::flock {
            l_type: libc::F_RDLCK as libc::c_short,
            ..std::mem::zeroed()
        }
    };
    // SAFETY: numbers only but for the lock, which the kernel reads.
    unsafe {
        let group = -libc::getpgrp();
        [
            libc::fcntl(descriptor, libc::F_SETOWN, group),
            libc::fcntl(descriptor, F_SETSIG, libc::SIGURG),
            libc::fcntl(descriptor, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK),
            libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK),
            libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_WRLCK),
            libc::fcntl(descriptor, libc::F_OFD_SETLK, &raw const whole),
            libc::flock(descriptor, libc::LOCK_EX | libc::LOCK_NB),
        ]
    }
    .into_iter()
    .filter(|done| *done >= 0)
    .count() as u64
}

/// Linux's number; the `libc` crate has none.
const F_SETSIG: libc::c_int = 10;

/// Runs only when nothing else does.
pub fn be_idle() {
    // SAFETY: a plain structure of ours; 0 is the calling thread.
    unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter);
    }
}

/// Runs on the first core that it may use.
pub fn stay_on_first_core() {
    // SAFETY: plain structures of ours; 0 is the calling thread.
    unsafe {
        let mut may: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&may), &raw mut may);
        let first = (0..libc::CPU_SETSIZE as usize).find(|core| libc::CPU_ISSET(*core, &may));
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first.unwrap_or(0), &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
    }
}

/// A huge page.
const HUGE: usize = 2 << 20;

/// Shared memory, mapped once more.
pub struct Mapped {
    start: usize,
    bytes: usize,
}

impl Mapped {
    /// A mapping of a file for writing, whose pages are all there.
    pub fn of(file: &OwnedFd, bytes: usize) -> Option<Self> {
        Self::part_of(file, 0, bytes)
    }

    /// The same of a part of it.
    pub fn part_of(file: &OwnedFd, from: libc::off_t, bytes: usize) -> Option<Self> {
        use std::os::fd::AsRawFd as _;
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
        );
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                flags,
                file.as_raw_fd(),
                from,
            )
        };
        Self::at(start, bytes)
    }

    /// The same pages as a shared mapping of this process, at an address that huge pages need, and as long.
    pub fn twin_of(start: u64, bytes: usize) -> Option<Self> {
        let room = bytes.next_multiple_of(HUGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a reservation of ours, and a copy of a shared mapping (old size 0) in the middle of it.
        let twin = unsafe {
            let reserved = libc::mmap(
                std::ptr::null_mut(),
                room + HUGE,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            );
            if reserved == libc::MAP_FAILED {
                return None;
            }
            let aligned = (reserved as usize).next_multiple_of(HUGE);
            let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(
                start as *mut libc::c_void,
                0,
                room,
                moves,
                aligned as *mut libc::c_void,
            )
        };
        Self::at(twin, room)
    }

    fn at(start: *mut libc::c_void, bytes: usize) -> Option<Self> {
        (start != libc::MAP_FAILED).then_some(Self {
            start: start as usize,
            bytes,
        })
    }

    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.start as *mut u8
    }

    /// Has the kernel make huge pages of it; whether it did.
    pub fn collapse(&self) -> bool {
        const MADV_COLLAPSE: libc::c_int = 25;
        self.advise(MADV_COLLAPSE)
    }

    /// Gives the kernel every advice about its pages, locks and unlocks and syncs them; how often the kernel did what it was
    /// asked for.
    pub fn advise_all(&self) -> u64 {
        const ADVICE: [libc::c_int; 8] = [
            libc::MADV_COLD,
            libc::MADV_PAGEOUT,
            libc::MADV_FREE,
            libc::MADV_REMOVE,
            libc::MADV_DONTNEED,
            libc::MADV_MERGEABLE,
            libc::MADV_HUGEPAGE,
            libc::MADV_WILLNEED,
        ];
        let watch = self.watched_faults();
        let advised = ADVICE.map(|advice| u64::from(self.advise(advice)));
        let start = self.start as *mut libc::c_void;
        // SAFETY: of a shared mapping of ours, to whose bytes there is no reference; the kernel checks the range.
        let others = unsafe {
            [
                libc::mlock(start, self.bytes),
                libc::munlock(start, self.bytes),
                libc::msync(start, self.bytes, libc::MS_SYNC | libc::MS_INVALIDATE),
            ]
        };
        let others = others.map(|result| u64::from(result == 0));
        advised.iter().chain(&others).sum::<u64>() + u64::from(watch.is_some())
    }

    /// Faults on its missing pages get no answer until this is closed (`userfaultfd(2)`); none where the kernel grants none.
    fn watched_faults(&self) -> Option<OwnedFd> {
        use std::os::fd::AsRawFd as _;
        /// Of `linux/userfaultfd.h`: the greeting, and the registration of a range, for pages that are missing.
        const GREET: libc::c_ulong = 0xc018_aa3f;
        const REGISTER: libc::c_ulong = 0xc020_aa00;
        const USER_MODE_ONLY: libc::c_int = 1;
        let mut greeting = [0xaa_u64, 0, 0];
        let mut range = [self.start as u64, self.bytes as u64, 1, 0];
        // SAFETY: both calls read and write no more than these arrays; the range is a mapping of ours that nothing touches.
        unsafe {
            let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
            let raw = libc::syscall(libc::SYS_userfaultfd, flags);
            let watch = (raw >= 0).then(|| OwnedFd::from_raw_fd(raw as RawFd))?;
            let is_registered = libc::ioctl(watch.as_raw_fd(), GREET, &raw mut greeting) == 0
                && libc::ioctl(watch.as_raw_fd(), REGISTER, &raw mut range) == 0;
            is_registered.then_some(watch)
        }
    }

    /// Lets its pages go, so that they are mapped singly when they are touched again.
    pub fn give_back(&self) {
        self.advise(libc::MADV_DONTNEED);
        self.advise(libc::MADV_PAGEOUT);
    }

    fn advise(&self, advice: libc::c_int) -> bool {
        // SAFETY: of a shared mapping of ours, to whose bytes there is no reference.
        unsafe { libc::madvise(self.start as *mut libc::c_void, self.bytes, advice) == 0 }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, to which nothing refers.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.bytes) };
    }
}
