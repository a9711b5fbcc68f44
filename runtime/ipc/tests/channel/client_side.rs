//! What the client's side offers beyond one frame after the other: slots apart from the channel,
//! rings over the socket, a handshake that blocks nothing.

use std::os::fd::AsFd;
use std::path::PathBuf;

use punctual_ipc::internals::{pair, small_terms};
use punctual_ipc::{
    ClientChannel, ConnectError, Crop, Hello, Listener, Opening, PixelFormat, Progress,
    ResultRecord, Submissions, SubmitError, Verdict,
};
use punctual_platform::poll::wait_readable;

const CORNER: Crop = Crop { x: 0, y: 0 };

fn answer(submissions: &mut Submissions, results: &mut punctual_ipc::Results) -> u64 {
    let descriptor = submissions.poll().unwrap().unwrap();
    results
        .push(&ResultRecord {
            sequence: descriptor.sequence,
            slot: descriptor.slot,
            verdict: Verdict::OnTime,
            answer: None,
            part: None,
            left_out: 0,
            captured_ns: descriptor.captured_ns,
            deadline_ns: 0,
            finished_ns: 0,
            sent_ns: 0,
            is_final: true,
        })
        .unwrap();
    descriptor.sequence
}

#[test]
fn slots_can_be_held_several_at_once_and_submitted_in_any_order() {
    let (server, mut client) = pair(small_terms());
    let (mut submissions, payload, mut results) = server.split();
    let mut claims: Vec<_> = std::iter::from_fn(|| client.claim()).collect();
    assert_eq!(claims.len(), 4);
    assert!(!client.has_slot());
    for claim in &mut claims {
        let number = claim.index() as u8;
        claim.pixels().fill(number);
    }
    claims.rotate_left(2);
    for claim in claims {
        client.submit(claim, 0, None, CORNER).unwrap();
    }
    for _ in 0..4 {
        let descriptor = submissions.poll().unwrap().unwrap();
        let mut first = [0xFF; 1];
        let rows = punctual_ipc::Rows {
            offset: 0,
            bytes: 1,
            stride: 0,
            rows: 1,
        };
        payload
            .read(descriptor.slot, descriptor.sequence, rows, &mut first)
            .unwrap();
        assert_eq!(u16::from(first[0]), descriptor.slot);
        results
            .push(&ResultRecord {
                sequence: descriptor.sequence,
                slot: descriptor.slot,
                verdict: Verdict::OnTime,
                answer: None,
                part: None,
                left_out: 0,
                captured_ns: 0,
                deadline_ns: 0,
                finished_ns: 0,
                sent_ns: 0,
                is_final: true,
            })
            .unwrap();
    }
    let third = client.claim_at(3).unwrap();
    assert_eq!(third.index(), 3);
    assert!(client.claim_at(3).is_none(), "it is taken");
    assert!(client.claim_at(4).is_none(), "there is none");
    client.give_back(third).unwrap();
    assert!(client.claim_at(3).is_some());
}

#[test]
fn a_slot_of_another_channel_is_refused() {
    let (_server, mut one) = pair(small_terms());
    let (_other, mut two) = pair(small_terms());
    let foreign = one.claim().unwrap();
    let refused = two.submit(foreign, 0, None, CORNER);
    assert_eq!(refused, Err(SubmitError::ForeignSlot));
    let foreign = one.claim().unwrap();
    assert_eq!(two.give_back(foreign), Err(SubmitError::ForeignSlot));
}

#[test]
fn a_submission_that_is_refused_leaves_its_slot_free() {
    let (_server, mut client) = pair(small_terms());
    for _ in 0..5 {
        let claim = client.claim().unwrap();
        let refused = client.submit(claim, 0, None, Crop { x: 5, y: 0 });
        assert!(matches!(refused, Err(SubmitError::Crop { .. })));
    }
    drop(client.slot());
    assert_eq!(std::iter::from_fn(|| client.claim()).count(), 4);
}

#[test]
fn another_thread_can_wait_for_the_bell_while_its_client_waits_too() {
    let (server, mut client) = pair(small_terms());
    let (mut submissions, _payload, mut results) = server.split();
    let watch = client.watch();
    let until_rung = |seen| {
        let watch = watch.clone();
        move || {
            while watch.count() == seen {
                watch.wait(seen, u64::MAX);
            }
        }
    };
    // Each time the client is awake afterwards, and the other thread must be woken all the same.
    for _ in 0..50 {
        let seen = client.bell();
        let claim = client.claim().unwrap();
        client.submit(claim, 0, None, CORNER).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(until_rung(seen));
            scope.spawn(|| answer(&mut submissions, &mut results));
            assert_eq!(client.wait(seen, None), Ok(true));
        });
        assert!(client.take().unwrap().is_some());
    }
    std::thread::scope(|scope| {
        scope.spawn(until_rung(client.bell()));
        drop(results);
    });
}

#[test]
fn a_handshake_can_wait_while_its_client_does_something_else() {
    let path = PathBuf::from(format!(
        "{}/opening-{}",
        std::env::temp_dir().display(),
        std::process::id()
    ));
    let hello = Hello::new("signs", PixelFormat::Rgb8);
    let refused = Opening::begin(&path, &hello).unwrap_err();
    assert!(matches!(refused, ConnectError::Connect(_)), "{refused}");
    let listener = Listener::bind(&path).unwrap();
    let opening = Opening::begin(&path, &hello).unwrap();
    let Progress::Waiting(opening) = opening.go_on().unwrap() else {
        panic!("there was no answer");
    };
    let connection = listener.accept().unwrap().unwrap();
    assert_eq!(connection.hello().unwrap(), Some(hello));
    std::thread::scope(|scope| {
        let server = scope.spawn(|| connection.admit(&small_terms()));
        assert!(wait_readable(opening.as_fd(), None));
        let Progress::Open(channel) = opening.go_on().unwrap() else {
            panic!("it was admitted");
        };
        assert_eq!(ClientChannel::terms(&channel), &small_terms());
        server.join().unwrap().unwrap();
    });
}
