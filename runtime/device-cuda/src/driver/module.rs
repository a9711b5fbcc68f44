//! Compiled kernels, loaded.

use std::ffi::CStr;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute as A, CUmodule};

use super::context::Context;
use super::error::CallError;

pub struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: the driver's modules may be used from all threads.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads a cubin, or PTX that ends with a zero (`cuModuleLoadData`).
    ///
    /// # Safety
    /// `image` is a whole image: the driver finds its end by what it says, not by the slice.
    pub unsafe fn load(context: &Arc<Context>, image: &[u8]) -> Result<Arc<Self>, CallError> {
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        let load = context.symbols().module_load_data;
        // SAFETY: a valid place for the result; the image is whole by the caller's promise.
        let code = unsafe { load(&raw mut raw, image.as_ptr().cast()) };
        CallError::check("cuModuleLoadData", code)?;
        Ok(Arc::new(Self {
            context: context.clone(),
            raw,
        }))
    }

    /// The kernel `name` (`cuModuleGetFunction`).
    pub fn function(self: &Arc<Self>, name: &CStr) -> Result<Function, CallError> {
        self.context.bind()?;
        let mut raw = std::ptr::null_mut();
        let find = self.context.symbols().module_get_function;
        // SAFETY: a valid place for the result; the module exists.
        let code = unsafe { find(&raw mut raw, self.raw, name.as_ptr()) };
        CallError::check("cuModuleGetFunction", code)?;
        Ok(Function {
            module: self.clone(),
            raw,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.context.give_back(|symbols| {
            // SAFETY: loaded by `load`, unloaded once; its functions hold it.
            unsafe { (symbols.module_unload)(self.raw) };
        });
    }
}

/// A kernel of a loaded module, which it keeps.
#[derive(Clone)]
pub struct Function {
    module: Arc<Module>,
    raw: CUfunction,
}

// SAFETY: the driver's functions may be used from all threads.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Lets a block have `bytes` of dynamic shared memory, which above 48 KiB must be asked for
    /// (`cuFuncSetAttribute`).
    pub fn allow_shared_bytes(&self, bytes: u32) -> Result<(), CallError> {
        let set = self.module.context.symbols().func_set_attribute;
        let attribute = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function exists.
        let code = unsafe { set(self.raw, attribute, bytes) };
        CallError::check("cuFuncSetAttribute", code)
    }

    pub(super) fn as_raw(&self) -> CUfunction {
        self.raw
    }
}
