//! PASK's experiment (DAC 2025, Figure 6) again, by the daemon's own start: how long until networks give their first answer. See
//! `docs/results/cold-start.md`.
//!
//! The device is started and carried on as `punctuald` has it. What its calls load is counted by the emulated driver, and costs
//! what [`COSTS`] say. Time begins with the process.

use std::cell::RefCell;
use std::collections::BTreeSet;

use emulated_cuda::{BegunLaunch, LaunchCost, LoadCosts, Loads, Pace};
use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, Nanos, PartitionId, Readiness,
    RequestId, StageId, Window,
};
use punctual_cuda_kernels::{KERNELS, Module};
use punctual_device::{Device, DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_cuda::{CudaSpec, Division, Watchdog};
use punctual_model::Network;
use punctual_report::Table;
use punctual_roofline::structures::Structure;
use punctual_simulator::device::TimedDevice;
use punctual_simulator::samples::{Answers, Samples};
use punctual_simulator::testbed;

use crate::Error;
use crate::costs::{LaunchCosts, PAGE_BYTES};
use crate::gpu::{Costs, Machine, StartCosts, VirtualGpu};

/// As an AGX Orin has. Only the proportions of launches depend on it: networks take the times below.
const SMS: u16 = 16;

/// As for DISB.
const PACE: Pace = Pace {
    launch_ns: 5_000,
    look_ns: 4_000,
    empty_ns: 2_000,
};

/// A network, and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    structure: Structure,
    /// An inference of one image on a V100 (Clockwork, Table 1).
    inference: Nanos,
    /// To lower it on the H200's host.
    pub lowering: Nanos,
}

/// MobileNetV2 is neither in Clockwork's table nor was it started on the H200: its times are those of
/// `mobile_pose_mobilenetv3`, and of ResNet-50.
pub const SUBJECTS: [Subject; 3] = [
    Subject {
        structure: Structure::MobileNetV2,
        inference: Nanos::from_micros(1_290),
        lowering: Nanos::from_millis(32),
    },
    Subject {
        structure: Structure::ResNet50,
        inference: Nanos::from_micros(2_610),
        lowering: Nanos::from_millis(32),
    },
    Subject {
        structure: Structure::ResNet152,
        inference: Nanos::from_micros(7_710),
        lowering: Nanos::from_millis(38),
    },
];

/// Which of them are started together, in this order.
const SETS: [&[usize]; 4] = [&[0], &[1], &[0, 1], &[2]];

/// What loading costs, as an H200 measured it (27 November 2026, `docs/results/hopper/bench.json.gz`, steps `memory` and
/// `cold-start`): the context, and a page from page-locked memory. A module: what was left of ResNet-50's reactive start behind
/// its weights, 3.4 ms less an inference of 0.4 ms, over four modules.
pub const MEASURED: LoadCosts = LoadCosts {
    context_ns: 540_000_000,
    module_ns: 750_000,
    module_byte_ns: 0.0,
    copied_byte_ns: 1.0 / 53.58,
};

/// The same with code as dear as that of libraries. PASK says in proportion only what it costs (Figure 1b): 65.8% of a cold start
/// where execution is 8.4%. For ResNet-50's 2.61 ms and our five modules that is 4.1 ms for each.
pub const LIBRARIES: LoadCosts = LoadCosts {
    module_ns: 4_100_000,
    ..MEASURED
};

/// To read floats and pack them as a byte of halves, on the H200's host: 204 ms for ResNet-50's 51 MB (603 ms for the 120 MB of
/// ResNet-152, which is a quarter more a byte).
const PACKED_BYTE_NS: f64 = 4.0;

/// In which order things are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The context, lowering, weights; then each launch first loads its missing code, as engines do by default.
    Reactive,
    /// The same with all code before the first launch: as the daemon started until November 2026.
    EverythingFirst,
    /// Everything first, and weights are packed while the driver makes the context: a whole start of the daemon.
    Whole,
    /// In turn; a stage waits for its own kernels (PASK's interleaved execution alone).
    InTurn,
    /// In turn, with kernels that are loaded in the place of others (PASK).
    Reuse,
}

impl Order {
    pub const ALL: [Self; 5] = [
        Self::Reactive,
        Self::EverythingFirst,
        Self::Whole,
        Self::InTurn,
        Self::Reuse,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Reactive => "reactive",
            Self::EverythingFirst => "everything first",
            Self::Whole => "everything first, weights beside the context",
            Self::InTurn => "in turn, without reuse",
            Self::Reuse => "in turn, with reuse",
        }
    }

    const fn is_in_turn(self) -> bool {
        matches!(self, Self::InTurn | Self::Reuse)
    }

    const fn start(self) -> Start<'static> {
        match self {
            Self::Reactive | Self::EverythingFirst | Self::Whole => Start::Whole,
            Self::InTurn | Self::Reuse => Start::in_turn(&[]),
        }
    }

    /// Whether the first stage may run, by the readiness of its model.
    const fn is_served(self, readiness: &Readiness) -> bool {
        readiness.stages > 0 && (readiness.as_measured || matches!(self, Self::Reuse))
    }
}

