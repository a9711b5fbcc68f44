//! DMA-BUFs as the device sees them: memory of other drivers, imported by their file.
//!
//! The manual's chapter is "External Resource Interoperability" (`group__CUDA__EXTRES__INTEROP`). By it DMA-BUFs are imported on
//! Jetson boards from Thor on; other drivers return an error. It does not say whose a DMA-BUF's descriptor is
//! afterwards; of other descriptors it says that the driver's. So it gets one of its own. (emulated)

use std::mem::offset_of;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::Context;
use super::error::CallError;
use super::symbols::ExternalSymbols;

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD`, since CUDA 13.
const DMA_BUF: u32 = 9;

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`, of a file. The type is a number, as headers before CUDA 13 lack its name.
#[repr(C)]
pub(super) struct Description {
    kind: u32,
    handle: Handle,
    bytes: u64,
    flags: u32,
    reserved: [u32; 16],
}

#[repr(C)]
union Handle {
    file: i32,
    _others: [*const (); 2],
}

const _: () = {
    type Vendors = sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
    assert!(size_of::<Description>() == size_of::<Vendors>());
    assert!(offset_of!(Description, handle) == offset_of!(Vendors, handle));
    assert!(offset_of!(Description, bytes) == offset_of!(Vendors, size));
    assert!(offset_of!(Description, flags) == offset_of!(Vendors, flags));
};

/// Why a DMA-BUF cannot be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("it has no `{0}`")]
    MissingSymbol(&'static str),
    #[error("no descriptor is left for it: raise LimitNOFILE")]
    NoDescriptor,
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A DMA-BUF that kernels can read.
pub(super) struct Imported {
    external: External,
    address: u64,
}

/// Imported memory.
struct External {
    context: Arc<Context>,
    symbols: ExternalSymbols,
    raw: sys::CUexternalMemory,
}

// SAFETY: a handle that any thread may use.
unsafe impl Send for External {}
// SAFETY: as above.
unsafe impl Sync for External {}

impl Imported {
    /// The first `bytes` of it.
    pub(super) fn new(
        context: &Arc<Context>,
        file: &OwnedFd,
        bytes: usize,
    ) -> Result<Self, ImportError> {
        let external = External::import(context, file, bytes as u64)?;
        let part = sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
            offset: 0,
            size: bytes as u64,
            flags: 0,
            reserved: [0; 16],
        };
        let (mut address, map) = (0, external.symbols.map);
        // SAFETY: a valid place for the result; the memory is as large as the part, as its import was told.
        let code = unsafe { map(&raw mut address, external.raw, &raw const part) };
        CallError::check("cuExternalMemoryGetMappedBuffer", code)?;
        Ok(Self { external, address })
    }

    /// Where the device sees its first byte.
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Imported {
    /// Before the memory itself.
    fn drop(&mut self) {
        self.external.context.give_back(|symbols| {
            // SAFETY: mapped by `new`, freed once. The driver waits for what uses it.
            unsafe { (symbols.mem_free)(self.address) };
        });
    }
}

impl External {
    fn import(context: &Arc<Context>, file: &OwnedFd, bytes: u64) -> Result<Self, ImportError> {
        let symbols = ExternalSymbols::of(context.gpu().driver().symbols);
        let symbols = symbols.map_err(ImportError::MissingSymbol)?;
        context.bind()?;
        let drivers = file.try_clone().map_err(|_| ImportError::NoDescriptor)?;
        let file = drivers.into_raw_fd();
        let description = Description {
            kind: DMA_BUF,
            handle: Handle { file },
            bytes,
            flags: 0,
            reserved: [0; 16],
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid place for the result, and a description as the manual has it, of an open file.
        let code = unsafe { (symbols.import)(&raw mut raw, &raw const description) };
        if let Err(refused) = CallError::check("cuImportExternalMemory", code) {
            // SAFETY: the driver takes a descriptor over only if it succeeds.
            drop(unsafe { OwnedFd::from_raw_fd(file) });
            return Err(refused.into());
        }
        Ok(Self {
            context: context.clone(),
            symbols,
            raw,
        })
    }
}

impl Drop for External {
    fn drop(&mut self) {
        self.context.give_back(|_| {
            // SAFETY: imported by `import`, destroyed once; what was mapped of it was freed before.
            unsafe { (self.symbols.destroy)(self.raw) };
        });
    }
}
