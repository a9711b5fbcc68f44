//! The checks. Each starts devices of its own.

use punctual_core::{Event, Infer, ModelId, Nanos, PartitionId, StageId, Window};
use punctual_model::Network;
use punctual_types::Random;

use super::Subject;
use super::harness::{ALWAYS, Harness, assert_answer, scores};
use super::networks;
pub use super::paging::{
    loads_that_do_not_fit_are_refused, weights_come_and_go, weights_in_use_stay,
};
pub use super::preemption::{
    preempted_actions_can_be_run_again, preempted_actions_can_be_run_again_on,
};
use punctual_device::{Device, DeviceSpec, ModelSpec, PartitionSpec, Start, SubmitError};

pub(super) const BATCHES: [u8; 4] = [1, 2, 4, 8];
const BUFFERS: u16 = 8;

/// Partitions on these cores, at ordinary priority: a test must not need privileges.
pub(super) fn partitions(cores: &[&[usize]]) -> Vec<PartitionSpec> {
    let partition = |(index, cores): (usize, &&[usize])| {
        PartitionSpec::on_cores(format!("p{index}"), cores.to_vec(), None)
    };
    cores.iter().enumerate().map(partition).collect()
}

/// A network of every operator that the subject runs.
fn every_operator<S: Subject>(seed: u64) -> Network {
    if S::TOKENS_AND_BYTES {
        networks::every_operator(seed)
    } else {
        networks::gathers(seed)
    }
}

pub(super) fn start<S: Subject>(subject: &S, network: &Network, cores: &[&[usize]]) -> Harness<S> {
    Harness::start(
        subject,
        &DeviceSpec {
            models: &[ModelSpec::resident(network, &BATCHES)],
            partitions: &partitions(cores),
            request_buffers: BUFFERS,
            cache: None,
            start: Start::Whole,
        },
    )
}

/// Writes a different image to each request buffer.
pub(super) fn write_inputs<S: Subject>(harness: &mut Harness<S>, network: &Network) {
    for buffer in 0..BUFFERS {
        let image = networks::image(network, u64::from(buffer));
        harness.write_input(buffer, ModelId(0), &image);
    }
}

/// As [`write_inputs`]; returns the class scores that the reference gives: `scores[buffer][exit]`.
fn write_and_score<S: Subject>(harness: &mut Harness<S>, network: &Network) -> Vec<Vec<Vec<f32>>> {
    write_inputs(harness, network);
    let score = |buffer: u16| scores::<S>(network, &networks::image(network, buffer.into()));
    (0..BUFFERS).map(score).collect()
}

/// Batches that are full and not full give what the reference gives for each image alone, on one core and on two.
pub fn answers_equal_the_reference<S: Subject>(subject: &S) {
    let networks = [
        Some(every_operator::<S>(11)),
        Some(networks::gathers(11)),
        S::TOKENS_AND_BYTES.then(|| networks::quantised(11)),
        S::TOKENS_AND_BYTES.then(|| networks::copies(11)),
        S::TOKENS_AND_BYTES.then(|| networks::recurrent(11, 19)),
        S::ARITHMETIC.then(|| networks::arithmetic(11)),
        S::ARITHMETIC.then(|| networks::computed(11)),
        S::DETECTIONS.then(|| networks::detectors(11)),
        S::SEGMENTS.then(|| networks::segments(11)),
    ];
    for network in networks.into_iter().flatten() {
        answers_equal_the_reference_on(subject, &network);
    }
}

/// [`answers_equal_the_reference`] on a network.
pub fn answers_equal_the_reference_on<S: Subject>(subject: &S, network: &Network) {
    for cores in [&[&[0_usize][..]][..], &[&[0, 1]]] {
        let mut harness = start(subject, network, cores);
        let scores = write_and_score(&mut harness, network);
        for (batch, buffers) in [
            (1, &[3_u16][..]),
            (2, &[0, 1]),
            (4, &[2, 4, 5]),
            (8, &[7, 6]),
        ] {
            for exit in 0..network.stages.len() as u8 {
                let infer = harness.action(exit, batch, buffers);
                let answers = harness.answers(&infer);
                let exit = usize::from(exit);
                for (answer, buffer) in answers.iter().zip(buffers) {
                    let what = format!("{cores:?}, batch {batch}, buffer {buffer}, exit {exit}");
                    assert_answer::<S>(*answer, &scores[usize::from(*buffer)][exit], &what);
                }
            }
        }
    }
}

/// Survivors of different batches run the next stage together and get what each would have got alone.
pub fn survivors_of_different_batches_run_together<S: Subject>(subject: &S) {
    survivors_run_together_on(subject, &every_operator::<S>(12));
}

