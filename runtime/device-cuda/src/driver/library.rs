//! The driver and its devices.

use std::fmt;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as A, CUuuid};

use super::error::{CallError, OpenError};
use super::symbols::Symbols;

/// The CUDA driver of this process, found and initialised. A process has one, and keeps it.
#[derive(Clone, Copy)]
pub struct Driver {
    pub(super) symbols: &'static Symbols,
}

/// A driver's version, as CUDA's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 12 of 12.6.
    pub major: u32,
    /// 6 of 12.6.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Driver {
    /// Loads `libcuda.so`, looks up what we call, and initialises it (`cuInit`).
    pub fn open() -> Result<Self, OpenError> {
        let symbols = Symbols::of_this_process()?;
        // SAFETY: 0 is the one value that it takes.
        CallError::check("cuInit", unsafe { (symbols.init)(0) })?;
        Ok(Self { symbols })
    }

    /// The CUDA version of the driver (`cuDriverGetVersion`), which masks and images depend on.
    pub fn version(self) -> Result<Version, CallError> {
        let mut version = 0;
        // SAFETY: a valid place for the result.
        let code = unsafe { (self.symbols.driver_get_version)(&raw mut version) };
        CallError::check("cuDriverGetVersion", code)?;
        let version = u32::try_from(version).unwrap_or(0);
        Ok(Version {
            major: version / 1000,
            minor: version % 1000 / 10,
        })
    }

    /// How many devices there are (`cuDeviceGetCount`).
    pub fn device_count(self) -> Result<u32, CallError> {
        let mut count = 0;
        // SAFETY: a valid place for the result.
        let code = unsafe { (self.symbols.device_get_count)(&raw mut count) };
        CallError::check("cuDeviceGetCount", code)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The device `ordinal` (`cuDeviceGet`).
    pub fn device(self, ordinal: u32) -> Result<Gpu, OpenError> {
        let devices = self.device_count()?;
        if ordinal >= devices {
            return Err(OpenError::NoDevice { ordinal, devices });
        }
        let mut raw = 0;
        // SAFETY: a valid place for the result; the ordinal is below the count.
        let code = unsafe { (self.symbols.device_get)(&raw mut raw, ordinal as i32) };
        CallError::check("cuDeviceGet", code)?;
        Ok(Gpu { driver: self, raw })
    }
}

/// One GPU, as the driver numbers them.
#[derive(Clone, Copy)]
pub struct Gpu {
    pub(super) driver: Driver,
    pub(super) raw: CUdevice,
}

/// What can be asked about a GPU as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Attribute {
    Multiprocessors = A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as u32,
    /// 1: it shares the host's memory.
    Integrated = A::CU_DEVICE_ATTRIBUTE_INTEGRATED as u32,
    /// 1: page-locked host memory can be used by kernels.
    MapsHostMemory = A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY as u32,
    /// 1: so can memory that was not taken through CUDA.
    RegistersHostMemory = A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED as u32,
    /// 1: even if this process may only read it.
    RegistersReadOnlyMemory = A::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED as u32,
    /// Highest clock of the multiprocessors, in kHz.
    ClockKhz = A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE as u32,
    /// Highest clock of the memory, in kHz.
    MemoryClockKhz = A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE as u32,
    /// Width of the memory's bus, in bits.
    MemoryBusBits = A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH as u32,
    /// Bytes of the L2 cache.
    L2Bytes = A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE as u32,
    /// 8 of 8.7.
    CapabilityMajor = A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as u32,
    /// 7 of 8.7.
    CapabilityMinor = A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as u32,
    /// Shared bytes that a block may have when its kernel asks for them.
    SharedBytesPerBlock = A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as u32,
    SharedBytesPerMultiprocessor =
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR as u32,
    CopyEngines = A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT as u32,
    /// 1: streams have priorities.
    StreamPriorities = A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED as u32,
    /// 1: kernels that run for long are ended by the system.
    KernelTimeout = A::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT as u32,
}

impl Gpu {
    /// An attribute (`cuDeviceGetAttribute`); 0 for one that the driver does not know.
    pub fn attribute(self, attribute: Attribute) -> Result<u32, CallError> {
        let mut value = 0;
        let ask = self.driver.symbols.device_get_attribute;
        // SAFETY: a valid place for the result.
        let code = unsafe { ask(&raw mut value, attribute as u32, self.raw) };
        match CallError::check("cuDeviceGetAttribute", code) {
            // Attributes are numbered as they are introduced: an old driver refuses new ones.
            Err(error) if error.code == super::Code::INVALID_VALUE => Ok(0),
            Err(error) => Err(error),
            Ok(()) => Ok(u32::try_from(value).unwrap_or(0)),
        }
    }

    /// Whether an attribute is 1.
    pub fn can(self, attribute: Attribute) -> Result<bool, CallError> {
        Ok(self.attribute(attribute)? != 0)
    }

    /// Major and minor compute capability: `(8, 7)`.
    pub fn compute_capability(self) -> Result<(u32, u32), CallError> {
        Ok((
            self.attribute(Attribute::CapabilityMajor)?,
            self.attribute(Attribute::CapabilityMinor)?,
        ))
    }

    /// Its name (`cuDeviceGetName`).
    pub fn name(self) -> Result<String, CallError> {
        let mut name = [0_u8; 256];
        let ask = self.driver.symbols.device_get_name;
        // SAFETY: the buffer is as long as said; the last byte stays 0 whatever is written.
        let code = unsafe { ask(name.as_mut_ptr().cast(), 255, self.raw) };
        CallError::check("cuDeviceGetName", code)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(255);
        Ok(String::from_utf8_lossy(&name[..end]).into_owned())
    }

    /// What tells it from every other GPU (`cuDeviceGetUuid`).
    pub fn uuid(self) -> Result<[u8; 16], CallError> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: a valid place for the result.
        let code = unsafe { (self.driver.symbols.device_get_uuid)(&raw mut uuid, self.raw) };
        CallError::check("cuDeviceGetUuid", code)?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    /// Bytes of its memory (`cuDeviceTotalMem`); on an integrated GPU, the host's.
    pub fn memory_bytes(self) -> Result<usize, CallError> {
        let mut bytes = 0;
        // SAFETY: a valid place for the result.
        let code = unsafe { (self.driver.symbols.device_total_mem)(&raw mut bytes, self.raw) };
        CallError::check("cuDeviceTotalMem", code)?;
        Ok(bytes)
    }

    /// The handle, for calls of `cudarc`.
    #[must_use]
    pub fn as_raw(self) -> CUdevice {
        self.raw
    }

    /// The driver that it is of.
    #[must_use]
    pub fn driver(self) -> Driver {
        self.driver
    }
}
