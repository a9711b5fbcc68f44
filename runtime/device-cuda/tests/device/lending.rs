//! Places: partitions that share TPCs, and leaders that serve several of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use emulated_cuda::{After, Config, Emulator};
use punctual_conformance::{SCORE_TOLERANCE_OF_HALVES, Testable, confidence_tolerance, networks};
use punctual_core::{Answer, Criticality, Event, Infer, Nanos, PartitionId};
use punctual_device::{
    Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start, SubmitError,
};
use punctual_device_cuda::StartError;
use punctual_device_cuda::driver::Code;
use punctual_device_cuda::partition::{Mechanism, Partitioner, SmSet};
use punctual_model::Network;

use crate::places::{CELLS, HOMES, divided, partitioner, place, places};
use crate::subject::{ASSERT, BATCHES, Cuda, begin};

const MEMBERS: [u16; 3] = [4, 0, 2];

/// A device with places, and the streams of its partitions.
struct Places {
    cuda: Cuda,
    partitioner: Arc<Partitioner>,
    partitions: Vec<PartitionSpec>,
}

impl Places {
    fn new(test: &str, network: &Network, mechanism: Mechanism) -> Self {
        Self::of(test, network, mechanism, places())
    }

    fn of(
        test: &str,
        network: &Network,
        mechanism: Mechanism,
        partitions: Vec<PartitionSpec>,
    ) -> Self {
        let config = Config {
            spread: true,
            ..Config::default()
        };
        let emulator = Emulator::start(&config).expect("the emulated driver");
        let partitioner = partitioner(test, &config, mechanism);
        let spec = divided(&partitioner, &partitions);
        let cuda = Cuda::on_partitions(emulator, network, &spec, &partitions);
        Self {
            cuda,
            partitioner,
            partitions,
        }
    }

    fn masked(test: &str, network: &Network) -> Self {
        Self::new(test, network, Mechanism::StreamMask)
    }

    fn action(&mut self, partition: usize, stage: u8, buffers: &[u16]) -> Infer {
        let mut infer = self.cuda.action(stage, buffers);
        infer.partition = PartitionId(partition as u16);
        infer
    }

    fn finished(&mut self) -> (u64, Vec<Answer>) {
        match self.cuda.event() {
            Event::Finished(finished) => (finished.action.0, finished.members.to_vec()),
            other => panic!("{other:?}; {}", self.cuda.emulator.complaint()),
        }
    }

    fn answers(&mut self, partition: usize, stage: u8, buffers: &[u16]) -> Vec<Answer> {
        let infer = self.action(partition, stage, buffers);
        self.cuda.submit(&infer).expect("room");
        self.finished().1
    }

    fn granted(&self, partition: usize) -> SmSet {
        let tpcs = self.partitions[partition].tpcs.clone();
        self.partitioner.grant(tpcs).expect("whole units").sms
    }

    /// Where the launches since `first` could run, by stream.
    fn ran_on(&self, first: u64) -> BTreeMap<u64, SmSet> {
        let mut ran_on = BTreeMap::new();
        for launch in self.cuda.emulator.launches_from(first) {
            let sms = SmSet::of(launch.sms).expect("multiprocessors");
            let before = *ran_on.entry(launch.stream).or_insert(sms);
            assert_eq!(before, sms, "one partition at a time");
        }
        ran_on
    }
}

/// Alike, as far as partitions of another size may compute sums in another order.
fn assert_alike(found: &[Answer], expected: &[Answer], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let tolerance = confidence_tolerance(SCORE_TOLERANCE_OF_HALVES);
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.class, expected.class, "{what}");
        let [found, expected] = [found, expected].map(|each| each.confidence.as_probability());
        assert!(
            (found - expected).abs() <= tolerance,
            "{what}: {found} instead of {expected}"
        );
    }
}

