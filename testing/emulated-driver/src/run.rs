//! A kernel run on the calling thread, without a driver: for tests of kernels.
use std::ffi::c_void;
use std::sync::Arc;

use punctual_cuda_kernels::images::archives;
use punctual_cuda_kernels::kernel;
use punctual_ptx::{
    Arithmetic, Counts, Fault, Kernel, Launch, Launched, Machine, Module, Space, Stop,
};

use crate::clock;
use crate::programs;

/// Why a kernel was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is none of this name.
    #[error("no kernel is called {name} there: those of kernels/cuda/images are")]
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
    #[error(transparent)]
    Kernel(Box<Fault>),
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
parameters!(punctual_cuda_kernels::params::Guard);

/// The structure inside, as a launch is given it.
// SAFETY: `as_ptr` is of a `repr(C)` structure of `bytes()` bytes.
unsafe impl Parameter for punctual_cuda_kernels::Arguments {
    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn address(&self) -> *const c_void {
        self.as_ptr()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
}

/// Where a kernel's text comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The archive of this name in `kernels/cuda/images`: `sm_87`.
    Image(&'a str),
    Program(&'a Module),
}

/// What a kernel runs on: its memory, and where it is from.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub space: &'a Space,
    pub source: Source<'a>,
    pub arithmetic: Arithmetic,
    /// The order of warps.
    pub seed: u64,
}

impl Target<'_> {
    fn kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        let wanted = match self.source {
            Source::Program(program) => return program.kernel(name).cloned(),
            Source::Image(name) => name,
        };
        let archive = archives().iter().find(|a| a.name() == wanted)?;
        let image = archive.module(kernel(name)?.module).ok()?;
        let program = if archive.is_ptx() {
            programs::of_text(str::from_utf8(&image.code).ok()?.trim_end_matches('\0'))
        } else {
            programs::of_cubin(&image.code)
        };
        program.ok()?.kernel(name).cloned()
    }

    /// Runs kernel `name` to its end: block after block, on the calling thread, all on multiprocessor 0. `at_checkpoint` is
    /// called with the number of looks before whenever a thread is about to look at its guard: there a test may move the
    /// epoch on.
    pub fn run(
        &self,
        name: &str,
        shape: Shape,
        parameters: &[&dyn Parameter],
        mut at_checkpoint: impl FnMut(u64),
    ) -> Result<Counts, RunError> {
        let kernel = self.kernel(name).ok_or_else(|| RunError::Unknown {
            name: name.to_owned(),
        })?;
        check(&kernel, shape)?;
        let bytes = gather(&kernel, parameters)?;
        let launch = Launch {
            kernel: &kernel,
            parameters: &bytes,
            grid: shape.grid,
            block: shape.block,
            dynamic_shared: shape.shared_bytes as u32,
            arithmetic: self.arithmetic,
            seed: self.seed,
            clock: clock::nanoseconds,
        };
        let mut machine = Machine::new();
        let mut memory = Launched::new(self.space);
        let mut seen = 0;
        let mut look = |_: &Counts| {
            at_checkpoint(seen);
            seen += 1;
            true
        };
        for at in 0..launch.blocks() {
            let block = launch.position(at);
            match machine.run(&launch, &mut memory, block, 0, &mut look) {
                Ok(()) | Err(Stop::Ended) => {}
                Err(Stop::Fault(fault)) => return Err(RunError::Kernel(fault)),
            }
        }
        Ok(machine.counts())
    }
}

fn gather(kernel: &Kernel, parameters: &[&dyn Parameter]) -> Result<Vec<u8>, RunError> {
    let declared = kernel.parameters();
    if declared.len() != parameters.len() {
        return Err(RunError::Parameters {
            name: kernel.name().to_owned(),
            expected: declared.len(),
            given: parameters.len(),
        });
    }
    let mut bytes = vec![0; kernel.parameter_bytes()];
    for (place, (expected, parameter)) in declared.iter().zip(parameters).enumerate() {
        if expected.bytes != parameter.bytes() {
            return Err(RunError::ParameterSize {
                name: kernel.name().to_owned(),
                place,
                expected: expected.bytes,
                given: parameter.bytes(),
            });
        }
        // SAFETY: the trait's promise: plain data of that many bytes.
        let given =
            unsafe { std::slice::from_raw_parts(parameter.address().cast(), expected.bytes) };
        bytes[expected.offset..expected.offset + expected.bytes].copy_from_slice(given);
    }
    Ok(bytes)
}

fn check(kernel: &Kernel, shape: Shape) -> Result<(), RunError> {
    let count = |of: [u32; 3]| of.iter().map(|&n| u64::from(n)).product::<u64>();
    let (blocks, threads) = (count(shape.grid), count(shape.block));
    if blocks == 0 || threads == 0 || threads > u64::from(kernel.threads_max()) {
        return Err(RunError::Shape {
            name: kernel.name().to_owned(),
            grid: shape.grid,
            block: shape.block,
            threads_max: kernel.threads_max(),
        });
    }
    Ok(())
}
