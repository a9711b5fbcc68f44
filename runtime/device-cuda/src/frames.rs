//! Frames of cameras prepared on the GPU: what an intake's thread launches, and waits for.
//!
//! Each partition whose units prepare frames has one stream for that, in addition to its leaders': of the highest priority, so that a frame's
//! blocks come before those that a stage has waiting. An intake queues three launches: the frame kernel, which
//! crops, resizes and normalises to halves; `output`, which writes them as the planes of `f32` that every network's first launch reads in
//! the request's buffer; and `answers`, which tells the host by a word that they are there. So the contract of request buffers is the
//! same for both ways. The plan counts the time that frames take from stages of the partition.
//!
//! A frame that cannot be prepared takes the device down, as a stage would: until all is made again its stages fail, too. Its
//! launches may still write to the request's buffer, which is withheld from everyone until the context was reset. The
//! recovery thread then makes what is here once more, and makes the memory of clients readable again.
//!
//! (emulated)

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use punctual_cuda_kernels::params::{
    Answers, DIGITS_MAX, Digits, Guard, Kept, Output, Preprocess, Type,
};
use punctual_cuda_kernels::{Arguments, Kernel, Module as Unit, TensorView, kernel};
use punctual_device::frames::{
    CropRows, FrameMemory, FramePreparer, FrameWork, FramesCopied, FramesRefused, NotPrepared,
    RowSpan,
};
use punctual_device::{InputBuffers, InputLayout, InputWriter};
use punctual_platform::clock;
use punctual_types::{PixelFormat, SharedBytes};

use crate::counters::Counters;
use crate::driver::{
    CallError, Context, DeviceMemory, MappedMemory, NotReadable, ReadableMemory, Stream,
};
use crate::engine::Executors;
use crate::faults::{DeviceError, Health};
use crate::installation::{Inputs, Installation};
use crate::partition::Division;
use crate::start::InstallError;

/// Between two looks whether a frame is there, in nanoseconds. The intake's core is others' meanwhile.
const LOOK_NS: u64 = 50_000;
/// After this many looks the driver is asked whether launches failed.
const LOOKS_BETWEEN_QUESTIONS: u32 = 32;

/// Channels of a picture, and halves of a pixel as kernels keep it.
const CHANNELS: u32 = 3;
const PITCH: u32 = 8;

/// What prepares frames on a device, for all intakes.
pub(crate) struct Stations {
    division: Division,
    health: Arc<Health>,
    counters: Arc<Counters>,
    /// Locked before the place of any station.
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    stations: Vec<Arc<Station>>,
    /// By partition.
    streams: BTreeMap<usize, Arc<Stream>>,
}

/// What prepares the frames of one intake.
struct Station {
    works: Box<[Work]>,
    health: Arc<Health>,
    counters: Arc<Counters>,
    /// The intake's while it has a frame prepared, which never waits for it.
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// None while the device is being restarted.
    installed: Option<Installed>,
    /// Where the client has its frames.
    memory: Vec<FrameMemory>,
    /// Why the device went down.
    error: Option<DeviceError>,
}

/// The frames of one task.
struct Work {
    kernel: &'static Kernel,
    partition: usize,
    format: PixelFormat,
    input: InputLayout,
    mean: [f32; 3],
    factor: [f32; 3],
    copy_bytes: usize,
    limit_ns: u64,
}

/// What a station has on the device.
struct Installed {
    /// Before what launches in it use.
    streams: Box<[Arc<Stream>]>,
    readable: Vec<ReadableMemory>,
    installation: Arc<Installation>,
    /// The picture in halves, then counts of values that are not finite, of which there are none.
    halves: DeviceMemory,
    counts: DeviceMemory,
    /// Frames that are not read where they lie.
    copy: MappedMemory,
    done: MappedMemory,
    sequence: u32,
}

/// Where a crop's rows lie for kernels.
struct Located {
    rows: CropRows,
    /// Of the byte that the rows' offsets count from.
    base: u64,
    copied_bytes: usize,
}

impl Stations {
    pub(crate) fn new(division: Division, health: Arc<Health>, counters: Arc<Counters>) -> Self {
        Self {
            division,
            health,
            counters,
            all: Mutex::default(),
        }
    }

