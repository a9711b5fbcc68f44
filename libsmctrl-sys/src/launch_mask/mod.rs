//! The mask of a launch, written into its descriptor.
//!
//! The driver calls subscribers back before it hands a launch's descriptor to the device (Bakita and Anderson,
//! RTAS 2023). No offset in the driver's own objects is needed, so this works where [`stream_mask`](crate::stream_mask)
//! has no row. What it relies on instead is not documented by the vendor either: the table of functions with
//! [`TABLE`], two of its places, and the parameters of the callback; only the descriptor's fields are published.
//!
//! The callback runs on the thread that launches, so the mask is handed to it in a thread's own cell: no lock,
//! no allocation. A launch of another thread, or outside [`LaunchMasks::masked`], is left as it is.

mod descriptor;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

pub use descriptor::{Generation, Layout, VersionBytes};

use crate::mask::TpcMask;

/// `cuGetExportTable`: where to put the table, and its name.
pub type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> u32;

/// The name of the table with which tools subscribe to what the driver does.
pub const TABLE: [u8; 16] = [
    0x2c, 0x8e, 0x0a, 0xd8, 0x07, 0x10, 0xab, 0x4e, 0x90, 0xdd, 0x54, 0x71, 0x9f, 0xe5, 0xf7, 0x4b,
];
/// Places of functions in the table. Its first word is its size in bytes.
const SUBSCRIBE: usize = 3;
const ENABLE: usize = 6;
/// The event "a descriptor is about to be handed over".
const DOMAIN: c_int = 0xb;
const EVENT: c_int = 1;
/// The place of the pointer to the descriptor among the callback's parameters, words of eight bytes. The first
/// four bytes are their size.
const DESCRIPTOR: usize = 4;

type Callback = unsafe extern "C" fn(*mut c_void, c_int, c_int, *const c_void);
type Subscribe = unsafe extern "C" fn(*mut u32, Callback, *mut c_void) -> u32;
type Enable = unsafe extern "C" fn(u32, u32, c_int, c_int) -> u32;

/// Why launches cannot be masked by their descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    #[error("the driver has no table of callbacks 2c8e0ad8-…: cuGetExportTable returned {code}")]
    NoTable { code: u32 },
    #[error(
        "the driver's table of callbacks has {bytes} bytes: {needed} are needed, so it is another one"
    )]
    ShortTable { bytes: usize, needed: usize },
    #[error("the driver accepts no callback for launches: it returned {code}")]
    NotSubscribed { code: u32 },
    #[error("the driver does not call back for descriptors of launches: it returned {code}")]
    NotEnabled { code: u32 },
}

/// Why the mask of a launch has no effect. Without memory of its own, as it is made on real-time threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("the driver launched without a callback for the launch's descriptor")]
    NotCalled,
    #[error(
        "the callback has {bytes} bytes of parameters: {needed} are needed to find the descriptor"
    )]
    ShortParameters { bytes: usize, needed: usize },
    #[error("the callback names no descriptor")]
    NoDescriptor,
    #[error(
        "the descriptor of a launch has an unknown version (byte 58: {:#04x}, byte 72: {:#04x}): \
         1.6 to 4.1 and 5.0 are known, each for its devices", .version.at_58, .version.at_72
    )]
    UnknownVersion { version: VersionBytes },
    #[error("enabled TPCs {enabled:#x}: descriptors of versions 1 to 3 know TPCs 0 to 63 only")]
    TooManyTpcs {
        /// A set bit is an enabled TPC.
        enabled: u128,
    },
}

/// That the driver calls back for each launch of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchMasks {
    layouts: Layouts,
}

/// How descriptors hold masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layouts {
    /// As published for each version.
    Published(Generation),
    /// As somebody found out, whichever the version.
    Found(Layout),
}

impl Layouts {
    const fn of(self, version: VersionBytes) -> Option<Layout> {
        match self {
            Self::Published(generation) => generation.layout(version),
            Self::Found(layout) => Some(layout),
        }
    }
}

/// The mask for a thread's launch, and what became of it.
#[derive(Clone, Copy)]
struct Pending {
    mask: TpcMask,
    layouts: Layouts,
    outcome: Result<(), ApplyError>,
}

thread_local! {
    /// Constant and without a destructor: using it never allocates.
    static PENDING: Cell<Option<Pending>> = const { Cell::new(None) };
    static LAST: Cell<Option<ApplyError>> = const { Cell::new(None) };
}

/// The driver is subscribed to once in a process.
static SUBSCRIBED: Mutex<bool> = Mutex::new(false);

