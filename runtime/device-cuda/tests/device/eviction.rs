//! Stages that are evicted at a certain look of a kernel at its guard, and what becomes of them.

use emulated_cuda::{After, Config, Outcome};
use punctual_conformance::networks;
use punctual_core::{Answer, Criticality, Event, PartitionId};
use punctual_device::Device;
use punctual_device_cuda::CudaSpec;
use punctual_device_cuda::queue::{FlagPlace, QueueSpec};
use punctual_types::Random;

use crate::subject::{Cuda, cuda};

/// When some launches of a stage have run.
const LATER: After = After::Blocks(30);

const MEMBERS: [u16; 3] = [4, 0, 2];
const OTHERS: [u16; 3] = [1, 3, 5];

/// A device with one partition, and what it answers when nothing disturbs it.
fn started(config: &Config, cuda: &CudaSpec) -> (Cuda, Vec<Vec<Answer>>) {
    let mut device = Cuda::with(config, &networks::gathers(5), cuda, 1);
    let expected = (0..2)
        .map(|stage| device.answers(stage, &MEMBERS))
        .collect();
    (device, expected)
}

/// The kernel that follows evicted launches.
const REPORT: &str = "report_evicted";

/// Launches of stages since `first` that were handed over, by name.
fn kernels(device: &Cuda, first: u64) -> Vec<String> {
    let launches = device.emulator.launches_from(first);
    let names = launches.into_iter().map(|launch| launch.kernel);
    names.filter(|name| name != REPORT).collect()
}

/// Blocks that the launches of a stage have.
fn blocks(device: &mut Cuda, stage: u8) -> u64 {
    let first = device.launched();
    device.answers(stage, &MEMBERS);
    let launches = device.emulator.launches_from(first);
    launches.iter().map(|launch| launch.blocks_run).sum()
}

/// Preempts the best-effort stage `stage` after `steps`; what it was answered with.
fn preempted(device: &mut Cuda, stage: u8, steps: After) -> Event {
    let stream = device.stream();
    let evictions = device.device.counters().read().evictions;
    device.emulator.hold(stream, steps);
    let mut infer = device.action(stage, &MEMBERS);
    infer.criticality = Criticality::BestEffort;
    device.submit(&infer).expect("room");
    device.emulator.wait_until_held(stream);
    device.preempt(infer.partition, infer.id);
    device.until_evicted(stream, evictions + 1);
    device.emulator.go_on(stream);
    device.event()
}

#[test]
fn a_preempted_stage_goes_on_from_the_launch_that_was_cut() {
    for flag in [FlagPlace::Host, FlagPlace::Device] {
        let queue = QueueSpec {
            flag,
            ..QueueSpec::default()
        };
        let spec = CudaSpec { queue, ..cuda() };
        let (mut device, expected) = started(&Config::default(), &spec);
        let counters = device.device.counters();
        let blocks = blocks(&mut device, 0);
        let moments = [
            After::Blocks(blocks / 4),
            After::Blocks(blocks / 2),
            After::Checkpoints(blocks * 3 / 4),
        ];
        for (round, steps) in (1..).zip(moments) {
            let first = device.launched();
            let event = preempted(&mut device, 0, steps);
            assert!(matches!(event, Event::Preempted { .. }), "{event:?}");
            let cut = kernels(&device, first);
            // Its launches before the cut one ran whole and are not launched again.
            let answers = device.best_effort(0, &MEMBERS);
            assert_eq!(answers, expected[0], "{flag:?}, {steps:?}");
            assert_eq!(counters.read().resumed, round);
            let all = kernels(&device, first);
            let undisturbed = device.answers(0, &MEMBERS);
            assert_eq!(undisturbed, expected[0]);
            let whole = kernels(&device, first).len() - all.len();
            let again = cut.len() + (all.len() - cut.len()) - whole;
            // After a whole block the cut may fall between two launches, before the next one was handed over.
            let least = usize::from(matches!(steps, After::Checkpoints(_)));
            assert!(
                (least..=1 + queue.bound as usize).contains(&again),
                "{again} launches of {whole} were handed over twice after {steps:?}"
            );
        }
    }
}

