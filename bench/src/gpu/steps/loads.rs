//! What loading costs, and what it does to a stage that runs at the same time: the figures that a start in turn (PASK) and
//! loads of paged weights (Clockwork) count with.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use punctual_core::{Criticality, Event, ModelId};
use punctual_cuda_kernels::Module;
use punctual_device::Device;
use punctual_device_cuda::driver::{Context, DeviceMemory, Gpu, MappedMemory, Stream};
use punctual_device_cuda::lower::{Packer, Pages, Program, Target};
use punctual_device_cuda::{CudaDevice, Division, Kernels, StartError};
use punctual_model::Network;
use punctual_platform::clock;
use punctual_roofline::structures::Structure;

use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig, Setup, StageRun, cuda_spec};
use super::super::step::{Session, Step, StepError};
use super::networks;

pub struct Loads;

const PAGED: u16 = 1;

/// What happens while a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// Weights are loaded and unloaded without a pause.
    Weights,
    /// A module is loaded each time.
    Modules,
    /// Inputs are copied to the device without a pause, as where it cannot read them in place.
    Inputs,
}

impl Beside {
    const ALL: [Self; 4] = [Self::Nothing, Self::Weights, Self::Modules, Self::Inputs];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::Weights => "beside loads of weights",
            Self::Modules => "beside loads of modules",
            Self::Inputs => "beside copies of inputs",
        }
    }
}

impl Step for Loads {
    fn name(&self) -> &'static str {
        "loads"
    }

    fn about(&self) -> &'static str {
        "how long a context, a module of kernels and weights take to load, and how much longer a stage takes meanwhile, or beside copies of inputs"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let mut result = StepResult::default();
        let start = clock::now_ns();
        let context = Context::retain(gpu)?;
        let context_ns = clock::now_ns() - start;
        let mut sheet = Sheet::new("What loading takes", &["what", "KB", "us"], 1);
        let mut row = |what: String, bytes: u64, ns: u64| {
            let kilobytes = format!("{:.0}", bytes as f64 / 1e3);
            sheet.row([what, kilobytes, format!("{:.0}", ns as f64 / 1e3)]);
        };
        row("the first context of the process".into(), 0, context_ns);
        let (major, _) = gpu.compute_capability()?;
        let mut modules_ns = Vec::new();
        for module in Module::ALL.into_iter().filter(|unit| unit.runs_on(major)) {
            let took = module_ns(&context, module)?;
            modules_ns.push(took);
            row(
                format!("module {}", module.name()),
                module_bytes(gpu, module)?,
                took,
            );
        }
        let structures = [Structure::ResNet50, Structure::ResNet152];
        let networks = networks::of(session, &structures, 224);
        let (served, paged) = (&networks[0], &networks[networks.len() - 1]);
        let bytes = weight_bytes(session, gpu, paged)?;
        let packing_ns = packing_ns(session, gpu, paged)?;
        row(
            format!("packing weights of {}, host", paged.name),
            bytes,
            packing_ns,
        );
        let mut rig = start_rig(session, gpu, served, paged)?;
        let copies = Copies::new(&context, served)?;
        let found = measure(session, &mut rig, &context, &copies)?;
        let load = result.nanoseconds(format!("weights of {}", paged.name), found.loads);
        row(
            format!("weights of {}, beside a stage, p50", paged.name),
            bytes,
            (load.p50_us * 1e3) as u64,
        );
        result.tables.push(sheet);
        let (context_ms, module_us) = (context_ns as f64 / 1e6, Latency::of(modules_ns).p50_us);
        let rate = bytes as f64 / load.p50_us / 1e3;
        result.found = format!(
            "a context takes {context_ms:.0} ms, a module {module_us:.0} us, weights {rate:.1} GB/s{}",
            report(served, found.stages, &mut result)
        );
        result.note(
            "A module is loaded from its image in memory, decompression included, and its kernels are looked up. Each is loaded for \
             the first time; beside a stage, again and again. Loads beside a stage have the device's own stream for them, of the \
             lowest priority.",
        );
        Ok(result)
    }
}

fn module_ns(context: &Arc<Context>, module: Module) -> Result<u64, StepError> {
    let start = clock::now_ns();
    let kernels = Kernels::default();
    kernels.load(context, module).map_err(StartError::from)?;
    Ok(clock::now_ns() - start)
}

/// Of the image that fits best.
fn module_bytes(gpu: Gpu, module: Module) -> Result<u64, StepError> {
    let archive = gpu.archives()?.next();
    let image = archive.and_then(|archive| archive.module(module).ok());
    Ok(image.map_or(0, |image| image.code.len() as u64))
}

fn page_bytes(session: &Session<'_>) -> u32 {
    cuda_spec(session).page_bytes
}

fn pages(session: &Session<'_>, gpu: Gpu, network: &Network) -> Result<Pages, StepError> {
    let target = Target {
        multiprocessors: 1,
        compute_capability: gpu.compute_capability()?,
        page_bytes: page_bytes(session),
    };
    let program = Program::lower(network, &[1], &target, &[]).map_err(StartError::from)?;
    Ok(program.pages)
}

fn weight_bytes(session: &Session<'_>, gpu: Gpu, network: &Network) -> Result<u64, StepError> {
    Ok(pages(session, gpu, network)?.used_bytes())
}

