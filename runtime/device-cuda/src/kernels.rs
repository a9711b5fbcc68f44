//! Kernels loaded from their images.

use std::ffi::CString;
use std::sync::{Arc, OnceLock};

use punctual_kernels::cuda::images::{self, ImageError};
use punctual_kernels::cuda::{KERNELS, Kernel, Module as Unit};
use thiserror::Error;

use crate::driver::{CallError, Context, Function, Module};

/// Why kernels cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KernelError {
    /// There is no code for this device.
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Driver(#[from] CallError),
}

/// The functions of loaded modules, by position in the table of kernels. A function that is not there
/// yet is replaced by the general one of its pattern at any launch.
pub(crate) struct Kernels {
    functions: Box<[OnceLock<Function>]>,
}

impl Kernels {
    pub(crate) fn new() -> Self {
        Self {
            functions: KERNELS.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// Loads a module and finds its kernels, from the best image that the driver takes. Loading one again
    /// changes nothing.
    ///
    /// # Panics
    /// If the name of a kernel contains a zero.
    pub(crate) fn load(&self, context: &Arc<Context>, unit: Unit) -> Result<(), KernelError> {
        let gpu = context.gpu();
        let (major, minor) = gpu.compute_capability()?;
        let mut refused = None;
        for archive in images::candidates((major, minor), gpu.driver().version()?.major) {
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
        Err(match refused {
            Some(error) => error.into(),
            None => KernelError::Image(ImageError::Unsupported {
                major,
                minor,
                module: unit,
            }),
        })
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

    /// The function of a kernel, if its module is loaded.
    pub(crate) fn get(&self, kernel: &'static Kernel) -> Option<&Function> {
        let position = KERNELS.iter().position(|each| std::ptr::eq(each, kernel))?;
        self.functions[position].get()
    }
}
