//! One launch at a time, on memory of its own: its output, and how long it takes.

use std::sync::Arc;

use punctual_cuda_kernels::params::Guard;
use punctual_cuda_kernels::{Arguments, Kernel};
use punctual_device_cuda::driver::{CallError, Context, DeviceMemory, Event, MappedMemory, Stream};
use punctual_device_cuda::queue::{FlagPlace, NONE_EVICTED};
use punctual_device_cuda::{KernelError, Kernels};
use thiserror::Error;

use crate::recipe::Recipe;

/// Why a launch has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LaunchError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is no code for the device.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// How often a launch looks at the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    Never,
    /// At each tile of its main loop, at a word that lies there.
    EachTile(FlagPlace),
}

/// A stream with nothing else in it.
pub struct Launcher {
    stream: Stream,
    kernels: Kernels,
    /// Words that launches may look at: an epoch of 0, which never changes; then, on the device, what takes evictions.
    on_host: MappedMemory,
    on_device: DeviceMemory,
    begin: Event,
    end: Event,
}

/// A launch with its memory on the device.
pub struct Prepared {
    kernel: &'static Kernel,
    arguments: Arguments,
    /// The output first.
    memory: Vec<DeviceMemory>,
}

const EVICTED: usize = 4;

impl Launcher {
    pub fn new(context: &Arc<Context>) -> Result<Self, CallError> {
        let on_device = DeviceMemory::take(context, 8)?;
        on_device.write(0, &0_u32.to_ne_bytes())?;
        on_device.write(EVICTED, &NONE_EVICTED.to_ne_bytes())?;
        Ok(Self {
            stream: Stream::new(context, 0)?,
            kernels: Kernels::default(),
            on_host: MappedMemory::take(context, 4)?,
            on_device,
            begin: Event::new(context, true)?,
            end: Event::new(context, true)?,
        })
    }

    #[must_use]
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Loads the kernel of a recipe and fills its memory.
    pub fn prepare(&self, recipe: &Recipe) -> Result<Prepared, LaunchError> {
        let context = self.stream.context();
        self.kernels.load(context, recipe.kernel().module)?;
        let fill = |bytes: &Vec<u8>| {
            let memory = DeviceMemory::take(context, bytes.len())?;
            memory.write(0, bytes)?;
            Ok(memory)
        };
        let memory: Vec<DeviceMemory> = recipe
            .memory()
            .iter()
            .map(fill)
            .collect::<Result<_, CallError>>()?;
        Ok(Prepared {
            kernel: recipe.kernel(),
            arguments: recipe.resolve(|index| memory[index].address()),
            memory,
        })
    }

    /// Runs a launch; what it has written.
    pub fn output(&self, prepared: &Prepared) -> Result<Vec<u8>, CallError> {
        self.launch(prepared, Looks::Never)?;
        self.stream.synchronize()?;
        let output = &prepared.memory[0];
        let mut bytes = vec![0; output.bytes()];
        output.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Runs `launches` launches one after the other. Returns the time from the begin of the first to the end of the last, in
    /// nanoseconds of the device's clock.
    pub fn nanoseconds(
        &self,
        prepared: &Prepared,
        looks: Looks,
        launches: u32,
    ) -> Result<u64, CallError> {
        self.begin.record(&self.stream)?;
        for _ in 0..launches {
            self.launch(prepared, looks)?;
        }
        self.end.record(&self.stream)?;
        self.stream.synchronize()?;
        self.end.nanoseconds_since(&self.begin)
    }

    fn guard(&self, looks: Looks) -> Guard {
        let epoch_now = match looks {
            Looks::Never => return Guard::default(),
            Looks::EachTile(FlagPlace::Host) => self.on_host.address(0),
            Looks::EachTile(FlagPlace::Device) => self.on_device.address(),
        };
        Guard {
            epoch_now,
            first_evicted: self.on_device.address() + EVICTED as u64,
            check_stride: 1,
            ..Guard::default()
        }
    }

    fn launch(&self, prepared: &Prepared, looks: Looks) -> Result<(), CallError> {
        let (kernel, arguments) = (prepared.kernel, &prepared.arguments);
        let grid = kernel.grid(arguments).expect("a recipe has a grid");
        let guard = &self.guard(looks);
        // SAFETY: a recipe's arguments are those of its kernel, and its memory is as large as the kernel expects, which
        // the interpreter of PTX checks in tests. The memory and the guard's words outlive the launch: freeing memory
        // waits for the device.
        unsafe {
            self.kernels
                .launch(&self.stream, kernel, grid, guard, arguments)
        }
    }
}
