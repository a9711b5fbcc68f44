//! Modules and their functions.
use std::ffi::CStr;
use std::sync::Arc;

use super::attributes::Limits;
use super::context;
use super::image::{self, Resources};
use super::objects::{Function, Module};
use super::state::Device;
use crate::code::{Code, Outcome};
use crate::config::Config;

/// # Safety
/// As of `image::read`.
pub(crate) unsafe fn load(image: *const u8) -> Outcome<usize> {
    context::with(|device| {
        // SAFETY: the caller's promise.
        let image = unsafe { image::read(image, &device.config) }?;
        device.loads.modules += 1;
        device.loads.module_bytes += image.bytes as u64;
        let handle = device.handle();
        device.modules.insert(handle, Module { image });
        Ok(handle)
    })
}

pub(crate) fn unload(module: usize) -> Outcome {
    context::with(|device| {
        device
            .functions
            .retain(|_, function| function.module != module);
        device
            .modules
            .remove(&module)
            .map(drop)
            .ok_or(Code::INVALID_HANDLE)
    })
}

pub(crate) fn function(module: usize, name: &CStr) -> Outcome<usize> {
    let name = name.to_str().map_err(|_| Code::INVALID_VALUE)?;
    let is_loaded = |device: &mut Device| {
        let mut functions = device.functions.values();
        functions.any(|function| function.module == module && function.name == name)
    };
    if context::with(|device| Ok(device.lazy && !is_loaded(device)))? {
        // Documented: loading a kernel may need the context to be synchronised.
        context::synchronize()?;
    }
    context::with(|device| {
        let found = device.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let &resources = found.image.kernels.get(name).ok_or(Code::NOT_FOUND)?;
        let kernel = found.image.program.kernel(name).ok_or(Code::NOT_FOUND)?;
        let kernel = Arc::clone(kernel);
        let known = device
            .functions
            .iter()
            .find(|(_, function)| function.module == module && function.name == name);
        if let Some((&handle, _)) = known {
            return Ok(handle);
        }
        let limits = device.config.limits();
        let handle = device.handle();
        let function = Function {
            module,
            name: name.to_owned(),
            kernel,
            resources,
            dynamic_shared_max: (limits.shared_block - resources.shared_bytes) as usize,
            carveout: -1,
        };
        device.functions.insert(handle, function);
        Ok(handle)
    })
}

/// `CUfunction_attribute`
mod attribute {
    pub const MAX_THREADS_PER_BLOCK: u32 = 0;
    pub const SHARED_SIZE_BYTES: u32 = 1;
    pub const CONST_SIZE_BYTES: u32 = 2;
    pub const LOCAL_SIZE_BYTES: u32 = 3;
    pub const NUM_REGS: u32 = 4;
    pub const PTX_VERSION: u32 = 5;
    pub const BINARY_VERSION: u32 = 6;
    pub const CACHE_MODE_CA: u32 = 7;
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
}

pub(crate) fn attribute(function: usize, which: u32) -> Outcome<i32> {
    context::with(|device| {
        let (major, minor) = device.config.compute;
        let function = device
            .functions
            .get(&function)
            .ok_or(Code::INVALID_HANDLE)?;
        Ok(match which {
            attribute::MAX_THREADS_PER_BLOCK => function.kernel.threads_max() as i32,
            attribute::SHARED_SIZE_BYTES => function.resources.shared_bytes as i32,
            attribute::CONST_SIZE_BYTES
            | attribute::LOCAL_SIZE_BYTES
            | attribute::CACHE_MODE_CA => 0,
            attribute::NUM_REGS => function.resources.registers as i32,
            attribute::PTX_VERSION | attribute::BINARY_VERSION => (10 * major + minor) as i32,
            attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => function.dynamic_shared_max as i32,
            attribute::PREFERRED_SHARED_MEMORY_CARVEOUT => function.carveout,
            _ => return Err(Code::INVALID_VALUE),
        })
    })
}

pub(crate) fn set_attribute(function: usize, which: u32, value: i32) -> Outcome {
    context::with(|device| {
        let function = device
            .functions
            .get_mut(&function)
            .ok_or(Code::INVALID_HANDLE)?;
        match which {
            attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let most =
                    device.config.limits().shared_block_optin - function.resources.shared_bytes;
                match u32::try_from(value) {
                    Ok(value) if value <= most => function.dynamic_shared_max = value as usize,
                    _ => return Err(Code::INVALID_VALUE),
                }
            }
            attribute::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
                function.carveout = value;
            }
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    })
}

/// How many blocks a multiprocessor has room for, by threads, registers and shared memory.
pub(crate) fn occupancy(function: usize, threads: i32, dynamic_shared: usize) -> Outcome<i32> {
    context::with(|device| {
        let function = device
            .functions
            .get(&function)
            .ok_or(Code::INVALID_HANDLE)?;
        let threads = u32::try_from(threads)
            .ok()
            .filter(|&threads| threads > 0)
            .ok_or(Code::INVALID_VALUE)?;
        let shared = u32::try_from(dynamic_shared).map_err(|_| Code::INVALID_VALUE)?;
        Ok(function.blocks_per_sm(&device.config, threads, shared) as i32)
    })
}

impl Function {
    /// How many blocks of `threads` threads a multiprocessor has room for.
    pub(super) fn blocks_per_sm(&self, config: &Config, threads: u32, shared: u32) -> u32 {
        config.limits().blocks(threads, self.resources, shared)
    }
}

impl Limits {
    fn blocks(&self, threads: u32, resources: Resources, dynamic_shared: u32) -> u32 {
        let warps = threads.div_ceil(32);
        // Registers are given to a warp in units of 256, shared memory to a block in units of 128.
        let registers = warps * (32 * resources.registers).next_multiple_of(256);
        let shared =
            (resources.shared_bytes + dynamic_shared + self.shared_reserved).next_multiple_of(128);
        let by_threads = self.threads_sm / (32 * warps);
        let by_registers = self.registers_sm.checked_div(registers).unwrap_or(u32::MAX);
        let by_shared = self.shared_sm.checked_div(shared).unwrap_or(u32::MAX);
        by_threads
            .min(by_registers)
            .min(by_shared)
            .min(self.blocks_sm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_that_of_the_scarcest_resource() {
        let limits = Limits::of(8, 7);
        let blocks = |threads, registers, shared| {
            let resources = Resources {
                registers,
                shared_bytes: 0,
            };
            limits.blocks(threads, resources, shared)
        };
        assert_eq!(blocks(256, 32, 0), 6, "1536 threads");
        assert_eq!(blocks(32, 32, 0), 16, "blocks");
        assert_eq!(blocks(256, 128, 0), 2, "65536 registers");
        assert_eq!(
            blocks(128, 32, 48 << 10),
            3,
            "164 KiB, and 1 KiB a block is the system's"
        );
    }
}
