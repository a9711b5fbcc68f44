//! The functions of `libcuda.so` that we call, looked up once.
//!
//! Results are plain numbers here and not `cudarc`'s enumeration: a driver newer than its bindings may
//! return a number that the enumeration lacks, and an enumeration must not hold that.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUcontext, CUdevResource, CUdevResourceDesc,
    CUdevResourceType, CUdevice, CUdeviceptr, CUevent, CUexternalMemory, CUfunction, CUgreenCtx,
    CUmodule, CUstream, CUuuid,
};
use libsmctrl_sys::launch_mask::GetExportTable;

use super::error::OpenError;
use super::external::Description;

/// Declares a table: a field for each function, by the name under which the library exports it.
macro_rules! symbols {
    (
        $(#[$about:meta])* $table:ident:
        $($(#[$page:meta])* $field:ident = $symbol:literal ($($argument:ty),* $(,)?);)*
    ) => {
        $(#[$about])*
        pub(super) struct $table {
            $($(#[$page])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl $table {
            /// All of them, or the name of one that the library lacks. There must be a library.
            fn find() -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the library exports this name with this signature (the manual's
                        // page), and is never unloaded, so the pointer stays good.
                        unsafe { sys::culib().get($symbol.to_bytes_with_nul()).map(|found| *found) }
                            .map_err(|_| name($symbol))?
                    },)*
                })
            }
        }
    };
}

const fn name(symbol: &'static std::ffi::CStr) -> &'static str {
    match symbol.to_str() {
        Ok(name) => name,
        Err(_) => "a symbol that is not text",
    }
}

symbols! {
    /// Each function, with the page of the vendor's manual (`cuda-driver-api/<page>.html`).
    Symbols:
    /// `group__CUDA__INITIALIZE`
    init = c"cuInit" (c_uint);
    /// `group__CUDA__VERSION`
    driver_get_version = c"cuDriverGetVersion" (*mut c_int);
    /// `group__CUDA__DEVICE`
    device_get_count = c"cuDeviceGetCount" (*mut c_int);
    /// `group__CUDA__DEVICE`
    device_get = c"cuDeviceGet" (*mut CUdevice, c_int);
    /// `group__CUDA__DEVICE`
    device_get_name = c"cuDeviceGetName" (*mut c_char, c_int, CUdevice);
    /// `group__CUDA__DEVICE`; there since CUDA 9.2, and under this name in every version since.
    device_get_uuid = c"cuDeviceGetUuid" (*mut CUuuid, CUdevice);
    /// `group__CUDA__DEVICE`
    device_get_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_uint, CUdevice);
    /// `group__CUDA__DEVICE`
    device_total_mem = c"cuDeviceTotalMem_v2" (*mut usize, CUdevice);
    /// `group__CUDA__PRIMARY__CTX`
    primary_ctx_retain = c"cuDevicePrimaryCtxRetain" (*mut CUcontext, CUdevice);
    /// `group__CUDA__PRIMARY__CTX`
    primary_ctx_release = c"cuDevicePrimaryCtxRelease_v2" (CUdevice);
    /// `group__CUDA__PRIMARY__CTX`
    primary_ctx_reset = c"cuDevicePrimaryCtxReset_v2" (CUdevice);
    /// `group__CUDA__CTX`
    ctx_set_current = c"cuCtxSetCurrent" (CUcontext);
    /// `group__CUDA__CTX`
    ctx_get_stream_priority_range = c"cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int);
    /// `group__CUDA__CTX`
    ctx_synchronize = c"cuCtxSynchronize" ();
    /// `group__CUDA__MEM`
    mem_alloc = c"cuMemAlloc_v2" (*mut CUdeviceptr, usize);
    /// `group__CUDA__MEM`
    mem_free = c"cuMemFree_v2" (CUdeviceptr);
    /// `group__CUDA__MEM`
    mem_host_alloc = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    /// `group__CUDA__MEM`
    mem_free_host = c"cuMemFreeHost" (*mut c_void);
    /// `group__CUDA__MEM`
    mem_host_register = c"cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    /// `group__CUDA__MEM`
    mem_host_unregister = c"cuMemHostUnregister" (*mut c_void);
    /// `group__CUDA__MEM`
    mem_host_get_device_pointer = c"cuMemHostGetDevicePointer_v2"
        (*mut CUdeviceptr, *mut c_void, c_uint);
    /// `group__CUDA__MEM`
    memcpy_to_device = c"cuMemcpyHtoD_v2" (CUdeviceptr, *const c_void, usize);
    /// `group__CUDA__MEM`
    memcpy_to_host = c"cuMemcpyDtoH_v2" (*mut c_void, CUdeviceptr, usize);
    /// `group__CUDA__MEM`
    memcpy_to_device_async = c"cuMemcpyHtoDAsync_v2" (CUdeviceptr, *const c_void, usize, CUstream);
    /// `group__CUDA__MEM`
    memcpy_to_host_async = c"cuMemcpyDtoHAsync_v2" (*mut c_void, CUdeviceptr, usize, CUstream);
    /// `group__CUDA__MEM`
    memcpy_on_device_async = c"cuMemcpyDtoDAsync_v2" (CUdeviceptr, CUdeviceptr, usize, CUstream);
    /// `group__CUDA__MEM`
    memset_words_async = c"cuMemsetD32Async" (CUdeviceptr, c_uint, usize, CUstream);
    /// `group__CUDA__MODULE`
    module_load_data = c"cuModuleLoadData" (*mut CUmodule, *const c_void);
    /// `group__CUDA__MODULE`
    module_unload = c"cuModuleUnload" (CUmodule);
    /// `group__CUDA__MODULE`
    module_get_function = c"cuModuleGetFunction" (*mut CUfunction, CUmodule, *const c_char);
    /// `group__CUDA__EXEC`
    func_set_attribute = c"cuFuncSetAttribute" (CUfunction, c_uint, c_int);
    /// `group__CUDA__STREAM`
    stream_create = c"cuStreamCreateWithPriority" (*mut CUstream, c_uint, c_int);
    /// `group__CUDA__STREAM`
    stream_destroy = c"cuStreamDestroy_v2" (CUstream);
    /// `group__CUDA__STREAM`
    stream_query = c"cuStreamQuery" (CUstream);
    /// `group__CUDA__STREAM`
    stream_synchronize = c"cuStreamSynchronize" (CUstream);
    /// `group__CUDA__STREAM`
    stream_wait_event = c"cuStreamWaitEvent" (CUstream, CUevent, c_uint);
    /// `group__CUDA__EVENT`
    event_create = c"cuEventCreate" (*mut CUevent, c_uint);
    /// `group__CUDA__EVENT`
    event_destroy = c"cuEventDestroy_v2" (CUevent);
    /// `group__CUDA__EVENT`
    event_record = c"cuEventRecord" (CUevent, CUstream);
    /// `group__CUDA__EVENT`
    event_synchronize = c"cuEventSynchronize" (CUevent);
    /// `group__CUDA__EVENT`
    event_elapsed_time = c"cuEventElapsedTime" (*mut f32, CUevent, CUevent);
    /// `group__CUDA__EXEC`
    launch_kernel = c"cuLaunchKernel"
        (CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
         *mut *mut c_void, *mut *mut c_void);
}

symbols! {
    /// Green contexts: drivers have all of these from CUDA 12.5 on (`group__CUDA__GREEN__CONTEXTS`).
    GreenSymbols:
    /// Since CUDA 12.4.
    get_resource = c"cuDeviceGetDevResource" (CUdevice, *mut CUdevResource, CUdevResourceType);
    /// Since CUDA 12.4.
    split = c"cuDevSmResourceSplitByCount"
        (*mut CUdevResource, *mut c_uint, *const CUdevResource, *mut CUdevResource, c_uint, c_uint);
    /// Since CUDA 12.4.
    describe = c"cuDevResourceGenerateDesc" (*mut CUdevResourceDesc, *mut CUdevResource, c_uint);
    /// Since CUDA 12.4.
    create = c"cuGreenCtxCreate" (*mut CUgreenCtx, CUdevResourceDesc, CUdevice, c_uint);
    /// Since CUDA 12.4.
    destroy = c"cuGreenCtxDestroy" (CUgreenCtx);
    /// Since CUDA 12.5.
    create_stream = c"cuGreenCtxStreamCreate" (*mut CUstream, CUgreenCtx, c_uint, c_int);
}

symbols! {
    /// Memory of other drivers: ours have all of these since CUDA 10 (`group__CUDA__EXTRES__INTEROP`).
    ExternalSymbols:
    import = c"cuImportExternalMemory" (*mut CUexternalMemory, *const Description);
    map = c"cuExternalMemoryGetMappedBuffer"
        (*mut CUdeviceptr, CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    destroy = c"cuDestroyExternalMemory" (CUexternalMemory);
}

/// The driver's `cuGetExportTable`, which its header declares and its manual does not describe; none in a driver
/// that lacks it.
pub(super) fn export_table(_open: &Symbols) -> Option<GetExportTable> {
    // SAFETY: that there are symbols means that its library was loaded, which is never unloaded; the header has this
    // signature, with a `CUuuid` of 16 bytes.
    unsafe { sys::culib().get(c"cuGetExportTable".to_bytes_with_nul()) }
        .map(|found| *found)
        .ok()
}

impl GreenSymbols {
    /// The table, if the driver is young enough; else the name of what it lacks.
    pub(super) fn of(_open: &Symbols) -> Result<Self, &'static str> {
        // That there are symbols means that its library was loaded.
        Self::find()
    }
}

impl ExternalSymbols {
    /// The table, or the name of what the driver lacks.
    pub(super) fn of(_open: &Symbols) -> Result<Self, &'static str> {
        // As for green contexts.
        Self::find()
    }
}

impl Symbols {
    /// The table, filled in by the first call that succeeds.
    pub(super) fn of_this_process() -> Result<&'static Self, OpenError> {
        static FOUND: OnceLock<Symbols> = OnceLock::new();
        if let Some(symbols) = FOUND.get() {
            return Ok(symbols);
        }
        // SAFETY: loading a library runs its initialisers; the CUDA driver's have no conditions.
        if !unsafe { sys::is_culib_present() } {
            return Err(OpenError::NoLibrary);
        }
        let symbols = Self::find().map_err(OpenError::MissingSymbol)?;
        Ok(FOUND.get_or_init(|| symbols))
    }
}

/// Whether the library exports `symbol`: asked before a function of `cudarc` is called that an old
/// driver lacks, as those panic. `false` without a library.
#[must_use]
pub fn exports(symbol: &std::ffi::CStr) -> bool {
    // SAFETY: as in `of_this_process`; the symbol is only looked for, never called.
    unsafe {
        sys::is_culib_present()
            && sys::culib()
                .get::<*const c_void>(symbol.to_bytes_with_nul())
                .is_ok()
    }
}
