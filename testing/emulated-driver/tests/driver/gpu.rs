//! A context on the emulated driver, with just enough around the raw calls that tests read well.
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUdeviceptr, CUfunction, CUresult, CUstream};
use emulated_cuda::{Config, Emulator};

/// The primary context, current on the test's thread.
pub struct Gpu {
    pub emulator: Emulator,
}

pub const NON_BLOCKING: u32 = 1;

#[track_caller]
pub fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// Kernels are loaded at once unless `config` says otherwise: tests ask for functions while streams stand still.
pub fn start(config: &Config) -> Gpu {
    let config = Config {
        lazy: config.lazy.or(Some(false)),
        ..config.clone()
    };
    let emulator = Emulator::start(&config).expect("the library is beside the test");
    // SAFETY: the arguments are as documented.
    unsafe {
        ok(sys::cuInit(0));
        let mut context = null_mut();
        ok(sys::cuDevicePrimaryCtxRetain(&raw mut context, 0));
        ok(sys::cuCtxSetCurrent(context));
    }
    Gpu { emulator }
}

impl Gpu {
    pub fn new() -> Self {
        start(&Config::default())
    }

    pub fn alloc(&self, bytes: usize) -> CUdeviceptr {
        let mut address = 0;
        // SAFETY: room for an address.
        ok(unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) });
        address
    }

    pub fn upload(&self, to: CUdeviceptr, numbers: &[u32]) {
        // SAFETY: the source is that large.
        ok(unsafe { sys::cuMemcpyHtoD_v2(to, numbers.as_ptr().cast(), size_of_val(numbers)) });
    }

    pub fn download(&self, from: CUdeviceptr, count: usize) -> Vec<u32> {
        let mut numbers = vec![0u32; count];
        // SAFETY: the destination is that large.
        ok(unsafe { sys::cuMemcpyDtoH_v2(numbers.as_mut_ptr().cast(), from, 4 * count) });
        numbers
    }

    /// Device memory that holds these numbers.
    pub fn numbers(&self, numbers: &[u32]) -> CUdeviceptr {
        let at = self.alloc(size_of_val(numbers));
        self.upload(at, numbers);
        at
    }

    /// A kernel of `trials.ptx`, from a module of its own.
    pub fn function(&self, name: &str) -> CUfunction {
        let trials = CString::new(include_str!("trials.ptx")).expect("no zeros");
        let name = CString::new(name).expect("no zeros");
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: texts that end in 0, room for the handles.
        unsafe {
            ok(sys::cuModuleLoadData(
                &raw mut module,
                trials.as_ptr().cast(),
            ));
            ok(sys::cuModuleGetFunction(
                &raw mut function,
                module,
                name.as_ptr(),
            ));
        }
        function
    }

    pub fn stream(&self) -> CUstream {
        self.stream_of(NON_BLOCKING, 0)
    }

    pub fn stream_of(&self, flags: u32, priority: i32) -> CUstream {
        let mut stream = null_mut();
        // SAFETY: room for the handle.
        ok(unsafe { sys::cuStreamCreateWithPriority(&raw mut stream, flags, priority) });
        stream
    }

    pub fn wait(&self, stream: CUstream) {
        // SAFETY: a stream of this context.
        ok(unsafe { sys::cuStreamSynchronize(stream) });
    }

    pub fn try_launch(
        &self,
        function: CUfunction,
        blocks: u32,
        threads: u32,
        shared: u32,
        stream: CUstream,
        parameters: &mut [*mut c_void],
    ) -> CUresult {
        // SAFETY: the caller's parameters are those of the kernel.
        unsafe {
            sys::cuLaunchKernel(
                function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared,
                stream,
                parameters.as_mut_ptr(),
                null_mut(),
            )
        }
    }
}

/// Pointers to variables, as `cuLaunchKernel` takes parameters.
macro_rules! parameters {
    ($($of:expr),* $(,)?) => {
        &mut [$(std::ptr::from_ref(&$of).cast_mut().cast::<std::ffi::c_void>()),*]
    };
}
pub(crate) use parameters;