/// [`survivors_of_different_batches_run_together`] on a network of three stages.
///
/// # Panics
/// Also if the network has fewer stages.
pub fn survivors_run_together_on<S: Subject>(subject: &S, network: &Network) {
    let mut harness = start(subject, network, &[&[0]]);
    let scores = write_and_score(&mut harness, network);
    let groups: [&[&[u16]]; 3] = [
        &[&[0, 1, 2, 3], &[4, 5], &[6]],
        &[&[4, 0], &[6, 3, 5, 1]],
        &[&[1, 6, 0]],
    ];
    for (exit, groups) in groups.iter().enumerate() {
        for &buffers in *groups {
            let batch = buffers.len().next_power_of_two() as u8;
            let infer = harness.action(exit as u8, batch, buffers);
            let answers = harness.answers(&infer);
            for (answer, &buffer) in answers.iter().zip(buffers) {
                let what = format!("exit {exit}, buffer {buffer} of {buffers:?}");
                assert_answer::<S>(*answer, &scores[usize::from(buffer)][exit], &what);
            }
        }
    }
}

/// A request buffer is as good as new for the next request, of this model or another.
pub fn request_buffers_are_used_again_by_other_models<S: Subject>(subject: &S) {
    let (a, b) = (every_operator::<S>(13), networks::residual(13));
    let mut harness = Harness::start(
        subject,
        &DeviceSpec {
            models: &[
                ModelSpec::resident(&a, &BATCHES),
                ModelSpec::resident(&b, &BATCHES),
            ],
            partitions: &partitions(&[&[0]]),
            request_buffers: 1,
            cache: None,
            start: Start::Whole,
        },
    );
    for round in 0..6 {
        let (model, network) = if round % 2 == 0 { (0, &a) } else { (1, &b) };
        let image = networks::image(network, round);
        harness.run(ModelId(model), network, &image, &format!("round {round}"));
    }
}

