//! What weights that come and go cost.
//!
//! ```text
//! paging_bench disturbance PACKAGE PAGED-PACKAGE [ROUNDS]
//! paging_bench models PACKAGE COUNT
//! ```
//!
//! - `disturbance`: the first stage of one package runs on core 0, again and again, while another
//!   package is loaded and unloaded without a pause by a loader on core 1, or is left alone: windows
//!   of both kinds alternate. Then the same with the loader on core 0, beneath the worker.
//! - `models`: how long the device takes to start with `COUNT` paged models, and how much memory
//!   each takes while none of its weights are there.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId, RequestId, StageId, Window,
};
use punctual_device::{CacheSpec, Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec};
use punctual_device_cpu::CpuDevice;
use punctual_kernels::Isa;
use punctual_model::Package;
use punctual_platform::{Doorbell, clock};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Runs of the stage in one window.
const RUNS: usize = 2_000;

const ALWAYS_THERE: ModelId = ModelId(0);
const PAGED: ModelId = ModelId(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["disturbance", package, paged] => disturbance(package, paged, 10),
        ["disturbance", package, paged, rounds] => match rounds.parse() {
            Ok(rounds) => disturbance(package, paged, rounds),
            Err(_) => Err(format!("`{rounds}` is no number of rounds").into()),
        },
        ["models", package, count] => match count.parse() {
            Ok(count) => models(package, count),
            Err(_) => Err(format!("`{count}` is no number of models").into()),
        },
        _ => Err(
            "usage: paging_bench disturbance PACKAGE PAGED [ROUNDS] | models PACKAGE COUNT".into(),
        ),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paging_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn disturbance(package: &str, paged: &str, rounds: usize) -> Outcome<()> {
    let packages = [
        Package::open(Path::new(package))?,
        Package::open(Path::new(paged))?,
    ];
    println!("| loader | loads | p50 | p99 | p99.9 | longest | loads/s | GB/s |");
    println!("|---|---|---|---|---|---|---|---|");
    for core in [1, 0] {
        let mut bench = Bench::start(&packages, core)?;
        let (mut quiet, mut busy) = (Samples::default(), Samples::default());
        // Warm up both.
        bench.window(true, &mut Samples::default());
        for _ in 0..rounds {
            bench.window(false, &mut quiet);
            bench.window(true, &mut busy);
        }
        quiet.print(core, "none");
        busy.print(core, "without pause");
    }
    Ok(())
}

/// A device with one model that runs and one that comes and goes.
struct Bench {
    device: CpuDevice,
    bell: Arc<Doorbell>,
    pages: u32,
    actions: u64,
}

#[derive(Default)]
struct Samples {
    took_ns: Vec<u64>,
    loads: u64,
    pages: u64,
    span_ns: u64,
}

impl Bench {
    fn start(packages: &[Package; 2], loader_core: usize) -> Outcome<Self> {
        let image = |package: &Package| package.image(Isa::detect().lanes() as u8).cloned();
        let images = packages.each_ref().map(image);
        let pages = images[1].as_ref().map_or(0, |image| image.pages() as u32);
        let model = |index: usize| ModelSpec {
            image: images[index].as_ref(),
            paged: index == PAGED.index(),
            ..ModelSpec::resident(packages[index].network(), &[1])
        };
        let bell = Arc::new(Doorbell::new());
        let device = CpuDevice::start(
            &DeviceSpec {
                models: &[model(0), model(1)],
                partitions: &[PartitionSpec::on_cores("main", vec![0], Some(50))],
                request_buffers: 1,
                cache: Some(CacheSpec {
                    pages,
                    core: Some(loader_core),
                    priority: None,
                }),
            },
            bell.clone(),
        )?;
        for missing in device.shell().missing() {
            eprintln!("the system does not grant {missing}: continuing without it");
        }
        Ok(Self {
            device,
            bell,
            pages,
            actions: 0,
        })
    }

    fn next_action(&mut self) -> ActionId {
        self.actions += 1;
        ActionId(self.actions)
    }

    /// Runs the stage [`RUNS`] times, with the other model coming and going or not.
    fn window(&mut self, loads: bool, samples: &mut Samples) {
        let started = clock::now_ns();
        let mut loading = loads.then(|| self.load());
        for _ in 0..RUNS {
            let infer = self.infer();
            self.device.submit(&infer).expect("a free partition");
            loop {
                match self.next_event() {
                    Event::Finished(finished) => {
                        samples.took_ns.push(finished.measured.as_nanos());
                        break;
                    }
                    Event::Loaded { .. } => {
                        samples.loads += 1;
                        samples.pages += u64::from(self.pages);
                        self.device.unload(PAGED).expect("it is not in use");
                        loading = Some(self.load());
                    }
                    event => panic!("{event:?}"),
                }
            }
        }
        samples.span_ns += clock::now_ns() - started;
        if loading.is_some() {
            let event = self.next_event();
            assert!(matches!(event, Event::Loaded { .. }), "{event:?}");
            self.device.unload(PAGED).expect("it is not in use");
        }
    }

    fn load(&mut self) -> ActionId {
        let action = self.next_action();
        self.device.load(action, PAGED).expect("it was unloaded");
        action
    }

    fn infer(&mut self) -> Infer {
        Infer {
            id: self.next_action(),
            partition: PartitionId(0),
            model: ALWAYS_THERE,
            stage: StageId(0),
            batch: 1,
            members: std::iter::once(RequestId {
                buffer: 0,
                generation: 0,
            })
            .collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality: Criticality::RealTime,
        }
    }

    fn next_event(&mut self) -> Event {
        loop {
            let seen = self.bell.count();
            if let Some(event) = self.device.poll() {
                return event;
            }
            self.bell.wait(seen, None);
        }
    }
}

impl Samples {
    fn print(&mut self, core: usize, loads: &str) {
        self.took_ns.sort_unstable();
        let last = self.took_ns.len() - 1;
        let at = |share: f64| self.took_ns[(last as f64 * share) as usize] as f64 / 1e3;
        let seconds = self.span_ns as f64 / 1e9;
        println!(
            "| core {core} | {loads} | {:.1} us | {:.1} us | {:.1} us | {:.1} us | {:.0} | {:.2} |",
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            self.loads as f64 / seconds,
            (self.pages * punctual_model::PAGE_BYTES as u64) as f64 / seconds / 1e9,
        );
    }
}

fn models(package: &str, count: usize) -> Outcome<()> {
    let before = (resident_bytes()?, clock::now_ns());
    let packages = (0..count).map(|_| Package::open(Path::new(package)));
    let packages = packages.collect::<Result<Vec<_>, _>>()?;
    let opened = (resident_bytes()?, clock::now_ns());
    let lanes = Isa::detect().lanes() as u8;
    let models: Vec<ModelSpec<'_>> = packages
        .iter()
        .map(|package| ModelSpec {
            image: package.image(lanes),
            paged: true,
            ..ModelSpec::resident(package.network(), &[1])
        })
        .collect();
    let pages = packages[0]
        .image(lanes)
        .map_or(0, |image| image.pages() as u32);
    let device = CpuDevice::start(
        &DeviceSpec {
            models: &models,
            partitions: &[PartitionSpec::on_cores("main", vec![0], None)],
            request_buffers: 1,
            cache: Some(CacheSpec {
                pages,
                core: None,
                priority: None,
            }),
        },
        Arc::new(Doorbell::new()),
    )?;
    let started = (resident_bytes()?, clock::now_ns());
    drop(models);
    drop(packages);
    let served = resident_bytes()?;
    let each = |bytes: i64| bytes as f64 / count as f64 / 1024.0;
    println!(
        "{count} models: opened in {:.0} ms, started in {:.0} ms; a model takes {:.1} KiB ({:.1} KiB \
         while its package is open); the weights' pages {} KiB",
        (opened.1 - before.1) as f64 / 1e6,
        (started.1 - opened.1) as f64 / 1e6,
        each(served - before.0 - device.weight_bytes() as i64),
        each(started.0 - before.0 - device.weight_bytes() as i64),
        device.weight_bytes() / 1024,
    );
    Ok(())
}

/// What the process has in memory, from /proc.
fn resident_bytes() -> Outcome<i64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: i64 = kib.ok_or("no VmRSS in /proc/self/status")?.parse()?;
    Ok(kib * 1024)
}
