//! What calls of the driver return.

/// A `CUresult`: 0, or the number of an error.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal, $cuda:literal, $says:literal;)*) => {
        impl Code {
            $(#[doc = concat!("`", $cuda, "`: ", $says)] pub const $name: Code = Code($number);)*

            /// The name and the description of a code that the emulated driver knows.
            pub(crate) fn texts(self) -> Option<(&'static std::ffi::CStr, &'static std::ffi::CStr)> {
                match self.0 {
                    $($number => {
                        let name = const { text(concat!($cuda, "\0")) };
                        let says = const { text(concat!($says, "\0")) };
                        Some((name, says))
                    })*
                    _ => None,
                }
            }
        }
    };
}

const fn text(with_end: &'static str) -> &'static std::ffi::CStr {
    match std::ffi::CStr::from_bytes_with_nul(with_end.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a text without zeros inside"),
    }
}

codes! {
    SUCCESS = 0, "CUDA_SUCCESS", "no error";
    INVALID_VALUE = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    NO_DEVICE = 100, "CUDA_ERROR_NO_DEVICE", "no device is detected";
    INVALID_DEVICE = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    INVALID_IMAGE = 200, "CUDA_ERROR_INVALID_IMAGE", "the image of a module is invalid";
    INVALID_CONTEXT = 201, "CUDA_ERROR_INVALID_CONTEXT", "no context, or not a valid one, is current";
    NO_BINARY_FOR_GPU = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the module has no code for this device";
    ECC_UNCORRECTABLE = 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "an uncorrectable error of memory";
    INVALID_PTX = 218, "CUDA_ERROR_INVALID_PTX", "the PTX cannot be compiled";
    UNSUPPORTED_PTX_VERSION = 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is newer than the driver";
    CONTAINED = 226, "CUDA_ERROR_CONTAINED", "an exception that the GPU contained";
    OPERATING_SYSTEM = 304, "CUDA_ERROR_OPERATING_SYSTEM", "a call of the operating system failed";
    INVALID_HANDLE = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    NOT_FOUND = 500, "CUDA_ERROR_NOT_FOUND", "there is nothing of this name";
    NOT_READY = 600, "CUDA_ERROR_NOT_READY", "what was asked for is not complete yet";
    ILLEGAL_ADDRESS = 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an access to memory that is not there";
    LAUNCH_OUT_OF_RESOURCES = 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources for a launch";
    LAUNCH_TIMEOUT = 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "a launch took too long";
    CONTEXT_IS_DESTROYED = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is destroyed";
    ASSERT = 710, "CUDA_ERROR_ASSERT", "an assertion of a kernel failed";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory is registered already";
    HOST_MEMORY_NOT_REGISTERED = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory is not registered";
    LAUNCH_FAILED = 719, "CUDA_ERROR_LAUNCH_FAILED", "a launch failed for an unknown reason";
    TENSOR_MEMORY_LEAK = 721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "a kernel left tensor memory allocated";
    NOT_SUPPORTED = 801, "CUDA_ERROR_NOT_SUPPORTED", "the operation is not supported";
    UNKNOWN = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

/// How long an error that a kernel or a copy made stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// The context can no longer be used and must be destroyed.
    UntilReset,
    /// The process is in an inconsistent state: it must be ended and started again.
    UntilProcessEnds,
}

impl Code {
    /// How long all calls fail with this error after it occurred, by the comments of `cuda.h` (13.0). None: it is of one
    /// call only.
    #[must_use]
    pub fn stays(self) -> Option<Stays> {
        match self.0 {
            710 => Some(Stays::UntilReset),
            // Of 214 and 220 the header does not say how long they stay. This driver is as unkind as a real one may be.
            214 | 220 | 226 | 700 | 702 | 714..=719 | 721 | 810 | 911 => {
                Some(Stays::UntilProcessEnds)
            }
            _ => None,
        }
    }
}

/// What an implementation of a call returns.
pub(crate) type Outcome<T = ()> = Result<T, Code>;