#[test]
fn two_cells_run_at_once_each_only_on_its_own_multiprocessors() {
    for mechanism in [Mechanism::StreamMask, Mechanism::GreenContexts] {
        let network = networks::gathers(7);
        let mut places = Places::new(&format!("cells-{mechanism}"), &network, mechanism);
        let members = [[6, 1], [4, 3]];
        let expected = members.map(|members| places.answers(HOMES[0], 0, &members));
        let first = places.cuda.launched();
        let (left, right) = (CELLS[0], CELLS[3]);
        let actions = [(left, members[0]), (right, members[1])];
        let actions = actions.map(|(cell, members)| places.action(cell, 0, &members));
        places.cuda.emulator.hold_all(After::Now);
        for infer in &actions {
            places.cuda.submit(infer).expect("room");
        }
        places.cuda.until_launched_on(2, first);
        places.cuda.emulator.go_on_all();
        for _ in &actions {
            let (action, answers) = places.finished();
            let cell = usize::from(action == actions[1].id.0);
            assert_alike(&answers, &expected[cell], &format!("cell {cell}"));
        }
        let ran_on: Vec<SmSet> = places.ran_on(first).into_values().collect();
        let granted = [places.granted(left), places.granted(right)];
        assert!(
            ran_on == granted || ran_on == [granted[1], granted[0]],
            "{mechanism}: {ran_on:?} instead of {granted:?}"
        );
        assert!(granted[0].is_disjoint(granted[1]));
    }
}

#[test]
fn a_request_may_change_partition_between_stages() {
    let network = networks::tangle(12);
    let mut places = Places::masked("changes", &network);
    let stages = network.stages.len() as u8;
    let expected: Vec<_> = (0..stages)
        .map(|stage| places.answers(HOMES[0], stage, &MEMBERS))
        .collect();
    for way in [
        [CELLS[0], HOMES[0], CELLS[1]],
        [HOMES[0], CELLS[3], HOMES[1]],
        [CELLS[2], CELLS[0], HOMES[1]],
    ] {
        for (buffer, image) in MEMBERS.into_iter().zip(MEMBERS) {
            places.cuda.write(buffer, image.into());
        }
        for (stage, partition) in (0..stages).zip(way.into_iter().cycle()) {
            let first = places.cuda.launched();
            let answers = places.answers(partition, stage, &MEMBERS);
            let what = format!("stage {stage} of {way:?}");
            assert_alike(&answers, &expected[usize::from(stage)], &what);
            let ran_on: Vec<SmSet> = places.ran_on(first).into_values().collect();
            assert_eq!(ran_on, [places.granted(partition)], "{what}");
        }
    }
}

#[test]
fn a_device_has_as_many_leaders_as_cells() {
    let places = Places::masked("leaders", &networks::gathers(7));
    let shell = places.cuda.shell();
    assert_eq!(shell.tids().count(), CELLS.len());
    let pulses: Vec<i32> = shell.pulses().map(|pulse| pulse.tid()).collect();
    assert_eq!(pulses.len(), HOMES.len() + CELLS.len());
    assert_eq!(pulses[HOMES[0]], pulses[CELLS[0]]);
    assert_eq!(pulses[HOMES[1]], pulses[CELLS[2]]);
}

#[test]
fn a_best_effort_stage_on_a_home_makes_room_for_a_cell_of_the_same_leader() {
    let network = networks::gathers(5);
    let mut places = Places::masked("preempted", &network);
    let first = places.cuda.launched();
    let expected = places.answers(HOMES[0], 0, &MEMBERS);
    let stream = places.cuda.emulator.launches_from(first)[0].stream;
    places.cuda.emulator.hold(stream, After::Blocks(30));
    let mut infer = places.action(HOMES[0], 0, &MEMBERS);
    infer.criticality = Criticality::BestEffort;
    places.cuda.submit(&infer).expect("room");
    places.cuda.emulator.wait_until_held(stream);
    // A cell elsewhere has another leader, and goes on.
    let elsewhere = places.answers(CELLS[2], 0, &[1]);
    places.cuda.preempt(infer.partition, infer.id);
    places.cuda.until_evicted(stream, 1);
    places.cuda.emulator.go_on(stream);
    let event = places.cuda.event();
    assert_eq!(event, Event::Preempted { action: infer.id });

    let urgent = places.answers(CELLS[0], 0, &[1]);
    assert_eq!(urgent, elsewhere);
    let mut again = places.action(HOMES[0], 0, &MEMBERS);
    again.criticality = Criticality::BestEffort;
    places.cuda.submit(&again).expect("room");
    assert_eq!(places.finished().1, expected);
    // The stage on the cell had a workspace of its own.
    assert_eq!(places.cuda.device.counters().read().resumed, 1);
}

