//! The device in virtual time: that its stages take the time of their launches where their masks leave them.

use emulated_cuda::{BegunLaunch, LaunchCost, Pace};
use punctual_conformance::networks;
use punctual_core::{
    ActionId, Criticality, Event, Finished, Infer, Instant, ModelId, Nanos, PartitionId,
    PunctualConfig, RequestId, StageId, StageTime, Window,
};
use punctual_device::{Device, DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_cuda::{CudaSpec, Division};
use punctual_model::Network;
use punctual_recording::replay::replay;
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::device::TimedDevice;
use punctual_simulator::recording::{Recording, setting};
use punctual_simulator::run::{Settings, run_on};
use punctual_simulator::samples::{Answers, Samples};
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage, Task};
use punctual_simulator::testbed;
use punctual_types::Random;

use crate::cold_start::{self, Case, LIBRARIES, Order, SUBJECTS};
use crate::costs::PAGE_BYTES;
use crate::gpu::{Costs, Machine, VirtualGpu};

const PACE: Pace = Pace {
    launch_ns: 5_000,
    look_ns: 4_000,
    empty_ns: 2_000,
};

/// A launch takes a millisecond of all TPCs, however many it has.
struct Work;

const WORK_NS: u64 = 4_000_000;

impl Costs for Work {
    fn cost(&self, _: &Infer, launch: &BegunLaunch) -> LaunchCost {
        LaunchCost::alone(WORK_NS / u64::from(launch.sms) / u64::from(launch.waves()))
    }
}

const TPCS: u16 = 4;

/// A GPU of four TPCs of one multiprocessor, and a partition for each range.
fn gpu(network: &Network, ranges: &[std::ops::Range<u16>]) -> VirtualGpu<Work> {
    gpu_that_answers(network, ranges, &testbed::scenario(), BUFFERS)
}

const BUFFERS: u16 = 8;

/// The same; its answers are those of the scenario's pictures.
fn gpu_that_answers(
    network: &Network,
    ranges: &[std::ops::Range<u16>],
    scenario: &Scenario,
    request_buffers: u16,
) -> VirtualGpu<Work> {
    let machine = Machine::start(u32::from(TPCS), 1).expect("the emulated driver beside this test");
    let partition = |(at, range): (usize, &std::ops::Range<u16>)| PartitionSpec {
        tpcs: range.clone(),
        ..PartitionSpec::on_cores(format!("p{at}"), vec![0], None)
    };
    let partitions: Vec<PartitionSpec> = ranges.iter().enumerate().map(partition).collect();
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(network, &[1])],
        partitions: &partitions,
        request_buffers,
        cache: None,
        start: Start::Whole,
    };
    let cuda = CudaSpec {
        division: Division::Tpcs {
            partitioner: machine.partitioner.clone(),
            ranges: ranges.to_vec(),
        },
        page_bytes: PAGE_BYTES,
        ..CudaSpec::default()
    };
    let answers = Answers::new(Samples::new(scenario), request_buffers);
    VirtualGpu::start(machine, &spec, &cuda, PACE, Work, answers).expect("starts")
}

fn infer(id: u64, partition: u16, criticality: Criticality) -> Infer {
    let member = RequestId {
        buffer: id as u16,
        generation: 1,
    };
    Infer {
        id: ActionId(id),
        partition: PartitionId(partition),
        model: ModelId(0),
        stage: StageId(0),
        batch: 1,
        members: [member].into_iter().collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality,
    }
}

/// Lets time pass until the next event, which comes at an instant that the device said.
fn next(gpu: &mut VirtualGpu<Work>) -> (Instant, Event) {
    loop {
        let at = gpu.next_event().expect("something runs");
        gpu.advance_to(at);
        if let Some(event) = gpu.poll() {
            return (at, event);
        }
    }
}

fn finished(gpu: &mut VirtualGpu<Work>) -> (Instant, Finished) {
    match next(gpu) {
        (at, Event::Finished(finished)) => (at, finished),
        (_, other) => panic!("{other:?}"),
    }
}

#[test]
fn a_stage_takes_as_long_as_its_launches_on_the_tpcs_that_it_has() {
    let network = networks::gathers(5);
    let mut gpu = gpu(&network, &[0..TPCS, 0..2]);
    let mut measured = Vec::new();
    for partition in [0, 1] {
        let infer = infer(partition, partition as u16, Criticality::RealTime);
        gpu.submit(&infer).expect("room");
        measured.push(finished(&mut gpu).1.measured.as_nanos());
    }
    let launches = (measured[0] - PACE.launch_ns) / (WORK_NS / 4);
    assert!(launches > 1, "{measured:?}");
    // Only the first launch waits for the host; divisions may lose a few nanoseconds.
    let expected = |sms: u64| PACE.launch_ns + launches * (WORK_NS / sms);
    for (measured, sms) in measured.into_iter().zip([4, 2]) {
        let expected = expected(sms);
        assert!(
            measured.abs_diff(expected) < 1_000,
            "{measured}, not {expected}"
        );
    }
}

