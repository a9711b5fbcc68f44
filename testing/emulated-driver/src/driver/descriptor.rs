//! Descriptors of launches, and the callback that tools are given them by before they go to the device.
//!
//! The table, its places and the callback's parameters were read in public copies of libsmctrl, the fields of
//! descriptors in NVIDIA's published headers (`clc6c0qmd.h`, `clcbc0qmd.h`, `clcdc0qmd.h`), once more than by the
//! crate that writes the masks: what is tested here must not come from what it tests.
use std::ffi::c_void;
use std::sync::Mutex;

use super::state::{DRIVER, Device};
use crate::code::{Code, Outcome};
use crate::config::Config;

/// Words of a descriptor, of the largest version.
const WORDS: usize = 96;

/// `CUuuid` of the table.
const NAME: [u8; 16] = *b"\x2c\x8e\x0a\xd8\x07\x10\xab\x4e\x90\xdd\x54\x71\x9f\xe5\xf7\x4b";
/// The event before a descriptor goes to the device.
const UPLOAD: (i32, i32) = (11, 1);

type Callback = unsafe extern "C" fn(*mut c_void, i32, i32, *const c_void);

/// Who is called back, and whether for descriptors. A process has one, as it has one driver: what a test configures
/// anew does not end it.
static SUBSCRIBER: Mutex<Subscriber> = Mutex::new(Subscriber {
    callback: None,
    user: 0,
    uploads: false,
});

#[derive(Clone, Copy)]
struct Subscriber {
    callback: Option<Callback>,
    user: usize,
    uploads: bool,
}

const HANDLE: u32 = 7;

fn with_subscriber<T>(body: impl FnOnce(&mut Subscriber) -> T) -> T {
    let mut subscriber = SUBSCRIBER
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    body(&mut subscriber)
}

unsafe extern "C" fn subscribe(to: *mut u32, callback: Callback, user: *mut c_void) -> Code {
    with_subscriber(|subscriber| {
        if subscriber.callback.is_some() {
            return Code::INVALID_VALUE;
        }
        subscriber.callback = Some(callback);
        subscriber.user = user as usize;
        // SAFETY: the caller's place for the result.
        unsafe { to.write(HANDLE) };
        Code::SUCCESS
    })
}

unsafe extern "C" fn enable(on: u32, handle: u32, domain: i32, event: i32) -> Code {
    with_subscriber(|subscriber| {
        if handle != HANDLE || subscriber.callback.is_none() {
            return Code::INVALID_VALUE;
        }
        if (domain, event) == UPLOAD {
            subscriber.uploads = on != 0;
        }
        Code::SUCCESS
    })
}

/// The table as programs see it.
#[repr(C)]
struct Table {
    bytes: usize,
    unknown: [usize; 2],
    subscribe: unsafe extern "C" fn(*mut u32, Callback, *mut c_void) -> Code,
    others: [usize; 2],
    enable: unsafe extern "C" fn(u32, u32, i32, i32) -> Code,
    rest: usize,
}

static TABLE: Table = Table {
    bytes: size_of::<Table>(),
    unknown: [0; 2],
    subscribe,
    others: [0; 2],
    enable,
    rest: 0,
};

/// The address of a table that tools ask for.
///
/// # Safety
/// `name` is null or points to the 16 bytes of a name.
pub(super) unsafe fn table(name: *const [u8; 16]) -> Outcome<*const c_void> {
    if name.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let known = unsafe { *name } == NAME;
    let there = DRIVER.lock().device()?.config.export_table;
    if known && there {
        Ok((&raw const TABLE).cast())
    } else {
        Err(Code::NOT_FOUND)
    }
}

/// A version whose masks are known: where the byte of the version is, where the mask, how many words it has, and the
/// byte and bit that say that it counts.
struct Version {
    at: usize,
    mask: usize,
    words: usize,
    counts: Option<(usize, u32)>,
}

fn version(number: u32) -> Version {
    let (at, mask, words, counts) = match number {
        0x50.. => (58, 280, 4, Some((19, 7))),
        0x40.. => (72, 304, 4, Some((3, 7))),
        _ => (72, 84, 2, None),
    };
    Version {
        at,
        mask,
        words,
        counts,
    }
}

/// What chips of a compute capability take: major and minor version in four bits each.
fn usual(major: u32, minor: u32) -> u32 {
    match (major, minor) {
        (..=5, _) => 0x17,
        (6, _) => 0x21,
        (7, ..=4) => 0x22,
        (7, _) => 0x23,
        (8, ..=8) => 0x24,
        (8, _) => 0x30,
        (9, _) => 0x40,
        _ => 0x50,
    }
}

/// Calls the subscriber back with the descriptor of a launch of the calling thread, and gives the TPC bits that are
/// switched off in it afterwards. None if no subscriber is called back.
pub(super) fn called_back(device: impl FnOnce() -> Outcome<Config>) -> Outcome<Option<u128>> {
    let subscriber = with_subscriber(|subscriber| *subscriber);
    let Some(callback) = subscriber.callback.filter(|_| subscriber.uploads) else {
        return Ok(None);
    };
    let config = device()?;
    let (major, minor) = config.compute;
    let number = config.descriptor.unwrap_or_else(|| usual(major, minor));
    let mut version = version(number);
    if let Some(moved) = config.descriptor_mask {
        version.mask = moved as usize;
    }
    let mut descriptor = [0u32; WORDS];
    bytes(&mut descriptor)[version.at] = number as u8;
    let parameters = [
        88,
        0,
        0,
        0,
        descriptor.as_mut_ptr() as usize,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: the subscriber's own function, and parameters as drivers give them: their bytes, and in the fifth word the
    // descriptor.
    unsafe {
        callback(
            subscriber.user as *mut c_void,
            UPLOAD.0,
            UPLOAD.1,
            parameters.as_ptr().cast(),
        );
    }
    Ok(config
        .descriptor_masks
        .then(|| disabled(&mut descriptor, &version)))
}

fn disabled(descriptor: &mut [u32; WORDS], version: &Version) -> u128 {
    let counts = version
        .counts
        .is_none_or(|(byte, bit)| bytes(descriptor)[byte] >> bit & 1 == 1);
    let words = &descriptor[version.mask / 4..][..version.words];
    if counts {
        words
            .iter()
            .rev()
            .fold(0, |mask, &word| mask << 32 | u128::from(word))
    } else {
        0
    }
}

fn bytes(descriptor: &mut [u32; WORDS]) -> &mut [u8] {
    // SAFETY: the same memory, as bytes.
    unsafe { std::slice::from_raw_parts_mut(descriptor.as_mut_ptr().cast(), 4 * WORDS) }
}

impl Device {
    /// What descriptors are made by.
    pub(super) fn described(&mut self) -> Config {
        self.config.clone()
    }
}