/// Nothing starts before its window or after it.
pub fn windows_are_honoured<S: Subject>(subject: &S) {
    let network = networks::residual(14);
    let mut harness = start(subject, &network, &[&[0]]);
    write_inputs(&mut harness, &network);

    let mut early = harness.action(0, 1, &[0]);
    early.window.earliest = harness.now() + Nanos::from_millis(5);
    // The harness checks the start against the window.
    let _ = harness.answers(&early);

    let infer = harness.action(0, 1, &[0]);
    let first = harness.answers(&infer);
    let mut late = harness.action(0, 1, &[0]);
    late.window = Window {
        earliest: ALWAYS.earliest,
        latest: punctual_core::Instant::from_nanos(harness.now().as_nanos() - 1),
    };
    harness.submit(&late);
    assert_eq!(harness.event(), Event::NotRun { action: late.id });

    // Behind an action that outlasts its window.
    let long = harness.action(0, 8, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let mut behind = harness.action(0, 1, &[0]);
    behind.window.latest = harness.now();
    harness.submit(&long);
    harness.submit(&behind);
    assert!(matches!(harness.event(), Event::Finished(_)));
    assert_eq!(harness.event(), Event::NotRun { action: behind.id });

    // An action that did not run has touched nothing.
    let again = harness.action(0, 1, &[0]);
    assert_eq!(harness.answers(&again), first);
}

/// What does not fit the device is refused, and nothing follows.
pub fn actions_that_do_not_fit_are_refused<S: Subject>(subject: &S) {
    let network = networks::residual(16);
    let mut harness = start(subject, &network, &[&[0]]);
    write_inputs(&mut harness, &network);
    let good = harness.action(0, 2, &[0, 1]);
    let (model, stage) = (ModelId(0), StageId(2));
    let members = |members, batch| SubmitError::Members { members, batch };
    let mut refused = |change: fn(&mut Infer), error| {
        let mut infer = good.clone();
        change(&mut infer);
        assert_eq!(harness.device.submit(&infer), Err(error));
    };
    refused(
        |infer| infer.partition = PartitionId(1),
        SubmitError::UnknownPartition(PartitionId(1)),
    );
    refused(
        |infer| infer.model = ModelId(1),
        SubmitError::UnknownModel(ModelId(1)),
    );
    refused(
        |infer| infer.stage = StageId(2),
        SubmitError::UnknownStage { model, stage },
    );
    refused(
        |infer| infer.batch = 3,
        SubmitError::UnknownBatch { model, batch: 3 },
    );
    refused(|infer| infer.batch = 1, members(2, 1));
    refused(|infer| infer.members.clear(), members(0, 2));
    let (buffer, buffers) = (BUFFERS, BUFFERS);
    refused(
        |infer| infer.members[1].buffer = BUFFERS,
        SubmitError::UnknownBuffer { buffer, buffers },
    );
    assert!(harness.poll().is_none());
}

/// A partition holds two actions, and an event that has not been polled still counts.
pub fn a_third_action_is_refused<S: Subject>(subject: &S) {
    let network = networks::residual(16);
    let mut harness = start(subject, &network, &[&[0]]);
    write_inputs(&mut harness, &network);
    let [first, second, third] = [0, 1, 2].map(|buffer| harness.action(0, 1, &[buffer]));
    harness.submit(&first);
    harness.submit(&second);
    assert_eq!(
        harness.device.submit(&third),
        Err(SubmitError::Busy(PartitionId(0)))
    );
    for _ in 0..2 {
        assert!(matches!(harness.event(), Event::Finished(_)));
    }
    assert!(harness.poll().is_none());
    harness.answers(&third);
}

/// Two partitions, any interleaving of batches and stages: each request gets what it would have got alone.
pub fn partitions_do_not_disturb_each_other<S: Subject>(subject: &S) {
    let network = every_operator::<S>(17);
    for seed in 0..8 {
        let mut harness = start(subject, &network, &[&[0], &[1]]);
        let scores = write_and_score(&mut harness, &network);
        interleave(&mut harness, &scores, &mut Random::new(seed));
    }
}

/// The stages of a request may run on different partitions, also on such that share cores: it gets what it would have
/// got on one of them.
pub fn requests_may_change_partition_between_stages<S: Subject>(subject: &S) {
    requests_may_change_partition_on(subject, &every_operator::<S>(18));
}

/// [`requests_may_change_partition_between_stages`] on a network.
pub fn requests_may_change_partition_on<S: Subject>(subject: &S, network: &Network) {
    let cores: [&[usize]; 3] = [&[0, 1], &[0], &[1]];
    let mut harness = start(subject, network, &cores);
    let buffers = [3_u16, 0, 6];
    for first in 0..cores.len() {
        let scores = write_and_score(&mut harness, network);
        for (stage, _) in network.stages.iter().enumerate() {
            let partition = (first + stage) % cores.len();
            let mut infer = harness.action(stage as u8, 4, &buffers);
            infer.partition = PartitionId(partition as u16);
            let answers = harness.answers(&infer);
            for (answer, buffer) in answers.iter().zip(buffers) {
                let what = format!("buffer {buffer}, exit {stage}, partition {partition}");
                assert_answer::<S>(*answer, &scores[usize::from(buffer)][stage], &what);
            }
        }
    }
}

/// Runs all requests through all stages, in a random order, on both partitions.
fn interleave<S: Subject>(harness: &mut Harness<S>, scores: &[Vec<Vec<f32>>], random: &mut Random) {
    let exits = scores[0].len();
    // The next stage of each request; none while it runs.
    let mut next: Vec<Option<usize>> = vec![Some(0); scores.len()];
    let mut running = Vec::new();
    loop {
        let partition = random.below(2) as usize;
        let ready: Vec<usize> = (0..next.len())
            .filter(|&request| next[request].is_some_and(|stage| stage < exits))
            .collect();
        if !ready.is_empty() && harness.has_room(partition) {
            let stage = next[ready[random.below(ready.len() as u64) as usize]];
            let most = 1 + random.below(4) as usize;
            let group: Vec<u16> = ready
                .iter()
                .filter(|&&request| next[request] == stage)
                .take(most)
                .map(|&request| request as u16)
                .collect();
            let stage = stage.expect("a ready request");
            let batch = group.len().next_power_of_two() as u8;
            let mut infer = harness.action(stage as u8, batch, &group);
            infer.partition = PartitionId(partition as u16);
            harness.submit(&infer);
            for &request in &group {
                next[usize::from(request)] = None;
            }
            running.push((infer.id, stage, group));
        } else if harness.owes() {
            let Event::Finished(finished) = harness.event() else {
                panic!("an action did not finish");
            };
            let at = running.iter().position(|(id, ..)| *id == finished.action);
            let (_, stage, group) = running.swap_remove(at.expect("it was submitted"));
            for (answer, request) in finished.members.iter().zip(group) {
                let request = usize::from(request);
                let what = format!("request {request}, exit {stage}");
                assert_answer::<S>(*answer, &scores[request][stage], &what);
                next[request] = Some(stage + 1);
            }
        } else if ready.is_empty() {
            return;
        }
    }
}