#[test]
fn stages_that_share_no_tpc_run_at_once_and_others_one_after_the_other() {
    let network = networks::gathers(5);
    let mut gpu = gpu(&network, &[0..2, 2..4, 1..3]);
    for partition in 0..3 {
        let infer = infer(partition, partition as u16, Criticality::RealTime);
        gpu.submit(&infer).expect("room");
    }
    let ends: Vec<(Instant, u64)> = (0..3)
        .map(|_| finished(&mut gpu))
        .map(|(at, finished)| (at, finished.action.0))
        .collect();
    assert_eq!(ends[0].0, ends[1].0, "{ends:?}");
    assert_eq!(ends[2].1, 2, "{ends:?}");
    assert!(
        ends[2].0.as_nanos() > 2 * ends[0].0.as_nanos() - 20_000,
        "{ends:?}"
    );
}

#[test]
fn best_effort_work_makes_room_within_a_look_and_goes_on_where_it_was() {
    let network = networks::gathers(5);
    let mut gpu = gpu(&network, std::slice::from_ref(&(0..TPCS)));
    gpu.submit(&infer(0, 0, Criticality::BestEffort))
        .expect("room");
    let (_, alone) = finished(&mut gpu);
    let begun = gpu.next_event();
    assert_eq!(begun, None, "it is idle");

    gpu.submit(&infer(1, 0, Criticality::BestEffort))
        .expect("room");
    let start = alone.started + alone.measured;
    let half = start + punctual_core::Nanos::new(alone.measured.as_nanos() / 2);
    while gpu.next_event().is_some_and(|at| at < half) {
        let at = gpu.next_event().expect("looked at");
        gpu.advance_to(at);
    }
    gpu.advance_to(half);
    gpu.submit(&infer(2, 0, Criticality::RealTime))
        .expect("room");
    gpu.preempt(PartitionId(0), ActionId(1));
    let (at, event) = next(&mut gpu);
    assert_eq!(
        event,
        Event::Preempted {
            action: ActionId(1)
        }
    );
    let took = at.since(half).as_nanos();
    // The look, the launches that wait in the driver, and the word of which was evicted first.
    assert!(
        took <= PACE.look_ns + 6 * (PACE.empty_ns + PACE.launch_ns),
        "{took} ns"
    );

    let (_, urgent) = finished(&mut gpu);
    assert_eq!(urgent.action, ActionId(2));
    gpu.submit(&infer(1, 0, Criticality::BestEffort))
        .expect("room");
    let (_, resumed) = finished(&mut gpu);
    assert!(
        resumed.measured.as_nanos() < alone.measured.as_nanos() * 3 / 4,
        "{resumed:?} of {alone:?}"
    );
    assert_eq!(gpu.counts().resumed, 1);
}

#[test]
fn a_workload_that_is_not_there_is_refused_with_those_that_are() {
    let error = crate::run(&["seeb".to_owned(), "seeb-nothing".to_owned()]).expect_err("none");
    let said = error.to_string();
    assert!(
        said.contains("\"seeb-nothing\"") && said.contains("seeb-poisson"),
        "{said}"
    );
}

#[test]
fn a_start_in_turn_answers_sooner_than_everything_first_and_with_reuse_soonest() {
    let subjects = &SUBJECTS[..1];
    let (networks, launches) = cold_start::prepare(subjects).expect("it lowers");
    let case = Case {
        networks: &networks,
        launches: &launches,
        lowering: subjects[0].lowering,
        loads: LIBRARIES,
    };
    let after_context = |order| {
        let started = cold_start::start(&case, order).expect("starts");
        started.first[0].as_nanos() - LIBRARIES.context_ns
    };
    let [reactive, everything, whole, in_turn, reuse] = Order::ALL.map(after_context);
    assert!(reactive <= everything, "{reactive} {everything}");
    assert!(everything > whole && whole >= in_turn && in_turn > reuse);
    assert!(reactive > 5 * reuse, "{reactive} over {reuse}");
}

/// A real-time and a best-effort task on the whole GPU.
fn scenario(network: &Network) -> Scenario {
    let budget = Nanos::from_millis(20);
    let time = StageTime {
        budget,
        max_seen: budget,
    };
    let measured = Measured {
        batch: 1,
        units: TPCS,
        time,
    };
    let stage = |stage: &punctual_model::Stage| Stage {
        times: vec![measured],
        headless: stage.exit.is_none(),
        ..Stage::default()
    };
    let model = Model {
        name: network.name.clone(),
        source: "made up".to_owned(),
        stages: network.stages.iter().map(stage).collect(),
        calibration: punctual_model::Calibration::default(),
        weights: None,
    };
    let each = |rate_hz: f64| Pattern::Periodic {
        rate_hz,
        phase: Nanos::ZERO,
        jitter: Nanos::ZERO,
    };
    let deadline = Nanos::from_millis(200);
    let tasks = vec![
        Task::real_time("camera", ModelId(0), deadline, each(10.0)),
        Task::best_effort("spare", ModelId(0), each(60.0)),
    ];
    let board = Board {
        request_buffers: 32,
        ..Board::of(TPCS)
    };
    Scenario::new(vec![model], tasks, board, Nanos::from_millis(1_000))
}