#[test]
fn an_eviction_costs_one_launch_behind_the_evicted_ones_and_no_copy() {
    let queue = QueueSpec {
        flag: FlagPlace::Host,
        ..QueueSpec::default()
    };
    let (mut device, _) = started(&Config::default(), &CudaSpec { queue, ..cuda() });
    let copies = [
        "cuMemcpyHtoD_v2",
        "cuMemcpyDtoH_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemsetD32Async",
    ];
    let counted = |device: &Cuda| {
        let copies = copies.map(|name| device.emulator.calls(name));
        let launches = device.emulator.calls("cuLaunchKernel");
        let of_stages = device.device.counters().read().launches;
        (copies, launches - of_stages)
    };
    let first = device.launched();
    let (copies_before, others_before) = counted(&device);
    let event = preempted(&mut device, 0, LATER);
    assert!(matches!(event, Event::Preempted { .. }), "{event:?}");
    assert_eq!(counted(&device), (copies_before, others_before + 1));
    let launches = device.emulator.launches_from(first);
    let last = launches.last().expect("something was launched");
    assert_eq!((last.kernel.as_str(), last.grid), (REPORT, [1, 1, 1]));
    let reports = launches.iter().filter(|launch| launch.kernel == REPORT);
    assert_eq!(reports.count(), 1);
}

#[test]
fn a_real_time_stage_in_between_takes_the_other_workspace() {
    let (mut device, expected) = started(&Config::default(), &cuda());
    let counters = device.device.counters();
    let event = preempted(&mut device, 0, LATER);
    assert!(matches!(event, Event::Preempted { .. }), "{event:?}");
    assert_eq!(device.answers(0, &[1, 3]).len(), 2);
    assert_eq!(device.best_effort(0, &MEMBERS), expected[0]);
    let counts = counters.read();
    assert_eq!((counts.resumed, counts.begun_again), (1, 0));
}

#[test]
fn with_one_workspace_a_stage_in_between_makes_it_begin_again() {
    let spec = CudaSpec {
        workspaces: 1,
        ..cuda()
    };
    let (mut device, expected) = started(&Config::default(), &spec);
    let counters = device.device.counters();
    preempted(&mut device, 0, LATER);
    device.answers(0, &[1, 3]);
    assert_eq!(device.best_effort(0, &MEMBERS), expected[0]);
    let counts = counters.read();
    assert_eq!((counts.resumed, counts.begun_again), (0, 1));
}

#[test]
fn a_member_that_was_written_to_meanwhile_is_computed_anew() {
    let (mut device, expected) = started(&Config::default(), &cuda());
    let counters = device.device.counters();
    preempted(&mut device, 0, LATER);
    // The buffer is another request's now, which has the image that buffer 7 had.
    device.write(MEMBERS[1], 7);
    let answers = device.best_effort(0, &MEMBERS);
    assert_eq!(counters.read().resumed, 0);
    assert_eq!([answers[0], answers[2]], [expected[0][0], expected[0][2]]);
    assert_eq!(answers[1], device.answers(0, &[7, 1, 6])[0]);
}

#[test]
fn a_stop_that_comes_too_late_costs_the_next_stage_nothing_but_time() {
    let (mut device, expected) = started(&Config::default(), &cuda());
    let stream = device.stream();
    let mut first = device.action(0, &MEMBERS);
    first.criticality = Criticality::BestEffort;
    let second = device.action(0, &MEMBERS);
    // The best-effort stage ends, and its end is not polled yet when it is preempted: the store
    // hits the stage behind it.
    let evictions = device.device.counters().read().evictions;
    let launched = device.launched();
    device.submit(&first).expect("room");
    device.until_answered(launched);
    device.emulator.hold(stream, LATER);
    device.submit(&second).expect("room");
    device.emulator.wait_until_held(stream);
    device.preempt(first.partition, first.id);
    device.until_evicted(stream, evictions + 1);
    device.emulator.go_on(stream);
    for infer in [first, second] {
        let event = device.event();
        let Event::Finished(finished) = event else {
            panic!("{event:?}");
        };
        assert_eq!(finished.action, infer.id);
        assert_eq!(finished.members[..], expected[0][..]);
    }
    assert_eq!(device.device.counters().read().evictions, evictions + 1);
}

#[test]
fn without_guards_nothing_is_evicted_on_the_device() {
    let queue = QueueSpec {
        guards: false,
        ..QueueSpec::default()
    };
    let spec = CudaSpec { queue, ..cuda() };
    let (mut device, expected) = started(&Config::default(), &spec);
    let stream = device.stream();
    device.emulator.hold(stream, After::Blocks(20));
    let mut infer = device.action(0, &MEMBERS);
    infer.criticality = Criticality::BestEffort;
    device.submit(&infer).expect("room");
    device.emulator.wait_until_held(stream);
    device.preempt(infer.partition, infer.id);
    device.emulator.go_on(stream);
    // What was in the driver ran to its end; what was not is not there.
    let event = device.event();
    assert!(matches!(event, Event::Preempted { .. }), "{event:?}");
    assert_eq!(device.best_effort(0, &MEMBERS), expected[0]);
    // The driver records a launch as done after its answer is there.
    device.until_answered(0);
    let launches = device.emulator.launches();
    assert!(
        launches
            .iter()
            .all(|launch| launch.outcome == Outcome::Done)
    );
}

