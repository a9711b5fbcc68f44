//! Whatever a client writes into shared memory: the daemon's side refuses it by name, panics never and leaks nothing.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use fastrand::Rng;
use punctual_ipc::internals::{self, Fields, pair, small_terms};
use punctual_ipc::{
    ChannelFault, ClientChannel, Crop, Disconnected, ResultRecord, Results, Submissions, Verdict,
};
use punctual_platform::poll::Poller;

use crate::hostile_client::hostile_client;

fn submitted() -> (Submissions, Results, ClientChannel, Fields) {
    let (server, mut client) = pair(small_terms());
    let (submissions, _, results) = server.split();
    let slot = client.slot().unwrap();
    slot.submit(1, None, Crop { x: 0, y: 0 }).unwrap();
    let fields = Fields::of(&client);
    (submissions, results, client, fields)
}

fn record(slot: u16, sequence: u64) -> ResultRecord {
    ResultRecord {
        sequence,
        slot,
        verdict: Verdict::OnTime,
        answer: None,
        part: None,
        left_out: 0,
        captured_ns: 0,
        deadline_ns: 0,
        finished_ns: 0,
        sent_ns: 0,
        is_final: true,
    }
}

#[test]
fn twenty_thousand_hostile_clients_are_survived_and_every_fault_is_met() {
    let mut random = Rng::with_seed(1);
    let mut faults = BTreeMap::new();
    for _ in 0..20_000 {
        let length = random.usize(16..256);
        let script: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let fault = hostile_client(&script);
        let violation = fault.filter(ChannelFault::is_violation);
        *faults
            .entry(violation.map(|fault| fault.name()))
            .or_insert(0_u32) += 1;
    }
    let violations = faults.keys().flatten().count();
    assert_eq!(violations, 7, "some never met: {faults:?}");
    assert!(
        faults.contains_key(&None),
        "no client got through: {faults:?}"
    );
}

#[test]
fn every_word_of_a_descriptor_is_looked_at() {
    // Words 1, 2 and 6 are the capture time, the deadline, and how long records took: the channel believes anything.
    for word in [0, 3, 4, 5, 7] {
        let (mut submissions, _results, _client, fields) = submitted();
        fields
            .requests
            .write_word(fields.cells + 8 * word, u64::MAX);
        let fault = submissions.poll().unwrap_err();
        let expected = matches!(fault, ChannelFault::Descriptor(_));
        assert!(expected, "word {word}: {fault}");
        assert_eq!(submissions.slots_in_use(), 0);
    }
}

#[test]
fn a_generation_that_is_not_the_slots_is_stale() {
    let (mut submissions, _results, _client, fields) = submitted();
    let word = fields.cells + 8 * 4;
    let generation = fields.requests.word32(word);
    assert_eq!(generation.load(Ordering::Relaxed), 1);
    generation.store(2, Ordering::Relaxed);
    let stale = ChannelFault::StaleSlot {
        slot: 0,
        found: 2,
        current: 1,
    };
    assert_eq!(submissions.poll(), Err(stale));
}

#[test]
fn every_impossible_ring_position_is_refused() {
    for tail in [5, 6, 1 << 31, u32::MAX] {
        let (mut submissions, _results, _client, fields) = submitted();
        fields
            .requests
            .word32(fields.tail)
            .store(tail, Ordering::Relaxed);
        let fault = submissions.poll().unwrap_err();
        assert!(
            matches!(fault, ChannelFault::Submissions(_)),
            "{tail}: {fault}"
        );
    }
}

#[test]
fn positions_in_the_result_ring_are_checked_on_both_sides_of_the_work() {
    for taken in [2, 1 << 31] {
        let (mut submissions, _results, _client, fields) = submitted();
        let word = fields.requests.word32(fields.verdicts_taken);
        word.store(taken, Ordering::Relaxed);
        let fault = submissions.poll().unwrap_err();
        assert!(
            matches!(fault, ChannelFault::ResultsUnread { .. }),
            "{taken}: {fault}"
        );

        let (mut submissions, mut results, _client, fields) = submitted();
        let descriptor = submissions.poll().unwrap().unwrap();
        let word = fields.requests.word32(fields.results_taken);
        word.store(taken, Ordering::Relaxed);
        let record = record(descriptor.slot, descriptor.sequence);
        let fault = results.push(&record).unwrap_err();
        assert!(
            matches!(fault, ChannelFault::Results(_)),
            "{taken}: {fault}"
        );
        assert_eq!(submissions.slots_in_use(), 0, "released all the same");
    }
}

fn watched(submissions: &Submissions) -> Poller {
    let poller = Poller::new(2).unwrap();
    submissions.watch(&poller, 0).unwrap();
    poller
}

/// Whether the poller has something to report at this moment.
fn reports(poller: &mut Poller) -> bool {
    poller.wait(Some(0)).count() > 0
}

#[test]
fn ringing_without_submitting_is_a_fault_and_not_a_burden() {
    let (mut submissions, _results, client, _) = submitted();
    let mut poller = watched(&submissions);
    assert!(submissions.poll().unwrap().is_some());
    let heard = (0..100).find_map(|_| {
        for _ in 0..100 {
            internals::ring(&client);
        }
        assert!(reports(&mut poller));
        submissions.rung().err()
    });
    assert_eq!(heard, Some(ChannelFault::Doorbell));
}

