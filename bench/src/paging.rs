//! `punctual bench paging`: many networks, and a cache that holds a part of their weights.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_conformance::networks;
use punctual_core::{
    ACCURACY_BINS, Actions, Answers, BatchTime, Confidence, Config, ConfigError, Criticality,
    Delivery, ModelConfig, ModelId, Nanos, PartitionConfig, PartitionId, Scheduler, StageConfig,
    StageId, StageTime, TaskConfig, TaskId, Units, Weights,
};
use punctual_device::{CacheSpec, DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_cpu::{CpuDevice, StartError};
use punctual_executor::{Events, drive};
use punctual_kernels::Isa;
use punctual_model::{Calibration, Package, PackageError};
use punctual_platform::output::{self, OutputError};
use punctual_platform::{Doorbell, clock};
use punctual_types::Random;
use serde::Serialize;

use super::measured::{self, Measured};
use super::open_loop::{OpenLoop, Planned, Tally};
use punctual_device_cpu::images::{self, ImageError};
use punctual_platform::termination::{Terminates, Termination};

/// How much of what.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench paging
  punctual bench paging --models 200 --cache-percent 20 --rate 100 --seconds 10

Makes that many distinct networks (two exits, 24x24 images, about a third of a megabyte of weights
each) as packages on disk, and serves requests for them with the scheduler of the daemon, on one
core, from a cache that holds the given part of their weights. Requests come at random times
(Poisson), most for a few networks (their popularity falls with their rank: Zipf). Each has a
deadline, and either is answered or refused.

TERMINATION CODES: 0 done; 1 a request was lost; 4 a file cannot be written; 5 memory or threads
are unavailable.")]
pub struct Options {
    /// Number of networks.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=8000))]
    models: u16,
    /// The part of their pages that the cache holds, in percent.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    cache_percent: u32,
    /// Requests a second.
    #[arg(long, default_value_t = 150.0)]
    rate: f64,
    /// Length of the measurement, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Popularity falls with this power of the rank; 0: all models are equally popular.
    #[arg(long, default_value_t = 1.0)]
    skew: f64,
    /// Deadline of each request after its capture, in milliseconds.
    #[arg(long, default_value_t = 100)]
    deadline_ms: u64,
    /// The scheduling policy: `punctual` or `clockwork`.
    #[arg(long, default_value = "punctual", value_parser = ["punctual", "clockwork"])]
    policy: String,
    /// Folder for the packages [default: a temporary folder, which is removed].
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Seed of the arrival times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A package cannot be made or read.
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A folder cannot be made or removed.
    #[error("{path}: {source}")]
    Folder {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Start(#[from] StartError),
    /// The device did not do what was measured.
    #[error(transparent)]
    Measure(#[from] measured::NotMeasured),
    /// The scheduler refuses the plan: an error of ours.
    #[error(transparent)]
    Plan(#[from] ConfigError),
    #[error("{0} requests were lost")]
    Lost(u64),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Lost(_) => Termination::BadResult,
            Self::Package(PackageError::File { .. }) | Self::Folder { .. } => Termination::File,
            Self::Package(_) | Self::Image(_) | Self::Plan(_) => Termination::BadInput,
            Self::Start(_) | Self::Measure(_) => Termination::Resources,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    models: u16,
    /// Of all models together, and of the cache.
    pages: [u32; 2],
    policy: String,
    rate_hz: f64,
    submitted: u64,
    on_time: u64,
    late: u64,
    rejected: u64,
    failed: u64,
    lost: u64,
    hit_percent: f64,
    loads: u64,
    evictions: u64,
    /// p50, p99, largest.
    load_us: [f64; 3],
    latency_us: [f64; 3],
    /// Making the device: lowering every network, taking all memory.
    start_ms: f64,
}

pub fn run(options: &Options) -> Result<(), Error> {
    let temporary = options.folder.is_none();
    let folder = options.folder.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("punctual-bench-paging-{}", std::process::id()))
    });
    let at = |source| Error::Folder {
        path: folder.clone(),
        source,
    };
    std::fs::create_dir_all(&folder).map_err(at)?;
    let outcome = measure(options, &folder);
    if temporary {
        std::fs::remove_dir_all(&folder).map_err(at)?;
    }
    let report = outcome?;
    if options.json {
        let json = serde_json::to_string_pretty(&report).expect("numbers and names");
        output::line(json)?;
    } else {
        output::text(report.text())?;
    }
    if report.lost > 0 {
        return Err(Error::Lost(report.lost));
    }
    Ok(())
}

/// The packages, written and opened again.
fn packages(options: &Options, folder: &Path) -> Result<Vec<Package>, Error> {
    let lanes = [Isa::detect().lanes() as u8];
    let package = |index: u16| {
        let path = folder.join(format!("{index}.punctual"));
        if !path.exists() {
            let network = networks::residual(u64::from(index) + 1);
            let package = Package::new(network, Calibration::default())?;
            images::add(package, &lanes)?.write(&path)?;
        }
        Ok(Package::open(&path)?)
    };
    (0..options.models).map(package).collect()
}

fn measure(options: &Options, folder: &Path) -> Result<Report, Error> {
    let packages = packages(options, folder)?;
    let lanes = Isa::detect().lanes() as u8;
    let pages_of = |package: &Package| package.image(lanes).map_or(1, |image| image.pages() as u32);
    let all: u32 = packages.iter().map(pages_of).sum();
    let largest = packages.iter().map(pages_of).max().unwrap_or(1);
    let pages = (all * options.cache_percent).div_ceil(100).max(largest);
    let specs: Vec<ModelSpec<'_>> = packages
        .iter()
        .map(|package| ModelSpec {
            image: package.image(lanes),
            paged: true,
            ..ModelSpec::resident(package.network(), &[1])
        })
        .collect();
    let spec = DeviceSpec {
        models: &specs,
        partitions: &[PartitionSpec::on_cores("main", vec![0], None)],
        request_buffers: REQUEST_BUFFERS,
        cache: Some(CacheSpec {
            pages,
            core: None,
            priority: None,
        }),
        start: Start::Whole,
    };
    let bell = Arc::new(Doorbell::new());
    let began = clock::now_ns();
    let mut device = CpuDevice::start(&spec, Arc::clone(&bell))?;
    let start_ms = (clock::now_ns() - began) as f64 / 1e6;
    let stages = packages[0].network().stages.len();
    let samples = options.models.min(20);
    let times = measured::stages_and_loads(&mut device, &bell, stages, samples)?;
    let config = config(options, pages, packages.iter().map(pages_of), &times);
    let pictures: Vec<Vec<f32>> = (0u64..)
        .zip(&packages)
        .map(|(seed, package)| networks::image(package.network(), seed))
        .collect();
    let coming = arrivals(options);
    let policies = punctual_baselines::all();
    let policy = policies.by_name(&options.policy);
    let policy = policy.cloned().unwrap_or_default();
    let mut scheduler = Scheduler::new(&config, &policy)?;
    let mut world = OpenLoop::new(&config, device, bell, &pictures, &coming);
    let mut actions = Actions::for_config(&config);
    drive(
        &mut scheduler,
        &mut world,
        &mut Events::with_capacity(256),
        &mut actions,
    );
    let (_, tally) = world.into_parts();
    Ok(Report::new(options, [all, pages], start_ms, &tally))
}

const REQUEST_BUFFERS: u16 = 64;

/// A task a model, without a reservation; all times as measured.
fn config(
    options: &Options,
    pages: u32,
    pages_of: impl Iterator<Item = u32>,
    times: &Measured,
) -> Config {
    let accuracy = |exit: usize| [40_000 + 5_000 * exit as u16; ACCURACY_BINS];
    let stages: Vec<StageConfig> = (0..times.stages.len())
        .map(|exit| StageConfig {
            times: vec![BatchTime {
                batch: 1,
                on: vec![StageTime {
                    budget: times.stages[exit],
                    max_seen: times.stages[exit].saturating_mul(2),
                }],
            }],
            accuracy: accuracy(exit),
            deeper: (exit + 1..times.stages.len()).map(accuracy).collect(),
            follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
            answers: true,
            runs_as: None,
        })
        .collect();
    let task = |model: u16| TaskConfig {
        model: ModelId(model),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(Nanos::from_millis(options.deadline_ms)),
        period: Nanos::from_millis(1_000),
        jitter: Nanos::ZERO,
        prepare: Nanos::from_micros(20),
        mandatory_exit: StageId(0),
        threshold: Confidence::from_probability(0.9),
        threshold_min: Confidence(0),
        batch_max: 1,
        queue_max: 16,
        reserved: false,
        answers: Answers::Early,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    };
    Config {
        tasks: (0..options.models).map(task).collect(),
        models: pages_of
            .map(|pages| ModelConfig {
                stages: stages.clone(),
                weights: Some(Weights {
                    pages,
                    load: times.load,
                }),
                places: Vec::new(),
            })
            .collect(),
        partitions: vec![PartitionConfig {
            units: Units { first: 0, count: 1 },
            preemption_bound: Nanos::from_micros(500),
            share_max: 1000,
        }],
        request_buffers: REQUEST_BUFFERS,
        pages,
        dispatch_cost: Nanos::from_micros(50),
        egress_bound: Nanos::from_micros(50),
    }
}

/// Poisson arrivals; a model's popularity falls with its rank, which is its number.
fn arrivals(options: &Options) -> Vec<Planned> {
    let mut random = Random::new(options.seed).stream("arrivals", 0);
    let weights = (0..options.models).map(|rank| (f64::from(rank) + 1.0).powf(-options.skew));
    let mut sums = Vec::with_capacity(usize::from(options.models));
    let mut sum = 0.0;
    for weight in weights {
        sum += weight;
        sums.push(sum);
    }
    let end = f64::from(options.seconds);
    let mut at = 0.0;
    let mut planned = Vec::new();
    loop {
        at += random.exponential(1.0 / options.rate);
        if at >= end {
            return planned;
        }
        let point = random.unit() * sum;
        let model = sums.partition_point(|&s| s < point).min(sums.len() - 1);
        planned.push(Planned {
            after: Nanos::new((at * 1e9) as u64),
            task: TaskId(model as u16),
        });
    }
}

impl Report {
    fn new(options: &Options, pages: [u32; 2], start_ms: f64, tally: &Tally) -> Self {
        let us = |histogram: &hdrhistogram::Histogram<u64>| {
            let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
            [at(0.5), at(0.99), histogram.max() as f64 / 1e3]
        };
        let asked = (tally.hits + tally.misses).max(1);
        Self {
            models: options.models,
            pages,
            policy: options.policy.clone(),
            rate_hz: options.rate,
            submitted: tally.submitted,
            on_time: tally.on_time,
            late: tally.late,
            rejected: tally.rejected,
            failed: tally.failed,
            lost: tally.lost(),
            hit_percent: tally.hits as f64 * 100.0 / asked as f64,
            loads: tally.loads.len(),
            evictions: tally.evictions,
            load_us: us(&tally.loads),
            latency_us: us(&tally.latency),
            start_ms,
        }
    }

    fn text(&self) -> String {
        let [all, cache] = self.pages;
        let [load, load_p99, load_max] = self.load_us;
        let [latency, latency_p99, latency_max] = self.latency_us;
        format!(
            "{} networks of {all} pages in all, a cache of {cache}, {:.0} requests/s, {}\n\
             submitted {}: on time {}, late {}, rejected {}, failed {}, lost {}\n\
             hits {:.1}%, {} loads, {} evictions\n\
             a load:    p50 {load:.0} us, p99 {load_p99:.0} us, longest {load_max:.0} us\n\
             an answer: p50 {latency:.0} us, p99 {latency_p99:.0} us, longest {latency_max:.0} us\n\
             start of the device: {:.0} ms\n",
            self.models,
            self.rate_hz,
            self.policy,
            self.submitted,
            self.on_time,
            self.late,
            self.rejected,
            self.failed,
            self.lost,
            self.hit_percent,
            self.loads,
            self.evictions,
            self.start_ms,
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_few_networks_in_a_third_of_their_pages_lose_nothing() {
        let arguments = "x --models 12 --cache-percent 33 --rate 60 --seconds 2 --deadline-ms 900";
        let options = Command::parse_from(arguments.split(' ')).options;
        let folder = std::env::temp_dir().join(format!("paging-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let report = measure(&options, &folder).expect("measured");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!((report.lost, report.failed), (0, 0), "{report:?}");
        assert!(report.submitted > 60 && report.on_time > 0, "{report:?}");
        assert!(report.loads > 0 && report.evictions > 0, "{report:?}");
    }
}