    /// A further station, on a device that is up.
    pub(crate) fn add(
        &self,
        works: &[FrameWork],
        inputs: &InputBuffers,
        executors: &Executors,
    ) -> Result<Arc<dyn FramePreparer>, FramesRefused> {
        let works: Result<_, FramesRefused> = works
            .iter()
            .map(|work| Work::new(work, inputs, &self.division))
            .collect();
        let station = Arc::new(Station {
            works: works?,
            health: self.health.clone(),
            counters: self.counters.clone(),
            place: Mutex::default(),
        });
        let first = executors.first().map(locked);
        let Some(executor) = first.as_ref().and_then(|executor| executor.as_ref()) else {
            return Err(FramesRefused::NoDevice);
        };
        let installation = executor.installation.clone();
        let context = executor.queue.stream().context().clone();
        // Its leader may have it again.
        drop(first);
        if let Inputs::Copied { .. } = installation.inputs {
            return Err(FramesRefused::NotMapped);
        }
        let mut all = locked(&self.all);
        let installed = self.installed(&station, &context, &installation, &mut all);
        let installed = installed.map_err(|error| FramesRefused::Device(error.into()))?;
        locked(&station.place).installed = Some(installed);
        all.stations.push(station.clone());
        Ok(station)
    }

    /// Makes all stations once more, on a new context.
    pub(crate) fn install(
        &self,
        context: &Arc<Context>,
        installation: &Arc<Installation>,
    ) -> Result<(), InstallError> {
        let mut all = locked(&self.all);
        for station in all.stations.clone() {
            let mut installed = self.installed(&station, context, installation, &mut all)?;
            let mut place = locked(&station.place);
            installed.make_readable(&place.memory);
            place.installed = Some(installed);
        }
        Ok(())
    }

    /// Why stations gave the device up, once.
    pub(crate) fn errors(&self) -> Vec<DeviceError> {
        let all = locked(&self.all);
        let stations = all.stations.iter();
        let errors = stations.filter_map(|station| locked(&station.place).error.take());
        errors.collect()
    }

    /// Lets go of everything on the device.
    pub(crate) fn let_go(&self) {
        let mut all = locked(&self.all);
        for station in &all.stations {
            locked(&station.place).installed = None;
        }
        all.streams.clear();
    }

    fn installed(
        &self,
        station: &Station,
        context: &Arc<Context>,
        installation: &Arc<Installation>,
        all: &mut All,
    ) -> Result<Installed, InstallError> {
        for unit in [Unit::Preprocess, Unit::Operators, Unit::General] {
            installation.kernels.load_missing(context, unit)?;
        }
        let (_, priority) = context.stream_priorities()?;
        let mut streams = Vec::with_capacity(station.works.len());
        for &Work { partition, .. } in &station.works {
            streams.push(match all.streams.entry(partition) {
                Entry::Occupied(made) => made.get().clone(),
                Entry::Vacant(place) => {
                    let division = &self.division;
                    let made = division.stream_of_priority(context, partition, priority)?;
                    place.insert(Arc::new(made)).clone()
                }
            });
        }
        let most = |of: fn(&Work) -> usize| station.works.iter().map(of).max().unwrap_or(0);
        Ok(Installed {
            streams: streams.into(),
            readable: Vec::new(),
            installation: installation.clone(),
            halves: DeviceMemory::take(context, most(Work::halves_bytes))?,
            counts: DeviceMemory::take(context, 4 * most(Work::counts))?,
            copy: MappedMemory::take(context, most(|work| work.copy_bytes))?,
            done: MappedMemory::take(context, size_of::<u32>())?,
            sequence: 0,
        })
    }
}

