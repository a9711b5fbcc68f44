//! A kernel run on the calling thread, without a driver: for tests of kernels.
use std::ffi::{c_int, c_void};

use crate::block::{self, Index, Kernel, Launch, Runner};

/// Why a kernel was not run, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is none of this name.
    #[error(
        "no kernel is called {name}; those of kernels/cuda/src and testing/emulated-driver/cpp are, if \
         the library was built for the machine that built it"
    )]
    Unknown { name: String },
    #[error("kernel {name} has {expected} parameters, not {given}")]
    Parameters {
        name: String,
        expected: usize,
        given: usize,
    },
    #[error("parameter {place} of kernel {name} has {expected} bytes, not {given}")]
    ParameterSize {
        name: String,
        place: usize,
        expected: usize,
        given: usize,
    },
    /// A grid or a block that no device takes.
    #[error(
        "kernel {name}: grid {grid:?} and block {block:?} must not be empty, a block of it has at most \
         {threads_max} threads"
    )]
    Shape {
        name: String,
        grid: [u32; 3],
        block: [u32; 3],
        threads_max: u32,
    },
    /// More shared memory than there is.
    #[error("kernel {name}: {given} bytes of shared memory; the limit is {limit}")]
    Shared {
        name: String,
        given: usize,
        limit: usize,
    },
    /// No memory for the stacks of a block.
    #[error("no memory for the stacks of a block's threads")]
    Memory,
    #[error("{complaint}")]
    Kernel { complaint: String },
}

/// A parameter of a kernel: plain data of the layout that the kernel's source gives it.
///
/// # Safety
/// The type has no padding that matters and is laid out as C would (`repr(C)` or a primitive).
pub unsafe trait Parameter {
    fn bytes(&self) -> usize {
        size_of_val(self)
    }
    /// Of its first byte.
    fn address(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}

macro_rules! parameters {
    ($($type:ty),* $(,)?) => {
        // SAFETY: primitives and `repr(C)` structures of the kernels' interface.
        $(unsafe impl Parameter for $type {})*
    };
}

parameters!(u32, i32, f32, u64, usize);
parameters!(
    punctual_kernels::cuda::params::Guard,
    punctual_kernels::cuda::params::Conv,
    punctual_kernels::cuda::params::Pool,
    punctual_kernels::cuda::params::GlobalPool,
    punctual_kernels::cuda::params::Linear,
    punctual_kernels::cuda::params::Elementwise,
    punctual_kernels::cuda::params::Gather,
    punctual_kernels::cuda::params::Members,
    punctual_kernels::cuda::params::InputPlanar,
    punctual_kernels::cuda::params::Answers,
    punctual_kernels::cuda::params::Preprocess,
    punctual_kernels::cuda::params::Whereabouts,
    punctual_kernels::cuda::params::Hold,
);

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
}

/// Runs kernel `name` to its end: block after block, on the calling thread, all on multiprocessor 0.
///
/// # Safety
/// The addresses in the parameters are those of memory of this process that the kernel may read or
/// write as its parameters say.
pub unsafe fn run(name: &str, shape: Shape, parameters: &[&dyn Parameter]) -> Result<(), RunError> {
    // SAFETY: the caller's promise.
    unsafe { run_watched(name, shape, parameters, |_| {}) }
}

/// [`run`], with `at_checkpoint` called with the number of checkpoints before (each thread of each block counts)
/// whenever a thread is about to look at its guard: there a test may move the epoch on.
///
/// # Safety
/// As of [`run`].
pub unsafe fn run_watched<F: FnMut(u64)>(
    name: &str,
    shape: Shape,
    parameters: &[&dyn Parameter],
    at_checkpoint: F,
) -> Result<(), RunError> {
    let kernel = Kernel::find(name).ok_or_else(|| RunError::Unknown { name: name.into() })?;
    check(kernel, shape, parameters)?;
    let mut runner = Runner::new().ok_or(RunError::Memory)?;
    let addresses: Vec<*mut c_void> = parameters
        .iter()
        .map(|parameter| parameter.address().cast_mut())
        .collect();
    let mut watch = Watch {
        seen: 0,
        at_checkpoint,
    };
    let grid = Index::from(shape.grid);
    let launch = Launch {
        kernel,
        parameters: addresses.as_ptr(),
        grid,
        block: shape.block.into(),
        shared_bytes: shape.shared_bytes,
        at_checkpoint: Some(checkpoint::<F>),
        of: (&raw mut watch).cast(),
    };
    for at in 0..grid.volume().unwrap_or(0) {
        // SAFETY: shapes and sizes were checked; the addresses are the caller's promise.
        unsafe { runner.run(&launch, grid.position(at), 0) }.map_err(|complaint| {
            RunError::Kernel {
                complaint: complaint.to_string_lossy().into_owned(),
            }
        })?;
    }
    Ok(())
}

struct Watch<F> {
    seen: u64,
    at_checkpoint: F,
}

/// # Safety
/// `watch` is the `Watch<F>` of the launch, which nobody else uses while its blocks run.
unsafe extern "C" fn checkpoint<F: FnMut(u64)>(watch: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let watch = unsafe { &mut *watch.cast::<Watch<F>>() };
    (watch.at_checkpoint)(watch.seen);
    watch.seen += 1;
    0
}

fn check(kernel: &Kernel, shape: Shape, parameters: &[&dyn Parameter]) -> Result<(), RunError> {
    let name = || kernel.name().to_owned();
    let declared = kernel.parameter_bytes();
    if declared.len() != parameters.len() {
        return Err(RunError::Parameters {
            name: name(),
            expected: declared.len(),
            given: parameters.len(),
        });
    }
    for (place, (&expected, parameter)) in declared.iter().zip(parameters).enumerate() {
        if expected != parameter.bytes() {
            return Err(RunError::ParameterSize {
                name: name(),
                place,
                expected,
                given: parameter.bytes(),
            });
        }
    }
    let threads = Index::from(shape.block).volume().unwrap_or(u64::MAX);
    let blocks = Index::from(shape.grid).volume().unwrap_or(0);
    let threads_max = kernel.threads_max().min(block::threads_max());
    if blocks == 0 || threads == 0 || threads > u64::from(threads_max) {
        return Err(RunError::Shape {
            name: name(),
            grid: shape.grid,
            block: shape.block,
            threads_max,
        });
    }
    if shape.shared_bytes > block::shared_max() {
        return Err(RunError::Shared {
            name: name(),
            given: shape.shared_bytes,
            limit: block::shared_max(),
        });
    }
    Ok(())
}
