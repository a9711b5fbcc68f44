//! libsmctrl's own C API, found when the program runs.
//!
//! The library ends the process (`exit(1)`) when it does not know the driver, so there are two protections.
//! [`Library::open`] refuses drivers that [`stream_mask::find`] does not know. And it makes the first call
//! in a child process, on an object of our own in the place of a stream. What the library wrote there
//! also tells where it believes the mask to be, which is compared with our table.
//!
//! The library is neither vendored nor linked: its public copies carry no licence.

mod child;
mod trial;

use std::error::Error as _;
use std::ffi::{OsStr, OsString, c_int, c_void};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use child::{Ending, Report, in_child};

use crate::key::DriverKey;
use crate::mask::TpcMask;
use crate::stream_mask::{self, Row, UnknownDriver};

/// The C API, as the header of the public copies declares it. Setters return nothing there; some forks
/// let them return an `int`, which is not looked at.
pub mod api {
    use super::{c_int, c_void};

    /// `libsmctrl_set_stream_mask`: all later launches of a stream. TPCs 64 to 127 are disabled.
    pub type SetStreamMask = unsafe extern "C" fn(stream: *mut c_void, disabled: u64);
    /// `libsmctrl_set_stream_mask_ext`: likewise, of 128 TPCs.
    pub type SetStreamMaskExt = unsafe extern "C" fn(stream: *mut c_void, disabled: u128);
    /// `libsmctrl_get_tpc_info_cuda`: how many TPCs a CUDA device has. 0 or an `errno`.
    pub type GetTpcInfoCuda = unsafe extern "C" fn(tpcs: *mut u32, cuda_device: c_int) -> c_int;
}

/// The environment variable that names the library.
pub const PATH_VARIABLE: &str = "LIBSMCTRL_PATH";

/// What the loader is asked for if the variable is not set.
const FILE_NAME: &str = "libsmctrl.so";

/// How long the first call may take, the loading of `libcuda` included.
pub const TRIAL_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// Our table does not know the driver.
    #[error("libsmctrl ends the process on drivers that it does not know: {0}")]
    UnknownDriver(#[from] UnknownDriver),
    /// The library is not there, or not whole.
    #[error(
        "libsmctrl cannot be loaded: {}; set {PATH_VARIABLE} to its file, or use another mechanism",
        loader_says(.0)
    )]
    Load(#[from] libloading::Error),
    /// No child process for the first call.
    #[error("the process for libsmctrl's first call cannot be started: {0}")]
    Process(#[from] io::Error),
    /// The child did not come back from the first call.
    #[error("libsmctrl ended the process of its first call ({ending:?}); it does not know {key}")]
    Ended { ending: Ending, key: DriverKey },
    /// The library wrote no mask, or it wrote one somewhere else than it lies by our table.
    #[error(
        "libsmctrl wrote a mask at {written:#x?}, for {key} our table says {expected:#x}; \
         one of them is wrong, so neither is used"
    )]
    OtherPlace {
        /// Where the library wrote.
        written: Option<usize>,
        /// Where it should have.
        expected: usize,
        key: DriverKey,
    },
    /// A mask that needs `libsmctrl_set_stream_mask_ext`, which this copy has not.
    #[error(
        "this copy of libsmctrl knows 64 TPCs; enabling {enabled:#x} needs one with \
         libsmctrl_set_stream_mask_ext"
    )]
    TooManyTpcs {
        /// A set bit is an enabled TPC.
        enabled: u128,
    },
    /// A getter failed.
    #[error("libsmctrl's {call} failed: {source}; it needs the kernel module nvdebug")]
    Getter {
        call: &'static str,
        /// The `errno` that it returned.
        source: io::Error,
    },
}

/// The loader's own words, which are behind the error and not in it.
fn loader_says(error: &libloading::Error) -> String {
    error.source().unwrap_or(error).to_string()
}

/// libsmctrl, once it is known to come back.
#[derive(Debug)]
pub struct Library {
    stream_mask: SetStream,
    library: libloading::Library,
    row: &'static Row,
}

#[derive(Debug)]
enum SetStream {
    Of64(api::SetStreamMask),
    Of128(api::SetStreamMaskExt),
}

impl Library {
    /// What to load: the file that [`PATH_VARIABLE`] names (`named`), or else whatever the loader finds.
    #[must_use]
    pub fn file(named: Option<&OsStr>) -> OsString {
        named.map_or_else(
            || PathBuf::from(FILE_NAME).into_os_string(),
            OsStr::to_owned,
        )
    }