#[test]
fn an_action_that_waits_for_its_window_does_not_delay_others_of_its_leader() {
    let mut places = Places::masked("windows", &networks::gathers(7));
    let mut waiting = places.action(CELLS[0], 0, &[3]);
    waiting.criticality = Criticality::BestEffort;
    waiting.window.earliest = Testable::now(&places.cuda) + Nanos::from_millis(600_000);
    places.cuda.submit(&waiting).expect("room");
    assert_eq!(places.answers(HOMES[0], 0, &[6, 1]).len(), 2);
    places.cuda.preempt(waiting.partition, waiting.id);
    let event = places.cuda.event();
    assert_eq!(event, Event::Preempted { action: waiting.id });
}

#[test]
fn after_a_fault_on_a_cell_all_partitions_run_where_they_did() {
    let mut places = Places::masked("restarted", &networks::gathers(6));
    let expected = places.answers(HOMES[0], 0, &MEMBERS);
    places.cuda.emulator.fail_launch(3, ASSERT.0);
    let infer = places.action(CELLS[1], 0, &MEMBERS);
    places.cuda.submit(&infer).expect("room");
    assert_eq!(
        places.cuda.event(),
        Event::Failed { action: infer.id },
        "{}",
        places.cuda.emulator.complaint()
    );
    places.cuda.until_restarted(1);
    for partition in HOMES.into_iter().chain(CELLS) {
        let first = places.cuda.launched();
        let answers = places.answers(partition, 0, &MEMBERS);
        assert_alike(&answers, &expected, &format!("partition {partition}"));
        let ran_on: Vec<SmSet> = places.ran_on(first).into_values().collect();
        assert_eq!(ran_on, [places.granted(partition)], "{partition}");
    }
}

/// Why a device with these partitions does not start, if the driver refuses call `fails`.
fn refused(
    test: &str,
    mechanism: Mechanism,
    partitions: &[PartitionSpec],
    fails: Option<(&str, u64)>,
) -> StartError {
    let config = Config {
        // Groups of green contexts have two TPCs then.
        green_fine: false,
        ..Config::default()
    };
    let emulator = Emulator::start(&config).expect("the emulated driver");
    let partitioner = partitioner(test, &config, mechanism);
    if let Some((call, nth)) = fails {
        emulator.fail_call(call, nth, Code::NOT_SUPPORTED.0);
    }
    let network = networks::gathers(7);
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &BATCHES)],
        partitions,
        request_buffers: 4,
        cache: None,
        start: Start::Whole,
    };
    let started = begin(&spec, &divided(&partitioner, partitions), Arc::default());
    started.err().expect("it cannot start")
}