/// What is in it is whole at every step, so a panic of another holder changes nothing.
fn locked<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Work {
    fn new(
        work: &FrameWork,
        inputs: &InputBuffers,
        division: &Division,
    ) -> Result<Self, FramesRefused> {
        let partition = work.partition.index();
        let input = inputs.layout(work.model);
        let Some(input) = input.filter(|_| division.has(partition)) else {
            return Err(FramesRefused::Unknown {
                model: work.model,
                partition: work.partition,
            });
        };
        let format = work.layout.format;
        let is_packed = input.row_stride == input.width
            && input.plane_stride == input.height * input.width
            && input.channels == CHANNELS as usize;
        let kernel = match format {
            PixelFormat::Rgb8 => kernel("preprocess_rgb8"),
            PixelFormat::Nv12 => kernel("preprocess_nv12"),
            PixelFormat::Yuyv => kernel("preprocess_yuyv"),
            _ => None,
        };
        let Some(kernel) = kernel.filter(|_| is_packed) else {
            let (layout, channels) = (work.layout, input.channels);
            return Err(FramesRefused::NoKernel { layout, channels });
        };
        Ok(Self {
            kernel,
            partition,
            format,
            input,
            mean: work.mean,
            factor: work.std.map(|std| 1.0 / std),
            copy_bytes: CropRows::copy_len_max(&work.layout, work.crop),
            limit_ns: work.limit_ns,
        })
    }

    fn pixels(&self) -> u32 {
        (self.input.height * self.input.width) as u32
    }

    fn halves_bytes(&self) -> usize {
        (self.pixels() * PITCH) as usize * 2
    }

    fn counts(&self) -> usize {
        Output::blocks(self.pixels() * CHANNELS) as usize
    }

    /// The frame kernel's parameters: pixels of the rows, to halves at `halves`.
    fn frame(&self, located: &Located, halves: u64) -> Preprocess {
        let planes = located.rows.planes();
        let (first, second) = (planes[0], planes.get(1).copied().unwrap_or_default());
        let at = |plane: RowSpan| located.base + plane.offset as u64;
        let (odd_x, odd_y) = located.rows.odd();
        // Kernels find a pixel's chroma by its position, which counts from the first chroma sample of the rows: where luma
        // begins on the second pixel of one, its origin lies before its first byte.
        let (x, y, before) = match self.format {
            PixelFormat::Nv12 => {
                let (x, y) = (u32::from(odd_x), u32::from(odd_y));
                (x, y, u64::from(x) + u64::from(y) * first.stride as u64)
            }
            PixelFormat::Yuyv => (u32::from(odd_x), 0, 0),
            _ => (0, 0, 0),
        };
        let crop = located.rows.crop();
        Preprocess {
            frame: at(first).wrapping_sub(before),
            chroma: at(second),
            output: TensorView {
                address: halves,
                height: self.input.height as u32,
                width: self.input.width as u32,
                channels: CHANNELS,
                pitch: PITCH,
            },
            stride: first.stride as u32,
            chroma_stride: second.stride as u32,
            crop_x: x,
            crop_y: y,
            crop_width: crop.width,
            crop_height: crop.height,
            mean: self.mean,
            factor: self.factor,
        }
    }

    /// Of the launch that writes the planes at `target`, channel after channel.
    fn planes(&self, halves: u64, counts: u64, target: u64) -> Output {
        let mut digits = Digits {
            extents: [1; DIGITS_MAX],
            steps: [0; DIGITS_MAX],
        };
        digits.extents[DIGITS_MAX - 2..].copy_from_slice(&[CHANNELS, self.pixels()]);
        digits.steps[DIGITS_MAX - 2..].copy_from_slice(&[1, PITCH]);
        Output {
            source: halves,
            target,
            counts,
            elements: CHANNELS * self.pixels(),
            digits,
            from: Kept::Halves as u32,
            to: Type::F32 as u32,
            all_counts: self.counts() as u32,
            images: 1,
            ..Output::default()
        }
    }
}

impl Installed {
    /// Memory that cannot be made readable is copied from. Why the first is not.
    fn make_readable(&mut self, memory: &[FrameMemory]) -> Option<NotReadable> {
        let context = self.streams.first()?.context().clone();
        let mut why = None;
        for memory in memory {
            match ReadableMemory::new(&context, memory.clone()) {
                Ok(readable) => self.readable.push(readable),
                Err(not) => why = why.or(Some(not)),
            }
        }
        why
    }

    fn locate(&mut self, rows: &CropRows, frame: SharedBytes<'_>) -> Located {
        assert!(frame.len() >= rows.extent(), "frame shorter than its rows");
        let mut readable = self.readable.iter();
        if let Some(base) = readable.find_map(|memory| memory.address(frame)) {
            return Located {
                rows: *rows,
                base,
                copied_bytes: 0,
            };
        }
        for plane in rows.planes() {
            for (from, to) in plane.rows() {
                self.copy.write_shared(to, frame.part(from, plane.len));
            }
        }
        Located {
            rows: rows.in_copy(),
            base: self.copy.address(0),
            copied_bytes: rows.copy_len(),
        }
    }

