//! What preparing a frame takes, on a core and on the GPU, in turn; and what frames take from a stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use punctual_core::{Criticality, Event, ModelId, PartitionId};
use punctual_device::frames::{FrameWork, HeldBytes, NotPrepared, SharedPreparer};
use punctual_device::{HostedDevice as _, InputBuffers};
use punctual_device_cuda::CudaDevice;
use punctual_kernels::preprocess::{CropRows, PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_model::Network;
use punctual_platform::clock;
use punctual_roofline::structures::Structure;
use punctual_types::{Fit, FrameLayout, PixelFormat, SharedBytes, Size};

use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig, StageRun};
use super::super::step::{Session, Step, StepError};
use super::networks;

pub struct Frames;

const MODEL: ModelId = ModelId(0);

/// The request buffer of frames; stages have the first.
const BUFFER: u16 = rig::BUFFERS - 1;

/// A camera writes to one while others are read.
const SLOTS: usize = 4;

/// An allocator gives pages of their own to as many bytes, which the driver wants to register them.
const MEMORY_BYTES_MIN: usize = 1 << 20;

const LIMIT_NS: u64 = 20_000_000_000;

const SIZES: [Size; 3] = [size(640, 480), size(1920, 1080), size(3840, 2160)];
const TINY: [Size; 1] = [size(40, 30)];
const FORMATS: [PixelFormat; 2] = [PixelFormat::Nv12, PixelFormat::Rgb8];

const fn size(width: u32, height: u32) -> Size {
    Size { width, height }
}

/// Who prepares a frame, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Core,
    Gpu,
    GpuFromCopy,
}

impl Way {
    const ALL: [Self; 3] = [Self::Core, Self::Gpu, Self::GpuFromCopy];

    const fn name(self) -> &'static str {
        match self {
            Self::Core => "a core, where it lies",
            Self::Gpu => "the GPU, where it lies",
            Self::GpuFromCopy => "the GPU, from a copy",
        }
    }
}

/// Frames of one format and size.
struct Camera {
    name: String,
    layout: FrameLayout,
    preprocessor: Preprocessor,
    /// Known to the driver, and not.
    attached: HeldBytes,
    other: HeldBytes,
    planes: Vec<f32>,
    took: [Vec<u64>; Way::ALL.len()],
    /// Of the processor.
    used: [Vec<u64>; Way::ALL.len()],
    copied_bytes: [usize; Way::ALL.len()],
}

impl Camera {
    fn new(format: PixelFormat, size: Size, network: &Network) -> Result<Self, StepError> {
        let layout = FrameLayout::packed(format, size.width, size.height);
        let input = network.input;
        let (mean, std) = input.form.normalisation();
        let preprocessor = Preprocessor::new(&PreprocessSpec {
            frame: layout,
            crop: size,
            output: Size {
                width: input.width,
                height: input.height,
            },
            channels: input.channels,
            fit: Fit::Stretch,
            mean,
            std,
        })?;
        let memory = |salt: usize| -> HeldBytes {
            let bytes = (SLOTS * layout.len()).max(MEMORY_BYTES_MIN);
            let bytes = (0..bytes).map(|at| ((at * 31 + salt) % 251) as u8);
            Arc::<[u8]>::from(bytes.collect::<Vec<u8>>()).into()
        };
        Ok(Self {
            name: format!("{} {size}", format.name()),
            layout,
            planes: vec![0.0; (input.channels * input.width * input.height) as usize],
            preprocessor,
            attached: memory(0),
            other: memory(7),
            took: Default::default(),
            used: Default::default(),
            copied_bytes: [0; Way::ALL.len()],
        })
    }

    fn work(&self, network: &Network) -> FrameWork {
        let (mean, std) = network.input.form.normalisation();
        FrameWork {
            model: MODEL,
            partition: PartitionId(0),
            layout: self.layout,
            crop: self.layout.size(),
            mean: [mean[0], mean[1], mean[2]],
            std: [std[0], std[1], std[2]],
            limit_ns: LIMIT_NS,
        }
    }

    fn rows(&self) -> Result<CropRows, StepError> {
        Ok(self.preprocessor.crop_rows(0, 0)?)
    }

