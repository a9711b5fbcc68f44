//! The checks of preemption.

use punctual_core::{ActionId, Answer, Criticality, Event, Nanos, PartitionId};
use punctual_model::Network;

use super::harness::Harness;
use super::suite::{start, write_inputs};
use super::{Subject, networks};
use punctual_device::Device;

/// A best-effort action stops when told to, wherever it is, and gives the same answer when it is
/// run again; a real-time one runs to its end.
pub fn preempted_actions_can_be_run_again<S: Subject>(subject: &S) {
    preempted_actions_can_be_run_again_on(subject, &networks::residual(15));
}

/// [`preempted_actions_can_be_run_again`] on a network of two stages.
pub fn preempted_actions_can_be_run_again_on<S: Subject>(subject: &S, network: &Network) {
    for cores in [&[&[0_usize][..]][..], &[&[0, 1]]] {
        let mut harness = start(subject, network, cores);
        write_inputs(&mut harness, network);
        let buffers = [0, 1, 2, 3];
        let expected: Vec<_> = (0..2)
            .map(|stage| {
                let infer = harness.action(stage, 4, &buffers);
                harness.answers(&infer)
            })
            .collect();
        preempt_before_the_window(&mut harness);
        preempt_a_real_time_action(&mut harness, &expected[1]);
        let stopped = preempt_at_many_moments(&mut harness, &buffers, &expected);
        assert!(stopped > 0, "no moment of preemption hit a running action");
    }
}

fn preempt_before_the_window<S: Subject>(harness: &mut Harness<S>) {
    let mut waiting = harness.action(0, 1, &[0]);
    waiting.criticality = Criticality::BestEffort;
    waiting.window.earliest = harness.now() + Nanos::from_millis(600_000);
    let mut behind = harness.action(0, 1, &[1]);
    behind.criticality = Criticality::BestEffort;
    harness.submit(&waiting);
    harness.submit(&behind);
    harness.device.preempt(PartitionId(0), behind.id);
    harness.device.preempt(PartitionId(0), waiting.id);
    for infer in [waiting, behind] {
        assert_eq!(harness.event(), Event::Preempted { action: infer.id });
    }
    // What is not there cannot be stopped, and nothing happens.
    harness.device.preempt(PartitionId(0), ActionId(0));
    harness.device.preempt(PartitionId(200), ActionId(0));
}

fn preempt_a_real_time_action<S: Subject>(harness: &mut Harness<S>, expected: &[Answer]) {
    let infer = harness.action(1, 4, &[0, 1, 2, 3]);
    harness.submit(&infer);
    harness.device.preempt(PartitionId(0), infer.id);
    match harness.event() {
        Event::Finished(finished) => assert_eq!(&finished.members[..], expected),
        other => panic!("{other:?}, though the action is real-time"),
    }
}

/// How many of the preemptions came before the end.
fn preempt_at_many_moments<S: Subject>(
    harness: &mut Harness<S>,
    buffers: &[u16],
    expected: &[heapless::Vec<Answer, { punctual_core::BATCH_MAX }>],
) -> u32 {
    let mut stopped = 0;
    for moment in 0..100_u64 {
        let stage = (moment % 2) as usize;
        let mut infer = harness.action(stage as u8, 4, buffers);
        infer.criticality = Criticality::BestEffort;
        harness.submit(&infer);
        // From at once to about when it ends, on any machine.
        let pause = Nanos::from_micros(moment * 10);
        let until = harness.now() + pause;
        harness.pass(until);
        harness.device.preempt(PartitionId(0), infer.id);
        match harness.event() {
            Event::Preempted { .. } => stopped += 1,
            Event::Finished(finished) => assert_eq!(finished.members, expected[stage]),
            other => panic!("{other:?}"),
        }
        let again = harness.action(stage as u8, 4, buffers);
        assert_eq!(harness.answers(&again), expected[stage], "moment {moment}");
    }
    stopped
}