/// What launches take, and the code that they have to load first.
struct Reactive<'c> {
    launches: &'c LaunchCosts,
    order: Order,
    module_ns: u64,
    loaded: RefCell<BTreeSet<Module>>,
}

impl Costs for Reactive<'_> {
    fn cost(&self, infer: &Infer, launch: &BegunLaunch) -> LaunchCost {
        let mut cost = self.launches.cost(infer, launch);
        let kernel = KERNELS.get(launch.kernel as usize);
        let missing = |module| self.loaded.borrow_mut().insert(module);
        if self.order == Order::Reactive && kernel.is_some_and(|kernel| missing(kernel.module)) {
            cost.block_ns += self.module_ns / u64::from(launch.waves());
        }
        cost
    }
}

/// When each network of a set gives its first answer, and runs as it was measured, from the start of the process on.
pub struct Started {
    pub first: Vec<Nanos>,
    pub measured: Vec<Nanos>,
}

/// What is started, and what that costs.
pub struct Case<'c> {
    pub networks: &'c [Network],
    pub launches: &'c LaunchCosts,
    pub lowering: Nanos,
    pub loads: LoadCosts,
}

/// How long a start takes until the device is there, and what was packed on the host by then.
struct Up {
    ns: u64,
    packed_bytes: u64,
}

impl Case<'_> {
    /// Of a start that has loaded this by then.
    fn up(&self, order: Order, loaded: Loads) -> Up {
        let (context, lowering) = (self.loads.context_ns, self.lowering.as_nanos());
        let loading = self.loads.of(Loads {
            contexts: 0,
            ..loaded
        });
        let packed_bytes = loaded.copied_bytes;
        let packing = (packed_bytes as f64 * PACKED_BYTE_NS) as u64;
        // The general module comes with the device.
        let later = (loaded.modules - 1) * self.loads.module_ns;
        let ns = match order {
            Order::Reactive => context + lowering + packing + loading - later,
            Order::EverythingFirst => context + lowering + packing + loading,
            Order::Whole => context.max(lowering + packing) + loading,
            Order::InTurn | Order::Reuse => {
                let packed_bytes = context.saturating_sub(lowering) as f64 / PACKED_BYTE_NS;
                return Up {
                    ns: context.max(lowering) + loading,
                    packed_bytes: packed_bytes as u64,
                };
            }
        };
        Up { ns, packed_bytes }
    }
}

fn action(model: usize) -> Infer {
    let member = RequestId {
        buffer: model as u16,
        generation: 1,
    };
    Infer {
        id: ActionId(model as u64),
        partition: PartitionId(0),
        model: ModelId(model as u16),
        stage: StageId(0),
        batch: 1,
        members: [member].into_iter().collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::RealTime,
    }
}

/// Starts networks together, each of which then gets one frame.
pub fn start(case: &Case<'_>, order: Order) -> Result<Started, Error> {
    let machine = Machine::start(u32::from(SMS), 1)?;
    let models = case.networks.iter();
    let models = models.map(|network| ModelSpec::resident(network, &[1]));
    let models: Vec<ModelSpec<'_>> = models.collect();
    let partitions = [PartitionSpec {
        tpcs: 0..SMS,
        ..PartitionSpec::on_cores("all", vec![0], None)
    }];
    let spec = DeviceSpec {
        models: &models,
        partitions: &partitions,
        request_buffers: models.len() as u16,
        cache: None,
        start: order.start(),
    };
    let cuda = CudaSpec {
        division: Division::Tpcs {
            partitioner: machine.partitioner.clone(),
            ranges: partitions.iter().map(|each| each.tpcs.clone()).collect(),
        },
        page_bytes: PAGE_BYTES,
        watchdog: Watchdog {
            unknown_ns: u64::MAX / 4,
            ..Watchdog::default()
        },
        ..CudaSpec::default()
    };
    let costs = Reactive {
        launches: case.launches,
        order,
        module_ns: case.loads.module_ns,
        loaded: RefCell::new(BTreeSet::from([Module::General])),
    };
    // What is answered does not matter: any pictures will do.
    let mut scenario = testbed::scenario();
    scenario.models = vec![scenario.models[0].clone(); models.len()];
    let answers = Answers::new(Samples::new(&scenario), spec.request_buffers);
    let before = machine.loads();
    let mut gpu = VirtualGpu::start(machine, &spec, &cuda, PACE, costs, answers)?;
    let up = case.up(order, gpu.loads() - before);
    if order.is_in_turn() {
        gpu.load_in_turn(StartCosts {
            loads: case.loads,
            packed_byte_ns: PACKED_BYTE_NS,
            packed_before: up.packed_bytes,
        });
    }
    Ok(follow(&mut gpu, case.networks, order, Nanos::new(up.ns)))
}