fn packing_ns(session: &Session<'_>, gpu: Gpu, network: &Network) -> Result<u64, StepError> {
    let pages = pages(session, gpu, network)?;
    let packer = Packer::new(network, &pages);
    let start = clock::now_ns();
    for page in 0..packer.pages() {
        packer.packed(page).map_err(StartError::from)?;
    }
    Ok(clock::now_ns() - start)
}

fn start_rig(
    session: &Session<'_>,
    gpu: Gpu,
    served: &Network,
    paged: &Network,
) -> Result<Rig<CudaDevice>, StepError> {
    let cache = pages(session, gpu, paged)?.count() as u32;
    let setup = Setup {
        models: &[(served, &[1]), (paged, &[1])],
        division: Division::Whole,
        queue: rig::queue(gpu)?,
    };
    let rig = Rig::paged(session, &setup, cache.max(1))?;
    rig.write(0, 0, 1, |seed| rig::picture(served, seed))?;
    Ok(rig)
}

/// Times of a stage, by what happens meanwhile, and times of loads.
#[derive(Default)]
struct Found {
    stages: [Vec<u64>; Beside::ALL.len()],
    loads: Vec<u64>,
}

/// Copies of a network's inputs to the device.
struct Copies {
    stream: Stream,
    from: MappedMemory,
    to: DeviceMemory,
}

impl Copies {
    const COUNT: usize = 20;

    fn new(context: &Arc<Context>, network: &Network) -> Result<Self, StepError> {
        let input = network.input;
        let floats = (input.channels * input.height * input.width) as usize;
        let bytes = floats * size_of::<f32>();
        Ok(Self {
            stream: Stream::new(context, 0)?,
            from: MappedMemory::take(context, bytes)?,
            to: DeviceMemory::take(context, bytes)?,
        })
    }

    fn run(&self) -> Result<(), StepError> {
        self.stream.context().bind()?;
        for _ in 0..Self::COUNT {
            let bytes = self.to.bytes();
            self.stream.copy_in(&self.from, 0, &self.to, 0, bytes)?;
            self.stream.synchronize()?;
        }
        Ok(())
    }
}

fn measure(
    session: &Session<'_>,
    rig: &mut Rig<CudaDevice>,
    context: &Arc<Context>,
    copies: &Copies,
) -> Result<Found, StepError> {
    // It finds cold caches.
    round(rig, context, copies, &mut Found::default())?;
    let mut found = Found::default();
    for () in session.rounds(200, 2, 900) {
        round(rig, context, copies, &mut found)?;
    }
    Ok(found)
}

/// The stage alone, and as long as each of these takes: a load of weights, a module, copies of inputs.
fn round(
    rig: &mut Rig<CudaDevice>,
    context: &Arc<Context>,
    copies: &Copies,
    found: &mut Found,
) -> Result<(), StepError> {
    const ALONE: usize = 20;
    let [alone, beside_weights, beside_modules, beside_inputs] = &mut found.stages;
    for _ in 0..ALONE {
        alone.push(stage(rig, &mut None)?);
    }
    rig.load(PAGED)?;
    let mut load = None;
    while load.is_none() {
        beside_weights.push(stage(rig, &mut load)?);
    }
    found.loads.extend(load);
    rig.device.unload(ModelId(PAGED))?;
    thread::scope(|scope| {
        let module = scope.spawn(|| module_ns(context, Module::Gemm128x128));
        while !module.is_finished() {
            beside_modules.push(stage(rig, &mut None)?);
        }
        module.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    thread::scope(|scope| {
        let copying = scope.spawn(|| copies.run());
        while !copying.is_finished() {
            beside_inputs.push(stage(rig, &mut None)?);
        }
        copying.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Runs the first stage: from its order to its event. `load` gets the time of a load that ended meanwhile.
fn stage(rig: &mut Rig<CudaDevice>, load: &mut Option<u64>) -> Result<u64, StepError> {
    let start = clock::now_ns();
    let stage_run = StageRun {
        partition: 0,
        model: 0,
        stage: 0,
        batch: 1,
        first: 0,
    };
    rig.submit(stage_run, Criticality::RealTime)?;
    loop {
        match rig.event()? {
            Event::Finished(_) => return Ok(clock::now_ns() - start),
            Event::Loaded { measured, .. } => *load = Some(measured.as_nanos()),
            other => return Err(StepError::Unexpected(Box::new(other))),
        }
    }
}

fn report(
    served: &Network,
    stages: [Vec<u64>; Beside::ALL.len()],
    result: &mut StepResult,
) -> String {
    let title = "A stage, from its order to its event";
    let mut sheet =
        Sheet::of_latencies(title, &["stage", "beside"], &["p50 / alone", "p99 / alone"]);
    let name = format!("{}, first stage", served.name);
    let mut alone = None;
    let mut said = String::new();
    for (beside, durations) in Beside::ALL.into_iter().zip(stages) {
        let latency = result.nanoseconds(format!("{name}, {}", beside.name()), durations);
        let alone = alone.get_or_insert(latency);
        let (p50, p99) = (latency.over(alone), latency.p99_over(alone));
        let what = [name.clone(), beside.name().to_owned()];
        sheet.latency(what, &latency, [format!("{p50:.2}"), format!("{p99:.2}")]);
        if beside != Beside::Nothing {
            said += &format!(
                "; a stage {} takes {p50:.2} times as long, p99 {p99:.2}",
                beside.name()
            );
        }
    }
    result.tables.push(sheet);
    said
}