impl LaunchMasks {
    /// Asks the driver to call back for each launch, for a device of this generation. `found` is how its
    /// descriptors hold masks, if that was found out; none: as it is published for their version.
    ///
    /// # Errors
    /// If the driver has no such callback, or not as far as is known of it.
    ///
    /// # Safety
    /// - `get` is the `cuGetExportTable` of this process's driver, which is initialised and stays loaded.
    /// - No vendor documents the table: the caller has tried it, and `found`, in a child process on this driver and
    ///   device, or is that child. `found` is [inside](Layout::is_inside) of descriptors.
    pub unsafe fn install(
        get: GetExportTable,
        generation: Generation,
        found: Option<Layout>,
    ) -> Result<Self, InstallError> {
        let mut subscribed = SUBSCRIBED.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: by the caller's promise.
        let (subscribe, enable) = unsafe { functions(get) }?;
        if !*subscribed {
            let mut handle = 0;
            // SAFETY: as the table's functions are known to be, by the caller's promise; the callback is a function
            // of this program, which stays.
            let code = unsafe { subscribe(&raw mut handle, on_descriptor, std::ptr::null_mut()) };
            if code != 0 {
                return Err(InstallError::NotSubscribed { code });
            }
            // SAFETY: likewise.
            let code = unsafe { enable(1, handle, DOMAIN, EVENT) };
            if code != 0 {
                return Err(InstallError::NotEnabled { code });
            }
            *subscribed = true;
        }
        Ok(Self {
            layouts: found.map_or(Layouts::Published(generation), Layouts::Found),
        })
    }

    /// Bits of its masks, and so TPCs at most.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self.layouts {
            Layouts::Published(generation) => generation.bits(),
            Layouts::Found(layout) => layout.bits(),
        }
    }

    /// Carries out `launch`, which launches one kernel on the calling thread and returns the driver's code, with its
    /// descriptor masked. Returned with the code: whether the mask was written, without which the kernel runs anywhere. For
    /// a launch that failed, this says nothing.
    pub fn masked(
        self,
        mask: TpcMask,
        launch: impl FnOnce() -> u32,
    ) -> (u32, Result<(), ApplyError>) {
        PENDING.set(Some(Pending {
            mask,
            layouts: self.layouts,
            outcome: Err(ApplyError::NotCalled),
        }));
        let code = launch();
        let pending = PENDING.take();
        let outcome = pending.map_or(Err(ApplyError::NotCalled), |pending| pending.outcome);
        let outcome = if code == 0 { outcome } else { Ok(()) };
        LAST.set(outcome.err());
        (code, outcome)
    }
}

/// Why the calling thread's last masked launch was not masked; none if it was.
#[must_use]
pub fn last_error() -> Option<ApplyError> {
    LAST.get()
}

/// The two functions of the driver's table.
///
/// # Safety
/// As of [`LaunchMasks::install`].
unsafe fn functions(get: GetExportTable) -> Result<(Subscribe, Enable), InstallError> {
    let mut table: *const c_void = std::ptr::null();
    // SAFETY: valid places for the result and of the name.
    let code = unsafe { get(&raw mut table, &TABLE) };
    let table = table.cast::<usize>();
    if code != 0 || table.is_null() {
        return Err(InstallError::NoTable { code });
    }
    // SAFETY: the first word of the driver's tables is their size.
    let bytes = unsafe { table.read() };
    let needed = (ENABLE + 1) * size_of::<usize>();
    if bytes < needed {
        return Err(InstallError::ShortTable { bytes, needed });
    }
    let at = |place: usize| {
        // SAFETY: inside the table, as just checked.
        unsafe { table.add(place).cast::<*const c_void>().read() }
    };
    let (subscribe, enable) = (at(SUBSCRIBE), at(ENABLE));
    if subscribe.is_null() || enable.is_null() {
        return Err(InstallError::NoTable { code });
    }
    // SAFETY: these places hold functions of these types, by the caller's promise.
    unsafe {
        Ok((
            std::mem::transmute::<*const c_void, Subscribe>(subscribe),
            std::mem::transmute::<*const c_void, Enable>(enable),
        ))
    }
}

/// What the driver calls on the launching thread, before the descriptor goes to the device.
///
/// # Safety
/// `parameters` are as the driver gives them.
unsafe extern "C" fn on_descriptor(
    _user: *mut c_void,
    domain: c_int,
    event: c_int,
    parameters: *const c_void,
) {
    let Some(mut pending) = PENDING.get() else {
        return;
    };
    if (domain, event) != (DOMAIN, EVENT) || parameters.is_null() {
        return;
    }
    // SAFETY: by the caller's promise.
    pending.outcome = unsafe { apply(pending, parameters) };
    PENDING.set(Some(pending));
}

/// # Safety
/// As of [`on_descriptor`], and `parameters` is not null.
unsafe fn apply(pending: Pending, parameters: *const c_void) -> Result<(), ApplyError> {
    // SAFETY: the size comes first, by the caller's promise.
    let bytes = unsafe { parameters.cast::<u32>().read() } as usize;
    let needed = (DESCRIPTOR + 1) * size_of::<usize>();
    if bytes < needed {
        return Err(ApplyError::ShortParameters { bytes, needed });
    }
    // SAFETY: inside the parameters, as just checked.
    let descriptor = unsafe { parameters.cast::<*mut u8>().add(DESCRIPTOR).read() };
    if descriptor.is_null() {
        return Err(ApplyError::NoDescriptor);
    }
    // SAFETY: the descriptor, which is larger than 72 bytes in every version.
    let version = unsafe { VersionBytes::of(descriptor) };
    let layout = pending.layouts.of(version);
    let layout = layout.ok_or(ApplyError::UnknownVersion { version })?;
    // SAFETY: a descriptor of this layout, which the driver has prepared and not handed over yet.
    let written = unsafe { layout.write(descriptor, pending.mask) };
    written.ok_or(ApplyError::TooManyTpcs {
        enabled: pending.mask.enabled_bits(),
    })
}

#[cfg(test)]
mod tests;
