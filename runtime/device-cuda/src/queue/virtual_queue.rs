//! A partition's queue of launches.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_cuda_kernels::params::{Answer, Guard, ReportEvicted};
use punctual_cuda_kernels::{Kernel, kernel};

use super::ledger::{Ledger, NONE_EVICTED, NotHandedOver};
use super::words::{EpochFlag, Words};
use crate::driver::{Attribute, CallError, Context, DeviceMemory, Function, Gpu, Shape, Stream};
use crate::kernels::Kernels;

/// Where the word lies that every block compares its epoch with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagPlace {
    /// In host memory that the device reads in place: one store evicts. For GPUs that share the host's
    /// memory; on others each look crosses the bus.
    Host,
    /// In device memory, written by a copy on a stream of its own: looks are cheap, an eviction takes
    /// as long as a copy of four bytes.
    Device,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Most launches in the driver that have not begun. More hide more of a launch's cost, and take longer to empty.
    pub bound: u32,
    pub flag: FlagPlace,
    /// Main-loop tiles between two looks at the epoch; 0: at the start of a block only.
    pub check_stride: u32,
    /// Whether launches look at the epoch at all. Without, nothing is ever evicted: to measure what looking costs.
    pub guards: bool,
}

/// Main-loop tiles between two looks on an integrated GPU for which nothing was measured. By a model and not by measurement:
/// a look of about a microsecond at each tile of half of one adds a quarter to a stage, at each eighth 3%, and eight tiles
/// delay an eviction by 5 microseconds.
const INTEGRATED_STRIDE: u32 = 8;

impl QueueSpec {
    /// Those that fit `gpu`.
    pub fn fitting(gpu: Gpu) -> Result<Self, CallError> {
        Ok(Self::of_kind(gpu.can(Attribute::Integrated)?))
    }

    /// The usual ones, with the epoch where it is near to the GPU: an integrated one reads the host's memory,
    /// others their own. The former do not cache that memory, so they look at it less often.
    #[must_use]
    pub fn of_kind(integrated: bool) -> Self {
        let (flag, check_stride) = if integrated {
            (FlagPlace::Host, INTEGRATED_STRIDE)
        } else {
            (FlagPlace::Device, 1)
        };
        Self {
            flag,
            check_stride,
            ..Self::default()
        }
    }
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            bound: 4,
            flag: FlagPlace::Host,
            check_stride: 1,
            guards: true,
        }
    }
}

/// Launches of one stage after the other on one partition, evicted at a word. Used by the
/// partition's leader; the epoch alone may be moved on from elsewhere ([`EpochFlag`]).
pub struct VirtualQueue {
    spec: QueueSpec,
    stream: Stream,
    /// Carries the epoch to the device while launches run; none where kernels read it in the host's memory.
    control: Option<Stream>,
    words: Arc<Words>,
    /// The epoch, if it is to lie on the device; and the first evicted launch.
    on_device: DeviceMemory,
    /// `report_evicted`, with its function.
    report: (&'static Kernel, Function),
    ledger: Ledger,
    /// Of what is being handed over.
    epoch: u32,
    /// Of the stage: what its last launch writes.
    sequence: u32,
}

/// Of [`VirtualQueue::on_device`]: on different lines, since blocks read the first while others write the second.
const DEVICE_EPOCH: usize = 0;
const DEVICE_EVICTED: usize = 128;
const DEVICE_BYTES: usize = 256;

impl VirtualQueue {
    /// A queue that launches into `stream`. Waits until the device has its words. The module
    /// [`General`](punctual_cuda_kernels::Module::General) is loaded.
    ///
    /// # Panics
    /// If the table of kernels has no `report_evicted`.
    pub fn new(stream: Stream, spec: QueueSpec, kernels: &Kernels) -> Result<Self, CallError> {
        let report = kernel("report_evicted").expect("a kernel of the module `general`");
        let function = kernels.get(report)?;
        let context: &Arc<Context> = stream.context();
        // Each stream takes one of few hardware queues.
        let control = match spec.flag {
            FlagPlace::Host => None,
            FlagPlace::Device => {
                let (_, highest) = context.stream_priorities()?;
                Some(Stream::new(context, highest)?)
            }
        };
        let words = Arc::new(Words::take(context)?);
        let on_device = DeviceMemory::take(context, DEVICE_BYTES)?;
        let mut start = [0_u8; DEVICE_BYTES];
        start[DEVICE_EVICTED..][..4].copy_from_slice(&NONE_EVICTED.to_ne_bytes());
        on_device.write(0, &start)?;
        context.synchronize()?;
        Ok(Self {
            ledger: Ledger::new(spec.bound),
            spec,
            stream,
            control,
            words,
            on_device,
            report: (report, function.clone()),
            epoch: 0,
            sequence: 0,
        })
    }

    /// What moves the epoch on from another thread; none if a copy must do it, which is the leader's.
    #[must_use]
    pub fn epoch_flag(&self) -> Option<EpochFlag> {
        (self.spec.flag == FlagPlace::Host).then(|| EpochFlag(self.words.clone()))
    }

    /// Begins a stage of `end` launches, from launch `from` on. Nothing of an earlier one is in the
    /// driver: it was done, or [`is_drained`](Self::is_drained).
    pub fn begin(&mut self, from: u32, end: u32) {
        self.sequence = self.sequence.wrapping_add(1);
        self.go_on(from, end);
    }