#[test]
fn no_more_launches_wait_in_the_driver_than_the_bound_says() {
    for bound in [1, 3] {
        let queue = QueueSpec {
            bound,
            ..QueueSpec::default()
        };
        let spec = CudaSpec { queue, ..cuda() };
        let (mut device, expected) = started(&Config::default(), &spec);
        let stream = device.stream();
        let first = device.launched();
        device.emulator.hold(stream, After::Blocks(10));
        let infer = device.action(0, &MEMBERS);
        device.submit(&infer).expect("room");
        device.emulator.wait_until_held(stream);
        let launches = device.emulator.launches_from(first);
        let waiting = launches.iter().filter(|l| l.outcome == Outcome::Waiting);
        assert!(waiting.count() <= bound as usize);
        device.emulator.go_on(stream);
        let Event::Finished(finished) = device.event() else {
            panic!("an undisturbed stage did not finish");
        };
        assert_eq!(finished.members[..], expected[0][..]);
    }
}

/// Stops the best-effort stage `stage` of partition 0 at its look number `look`; instructions of warps from there to the end of
/// its last launch. `beside` is done before it may go on.
fn instructions(device: &mut Cuda, stage: u8, look: u64, beside: impl FnOnce(&mut Cuda)) -> u64 {
    let stream = device.stream();
    let executed = |device: &Cuda| {
        let streams = device.emulator.streams();
        let found = streams.iter().find(|state| state.stream == stream);
        found.expect("it is there").instructions
    };
    let evictions = device.device.counters().read().evictions;
    device.emulator.hold(stream, After::Checkpoints(look));
    let mut infer = device.action(stage, &MEMBERS);
    infer.criticality = Criticality::BestEffort;
    device.submit(&infer).expect("room");
    device.emulator.wait_until_held(stream);
    let before = executed(device);
    beside(device);
    device.preempt(infer.partition, infer.id);
    device.until_counted("an eviction", |counts| counts.evictions > evictions);
    device.emulator.go_on(stream);
    device.until_idle(stream);
    executed(device) - before
}

#[test]
fn real_time_work_evicts_best_effort_work_within_the_profiled_bound_of_instructions() {
    let queue = QueueSpec {
        flag: FlagPlace::Host,
        ..QueueSpec::default()
    };
    let spec = CudaSpec { queue, ..cuda() };
    let mut device = Cuda::with(&Config::default(), &networks::gathers(5), &spec, 2);
    let expected = device.answers(0, &MEMBERS);
    let urgent_expected = device.answers(0, &OTHERS);
    let blocks = blocks(&mut device, 0);
    // Each block looks at least once.
    let mut random = Random::new(1);
    let mut looks =
        |count: usize| -> Vec<u64> { (0..count).map(|_| random.below(blocks)).collect() };
    let profile: Vec<u64> = looks(48)
        .into_iter()
        .map(|look| {
            let taken = instructions(&mut device, 0, look, |_| {});
            assert!(matches!(device.event(), Event::Preempted { .. }));
            // To its end, so that the next one begins anew.
            assert_eq!(device.best_effort(0, &MEMBERS), expected);
            taken
        })
        .collect();
    // As budgets of stages stand above what was measured.
    let bound = profile.iter().max().expect("some") * 12 / 10;
    for look in looks(12) {
        let mut urgent = device.action(0, &OTHERS);
        urgent.partition = PartitionId(1);
        let taken = instructions(&mut device, 0, look, |device| {
            device.submit(&urgent).expect("room");
        });
        assert!(
            taken <= bound,
            "{taken} instructions after look {look}, not {bound}: {profile:?}"
        );
        for _ in 0..2 {
            match device.event() {
                Event::Finished(finished) => assert_eq!(finished.members[..], urgent_expected[..]),
                Event::Preempted { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(device.best_effort(0, &MEMBERS), expected);
    }
    // A stage that is not stopped executes far more.
    let whole = instructions_of_all(&mut device);
    assert!(bound < whole / 2, "{bound} of {whole}");
}

/// Instructions of warps of stage 0, undisturbed.
fn instructions_of_all(device: &mut Cuda) -> u64 {
    let all = |device: &Cuda| -> u64 {
        let streams = device.emulator.streams();
        streams.iter().map(|state| state.instructions).sum()
    };
    let before = all(device);
    device.answers(0, &MEMBERS);
    all(device) - before
}
