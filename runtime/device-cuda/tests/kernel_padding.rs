//! Best-effort launches on the TPCs that real-time ones leave, on the emulated driver, whose
//! records say where each launch could run.
//!
//! Partition 0 is a real-time one on half of the device; partition 1 fills. Batches of one are measured as the
//! test says, batches of two take no time: so the two are told apart.

mod subject;

use std::sync::Arc;

use emulated_cuda::{After, Config, Emulator, LaunchRecord};
use punctual_conformance::networks;
use punctual_core::{Answer, Criticality, Event, Infer, Nanos, PartitionId};
use punctual_device::{DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_cuda::driver::Context;
use punctual_device_cuda::kernel_padding::{
    KernelPaddingError, KernelPaddingSpec, LaunchTime, LaunchTimes,
};
use punctual_device_cuda::launch_times::{Subject, launch_times};
use punctual_device_cuda::lower::{Program, Target};
use punctual_device_cuda::partition::Mechanism;
use punctual_device_cuda::queue::QueueSpec;
use punctual_device_cuda::{Counts, CudaSpec, Division, StartError};
use punctual_model::Network;
use subject::{BATCHES, Cuda, begin, cuda, gpu, offer, partitions};

const TPCS: u16 = 8;
const REAL_TIME: u16 = 4;

fn division(test: &str, mechanism: Mechanism) -> Division {
    let offer = offer(test, &Config::default(), mechanism);
    Division::Tpcs {
        partitioner: Arc::new(offer.partitioner(gpu()).expect("it works here")),
        ranges: vec![0..REAL_TIME, 0..TPCS],
    }
}

fn program(network: &Network, batches: &[u8], tpcs: u16) -> Program {
    let target = Target {
        // A TPC has two.
        multiprocessors: 2 * u32::from(tpcs),
        compute_capability: (8, 7),
        page_bytes: subject::PAGE_BYTES,
    };
    Program::lower(network, batches, &target, &[]).expect("lowers")
}

/// Every launch of a batch of one takes `single`, of two a nanosecond, on two TPCs and on more.
fn times(network: &Network, single: Nanos) -> LaunchTimes {
    let program = program(network, &BATCHES, REAL_TIME);
    let mut times = LaunchTimes::on(u32::from(REAL_TIME));
    for (batch, time) in [(1, single), (2, Nanos::new(1))] {
        let launches = program.list(0, batch).expect("prepared").steps.len();
        // Lists differ by a few launches from one size of partition to the other.
        let launch = LaunchTime { time, enough: 2 };
        times.set(0, 0, batch, vec![launch; 2 * launches]);
    }
    times
}

/// A device with one that fills, and what both of its partitions answer when alone.
struct Filled {
    cuda: Cuda,
    real_time: Vec<Answer>,
    filler: Vec<Answer>,
    streams: [u64; 2],
}

impl Filled {
    fn new(test: &str, single: Option<Nanos>) -> Self {
        Self::by(Mechanism::StreamMask, test, single)
    }

    fn by(mechanism: Mechanism, test: &str, single: Option<Nanos>) -> Self {
        let network = networks::gathers(15);
        let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
        let spec = CudaSpec {
            division: division(test, mechanism),
            kernel_padding: KernelPaddingSpec {
                fillers: vec![1],
                times: single.map_or_else(LaunchTimes::default, |time| times(&network, time)),
            },
            queue: QueueSpec {
                bound: 1,
                ..QueueSpec::default()
            },
            ..cuda()
        };
        let mut cuda = Cuda::of_network(emulator, &network, &spec, 2);
        let first = cuda.launched();
        let real_time = cuda.answers(0, &[0]);
        let second = cuda.launched();
        let infer = fill(&mut cuda);
        cuda.device_submit(&infer);
        let filler = finished(&mut cuda);
        let stream = |launch| cuda.emulator.launches_from(launch)[0].stream;
        let streams = [stream(first), stream(second)];
        Self {
            cuda,
            real_time,
            filler,
            streams,
        }
    }

    fn counts(&self) -> Counts {
        self.cuda.device.counters().read()
    }

    /// Launches of a partition from `first` on.
    fn launches(&self, partition: usize, first: u64) -> Vec<LaunchRecord> {
        let mut launches = self.cuda.emulator.launches_from(first);
        launches.retain(|launch| launch.stream == self.streams[partition]);
        launches
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..20_000_000 {
            if done(self) {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{what}: {:?}", self.counts());
    }
}

trait Submits {
    fn device_submit(&mut self, infer: &Infer);
}

impl Submits for Cuda {
    fn device_submit(&mut self, infer: &Infer) {
        use punctual_device::Device;
        self.submit(infer).expect("room");
    }
}

/// A best-effort batch of two on the partition that fills.
fn fill(cuda: &mut Cuda) -> Infer {
    let mut infer = cuda.action(0, &[2, 3]);
    infer.partition = PartitionId(1);
    infer.criticality = Criticality::BestEffort;
    infer
}

fn finished(cuda: &mut Cuda) -> Vec<Answer> {
    match cuda.event() {
        Event::Finished(finished) => finished.members.to_vec(),
        other => panic!("{other:?}; {}", cuda.emulator.complaint()),
    }
}

const LONG: Nanos = Nanos::from_millis(1_000_000);

#[test]
fn alone_a_filler_may_have_all_tpcs_and_a_real_time_launch_its_own() {
    let filled = Filled::new("alone", Some(LONG));
    let real_time = filled.launches(0, 0);
    let own = 2 * u32::from(REAL_TIME);
    assert!(
        real_time
            .iter()
            .all(|launch| launch.sms.iter().all(|&sm| sm < own))
    );
    assert!(
        real_time
            .iter()
            .any(|launch| launch.sms.len() < own as usize),
        "a launch is confined to what it needs to be as fast"
    );
    let fillers = filled.launches(1, 0);
    assert_eq!(
        fillers[0].sms[0], 0,
        "the real-time partition's TPCs are free"
    );
    assert_eq!(filled.counts().filled, fillers.len() as u64);
    assert_eq!(filled.counts().fillers_called_off, 0);
}

#[test]
fn a_filler_runs_beside_a_real_time_launch_on_other_tpcs() {
    runs_beside(Mechanism::StreamMask, "beside");
}

#[test]
fn a_filler_runs_beside_a_real_time_launch_by_masks_of_launches() {
    runs_beside(Mechanism::LaunchMask, "beside-launch-masks");
}

fn runs_beside(mechanism: Mechanism, test: &str) {
    let mut filled = Filled::by(mechanism, test, Some(LONG));
    let first = filled.cuda.launched();
    filled.cuda.emulator.hold(filled.streams[0], After::Now);
    let urgent = filled.cuda.action(0, &[0]);
    filled.cuda.device_submit(&urgent);
    filled.cuda.until_launched(1);
    let infer = fill(&mut filled.cuda);
    filled.cuda.device_submit(&infer);
    filled.until("a launch that fills", |filled| {
        !filled.launches(1, first).is_empty()
    });

    let held = filled.launches(0, first);
    assert_eq!(held.len(), 1, "the queue's bound");
    let fillers = filled.launches(1, first);
    for filler in &fillers {
        assert!(
            filler.sms.iter().all(|sm| !held[0].sms.contains(sm)),
            "{filler:?} beside {held:?}"
        );
    }
    filled.cuda.emulator.go_on(filled.streams[0]);
    let answers = [finished(&mut filled.cuda), finished(&mut filled.cuda)];
    assert!(answers.contains(&filled.real_time) && answers.contains(&filled.filler));
}

#[test]
fn a_filler_that_would_outlast_the_real_time_launch_waits_for_it() {
    waits("outlasts", Some(Nanos::new(1)));
}

#[test]
fn nothing_runs_beside_what_nobody_measured() {
    waits("not-measured", None);
}

fn waits(test: &str, single: Option<Nanos>) {
    let mut filled = Filled::new(test, single);
    let (first, before) = (filled.cuda.launched(), filled.counts());
    filled.cuda.emulator.hold(filled.streams[0], After::Now);
    let urgent = filled.cuda.action(0, &[0]);
    filled.cuda.device_submit(&urgent);
    filled.cuda.until_launched(1);
    let infer = fill(&mut filled.cuda);
    filled.cuda.device_submit(&infer);
    filled.until("a filler that waits", |filled| {
        filled.counts().fillers_waited > before.fillers_waited
    });
    assert_eq!(filled.launches(1, first), []);
    filled.cuda.emulator.go_on(filled.streams[0]);
    let answers = [finished(&mut filled.cuda), finished(&mut filled.cuda)];
    assert!(answers.contains(&filled.real_time) && answers.contains(&filled.filler));
}

#[test]
fn a_filler_in_the_way_is_called_off_and_goes_on_afterwards() {
    let mut filled = Filled::new("called-off", Some(LONG));
    let (first, before) = (filled.cuda.launched(), filled.counts());
    filled.cuda.emulator.hold(filled.streams[1], After::Now);
    let infer = fill(&mut filled.cuda);
    filled.cuda.device_submit(&infer);
    filled.cuda.until_launched(1);
    assert_eq!(filled.launches(1, first)[0].sms[0], 0);

    // The real-time action does not wait for the filler, which stands still.
    assert_eq!(filled.cuda.answers(0, &[0]), filled.real_time);
    let counts = filled.counts();
    assert_eq!(counts.fillers_called_off, before.fillers_called_off + 1);
    filled.cuda.emulator.go_on(filled.streams[1]);
    assert_eq!(finished(&mut filled.cuda), filled.filler);
    assert!(filled.counts().evictions > before.evictions);
}

#[test]
fn every_launch_of_every_list_is_measured_on_the_tpcs_that_are_named() {
    let network = networks::residual(15);
    let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let offer = offer("measured", &Config::default(), Mechanism::StreamMask);
    let partitioner = offer.partitioner(gpu()).expect("it works here");
    let context = Context::retain(gpu()).expect("a context");
    let batches = [1, 2];
    let subject = |model, tpcs| Subject {
        model,
        spec: ModelSpec::resident(&network, &batches),
        tpcs,
    };
    // For a partition of half of the device, and for one that fills.
    let subjects = [subject(0, 0..REAL_TIME), subject(1, 0..TPCS)];
    let (on, page_bytes) = (2..2 + REAL_TIME, subject::PAGE_BYTES);
    let times = launch_times(&context, &partitioner, on, &subjects, page_bytes, 2);
    let times = times.expect("measured");

    for (model, tpcs) in [(0, REAL_TIME), (1, TPCS)] {
        let program = program(&network, &batches, tpcs);
        for (stage, of_stage) in program.stages.iter().enumerate() {
            for list in &of_stage.lists {
                let found = times.times(model, stage, list.batch).expect("measured");
                assert_eq!(found.len(), list.steps.len());
                let right = |launch: &LaunchTime| {
                    launch.time > Nanos::ZERO && (1..=u32::from(REAL_TIME)).contains(&launch.enough)
                };
                assert!(found.iter().all(right), "{found:?}");
            }
        }
    }
    assert_eq!(times.times(0, network.stages.len(), 1), None);
    let launches = emulator.launches_from(0);
    // That of the offer's trial ran everywhere.
    let measured = launches.iter().filter(|launch| launch.kernel == "answers");
    let sms: Vec<_> = measured.flat_map(|launch| &launch.sms).collect();
    assert!(
        !sms.is_empty() && sms.iter().all(|&&sm| (4..12).contains(&sm)),
        "{sms:?}"
    );
}

#[test]
fn a_device_that_cannot_change_masks_does_not_fill() {
    let network = networks::gathers(15);
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &BATCHES)],
        partitions: &partitions(2),
        request_buffers: 8,
        cache: None,
        start: Start::Whole,
    };
    let _emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let refused = |division, fillers| {
        let kernel_padding = KernelPaddingSpec {
            fillers,
            times: LaunchTimes::default(),
        };
        let cuda = CudaSpec {
            division,
            kernel_padding,
            ..cuda()
        };
        match begin(&spec, &cuda, Arc::default()) {
            Err(StartError::KernelPadding(error)) => error,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("started"),
        }
    };
    assert!(matches!(
        refused(Division::Whole, vec![1]),
        KernelPaddingError::NoMasks { partition: 1 }
    ));
    let groups = division("groups", Mechanism::GreenContexts);
    assert!(matches!(
        refused(groups, vec![1]),
        KernelPaddingError::NoMasks { .. }
    ));
    let unknown = KernelPaddingError::NoSuchPartition {
        partition: 5,
        partitions: 2,
    };
    let said = refused(Division::Whole, vec![5]).to_string();
    assert_eq!(said, unknown.to_string());
}

#[test]
fn a_filler_has_a_leader_of_its_own() {
    let network = networks::gathers(15);
    let mut partitions = partitions(2);
    for (partition, tpcs) in partitions.iter_mut().zip([0..REAL_TIME, 0..TPCS]) {
        *partition = PartitionSpec {
            tpcs,
            cores: vec![1],
            ..partition.clone()
        };
    }
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &BATCHES)],
        partitions: &partitions,
        request_buffers: 8,
        cache: None,
        start: Start::Whole,
    };
    let _emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let cuda = CudaSpec {
        division: division("own-leader", Mechanism::StreamMask),
        kernel_padding: KernelPaddingSpec {
            fillers: vec![1],
            times: LaunchTimes::default(),
        },
        ..cuda()
    };
    let error = begin(&spec, &cuda, Arc::default()).err();
    let error = error.expect("its leader is the real-time partition's");
    assert_eq!(
        error.to_string(),
        "partition `p1` fills and shares the leader on core 1 with `p0`: name another leader core for one of them"
    );
}