    /// Resumes the stage after an eviction.
    pub fn go_on(&mut self, from: u32, end: u32) {
        self.ledger.begin(from, end);
        // Relaxed: nothing is on the device that writes it, and launches come later.
        self.words.begun().store(from, Ordering::Relaxed);
        // Relaxed: see `EpochFlag::move_on`.
        self.epoch = self.words.epoch().load(Ordering::Relaxed);
    }

    /// The launch to hand over now, if there is one.
    pub fn hand_over(&mut self) -> Option<u32> {
        self.ledger.hand_over(self.begun())
    }

    /// How far the list has come: one more than the last launch that has begun.
    #[must_use]
    pub fn begun(&self) -> u32 {
        // Relaxed: only how much may wait depends on it.
        self.words.begun().load(Ordering::Relaxed)
    }

    /// The launch that [`hand_over`](Self::hand_over) would give now.
    #[must_use]
    pub fn next(&self) -> Option<u32> {
        self.ledger.clone().hand_over(self.begun())
    }

    /// Hands launch `index` over: a copy of `arguments` and of the guard are the driver's from now on.
    ///
    /// # Safety
    /// `arguments` are of the type that `function` takes behind its guard, and all addresses in them
    /// are of memory that stays until the stream has run empty.
    pub unsafe fn launch(
        &self,
        index: u32,
        function: &Function,
        shape: Shape,
        arguments: *const c_void,
    ) -> Result<(), CallError> {
        let guard = self.guard(index);
        let guard = (&raw const guard).cast();
        // SAFETY: the guard's words are of this queue; the rest is the caller's promise.
        unsafe { self.stream.launch(function, shape, [guard, arguments]) }
    }

    fn guard(&self, index: u32) -> Guard {
        let epoch_now = match self.spec.flag {
            _ if !self.spec.guards => 0,
            FlagPlace::Host => self.words.epoch_address(),
            FlagPlace::Device => self.on_device.address() + DEVICE_EPOCH as u64,
        };
        Guard {
            epoch_now,
            first_evicted: self.on_device.address() + DEVICE_EVICTED as u64,
            begun: self.words.begun_address(),
            epoch: self.epoch,
            index,
            check_stride: self.spec.check_stride,
            gap: 0,
        }
    }

    /// Whether the stage's last launch has said that it is done. What it wrote can be read then.
    #[must_use]
    pub fn is_done(&self) -> bool {
        // Acquire: pairs with the fence before the device's store (label DONE): the answers, and
        // everything else that the device wrote, are there.
        self.words.done().load(Ordering::Acquire) == self.sequence
    }

    /// Whether all launches of the stage are in the driver.
    #[must_use]
    pub fn all_handed_over(&self) -> bool {
        self.ledger.all_handed_over()
    }

    /// Whether the epoch has moved on since the pass began: nothing more is handed over in it.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        // Relaxed: see `EpochFlag::move_on`.
        self.words.epoch().load(Ordering::Relaxed) != self.epoch
    }

    pub fn evict(&self) -> Result<(), CallError> {
        EpochFlag(self.words.clone()).move_on();
        match &self.control {
            None => Ok(()),
            Some(control) => control.copy_in(
                self.words.memory(),
                Words::EPOCH,
                &self.on_device,
                DEVICE_EPOCH,
                4,
            ),
        }
    }

    /// Has the device say, behind everything handed over, which launch was evicted first, and forget it again. By one
    /// launch of one thread: two copies of four bytes would each cost more.
    pub fn close(&self) -> Result<(), CallError> {
        // Without an epoch to look at: it runs although the queue's has moved on.
        let guard = Guard::default();
        let arguments = ReportEvicted {
            first_evicted: self.on_device.address() + DEVICE_EVICTED as u64,
            report: self.words.evicted_address(),
        };
        let (kernel, function) = &self.report;
        let shape = Shape::of(kernel, [1, 1, 1]);
        let arguments = [(&raw const guard).cast(), (&raw const arguments).cast()];
        // SAFETY: these are the parameters of `report_evicted`; both words are of this queue, whose memory the driver
        // waits for before it is freed.
        unsafe { self.stream.launch(function, shape, arguments) }
    }

    /// Whether the driver has run empty: after [`close`](Self::close).
    pub fn is_drained(&self) -> Result<bool, CallError> {
        // The control stream too: until its copy has arrived, launches of the next pass would find the old epoch,
        // which is not theirs, and end as evicted.
        let control = self.control.as_ref().map_or(Ok(true), Stream::is_idle)?;
        Ok(self.stream.is_idle()? && control)
    }

    /// Where to resume, once the driver [has run empty](Self::is_drained).
    pub fn resume_at(&self) -> Result<u32, NotHandedOver> {
        // Relaxed: the driver said that the launch which wrote it is over, so what it wrote is there.
        let first = self.words.evicted().load(Ordering::Relaxed);
        self.ledger.resume_at(first)
    }

    /// Whether the device has carried out all that was handed over, or why it cannot.
    pub fn is_idle(&self) -> Result<bool, CallError> {
        self.stream.is_idle()
    }

    /// The stage's answer for an image. It means something when the stage [is done](Self::is_done).
    #[must_use]
    pub fn answer(&self, image: usize) -> Answer {
        self.words.answer(image)
    }

    /// Where `answers` writes answers.
    #[must_use]
    pub fn answers_address(&self) -> u64 {
        self.words.answers_address()
    }

    /// Where `answers` writes that the stage is done.
    #[must_use]
    pub fn done_address(&self) -> u64 {
        self.words.done_address()
    }

    /// What `answers` writes there.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// The stream that it launches into, to give it another mask.
    pub fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// The stream that it launches into.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}
