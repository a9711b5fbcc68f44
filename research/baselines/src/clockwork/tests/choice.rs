//! Which strategy is taken.

use super::{Did, Told, at, config, model};
use crate::ClockworkConfig;
use punctual_core::{
    Arrival, ClientId, Criticality, Event, Failure, Nanos, PartitionConfig, Rejection, TaskId,
    Ticket, Units, Verdict,
};

/// Batches of 1, 2 and 4.
const TIMES: [(u8, u64); 3] = [(1, 10), (2, 14), (4, 20)];

/// Models 0 and 1 with these times; a request for 0 keeps the device busy until 10.
fn busy() -> (Told, punctual_core::Infer) {
    let mut told = Told::new(config(vec![model(&TIMES, None), model(&TIMES, None)], 0));
    told.request(0, 0, 1000);
    let first = told.infer();
    (told, first)
}

#[test]
fn the_strategy_that_must_begin_first_goes_first() {
    let (mut told, first) = busy();
    told.request(1, 0, 100);
    told.request(2, 1, 80);
    let did = told.finished(10, &first, 10);
    assert_eq!(did[1], Did::Infer(1, vec![3], 70));
}

#[test]
fn a_longer_batch_must_begin_earlier_and_so_goes_before_a_nearer_deadline() {
    let (mut told, first) = busy();
    for deadline in [85, 86, 87, 88] {
        told.request(1, 0, deadline);
    }
    told.request(2, 1, 80);
    // Model 0's batch of four: 85 - 20 = 65; model 1's one request: 80 - 10 = 70.
    let did = told.finished(10, &first, 10);
    assert_eq!(did[1], Did::Infer(0, vec![2, 3, 4, 5], 65));
}

#[test]
fn batches_are_full_and_never_padded() {
    let (mut told, first) = busy();
    for _ in 0..3 {
        told.request(1, 1, 100);
    }
    let did = told.finished(10, &first, 10);
    assert_eq!(did[1], Did::Infer(1, vec![2, 3], 86));
    let two = told.infer();
    let did = told.finished(24, &two, 14);
    assert_eq!(did[2], Did::Infer(1, vec![4], 90));
}

#[test]
fn a_batch_is_raised_while_its_queue_holds_enough_and_its_head_ends_in_time() {
    let (mut told, first) = busy();
    // At 10 a batch of four would end at 30: too late for the first. A batch of two ends at 24.
    for deadline in [25, 90, 90, 90, 90] {
        told.request(1, 1, deadline);
    }
    // The batch queue of four holds the last four: it must begin at 70, the first alone at 15, in a
    // batch of two at 11. That one comes first and cannot be raised.
    let did = told.finished(10, &first, 10);
    assert_eq!(did[1], Did::Infer(1, vec![2, 3], 11));
}

#[test]
fn a_request_that_leaves_a_batch_queue_stays_in_those_of_smaller_batches() {
    let (mut told, first) = busy();
    for deadline in [22, 90, 90, 90, 90] {
        told.request(1, 1, deadline);
    }
    // In a batch of two it would end at 24. Alone it ends at 20, and must begin by 12.
    let did = told.finished(10, &first, 10);
    assert_eq!(did[1], Did::Infer(1, vec![2], 12));
    let alone = told.infer();
    let did = told.finished(20, &alone, 10);
    assert_eq!(did[1], Did::Infer(1, vec![3, 4, 5, 6], 70));
}

#[test]
fn what_cannot_end_in_time_even_alone_is_rejected_when_that_is_certain() {
    let (mut told, first) = busy();
    assert_eq!(told.request(1, 1, 25), []);
    assert_eq!(
        told.request(1, 1, 10),
        [Did::Reply(3, Verdict::Rejected(Rejection::LateOnArrival))]
    );
    // The device overruns: at 15 there is still time to begin, after that there is not.
    assert_eq!(told.scheduler.next_timer().map(|t| t > at(15)), Some(true));
    told.tell(15, &Event::Tick);
    assert_eq!(told.did(), []);
    told.tell(16, &Event::Tick);
    assert_eq!(
        told.did(),
        [Did::Reply(2, Verdict::Rejected(Rejection::NoSlack))]
    );
    assert_eq!(
        told.finished(17, &first, 17),
        [Did::Reply(1, Verdict::OnTime)]
    );
}