    /// Loads `file` and makes the first call for a driver in a child process, then loads it here.
    ///
    /// # Errors
    /// If it cannot be loaded, is not for this driver, or did not come back.
    ///
    /// # Safety
    /// - `file` is libsmctrl, or something with its functions.
    /// - This process has not initialised CUDA yet, and has no other thread that holds a lock which
    ///   loading a library needs: call this when the program starts.
    pub unsafe fn open(file: &OsStr, key: DriverKey, limit: Duration) -> Result<Self, RawError> {
        let row = stream_mask::find(key)?;
        // SAFETY: the caller's promise is the one that the child needs.
        let report = unsafe { in_child(limit, || trial::run(file, row.place().layout)) }?;
        let said = match report {
            Report {
                ending: Ending::Exited(0),
                said: Some(said),
            } => said,
            Report { ending, .. } => return Err(RawError::Ended { ending, key }),
        };
        if said == row.offset as u64 {
            // SAFETY: it was loaded in the child without harm.
            return unsafe { Self::load(file, row) };
        }
        if said == trial::NOT_LOADED {
            // What is missing is said better here than through the child.
            // SAFETY: the caller's promise.
            unsafe { Self::load(file, row) }?;
        }
        Err(RawError::OtherPlace {
            written: usize::try_from(said).ok().filter(|_| said < trial::NO_MASK),
            expected: row.offset,
            key,
        })
    }

    /// As [`open`](Self::open), without the trial.
    ///
    /// # Errors
    /// If it cannot be loaded, or is not for this driver.
    ///
    /// # Safety
    /// `file` is libsmctrl, or something with its functions, and another process has called it with this
    /// driver and came back.
    pub unsafe fn open_tried(file: &OsStr, key: DriverKey) -> Result<Self, RawError> {
        let row = stream_mask::find(key)?;
        // SAFETY: the caller's promise.
        unsafe { Self::load(file, row) }
    }

    /// # Safety
    /// As of [`open`](Self::open), after the trial.
    unsafe fn load(file: &OsStr, row: &'static Row) -> Result<Self, RawError> {
        // SAFETY: by the caller's promise the file is libsmctrl, whose start-up code may run here.
        let library = unsafe { libloading::Library::new(file) }?;
        // SAFETY: both functions have the types that the library's header gives them.
        let stream_mask = unsafe {
            match library.get::<api::SetStreamMaskExt>(b"libsmctrl_set_stream_mask_ext") {
                Ok(set) => SetStream::Of128(*set),
                Err(_) => SetStream::Of64(
                    *library.get::<api::SetStreamMask>(b"libsmctrl_set_stream_mask")?,
                ),
            }
        };
        Ok(Self {
            stream_mask,
            library,
            row,
        })
    }

    /// Where the library, and our table, have the mask of a stream.
    #[must_use]
    pub const fn row(&self) -> &'static Row {
        self.row
    }

    /// Bits of its masks for this driver.
    #[must_use]
    pub fn bits(&self) -> u32 {
        match self.stream_mask {
            SetStream::Of128(_) => self.row.place().layout.bits(),
            SetStream::Of64(_) => u64::BITS,
        }
    }

    /// Restricts all later launches of a stream to the TPCs of `mask`.
    ///
    /// # Errors
    /// If this copy of the library cannot say the mask.
    ///
    /// # Safety
    /// `stream` is a stream of the driver that the library was opened for, as in
    /// [`stream_mask::write`]; no other thread launches into it meanwhile.
    pub unsafe fn set_stream_mask(
        &self,
        stream: *mut c_void,
        mask: TpcMask,
    ) -> Result<(), RawError> {
        match self.stream_mask {
            // SAFETY: the caller's promise; the trial showed that this driver is one of those for which
            // the call comes back.
            SetStream::Of128(set) => unsafe { set(stream, mask.disabled_bits()) },
            SetStream::Of64(set) => {
                let disabled = mask.disabled_bits_64().ok_or(RawError::TooManyTpcs {
                    enabled: mask.enabled_bits(),
                })?;
                // SAFETY: as above.
                unsafe { set(stream, disabled) };
            }
        }
        Ok(())
    }

    /// How many TPCs CUDA device number `device` has, units on the chip that are switched off included
    /// from Hopper on.
    ///
    /// # Errors
    /// If this copy of the library has no such call, or the call fails.
    ///
    /// # Safety
    /// CUDA is initialised, or may be.
    pub unsafe fn tpcs(&self, device: c_int) -> Result<u32, RawError> {
        const CALL: &str = "libsmctrl_get_tpc_info_cuda";
        let mut tpcs = 0;
        // SAFETY: the type is that of the library's header, and there is room for the number.
        let code = unsafe {
            let get = self.library.get::<api::GetTpcInfoCuda>(CALL.as_bytes())?;
            get(&raw mut tpcs, device)
        };
        match code {
            0 => Ok(tpcs),
            code => Err(RawError::Getter {
                call: CALL,
                source: io::Error::from_raw_os_error(code),
            }),
        }
    }
}
