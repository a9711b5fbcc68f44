//! Kernels loaded from their images.

use std::ffi::CString;
use std::sync::{Arc, OnceLock};

use punctual_kernels::cuda::{KERNELS, Kernel, Module as Unit};

use crate::driver::{CallError, Context, Function, Module};

/// The functions of loaded modules, by position in the table of kernels. A function that is not there
/// yet is replaced by the general one of its pattern at any launch.
pub(crate) struct Kernels {
    functions: Box<[OnceLock<Function>]>,
}

impl Kernels {
    /// Nothing loaded.
    pub(crate) fn new() -> Self {
        Self {
            functions: KERNELS.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// Loads a module's image and finds its kernels. One that is loaded already is left as it is.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If the name of a kernel contains a zero.
    pub(crate) fn load(
        &self,
        context: &Arc<Context>,
        unit: Unit,
        image: &[u8],
    ) -> Result<(), CallError> {
        // SAFETY: images are whole: they are parts of this program, or checked when they are read.
        let module = unsafe { Module::load(context, image)? };
        for (kernel, place) in KERNELS.iter().zip(&self.functions) {
            if kernel.module == unit {
                let name = CString::new(kernel.name).expect("a name without a zero");
                // Somebody else may have been faster: the functions are the same.
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