    /// Prepares a frame each way, and notes what it took.
    fn round(&mut self, gpu: &OnGpu, work: usize, round: usize) -> Result<(), StepError> {
        let rows = self.rows()?;
        let len = self.layout.len();
        let slot = round % SLOTS * len;
        for (at, way) in Way::ALL.into_iter().enumerate() {
            let memory = match way {
                Way::Core | Way::Gpu => &self.attached,
                Way::GpuFromCopy => &self.other,
            };
            let frame = memory.bytes().part(slot, len);
            let (start, used) = (clock::now_ns(), clock::thread_cpu_ns());
            if way == Way::Core {
                let size = self.preprocessor.output();
                let (width, height) = (size.width as usize, size.height as usize);
                let planes = PlanarOutput::packed(&mut self.planes, width, height);
                let prepared = self.preprocessor.run_in_place(&rows, frame, planes);
                prepared.expect("pictures have no numbers that are not finite");
            } else {
                self.copied_bytes[at] = gpu.prepare(work, &rows, frame)?;
            }
            self.took[at].push(clock::now_ns() - start);
            self.used[at].push(clock::thread_cpu_ns() - used);
        }
        Ok(())
    }
}

/// What prepares frames on the GPU.
#[derive(Clone)]
struct OnGpu {
    preparer: SharedPreparer,
    inputs: InputBuffers,
}

impl OnGpu {
    fn prepare(
        &self,
        work: usize,
        rows: &CropRows,
        frame: SharedBytes<'_>,
    ) -> Result<usize, StepError> {
        let mut input = self.inputs.claim(BUFFER, MODEL)?;
        let prepared = self.preparer.prepare(work, rows, frame, &mut input);
        prepared.map_err(|NotPrepared| StepError::NotPrepared)
    }
}

impl Step for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn about(&self) -> &'static str {
        "what preparing a frame takes on a core and on the GPU, and how much longer a stage takes meanwhile"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let networks = networks::of(session, &[Structure::MobileNetV2], 640);
        let network = &networks[0];
        let queue = rig::queue(session.gpu()?)?;
        let mut rigs = rig::whole(session, &[(network, &[1])], [queue])?;
        let rig = &mut rigs[0];
        rig.write(0, 0, 1, |seed| rig::picture(network, seed))?;
        let sizes: &[Size] = if session.quick { &TINY } else { &SIZES };
        let cameras = sizes.iter().flat_map(|size| {
            let of_format = |format| Camera::new(format, *size, network);
            FORMATS.map(of_format)
        });
        let mut cameras = cameras.collect::<Result<Vec<_>, _>>()?;
        let works: Vec<FrameWork> = cameras.iter().map(|of| of.work(network)).collect();
        let gpu = OnGpu {
            preparer: rig.device.frame_preparer(&works)?,
            inputs: rig.inputs.clone(),
        };
        let attached = cameras.iter().map(|camera| camera.attached.clone().into());
        // What is copied is among the figures.
        let _ = gpu.preparer.attach(attached.collect());
        for (round, ()) in session.rounds(200, 2, 500).enumerate() {
            for (work, camera) in cameras.iter_mut().enumerate() {
                camera.round(&gpu, work, round)?;
            }
        }
        let mut result = StepResult::default();
        let beside = cameras.len() - 1;
        let stages = beside_frames(session, rig, &gpu, &cameras[beside], beside)?;
        let of_frames = told(&mut cameras, &mut result);
        let of_stages = told_stages(network, &cameras[beside].name, stages, &mut result);
        result.found = of_frames + &of_stages;
        result.note(
            "Whole frames, stretched to the network's input. Frames in memory that was registered with the driver before, and in other memory, which is \
             copied into memory of the driver's first. A frame on the GPU is looked for every 50 us, so a frame takes up to that longer; its thread \
             sleeps meanwhile.",
        );
        Ok(result)
    }
}