/// Gives each network its frame once it is served, until all have answered and run as they were measured.
fn follow(
    gpu: &mut VirtualGpu<Reactive<'_>>,
    networks: &[Network],
    order: Order,
    up: Nanos,
) -> Started {
    let mut waiting: Vec<usize> = Vec::new();
    let mut asked = BTreeSet::new();
    let mut first = vec![None; networks.len()];
    let mut measured = vec![None; networks.len()];
    if !order.is_in_turn() {
        waiting.extend(0..networks.len());
    }
    while first.iter().chain(&measured).any(Option::is_none) {
        // Two at a time are as many as a partition takes.
        waiting.retain(|&model| gpu.submit(&action(model)).is_err());
        let at = gpu.next_event().expect("something is loaded or runs");
        gpu.advance_to(at);
        let now = up + at.since(Instant::ZERO);
        while let Some(event) = gpu.poll() {
            match event {
                Event::Readiness(of) => {
                    let model = of.model.index();
                    if order.is_served(&of) && asked.insert(model) {
                        waiting.push(model);
                    }
                    let all = usize::from(of.stages) == networks[model].stages.len();
                    if all && of.as_measured {
                        measured[model].get_or_insert(now);
                    }
                }
                Event::Finished(finished) => {
                    let model = finished.action.0 as usize;
                    first[model] = Some(now);
                    if !order.is_in_turn() {
                        measured[model] = first[model];
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    Started {
        first: first.into_iter().flatten().collect(),
        measured: measured.into_iter().flatten().collect(),
    }
}

/// Networks, and what their launches take.
pub fn prepare(subjects: &[Subject]) -> Result<(Vec<Network>, LaunchCosts), Error> {
    let mut launches = LaunchCosts::new(u32::from(SMS));
    let mut networks = Vec::new();
    for (model, subject) in subjects.iter().enumerate() {
        let network = subject.structure.network(224, 1);
        launches.add(model, &network, subject.inference)?;
        networks.push(network);
    }
    Ok((networks, launches))
}

/// `progress` is told of each row.
pub fn table(mut progress: impl FnMut(&str, &str)) -> Result<String, Error> {
    let headings = [
        "networks",
        "code",
        "order",
        "first answer of each, ms",
        "without the context",
        "reactive over it",
        "as measured, ms",
    ];
    let mut table = Table::new(&headings, 3);
    for set in SETS {
        let subjects: Vec<Subject> = set.iter().map(|&at| SUBJECTS[at]).collect();
        let (networks, launches) = prepare(&subjects)?;
        let names: Vec<&str> = subjects
            .iter()
            .map(|subject| subject.structure.name())
            .collect();
        for (code, loads) in [("ours", MEASURED), ("as libraries'", LIBRARIES)] {
            let case = Case {
                networks: &networks,
                launches: &launches,
                lowering: subjects
                    .iter()
                    .fold(Nanos::ZERO, |sum, each| sum + each.lowering),
                loads,
            };
            let mut reactive: Option<Started> = None;
            for order in Order::ALL {
                let started = start(&case, order)?;
                let [first, after, ratio, measured] = cells(
                    &started,
                    reactive.as_ref().unwrap_or(&started),
                    loads.context_ns,
                );
                let what = [names.join(", "), code.to_owned(), order.name().to_owned()];
                progress(&what[1..].join(", "), &[&first[..], &measured].join("; "));
                table.row(what.into_iter().chain([first, after, ratio, measured]));
                reactive.get_or_insert(started);
            }
        }
    }
    Ok(table.markdown())
}

/// The figures of each network of a set.
fn cells(started: &Started, reactive: &Started, context_ns: u64) -> [String; 4] {
    let ms = |of: Nanos| of.as_nanos() as f64 / 1e6;
    let after = |of: Nanos| ms(of) - context_ns as f64 / 1e6;
    let each = |texts: Vec<String>| texts.join(", ");
    let first = || started.first.iter();
    let ratios = reactive.first.iter().zip(first());
    [
        each(first().map(|of| format!("{:.1}", ms(*of))).collect()),
        each(first().map(|of| format!("{:.1}", after(*of))).collect()),
        each(
            ratios
                .map(|(before, now)| format!("{:.2}x", ms(*before) / ms(*now)))
                .collect(),
        ),
        each(
            started
                .measured
                .iter()
                .map(|of| format!("{:.1}", ms(*of)))
                .collect(),
        ),
    ]
}
