//! Kernels loaded from their images.

use std::ffi::CString;
use std::sync::{Arc, OnceLock};

use punctual_cuda_kernels::images::{self, Archive, ImageError};
use punctual_cuda_kernels::params::Guard;
use punctual_cuda_kernels::{Arguments, KERNELS, Kernel, Module as Unit, Tile};
use thiserror::Error;

use crate::driver::{CallError, Context, Function, Gpu, Module, Shape, Stream};

/// Why kernels cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KernelError {
    /// There is no code for this device.
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Driver(#[from] CallError),
}

impl Gpu {
    /// The archives of our kernels that it may run under its driver, the best first. The driver may refuse one.
    pub fn archives(self) -> Result<impl ExactSizeIterator<Item = &'static Archive>, CallError> {
        let cuda = self.driver().version()?.major;
        let (major, minor) = self.compute_capability()?;
        Ok(images::candidates(major, minor, cuda))
    }
}

impl Shape {
    /// `grid` blocks of a kernel.
    #[must_use]
    pub const fn of(kernel: &Kernel, grid: [u32; 3]) -> Self {
        Self {
            grid,
            block: kernel.block,
            shared_bytes: kernel.shared_bytes,
        }
    }
}

/// The functions of loaded modules, by position in the table of kernels. A function that is not there
/// yet is replaced by one of its pattern that is, at any launch.
pub struct Kernels {
    functions: Box<[OnceLock<Function>]>,
}

impl Default for Kernels {
    /// None loaded.
    fn default() -> Self {
        Self {
            functions: KERNELS.iter().map(|_| OnceLock::new()).collect(),
        }
    }
}

impl Kernels {
    /// Loads a module and finds its kernels, from the best image that the driver takes. Loading one again
    /// changes nothing.
    ///
    /// # Panics
    /// If the name of a kernel contains a zero.
    pub fn load(&self, context: &Arc<Context>, unit: Unit) -> Result<(), KernelError> {
        let mut refused = None;
        for archive in context.gpu().archives()? {
            if !unit.runs_on(archive.capability().0) {
                continue;
            }
            let image = archive.module(unit)?;
            // SAFETY: images are whole, and end with a zero where they are text: the build ensures it, and
            // reading the archive checks their bounds.
            match unsafe { Module::load(context, &image.code) } {
                Ok(module) => return self.enlist(unit, &module),
                Err(error) if error.code.refuses_image() => refused = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(error) = refused {
            return Err(error.into());
        }
        let (major, minor) = context.gpu().compute_capability()?;
        Err(KernelError::Image(ImageError::Unsupported {
            major,
            minor,
            module: unit,
        }))
    }

    /// The same, unless it is loaded.
    pub(crate) fn load_missing(
        &self,
        context: &Arc<Context>,
        unit: Unit,
    ) -> Result<(), KernelError> {
        let mut kernels = KERNELS.iter().zip(&self.functions);
        if kernels.any(|(kernel, place)| kernel.module == unit && place.get().is_none()) {
            self.load(context, unit)?;
        }
        Ok(())
    }

    fn enlist(&self, unit: Unit, module: &Arc<Module>) -> Result<(), KernelError> {
        for (kernel, place) in KERNELS.iter().zip(&self.functions) {
            if kernel.module == unit {
                let name = CString::new(kernel.name).expect("a name without a zero");
                // Another thread may have been faster: the functions are the same.
                let _ = place.set(module.function(&name)?);
            }
        }
        Ok(())
    }

    /// The function of a kernel; an error if its module is not loaded.
    pub fn get(&self, kernel: &'static Kernel) -> Result<&Function, CallError> {
        let position = KERNELS.iter().position(|each| std::ptr::eq(each, kernel));
        let found = position.and_then(|position| self.functions[position].get());
        found.ok_or_else(CallError::not_loaded)
    }

    /// The kernel's function, or that of one which is loaded and computes the same from the same arguments: of its pattern,
    /// by its tile the most similar (PASK's cache by category). For a launch's leader: nothing is allocated.
    #[must_use]
    pub fn get_or_similar(&self, kernel: &'static Kernel) -> Option<(&'static Kernel, &Function)> {
        if let Ok(function) = self.get(kernel) {
            return Some((kernel, function));
        }
        let wanted = kernel.tile?;
        let loaded = KERNELS.iter().zip(&self.functions);
        let similar = loaded.filter(|(other, _)| other.pattern == kernel.pattern);
        let similar = similar.filter_map(|(other, place)| Some((other, place.get()?)));
        // Kernels without tensor cores last.
        similar.min_by_key(|(other, _)| {
            let area = |tile: Tile| tile.pixels * tile.channels;
            let difference = |tile: Tile| area(tile).abs_diff(area(wanted));
            other.tile.map_or(u32::MAX, difference)
        })
    }

    /// Queues `grid` blocks of a kernel in a stream.
    ///
    /// # Safety
    /// `arguments` are of the type that the kernel takes behind its guard, and all addresses in both are
    /// of memory that is there, large enough, until the launch is over.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Kernel,
        grid: [u32; 3],
        guard: &Guard,
        arguments: &Arguments,
    ) -> Result<(), CallError> {
        let function = self.get(kernel)?;
        let arguments = [(&raw const *guard).cast(), arguments.as_ptr()];
        // SAFETY: a guard first, as every kernel takes it; the rest is the caller's promise.
        unsafe { stream.launch(function, Shape::of(kernel, grid), arguments) }
    }
}

#[cfg(test)]
mod tests {
    use emulated_cuda::{Config, Emulator};
    use punctual_cuda_kernels::kernel;

