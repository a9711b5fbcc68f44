//! A CUDA driver library for machines without a GPU: it runs the PTX of our kernels in an interpreter, block by block.
//!
//! The crate is two things at once. As a `cdylib` it is a `libcuda.so`
//! ([`driver`](self#the-driver)); as a Rust library it is the handle by which tests load and
//! control that ([`Emulator`]), and a way to run a kernel without any driver ([`Target`]).
//!
//! # The driver
//! What it does as the real one:
//! - Contexts, memory, modules, streams, events, launches, green contexts: the calls of `src/driver/api.rs`,
//!   and no other, so that asking for another fails as on an old driver.
//! - Launches and copies take place in the order of their stream, on a thread of the stream's own, after the call returned;
//!   a full queue blocks the caller. The default stream keeps its order with blocking streams.
//! - Modules are cubins and PTX as compilers write them. An image for another GPU, or newer than the driver,
//!   is refused. The PTX runs that a cubin was assembled from, which [`ptx_images`] knows by the cubin's bytes; another
//!   cubin is refused. Whatever `punctual_ptx` objects to ends the launch with an error, and a line on standard error says what it was.
//! - Blocks go round the multiprocessors that the stream's mask and its green context leave. The mask is read where a driver
//!   of the configured version keeps it: in the object that the stream's handle points to.
//! - Tools that subscribe (`cuGetExportTable`) are called back on the launching thread with each launch's descriptor, of the
//!   version that chips of the compute capability take; what they write into its mask is obeyed.
//! - What a kernel does to memory that is not there is an error that stays, and so is it of a copy: each call returns it until the
//!   process ends, a reset of the context included. After errors that are the context's alone, a reset helps
//!   ([`Code::stays`]). While a kernel hangs, a reset blocks ([`HungReset`]).
//! - Streams share hardware queues, 8 unless `CUDA_DEVICE_MAX_CONNECTIONS` says otherwise. A command at the front of one that
//!   cannot be carried out yet keeps back what is behind it, of other streams too.
//! - Where kernels are loaded lazily (from 12.2 on, unless `CUDA_MODULE_LOADING` says otherwise), asking for a function
//!   waits for everything in the context.
//!
//! What it cannot say: anything about time, as a block takes what it takes on a processor and
//! streams take turns on its cores; what two kernels on one multiprocessor do to each other; which
//! of two streams goes first (priorities are kept, and have no effect); anything that a real
//! driver does and its manual does not say.
//!
//! What it does not notice: what machine code does that is not in its PTX. What it cannot end: a kernel that neither ends nor looks at its guard.
//! Freeing memory waits for all streams, as documented: a stream that a test holds is waited for as well.
//!
//! # Virtual time
//! [`Emulator::begin_virtual_time`] turns the device into one whose launches compute nothing and take the time that the
//! caller says, on a clock that the caller moves: simulations run a daemon's own device code on it.
//!
//! # Any program
//! ```text
//! LD_LIBRARY_PATH=<Emulator::library_folder(&config)> PUNCTUAL_EMULATED_DRIVER="tpcs=8 compute=8.7" program
//! ```
//! The keys are the fields of [`Config`], with hyphens.
mod clock;
mod code;
mod config;
mod driver;
mod emulator;
mod index;
mod launch_log;
mod library;
mod programs;
pub mod ptx_images;
mod records;
mod run;
mod versions;
mod virtual_time;

pub use code::{Code, Stays};
pub use config::{CallFault, Config, ConfigError, ENVIRONMENT, HungReset, LaunchFault};
pub use emulator::{After, Emulator, REAL_DRIVER, REFUSED, is_real};
pub use launch_log::{LoggedLaunch, read_launch_log};
pub use library::LibraryError;
pub use records::{InUse, LaunchRecord, MemoryInUse, Outcome, StreamState};
pub use run::{Parameter, RunError, Shape, Source, Target};
pub use virtual_time::{BegunLaunch, LaunchCost, LoadCosts, Loads, Pace, Passed};

/// The names of all calls that the library exports for CUDA.
pub fn exported_calls() -> impl Iterator<Item = &'static str> {
    driver::exports().iter().map(|export| export.name)
}