fn told(cameras: &mut [Camera], result: &mut StepResult) -> String {
    let title = "A frame, from the slot to the request's input";
    let before = ["frame", "prepared by"];
    let after = ["of a core, p50 us", "copied, KB", "p50 / core"];
    let mut sheet = Sheet::of_latencies(title, &before, &after);
    let mut said = Vec::new();
    for camera in cameras {
        let mut core = None;
        for (at, way) in Way::ALL.into_iter().enumerate() {
            let (took, used) = (
                std::mem::take(&mut camera.took[at]),
                std::mem::take(&mut camera.used[at]),
            );
            let of = format!("{}, {}", camera.name, way.name());
            let latency = result.nanoseconds(of, took);
            let ratio = latency.over(core.get_or_insert(latency));
            let words = [camera.name.clone(), way.name().to_owned()];
            let copied = camera.copied_bytes[at] as f64 / 1e3;
            let used = format!("{:.1}", Latency::of(used).p50_us);
            let after = [used, format!("{copied:.0}"), format!("{ratio:.2}")];
            sheet.latency(words, &latency, after);
            if way == Way::Gpu {
                said.push(format!("{} {ratio:.2}", camera.name));
            }
        }
    }
    result.tables.push(sheet);
    format!("by the GPU, in the time of a core: {}", said.join(", "))
}

/// Times of a stage, alone and while frames are prepared without a pause, and of these frames.
#[derive(Default)]
struct Stages {
    alone: Vec<u64>,
    beside: Vec<u64>,
    frames: Vec<u64>,
}

fn beside_frames(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    gpu: &OnGpu,
    camera: &Camera,
    work: usize,
) -> Result<Stages, StepError> {
    const ALONE: usize = 10;
    let rows = camera.rows()?;
    let frame = camera.attached.bytes().part(0, camera.layout.len());
    let mut stages = Stages::default();
    stage(rig)?;
    for () in session.rounds(100, 2, 900) {
        for _ in 0..ALONE {
            stages.alone.push(stage(rig)?);
        }
        let over = AtomicBool::new(false);
        let frames = thread::scope(|scope| {
            let preparing = scope.spawn(|| {
                let mut took = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let start = clock::now_ns();
                    gpu.prepare(work, &rows, frame)?;
                    took.push(clock::now_ns() - start);
                }
                Ok(took)
            });
            let beside = (0..ALONE).map(|_| stage(rig));
            let beside = beside.collect::<Result<Vec<u64>, StepError>>();
            over.store(true, Ordering::Relaxed);
            let prepared: Result<Vec<u64>, StepError> = preparing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            stages.beside.extend(beside?);
            prepared
        });
        stages.frames.extend(frames?);
    }
    Ok(stages)
}

/// Runs the first stage: from its order to its event.
fn stage(rig: &mut Rig<CudaDevice>) -> Result<u64, StepError> {
    let start = clock::now_ns();
    let stage_run = StageRun {
        partition: 0,
        model: 0,
        stage: 0,
        batch: 1,
        first: 0,
    };
    rig.submit(stage_run, Criticality::RealTime)?;
    match rig.event()? {
        Event::Finished(_) => Ok(clock::now_ns() - start),
        other => Err(StepError::Unexpected(Box::new(other))),
    }
}

fn told_stages(network: &Network, frames: &str, stages: Stages, result: &mut StepResult) -> String {
    let title = "A stage and frames on the same compute units, each from its order to its end";
    let mut sheet = Sheet::of_latencies(title, &["what", "meanwhile"], &["p50 / alone"]);
    let name = format!("{}, first stage", network.name);
    let alone = result.nanoseconds(format!("{name}, alone"), stages.alone);
    let beside = result.nanoseconds(format!("{name}, beside frames"), stages.beside);
    let frame = result.nanoseconds(format!("{frames}, beside stages"), stages.frames);
    let nothing = || "-".to_owned();
    let ratio = format!("{:.2}", beside.over(&alone));
    let row = |what: &str, meanwhile: &str| [what.to_owned(), meanwhile.to_owned()];
    sheet.latency(row(&name, "nothing"), &alone, [nothing()]);
    sheet.latency(row(&name, frames), &beside, [ratio.clone()]);
    sheet.latency(row(frames, &name), &frame, [nothing()]);
    result.tables.push(sheet);
    format!("; a stage beside frames takes {ratio} times as long")
}