    /// Queues the launches of a frame.
    fn launch(
        &mut self,
        at: usize,
        work: &Work,
        located: &Located,
        target: u64,
    ) -> Result<(), CallError> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let (halves, counts) = (self.halves.address(), self.counts.address());
        let done = Answers {
            done: self.done.address(0),
            images: 1,
            sequence: self.sequence,
            ..Answers::default()
        };
        let launches: [(Option<&'static Kernel>, Arguments); 3] = [
            (Some(work.kernel), work.frame(located, halves).into()),
            (kernel("output"), work.planes(halves, counts, target).into()),
            (kernel("answers"), done.into()),
        ];
        let stream = &self.streams[at];
        stream.context().bind()?;
        for (kernel, arguments) in launches {
            let kernel = kernel.expect("a kernel of the table");
            let grid = kernel.grid(&arguments).expect("its own arguments");
            let kernels = &self.installation.kernels;
            // SAFETY: the arguments are of these kernels. The frame kernel reads the crop's rows, which lie in readable memory
            // or in the copy (`locate`), and writes as many halves as were taken; `output` writes the input of a request
            // whose buffer is claimed until the word is there, and withheld until a reset if it is not.
            unsafe { kernels.launch(stream, kernel, grid, &Guard::default(), &arguments)? };
        }
        Ok(())
    }

    /// Waits for the word.
    fn wait(&self, at: usize, limit_ns: u64, health: &Health) -> Result<(), DeviceError> {
        let until_ns = clock::now_ns() + limit_ns;
        let mut looks = 0_u32;
        loop {
            let asks = looks.is_multiple_of(LOOKS_BETWEEN_QUESTIONS) && looks > 0;
            let is_over = asks && self.streams[at].is_idle()?;
            // Acquire pairs with the release of `answers` on the device.
            if self.done.word(0).load(Ordering::Acquire) == self.sequence {
                return Ok(());
            }
            if is_over {
                return Err(DeviceError::SilentFrame);
            }
            if health.is_down() {
                return Err(DeviceError::Down);
            }
            let now_ns = clock::now_ns();
            if now_ns >= until_ns {
                return Err(DeviceError::FrameOverdue { limit_ns });
            }
            looks += 1;
            clock::sleep_until_ns(now_ns + LOOK_NS);
        }
    }
}

impl Station {
    fn prepared(
        &self,
        installed: &mut Installed,
        at: usize,
        rows: &CropRows,
        frame: SharedBytes<'_>,
        input: &InputWriter<'_>,
    ) -> Result<usize, DeviceError> {
        let work = &self.works[at];
        let located = installed.locate(rows, frame);
        let target = installed.installation.inputs.address(input.buffer());
        let target = target + (work.input.offset * size_of::<f32>()) as u64;
        let launched = installed.launch(at, work, &located, target);
        let done = launched.map_err(DeviceError::from);
        let done = done.and_then(|()| installed.wait(at, work.limit_ns, &self.health));
        // While the place is locked, for which a restart waits: so what is withheld here is given back by it.
        done.inspect_err(|_| input.withhold())?;
        Ok(located.copied_bytes)
    }
}

impl FramePreparer for Station {
    fn attach(&self, memory: Vec<FrameMemory>) -> Option<FramesCopied> {
        let mut place = locked(&self.place);
        let installed = place.installed.as_mut();
        let why = installed.and_then(|installed| installed.make_readable(&memory));
        place.memory = memory;
        why.map(|not| FramesCopied(not.into()))
    }

    fn detach(&self) {
        let mut place = locked(&self.place);
        if let Some(installed) = &mut place.installed {
            installed.readable.clear();
        }
        place.memory = Vec::new();
    }

    fn prepare(
        &self,
        work: usize,
        rows: &CropRows,
        frame: SharedBytes<'_>,
        input: &mut InputWriter<'_>,
    ) -> Result<usize, NotPrepared> {
        if self.health.is_down() {
            return Err(NotPrepared);
        }
        let mut place = match self.place.try_lock() {
            Ok(place) => place,
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return Err(NotPrepared),
        };
        let Place {
            installed: Some(installed),
            error,
            ..
        } = &mut *place
        else {
            return Err(NotPrepared);
        };
        match self.prepared(installed, work, rows, frame, input) {
            Ok(copied_bytes) => {
                self.counters.frames.add(1);
                self.counters.frames_copied.add(u64::from(copied_bytes > 0));
                Ok(copied_bytes)
            }
            Err(DeviceError::Down) => Err(NotPrepared),
            Err(fault) => {
                *error = Some(fault);
                // While the place is locked: a restart waits for it.
                self.health.go_down();
                Err(NotPrepared)
            }
        }
    }
}
