//! What can go wrong between us and the driver.

use std::fmt;

use libsmctrl_sys::launch_mask::ApplyError;
use thiserror::Error;

/// Why there is no driver to talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    #[error("no CUDA driver (libcuda.so) on this machine: install NVIDIA's, or use the CPU device")]
    NoLibrary,
    /// The library is older than what we need, or it is not the driver.
    #[error("the CUDA driver has no `{0}`: it is older than CUDA 11.4, update it")]
    MissingSymbol(&'static str),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("no CUDA device {ordinal}: the driver has {devices}")]
    NoDevice { ordinal: u32, devices: u32 },
}

/// A call to the driver that failed. Small and without memory of its own, so that it can be made on a
/// real-time thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{call}: {code}")]
pub struct CallError {
    pub call: &'static str,
    pub code: Code,
}

impl CallError {
    /// A result as the driver returns it.
    pub(super) fn check(call: &'static str, code: u32) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            code => Err(Self {
                call,
                code: Code(code),
            }),
        }
    }

    /// A kernel that no loaded module has.
    pub(crate) fn not_loaded() -> Self {
        Self {
            call: "cuModuleGetFunction",
            code: Code::NOT_FOUND,
        }
    }

    /// A stream that cannot be masked, though it could be before.
    pub(crate) fn not_masked() -> Self {
        Self {
            call: "the mask of a stream",
            code: Code::NOT_FOUND,
        }
    }

    /// A launch whose mask was not written, so that it runs anywhere.
    pub(super) fn not_confined(error: ApplyError) -> Self {
        Self {
            call: match error {
                ApplyError::NotCalled => {
                    "the mask of a launch, for which the driver did not call back"
                }
                ApplyError::ShortParameters { .. } | ApplyError::NoDescriptor => {
                    "the mask of a launch, whose descriptor the driver did not name"
                }
                ApplyError::UnknownVersion { .. } => {
                    "the mask of a launch, whose descriptor has an unknown version"
                }
                ApplyError::TooManyTpcs { .. } => {
                    "the mask of a launch, whose descriptor knows TPCs 0 to 63 only"
                }
            },
            code: Code::NOT_SUPPORTED,
        }
    }

    /// Like [`check`](Self::check), for questions whose answer may be "not yet": whether it is over.
    pub(super) fn check_ready(call: &'static str, code: u32) -> Result<bool, Self> {
        match Code(code) {
            Code::NOT_READY => Ok(false),
            _ => Self::check(call, code).map(|()| true),
        }
    }
}

/// What can no longer be used after an error of the driver: the same error is returned from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    Nothing,
    /// A reset helps.
    Context,
    /// Nothing helps but the end of the process.
    Process,
}

/// A `CUresult`, whether we know its name or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code(pub u32);

/// What to do about an error that is the process's.
const START_AGAIN: &str = "the driver works again in a new process only";

impl Code {
    /// A value that the call does not take.
    pub const INVALID_VALUE: Self = Self(1);
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// No device, or none that this process may use.
    pub const NO_DEVICE: Self = Self(100);
    /// An image that is none, or of another version.
    pub const INVALID_IMAGE: Self = Self(200);
    /// No context is current on the calling thread, or it is gone.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// No code for this architecture in the image.
    pub const NO_BINARY_FOR_GPU: Self = Self(209);
    /// The image has no such function.
    pub const NOT_FOUND: Self = Self(500);
    /// What was asked about is not over. No error.
    pub const NOT_READY: Self = Self(600);
    /// A kernel used an address that it must not use.
    pub const ILLEGAL_ADDRESS: Self = Self(700);
    /// A kernel ran longer than the system lets one run.
    pub const LAUNCH_TIMEOUT: Self = Self(702);
    /// A kernel ended with an exception.
    pub const LAUNCH_FAILED: Self = Self(719);
    /// This platform cannot do that.
    pub const NOT_SUPPORTED: Self = Self(801);

    /// What is lost with it, by the comments of `cuda.h` (13.0).
    #[must_use]
    pub fn loss(self) -> Lost {
        match self.0 {
            // 709 destroyed, 710 assertion: "the context cannot be used anymore, and must be destroyed".
            709 | 710 => Lost::Context,
            // "To continue using CUDA, the process must be terminated and relaunched": 226 contained, 700 addresses,
            // 702 time, 714..=719 exceptions of kernels, 721 tensor memory, 810 MPS client, 911 external device. The
            // header says nothing of the kind about 214 (ECC) and 220 (NVLink): the stronger remedy is the safer one.
            214 | 220 | 226 | 700 | 702 | 714..=719 | 721 | 810 | 911 => Lost::Process,
            // Not 701: a launch that does not fit the device was never begun.
            _ => Lost::Nothing,
        }
    }

    /// Whether an image was refused which another one may replace: it is for other devices, or newer than the driver.
    #[must_use]
    pub fn refuses_image(self) -> bool {
        // 218, 222: text that the driver cannot compile; 223: it has no compiler.
        matches!(self, Self::INVALID_IMAGE | Self::NO_BINARY_FOR_GPU)
            || matches!(self.0, 218 | 222 | 223)
    }

