//! What GPUs of each compute capability have, from the tables of the CUDA programming guide.
use crate::code::{Code, Outcome};
use crate::config::Config;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) threads_sm: u32,
    pub(crate) blocks_sm: u32,
    pub(crate) shared_sm: u32,
    /// The most that a block may ask for, with the opt-in attribute.
    pub(crate) shared_block_optin: u32,
    /// The most without saying so.
    pub(crate) shared_block: u32,
    /// What the system takes of each block.
    pub(crate) shared_reserved: u32,
    /// 32-bit registers of a multiprocessor.
    pub(crate) registers_sm: u32,
}

impl Config {
    pub(crate) fn limits(&self) -> Limits {
        let (major, minor) = self.compute;
        Limits::of(major, minor)
    }
}

impl Limits {
    pub(crate) fn of(major: u32, minor: u32) -> Self {
        let (threads_sm, blocks_sm, shared_kib, optin_kib) = match (major, minor) {
            (7, 0..=4) => (2048, 32, 96, 96),
            (7, _) => (1024, 16, 64, 64),
            (8, 0) => (2048, 32, 164, 163),
            (8, 6) => (1536, 16, 100, 99),
            (8, 7) => (1536, 16, 164, 163),
            (8, 9) => (1536, 24, 100, 99),
            (9 | 10, _) => (2048, 32, 228, 227),
            (11, _) => (1536, 24, 228, 227),
            (12, _) => (1536, 24, 100, 99),
            _ => (2048, 32, 64, 48),
        };
        Self {
            threads_sm,
            blocks_sm,
            shared_sm: shared_kib << 10,
            shared_block_optin: optin_kib << 10,
            shared_block: 48 << 10,
            shared_reserved: if major >= 8 { 1024 } else { 0 },
            registers_sm: 65536,
        }
    }
}

/// A `CUdevice_attribute`.
pub(crate) fn device(config: &Config, which: u32) -> Outcome<i32> {
    let limits = config.limits();
    let integrated = i32::from(config.integrated);
    Ok(match which {
        // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y, _Z
        1..=3 => 1024,
        4 => 64,
        // MAX_GRID_DIM_X, _Y, _Z
        5 => i32::MAX,
        6 | 7 => 0xffff,
        // MAX_SHARED_MEMORY_PER_BLOCK
        8 => limits.shared_block as i32,
        // TOTAL_CONSTANT_MEMORY
        9 => 0x10000,
        // WARP_SIZE
        10 => 32,
        // MAX_REGISTERS_PER_BLOCK, MAX_REGISTERS_PER_MULTIPROCESSOR
        12 | 82 => limits.registers_sm as i32,
        // CLOCK_RATE, MEMORY_CLOCK_RATE in kHz, GLOBAL_MEMORY_BUS_WIDTH in bits: an AGX Orin's
        13 => 1_300_000,
        36 => 3_199_000,
        37 => 256,
        // MULTIPROCESSOR_COUNT
        16 => config.sms() as i32,
        // KERNEL_EXEC_TIMEOUT, COMPUTE_MODE, ECC_ENABLED, PCI_BUS_ID, PCI_DEVICE_ID, PCI_DOMAIN_ID
        17 | 20 | 32 | 33 | 34 | 50 => 0,
        // INTEGRATED
        18 => integrated,
        // CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING, STREAM_PRIORITIES_SUPPORTED
        19 | 31 | 41 | 78 => 1,
        // L2_CACHE_SIZE
        38 => 4 << 20,
        // MAX_THREADS_PER_MULTIPROCESSOR
        39 => limits.threads_sm as i32,
        // ASYNC_ENGINE_COUNT
        40 => 2,
        // COMPUTE_CAPABILITY_MAJOR, _MINOR
        75 => config.compute.0 as i32,
        76 => config.compute.1 as i32,
        // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        81 => limits.shared_sm as i32,
        // MANAGED_MEMORY, PAGEABLE_MEMORY_ACCESS, CONCURRENT_MANAGED_ACCESS
        83 | 88 | 89 => 0,
        // HOST_NATIVE_ATOMIC_SUPPORTED
        86 => integrated,
        // COMPUTE_PREEMPTION_SUPPORTED, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, CAN_USE_STREAM_MEM_OPS_V1
        90..=92 => 1,
        // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        97 => limits.shared_block_optin as i32,
        // HOST_REGISTER_SUPPORTED, READ_ONLY_HOST_REGISTER_SUPPORTED
        99 => i32::from(config.host_register),
        113 => i32::from(config.host_register && config.host_register_read_only),
        // MAX_BLOCKS_PER_MULTIPROCESSOR
        106 => limits.blocks_sm as i32,
        // RESERVED_SHARED_MEMORY_PER_BLOCK
        111 => limits.shared_reserved as i32,
        _ => return Err(Code::INVALID_VALUE),
    })
}