    use super::*;
    use crate::driver::Driver;

    fn with_context(compute: (u32, u32), driver: u32, look: impl FnOnce(&Arc<Context>)) {
        let config = Config {
            compute,
            driver,
            ..Config::default()
        };
        let emulator = Emulator::start(&config).expect("the emulated driver");
        let gpu = Driver::open().and_then(|driver| driver.device(0));
        look(&Context::retain(gpu.expect("a device")).expect("a context"));
        drop(emulator);
    }

    #[test]
    fn every_device_from_xavier_on_loads_the_modules_that_it_can_run() {
        let known = [
            (7, 2),
            (7, 5),
            (8, 0),
            (8, 6),
            (8, 7),
            (8, 9),
            (9, 0),
            (10, 0),
        ];
        let later = [(10, 3), (11, 0), (12, 0), (12, 1), (13, 0)];
        for compute in known.into_iter().chain(later) {
            with_context(compute, 13000, |context| {
                let kernels = Kernels::default();
                for unit in Unit::ALL {
                    let loaded = kernels.load(context, unit);
                    assert_eq!(
                        loaded.is_ok(),
                        unit.runs_on(compute.0),
                        "{compute:?} {unit:?}"
                    );
                }
            });
        }
    }

    #[test]
    fn a_kernel_that_is_not_loaded_is_replaced_by_the_most_similar_one_that_is() {
        with_context((9, 0), 13000, |context| {
            let kernels = Kernels::default();
            let large = kernel("conv_gemm_128x128").expect("in the table");
            let name = |found: Option<(&'static Kernel, &Function)>| found.map(|(k, _)| k.name);
            let replaced_by = || name(kernels.get_or_similar(large));
            assert_eq!(replaced_by(), None);
            let then = [
                (Unit::General, "conv_dense_general"),
                (Unit::Gemm64x32, "conv_gemm_64x32"),
                (Unit::Gemm128x64, "conv_gemm_128x64"),
                (Unit::Gemm64x64, "conv_gemm_128x64"),
                (Unit::Gemm128x128, "conv_gemm_128x128"),
            ];
            for (unit, expected) in then {
                kernels.load(context, unit).expect("there is code");
                assert_eq!(replaced_by(), Some(expected));
            }
            let other = kernel("softmax").expect("in the table");
            assert_eq!(name(kernels.get_or_similar(other)), None);
        });
    }

    #[test]
    fn a_device_without_code_is_named() {
        with_context((6, 2), 12060, |context| {
            let refused = Kernels::default().load(context, Unit::General);
            let refused = refused.expect_err("none for Pascal").to_string();
            assert!(
                refused.contains("6.2") && refused.contains("general"),
                "{refused}"
            );
        });
    }
}
