//! Where a launch runs, found out on the device.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libsmctrl_sys::{TpcMask, launch_mask};
use punctual_cuda_kernels::params::{Guard, Whereabouts};
use punctual_cuda_kernels::{Module as Unit, kernel};
use punctual_platform::clock;

use super::calibration::{Expected, Probe, Refusal};
use super::means::Means;
use super::sms::SmSet;
use crate::driver::{Attribute, CallError, Context, Function, MappedMemory, Module, Shape, Stream};

/// How long each block stays where it is, so that the next one goes elsewhere.
const STAY_NS: u32 = 50_000;

/// Waves of one block a multiprocessor.
const WAVES: u32 = 4;

/// The time after which a launch is taken to run never: thousands of times what it takes.
pub(super) const LIMIT_NS: u64 = 5_000_000_000;
/// The same where masks may be at a wrong place, which makes many launches hang.
pub(super) const GUESS_LIMIT_NS: u64 = 2_000_000_000;

/// Launches `where_am_i` under masks.
pub(super) struct SmProbe<'m> {
    context: Arc<Context>,
    means: &'m Means,
    function: Function,
    /// Kept from one look to the next where masks can be changed.
    stream: Option<Stream>,
    seen: MappedMemory,
    blocks: u32,
    shared_bytes: u32,
    limit_ns: u64,
}

/// What no multiprocessor's number is: a block that did not run.
const NOWHERE: u32 = u32::MAX;

impl<'m> SmProbe<'m> {
    /// A launch that is not over after `limit_ns` is given up.
    pub(super) fn new(
        context: Arc<Context>,
        means: &'m Means,
        limit_ns: u64,
    ) -> Result<Self, Refusal> {
        let gpu = context.gpu();
        let blocks = gpu.attribute(Attribute::Multiprocessors)? * WAVES;
        let function = where_am_i(&context)?;
        // With all of a multiprocessor's shared memory, no two blocks share one. A device that does not
        // give as much gives a plain launch, whose waves find every multiprocessor just as well.
        let most = gpu.attribute(Attribute::SharedBytesPerBlock)?;
        let shared_bytes = match function.allow_shared_bytes(most) {
            Ok(()) => most,
            Err(_) => 0,
        };
        Ok(Self {
            seen: MappedMemory::take(&context, blocks as usize * size_of::<u32>())?,
            context,
            means,
            function,
            stream: None,
            blocks,
            shared_bytes,
            limit_ns,
        })
    }

    /// From now on a launch that is not over after `limit_ns` is given up.
    pub(super) const fn limit(&mut self, limit_ns: u64) {
        self.limit_ns = limit_ns;
    }

    /// What the device and the means lead one to expect.
    pub(super) fn expected(&self) -> Result<Expected, CallError> {
        let (sms, bits) = match self.means {
            Means::Masks(masking) => (None, masking.bits()),
            Means::Groups(groups) => (Some(groups.multiprocessors()), groups.count() as u32),
            Means::Streams => (None, 0),
        };
        let all = self.context.gpu().attribute(Attribute::Multiprocessors)?;
        Ok(Expected {
            sms: sms.unwrap_or(all),
            bits,
        })
    }

    fn launch(&self, stream: &Stream) -> Result<(), Refusal> {
        let guard = Guard::default();
        let whereabouts = Whereabouts {
            multiprocessors: self.seen.address(0),
            stay_ns: STAY_NS,
            gap: 0,
        };
        let shape = Shape {
            grid: [self.blocks, 1, 1],
            block: kernel("where_am_i").map_or(32, |kernel| kernel.block),
            shared_bytes: self.shared_bytes,
        };
        let arguments: [*const c_void; 2] =
            [(&raw const guard).cast(), (&raw const whereabouts).cast()];
        // SAFETY: the kernel takes these two by value, and writes a word a block to memory that has
        // as many. The memory is there until this is dropped; a launch that is not over by then ends
        // the use of the context.
        let launched = unsafe { stream.launch(&self.function, shape, arguments) };
        launched.map_err(|error| match launch_mask::last_error() {
            Some(error) => Refusal::NotMasked {
                said: error.to_string(),
            },
            None => error.into(),
        })
    }

    /// Asks until the launch is over: calibration has a process, and so a core, to itself.
    fn wait(&self, stream: &Stream) -> Result<(), Refusal> {
        let until_ns = clock::now_ns() + self.limit_ns;
        while !stream.is_idle()? {
            if clock::now_ns() > until_ns {
                // Whatever is dropped from here on would wait for the device.
                self.context.abandon();
                return Err(Refusal::NeverEnded {
                    limit_ms: self.limit_ns / 1_000_000,
                });
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn seen(&self) -> Result<SmSet, Refusal> {
        let mut set = SmSet::default();
        for block in 0..self.blocks {
            // Relaxed: the driver said that the launch is over.
            let sm = self.word(block).load(Ordering::Relaxed);
            set.insert(sm).map_err(|_| Refusal::Nowhere { block, sm })?;
        }
        Ok(set)
    }

    fn word(&self, block: u32) -> &std::sync::atomic::AtomicU32 {
        self.seen.word(block as usize * size_of::<u32>())
    }
}

/// The kernel, from the best code for this device that its driver takes: one that is older than the
/// compiler refuses some.
fn where_am_i(context: &Arc<Context>) -> Result<Function, Refusal> {
    let (major, minor) = context.gpu().compute_capability()?;
    let mut refused = Refusal::NoImage { major, minor };
    for archive in context.gpu().archives()? {
        let Ok(image) = archive.module(Unit::Probe) else {
            continue;
        };
        // SAFETY: an image of ours, whole, as the crate of the kernels has it.
        match unsafe { Module::load(context, &image.code) } {
            Ok(module) => return Ok(module.function(c"where_am_i")?),
            Err(error) => refused = error.into(),
        }
    }
    Err(refused)
}

impl Probe for SmProbe<'_> {
    fn observe(&mut self, mask: TpcMask) -> Result<SmSet, Refusal> {
        for block in 0..self.blocks {
            // Relaxed: nothing runs now, and the launch comes after.
            self.word(block).store(NOWHERE, Ordering::Relaxed);
        }
        let before = self.stream.take();
        let stream = self.means.stream(&self.context, mask, 0, before)?;
        self.launch(&stream)?;
        self.wait(&stream)?;
        self.stream = Some(stream);
        self.seen()
    }
}

#[cfg(test)]
mod tests {
    use emulated_cuda::{Config, Emulator, LaunchFault};

    use super::*;
    use crate::driver::Driver;

    #[test]
    fn a_launch_that_never_ends_is_given_up() {
        let config = Config {
            launch_faults: vec![LaunchFault { nth: 1, code: None }],
            ..Config::default()
        };
        let emulator = Emulator::start(&config).expect("the emulated driver");
        let gpu = Driver::open().and_then(|driver| driver.device(0));
        let context = Context::retain(gpu.expect("a device")).expect("a context");
        // Long enough for the first launch on a busy machine; the second takes all of it.
        let limit_ns = 500_000_000;
        let mut probe = SmProbe::new(context, &Means::Streams, limit_ns).expect("it can look");
        let all = probe.observe(TpcMask::UNRESTRICTED).expect("it ends");
        assert_eq!(all.count(), config.sms());
        let hangs = probe.observe(TpcMask::UNRESTRICTED);
        assert_eq!(hangs, Err(Refusal::NeverEnded { limit_ms: 500 }));
        drop(probe);
        drop(emulator);
    }
}