#[test]
fn one_ring_more_than_the_first_and_those_of_submissions_is_one_too_many() {
    let (mut submissions, _results, client, _) = submitted();
    let mut poller = watched(&submissions);
    assert!(reports(&mut poller));
    assert_eq!(submissions.rung(), Ok(()), "the submission's own");
    assert!(submissions.poll().unwrap().is_some());
    for answer in [Ok(()), Err(ChannelFault::Doorbell)] {
        internals::ring(&client);
        assert!(reports(&mut poller));
        assert_eq!(submissions.rung(), answer);
    }
}

#[test]
fn a_client_that_has_submitted_much_has_earned_no_right_to_ring_for_nothing() {
    let (mut submissions, mut results, mut client, _) = submitted();
    let mut poller = watched(&submissions);
    for _ in 0..1000 {
        let taken = submissions.poll().unwrap().unwrap();
        results.push(&record(taken.slot, taken.sequence)).unwrap();
        client.take().unwrap().unwrap();
        let slot = client.slot().unwrap();
        slot.submit(1, None, Crop::default()).unwrap();
    }
    assert!(submissions.poll().unwrap().is_some());
    let mut rings = 0;
    let fault = loop {
        internals::ring(&client);
        assert!(reports(&mut poller));
        rings += 1;
        if let Err(fault) = submissions.rung() {
            break fault;
        }
    };
    assert_eq!(fault, ChannelFault::Doorbell);
    assert!(rings < 20, "{rings} rings for nothing");
}

#[test]
fn a_client_that_was_hung_up_on_notices() {
    let (mut submissions, _results, mut client, fields) = submitted();
    fields.requests.write_word(fields.cells, 7);
    assert!(submissions.poll().is_err());
    assert!(
        !client.is_hung_up(),
        "that is for a thread that no other waits for"
    );
    drop(submissions);
    assert!(client.is_hung_up());
    assert_eq!(client.take(), Ok(None));
    assert_eq!(client.wait(client.bell(), None), Err(Disconnected::HungUp));
}

#[test]
fn lies_about_sleeping_cost_only_the_liar() {
    for lie in [0, 1, u32::MAX] {
        let (mut submissions, mut results, mut client, fields) = submitted();
        let descriptor = submissions.poll().unwrap().unwrap();
        fields
            .requests
            .word32(fields.sleeping)
            .store(lie, Ordering::Relaxed);
        let record = record(descriptor.slot, descriptor.sequence);
        results.push(&record).unwrap();
        assert_eq!(client.take(), Ok(Some(record)));
    }
}

#[test]
fn a_client_that_rings_after_each_submission_is_never_at_fault_however_they_are_read() {
    let (server, mut client) = pair(small_terms());
    let (mut submissions, _payload, mut results) = server.split();
    let mut poller = watched(&submissions);
    let mut random = Rng::with_seed(7);
    let mut open = Vec::new();
    for _ in 0..20_000 {
        match random.usize(..4) {
            0 => {
                if let Some(slot) = client.slot() {
                    // Refused while results wait to be read.
                    let _ = slot.submit(1, None, Crop::default());
                }
            }
            1 => {
                if reports(&mut poller) {
                    submissions.rung().unwrap();
                }
            }
            2 => open.extend(submissions.poll().unwrap()),
            _ => {
                if let Some(taken) = open.pop() {
                    results.push(&record(taken.slot, taken.sequence)).unwrap();
                    client.take().unwrap().unwrap();
                }
            }
        }
    }
}

#[test]
fn a_poller_tells_the_rings_of_a_client_from_its_end() {
    let (submissions, _results, mut client, _) = submitted();
    let mut poller = watched(&submissions);
    let next = |poller: &mut Poller| poller.wait(Some(0)).map(|r| (r.readable, r.hung_up)).next();
    assert_eq!(next(&mut poller), Some((true, false)), "rung before");
    assert_eq!(next(&mut poller), None, "once");
    let slot = client.slot().unwrap();
    slot.submit(1, None, Crop::default()).unwrap();
    assert_eq!(next(&mut poller), Some((true, false)));
    drop(client);
    assert_eq!(next(&mut poller), Some((false, true)));
    submissions.unwatch(&poller);
    assert_eq!(next(&mut poller), None);
}

#[test]
fn an_attentive_daemon_is_not_rung_and_a_sleepy_one_is() {
    let (server, mut client) = pair(small_terms());
    let (mut submissions, _payload, mut results) = server.split();
    let mut poller = watched(&submissions);
    for attentive in [true, false, true] {
        submissions.attend(attentive);
        let slot = client.slot().unwrap();
        slot.submit(1, None, Crop::default()).unwrap();
        assert_eq!(reports(&mut poller), !attentive);
        let taken = submissions.poll().unwrap().unwrap();
        assert_eq!(submissions.poll(), Ok(None));
        results.push(&record(taken.slot, taken.sequence)).unwrap();
        client.take().unwrap().unwrap();
    }
}