#[test]
fn a_slow_run_is_expected_again_for_ten_runs() {
    let mut told = Told::new(config(vec![model(&TIMES, None)], 0));
    told.request(0, 0, 1000);
    let slow = told.infer();
    told.finished(30, &slow, 30);
    assert_eq!(
        told.request(30, 0, 50),
        [Did::Reply(2, Verdict::Rejected(Rejection::LateOnArrival))]
    );
    for run in 0..10 {
        let now = 100 + 10 * run;
        assert_eq!(
            told.request(now, 0, 1000),
            [Did::Infer(0, vec![3 + run], 970)]
        );
        let infer = told.infer();
        told.finished(now + 10, &infer, 10);
    }
    assert_eq!(told.request(200, 0, 1000), [Did::Infer(0, vec![13], 990)]);
}

#[test]
fn requests_without_deadline_come_last_and_in_turn() {
    let mut plan = config(vec![model(&TIMES, None), model(&TIMES, None)], 0);
    plan.tasks[1].criticality = Criticality::BestEffort;
    plan.tasks[1].deadline = None;
    let mut told = Told::new(plan);
    told.request(0, 0, 1000);
    let first = told.infer();
    for sequence in [2, 3] {
        told.sequence = sequence;
        let ticket = Ticket {
            client: ClientId(1),
            slot: 0,
            part: 0,
            sequence,
        };
        let arrival = Arrival {
            task: TaskId(1),
            ticket,
            captured: at(sequence),
            deadline: None,
            egress: Nanos::ZERO,
        };
        assert_eq!(told.arrives(sequence, arrival), []);
    }
    told.request(5, 0, 5000);
    let did = told.finished(10, &first, 10);
    assert_eq!(did[1], Did::Infer(0, vec![4], 4990));
    let second = told.infer();
    let did = told.finished(20, &second, 10);
    assert!(matches!(&did[1], Did::Infer(1, members, _) if *members == [2, 3]));
}

#[test]
fn a_batch_that_was_not_begun_in_its_window_waits_again() {
    let (mut told, first) = busy();
    told.request(1, 1, 100);
    told.finished(10, &first, 10);
    let missed = told.infer();
    told.tell(91, &Event::NotRun { action: missed.id });
    assert_eq!(
        told.did(),
        [Did::Reply(2, Verdict::Rejected(Rejection::LateOnArrival))]
    );
    told.request(92, 1, 200);
    let missed = told.infer();
    told.tell(93, &Event::NotRun { action: missed.id });
    assert_eq!(told.did(), [Did::Infer(1, vec![3], 190)]);
}

#[test]
fn the_request_of_a_client_that_is_gone_is_in_no_batch() {
    let (mut told, first) = busy();
    told.request(1, 1, 100);
    told.request(2, 0, 100);
    let client = ClientId(1);
    told.tell(3, &Event::ClientGone { client });
    assert_eq!(
        told.did(),
        [Did::Reply(2, Verdict::Failed(Failure::ClientGone))]
    );
    let did = told.finished(10, &first, 10);
    assert_eq!(did[1], Did::Infer(0, vec![3], 90));
}

#[test]
fn every_free_partition_is_given_the_next_strategy() {
    let mut plan = config(vec![model(&TIMES, None)], 0);
    let other = PartitionConfig {
        units: Units { first: 1, count: 1 },
        ..plan.partitions[0].clone()
    };
    plan.partitions.push(other);
    for time in &mut plan.models[0].stages[0].times {
        time.on.push(time.on[0]);
    }
    let mut told = Told::new(plan);
    told.request(0, 0, 100);
    assert_eq!(told.infer().partition.0, 0);
    told.request(1, 0, 100);
    assert_eq!(told.infer().partition.0, 1);
    assert_eq!(told.request(2, 0, 100), []);
}

#[test]
fn a_margin_is_added_to_what_is_predicted_and_not_to_when_the_device_is_free() {
    let plan = config(vec![model(&TIMES, None)], 0);
    let margin = Nanos::from_millis(2);
    let mut told = Told::with(plan, ClockworkConfig { margin });
    assert_eq!(
        told.request(0, 0, 11),
        [Did::Reply(1, Verdict::Rejected(Rejection::LateOnArrival))]
    );
    assert_eq!(told.request(0, 0, 12), [Did::Infer(0, vec![2], 0)]);
    // Free at 10, and 10 + 10 + 2 = 22.
    assert_eq!(
        told.request(1, 0, 21),
        [Did::Reply(3, Verdict::Rejected(Rejection::NoSlack))]
    );
    assert_eq!(told.request(1, 0, 22), []);
}