#[test]
fn a_run_on_it_is_recorded_and_replayed_without_a_difference() {
    let network = networks::gathers(5);
    let scenario = scenario(&network);
    let policy = PunctualConfig::default();
    let config = scenario.config(&policy);
    let whole = 0..TPCS;
    let gpu = gpu_that_answers(&network, std::slice::from_ref(&whole), &scenario, 32);
    let setting = setting(&scenario, &config, serde_json::json!({ "punctual": {} }));
    let segment = Nanos::from_millis(100);
    let out = std::io::Cursor::new(Vec::new());
    let writer = punctual_recording::Writer::new(out, 0, &setting).expect("memory");
    let mut recording = Recording::begin(writer, segment).expect("memory");
    let settings = Settings {
        seed: 1,
        keep_requests: false,
    };
    let arrivals = scenario.arrivals(1.0, &Random::new(1)).expect("periodic");
    let ran = run_on(
        gpu,
        &scenario,
        &config,
        &policy,
        arrivals,
        settings,
        &mut recording,
    );
    let (outcome, _) = ran.expect("a plan");
    assert!(
        outcome.total.on_time >= 10 && outcome.effort.preempted > 0,
        "{:?}",
        outcome.effort
    );
    let file = recording.finish().expect("memory").into_inner();
    let read = punctual_recording::Recording::of(&file).expect("a recording");
    let done = replay(read.entries(), &config, &policy).expect("it decides the same");
    assert_eq!(done.steps, outcome.effort.steps);
}

/// Slow where it is not optimised: `cargo test --release -p punctual-virtual-gpu -- --ignored`.
mod tables {
    use punctual_core::Nanos;
    use punctual_evaluation::experiments::clockwork::isolation::{BESIDE, SLOS_US};

    use crate::{clockwork, disb, seeb};

    const SHORT: Option<Nanos> = Some(Nanos::from_millis(2_000));

    /// The cells of a table's rows.
    fn rows(table: &str) -> Vec<Vec<String>> {
        let rows = table.lines().skip(2).filter(|line| line.starts_with('|'));
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect();
        rows.map(cells).collect()
    }

    #[test]
    #[ignore = "networks of full size: minutes without optimisation"]
    fn filling_reaches_reefs_throughput_on_disb_a_and_costs_real_time_work_less_than_two_percent() {
        let table = disb::table(Some("disb-a"), SHORT, |_, _| {}).expect("runs");
        let rows = rows(&table);
        let number = |row: usize, column: usize| {
            let cell = rows[row][column].trim_matches(['+', '%', 'x']);
            cell.parse::<f64>().expect("a number")
        };
        let (overhead, throughput) = (4, 9);
        assert_eq!(rows[2][2], "filling");
        assert!(number(2, overhead) < 2.0, "{table}");
        assert!(number(2, throughput) >= 1.58, "{table}");
        assert!(number(1, throughput) < number(2, throughput), "{table}");
    }

    #[test]
    #[ignore = "861 partitions: minutes without optimisation"]
    fn seeb_divides_the_gpu_by_the_daemons_code_as_the_model_says() {
        let table = seeb::table(Some("seeb-poisson"), SHORT, |_, _| {}).expect("runs");
        for row in rows(&table) {
            let [missed, accuracy, latency] = [3, 5, 7];
            for column in [missed, accuracy] {
                assert_eq!(row[column], row[column + 1], "{table}");
            }
            let ms = |at: usize| row[at].parse::<f64>().expect("a number");
            assert!((ms(latency) - ms(latency + 1)).abs() <= 0.1, "{table}");
        }
    }

    /// Clockwork waits for a batch that it has begun; Punctual evicts it.
    #[test]
    #[ignore = "networks of full size: minutes without optimisation"]
    fn a_sensitive_client_beside_batches_is_answered_in_time_as_the_model_says_and_more_often_than_by_clockwork()
     {
        let network = clockwork::network();
        let [clockwork, punctual] = ["clockwork", "punctual"].map(|policy| {
            let case = clockwork::Case {
                network: &network,
                policy,
                beside: BESIDE[1],
                slo: Nanos::from_micros(SLOS_US[2]),
                length: Some(Nanos::from_millis(1_000)),
            };
            let (ours, model) = (case.by_the_daemon(), case.modelled());
            let (ours, model) = (ours.expect("a plan"), model.expect("a plan"));
            let apart = (ours.in_time - model.in_time).abs();
            assert!(apart < 0.03, "{policy}: {ours:?}, not {model:?}");
            ours
        });
        assert!(
            punctual.in_time > 0.95 && punctual.in_time > clockwork.in_time + 0.2,
            "{punctual:?}, {clockwork:?}"
        );
        assert!(
            clockwork.batch_hz > punctual.batch_hz && punctual.batch_hz > 0.0,
            "{punctual:?}, {clockwork:?}"
        );
    }
}