#[test]
fn partitions_that_share_a_leader_and_no_tpc_run_at_once() {
    let quarter = |at: u16| PartitionSpec {
        cores: vec![0],
        ..place(format!("quarter{at}"), 2 * at..2 * at + 2)
    };
    let (network, mechanism) = (networks::gathers(7), Mechanism::StreamMask);
    let quarters = (0..4).map(quarter).collect();
    let mut places = Places::of("one-leader", &network, mechanism, quarters);
    assert_eq!(places.cuda.shell().tids().count(), 1);
    let (mut streams, mut expected) = (Vec::new(), Vec::new());
    for at in 0..4 {
        let first = places.cuda.launched();
        expected.push(places.answers(at.into(), 0, &[at]));
        let ran_on = places.ran_on(first);
        let (stream, sms) = ran_on.first_key_value().expect("it was launched");
        assert_eq!((ran_on.len(), *sms), (1, places.granted(at.into())));
        streams.push(*stream);
    }
    // Each stands still in the middle of a launch until all have begun.
    for &stream in &streams {
        places.cuda.emulator.hold(stream, After::Blocks(1));
    }
    let actions: Vec<Infer> = (0..4)
        .map(|at| places.action(at.into(), 0, &[at]))
        .collect();
    for infer in &actions {
        places.cuda.submit(infer).expect("room");
    }
    for &stream in &streams {
        places.cuda.emulator.wait_until_held(stream);
    }
    // The last that began ends first: the leader carries on whichever can be.
    for at in (0..4).rev() {
        places.cuda.emulator.go_on(streams[at]);
        assert_eq!(places.finished(), (actions[at].id.0, expected[at].clone()));
    }
}

#[test]
fn partitions_that_begin_at_one_tpc_share_a_stream_which_changes_its_mask() {
    let mut places = Places::masked("one-stream", &networks::gathers(7));
    let first = places.cuda.launched();
    for partition in [CELLS[0], HOMES[0], CELLS[0], CELLS[1]] {
        let since = places.cuda.launched();
        places.answers(partition, 0, &MEMBERS);
        let ran_on: Vec<SmSet> = places.ran_on(since).into_values().collect();
        assert_eq!(ran_on, [places.granted(partition)]);
    }
    let launches = places.cuda.emulator.launches_from(first);
    let streams: BTreeSet<u64> = launches.iter().map(|launch| launch.stream).collect();
    assert_eq!(streams.len(), 2);
}

#[test]
fn green_contexts_refuse_a_cell_that_is_no_whole_group() {
    let partitions = [place("home", 0..4), place("cell", 0..1)];
    let error = refused(
        "no-whole-group",
        Mechanism::GreenContexts,
        &partitions,
        None,
    );
    assert_eq!(
        error.to_string(),
        "TPCs 0 to 0 of 8: green-contexts grants whole multiples of 2"
    );
}

#[test]
fn a_driver_that_refuses_green_contexts_with_common_groups_is_said_to() {
    let partitions = [place("home", 0..4), place("cell", 0..2)];
    let second = Some(("cuGreenCtxCreate", 1));
    let error = refused(
        "common-groups",
        Mechanism::GreenContexts,
        &partitions,
        second,
    );
    let said = error.to_string();
    assert!(
        said.contains("partition 1, which shares TPCs with partition 0")
            && said.contains("cuGreenCtxCreate"),
        "{said}"
    );
}

#[test]
fn a_cell_takes_batches_up_to_its_largest_and_has_memory_for_no_more() {
    let network = networks::gathers(7);
    let config = Config::default();
    let with = |test: &str, most: Option<u8>| {
        let emulator = Emulator::start(&config).expect("the emulated driver");
        let mut partitions = places();
        for cell in CELLS {
            partitions[cell].batch_max = most;
        }
        let partitioner = partitioner(test, &config, Mechanism::StreamMask);
        let spec = divided(&partitioner, &partitions);
        Cuda::on_partitions(emulator, &network, &spec, &partitions)
    };
    let unlimited = with("unlimited", None).emulator.memory().device.bytes;
    let mut cuda = with("limited", Some(1));
    assert!(cuda.emulator.memory().device.bytes < unlimited);
    let mut infer = cuda.action(0, &[6, 1]);
    infer.partition = PartitionId(CELLS[2] as u16);
    let refused = SubmitError::BatchTooLarge {
        partition: infer.partition,
        batch: 2,
        limit: 1,
    };
    assert_eq!(cuda.submit(&infer), Err(refused));
    infer.members.truncate(1);
    infer.batch = 1;
    cuda.submit(&infer).expect("room");
    assert!(matches!(cuda.event(), Event::Finished(_)));
}