    /// The driver's name of it, and what to do.
    fn explained(self) -> (&'static str, &'static str) {
        match self.0 {
            1 => ("CUDA_ERROR_INVALID_VALUE", "an error of ours: report it"),
            2 => (
                "CUDA_ERROR_OUT_OF_MEMORY",
                "take fewer weight pages, smaller batches or fewer partitions",
            ),
            3 => ("CUDA_ERROR_NOT_INITIALIZED", "an error of ours: report it"),
            4 => ("CUDA_ERROR_DEINITIALIZED", "the process is ending"),
            34 => (
                "CUDA_ERROR_STUB_LIBRARY",
                "the loader finds the toolkit's stub: take it out of LD_LIBRARY_PATH",
            ),
            46 => (
                "CUDA_ERROR_DEVICE_UNAVAILABLE",
                "another process has the device for itself: end it, or use compute mode DEFAULT",
            ),
            100 => (
                "CUDA_ERROR_NO_DEVICE",
                "no GPU that this process may use: check CUDA_VISIBLE_DEVICES and /dev/nvidia*",
            ),
            101 => ("CUDA_ERROR_INVALID_DEVICE", "no GPU of that number"),
            200 => (
                "CUDA_ERROR_INVALID_IMAGE",
                "build the images again (kernels/cuda/build.py)",
            ),
            201 => ("CUDA_ERROR_INVALID_CONTEXT", "an error of ours: report it"),
            209 => (
                "CUDA_ERROR_NO_BINARY_FOR_GPU",
                "there is no image for this architecture: add it (kernels/cuda/build.py)",
            ),
            218 => (
                "CUDA_ERROR_INVALID_PTX",
                "build the images again (kernels/cuda/build.py)",
            ),
            222 => (
                "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
                "the images are newer than the driver: update the driver",
            ),
            304 => ("CUDA_ERROR_OPERATING_SYSTEM", "see the kernel's log"),
            400 => ("CUDA_ERROR_INVALID_HANDLE", "an error of ours: report it"),
            500 => (
                "CUDA_ERROR_NOT_FOUND",
                "the image lacks a kernel: build the images again (kernels/cuda/build.py)",
            ),
            600 => ("CUDA_ERROR_NOT_READY", "ask again"),
            214 => ("CUDA_ERROR_ECC_UNCORRECTABLE", START_AGAIN),
            220 => ("CUDA_ERROR_NVLINK_UNCORRECTABLE", START_AGAIN),
            226 => ("CUDA_ERROR_CONTAINED", START_AGAIN),
            700 => ("CUDA_ERROR_ILLEGAL_ADDRESS", START_AGAIN),
            701 => (
                "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
                "the image does not fit this device: build the images again (kernels/cuda/build.py)",
            ),
            702 => (
                "CUDA_ERROR_LAUNCH_TIMEOUT",
                "the process must be started again; take the display off this GPU",
            ),
            709 => ("CUDA_ERROR_CONTEXT_IS_DESTROYED", "the device is restarted"),
            710 => ("CUDA_ERROR_ASSERT", "the device is restarted"),
            712 => (
                "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
                "an error of ours: report it",
            ),
            719 => ("CUDA_ERROR_LAUNCH_FAILED", START_AGAIN),
            721 => ("CUDA_ERROR_TENSOR_MEMORY_LEAK", START_AGAIN),
            800 => (
                "CUDA_ERROR_NOT_PERMITTED",
                "this process may not do that: check the user's rights",
            ),
            801 => (
                "CUDA_ERROR_NOT_SUPPORTED",
                "this driver or device cannot do that",
            ),
            803 => (
                "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
                "libcuda.so and the kernel's driver differ: reboot after an update",
            ),
            999 => ("CUDA_ERROR_UNKNOWN", "see the kernel's log"),
            _ if self.loss() == Lost::Process => ("a fault on the device", START_AGAIN),
            _ => (
                "an error that we have no name for",
                "look its number up in cuda.h",
            ),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, advice) = self.explained();
        write!(f, "{name} ({}): {advice}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_the_code_and_what_to_do() {
        let error = CallError::check("cuMemAlloc", 2).expect_err("not success");
        let text = error.to_string();
        for part in ["cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "(2)", "fewer"] {
            assert!(text.contains(part), "{text}");
        }
        let unknown = CallError::check("cuInit", 12_345).expect_err("not success");
        assert!(unknown.to_string().contains("(12345)"), "{unknown}");
    }

    #[test]
    fn not_ready_is_an_answer_and_no_error() {
        assert_eq!(CallError::check_ready("cuStreamQuery", 0), Ok(true));
        assert_eq!(CallError::check_ready("cuStreamQuery", 600), Ok(false));
        let lost = CallError::check_ready("cuStreamQuery", 700).expect_err("a fault");
        assert_eq!(lost.code.loss(), Lost::Process);
    }

    #[test]
    fn what_is_lost_is_what_the_drivers_header_says() {
        for code in [1, 2, 209, 500, 600, 701, 711, 712, 713, 720, 801] {
            assert_eq!(Code(code).loss(), Lost::Nothing, "{code}");
        }
        for code in [709, 710] {
            assert_eq!(Code(code).loss(), Lost::Context, "{code}");
        }
        for code in [
            214, 220, 226, 700, 702, 714, 715, 716, 717, 718, 719, 721, 810, 911,
        ] {
            assert_eq!(Code(code).loss(), Lost::Process, "{code}");
        }
    }
}
