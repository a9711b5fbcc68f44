//! Daemons come and go; their clients stay, and every submission gets exactly one verdict.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::echo_daemon::{EchoDaemon, terms};
use punctual_client::{
    Client, Crop, Failure, FrameSpec, Lost, Options, PixelFormat, StreamTerms, SubmitError,
    Verdict, now_ns,
};

const CORNER: Crop = Crop { x: 0, y: 0 };

fn path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("punctual-again-{}-{count}", std::process::id()))
}

fn options(path: &PathBuf) -> Options {
    Options::new(path, "any", PixelFormat::Rgb8)
}

fn soon() -> Option<u64> {
    Some(now_ns() + 20_000_000_000)
}

/// Submits a frame and awaits what becomes of it.
fn frame(client: &mut Client) -> (u64, Verdict) {
    let slot = client.slot(soon()).unwrap().expect("a slot");
    let sequence = slot.submit(1, None, CORNER).unwrap();
    let result = client.verdict(soon()).unwrap().expect("a verdict");
    assert_eq!(result.sequence, sequence);
    (sequence, result.verdict)
}

#[test]
fn a_client_outlives_ten_daemons_and_its_sequence_goes_on() {
    let path = path();
    let mut daemon = EchoDaemon::start_at(path.clone(), terms());
    let mut client = options(&path).connect().unwrap();
    for round in 1..=10 {
        assert_eq!(client.connections(), round);
        let (sequence, verdict) = frame(&mut client);
        assert_eq!((sequence, verdict), (round, Verdict::OnTime));
        daemon.stop();
        assert_eq!(client.verdict(Some(now_ns() + 3_000_000)).unwrap(), None);
        assert!(client.slot(Some(0)).unwrap().is_none(), "no daemon");
        daemon = EchoDaemon::start_at(path.clone(), terms());
        assert!(client.slot(soon()).unwrap().is_some());
    }
}

#[test]
fn frames_under_way_when_the_daemon_ends_have_one_verdict_each() {
    let path = path();
    let mut seen = BTreeSet::new();
    let mut gone = 0;
    let mut client: Option<Client> = None;
    for _ in 0..30 {
        let daemon = EchoDaemon::start_at(path.clone(), terms());
        let client = client.get_or_insert_with(|| options(&path).connect().unwrap());
        let mut submitted = 0;
        while submitted < 4 {
            let slot = client.slot(soon()).unwrap().expect("a slot");
            slot.submit(1, None, CORNER).unwrap();
            submitted += 1;
        }
        daemon.stop();
        while client.unanswered() > 0 {
            let result = client.verdict(soon()).unwrap().expect("a verdict");
            assert!(seen.insert(result.sequence), "a second one");
            match result.verdict {
                Verdict::OnTime => {}
                Verdict::Failed(Failure::DaemonGone) => gone += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(seen, (1..=120).collect());
    assert!(gone <= 120);
}

#[test]
fn a_slot_from_before_fails_by_verdict_and_not_in_the_new_daemon() {
    let path = path();
    let daemon = EchoDaemon::start_at(path.clone(), terms());
    let mut client = options(&path).connect().unwrap();
    let mut old = client.claim(None).unwrap().unwrap();
    daemon.stop();
    let daemon = EchoDaemon::start_at(path.clone(), terms());
    let new = loop {
        assert_eq!(client.try_verdict().unwrap(), None);
        if client.connections() == 2 {
            break client.claim(soon()).unwrap().unwrap();
        }
    };
    old.pixels().fill(3); // still mapped
    assert_eq!(client.submit(old, 1, Some(9), CORNER), Ok(1));
    assert_eq!(client.submit(new, 1, Some(9), CORNER), Ok(2));
    let mut verdicts = [0; 2].map(|_| client.verdict(soon()).unwrap().unwrap());
    verdicts.sort_by_key(|result| result.sequence);
    let [first, second] = verdicts;
    assert_eq!(first.verdict, Verdict::Failed(Failure::DaemonGone));
    assert_eq!(first.deadline_ns, 9);
    assert_eq!(second.verdict, Verdict::OnTime);
    assert_eq!(daemon.stop().answered, 1);
}

#[test]
fn a_client_may_come_before_its_daemon() {
    let path = path();
    let late = options(&path).open(Some(now_ns() + 5_000_000)).unwrap_err();
    assert!(matches!(late, Lost::NotInTime(_)), "{late}");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| options(&path).open(soon()).map(|mut c| frame(&mut c).1));
        let _daemon = EchoDaemon::start_at(path.clone(), terms());
        assert_eq!(client.join().unwrap().unwrap(), Verdict::OnTime);
    });
}

#[test]
fn other_frames_than_before_are_for_the_application_to_accept() {
    let path = path();
    let daemon = EchoDaemon::start_at(path.clone(), terms());
    let mut client = options(&path).connect().unwrap();
    frame(&mut client);
    daemon.stop();
    assert_eq!(client.verdict(Some(0)).unwrap(), None, "it notices");
    let larger = StreamTerms {
        frame: FrameSpec::packed(PixelFormat::Rgb8, 128, 96),
        slots: 2,
        ..terms()
    };
    let _daemon = EchoDaemon::start_at(path.clone(), larger);
    for _ in 0..2 {
        let lost = client.slot(soon()).unwrap_err();
        let Lost::TermsChanged { was, is } = lost else {
            panic!("{lost}");
        };
        assert_eq!((*was, *is), (terms(), larger));
    }
    client.accept_terms();
    assert_eq!(client.terms(), &larger);
    let mut slot = client.slot(soon()).unwrap().unwrap();
    assert_eq!(slot.pixels().len(), 128 * 96 * 3);
    drop(slot);
    assert_eq!(frame(&mut client), (2, Verdict::OnTime));
}

#[test]
fn a_refusal_that_will_not_pass_ends_the_attempts() {
    let path = path();
    let daemon = EchoDaemon::start_at(path.clone(), terms());
    let mut client = options(&path).connect().unwrap();
    daemon.stop();
    assert_eq!(client.verdict(Some(0)).unwrap(), None, "it notices");
    let _daemon = EchoDaemon::start_refusing(path.clone());
    let lost = client.slot(soon()).unwrap_err();
    assert!(matches!(lost, Lost::Refused(_)), "{lost}");
    let lost = client.verdict(soon()).unwrap_err();
    assert!(matches!(lost, Lost::Refused(_)), "{lost}");
    let lost = options(&path).open(soon()).unwrap_err();
    assert!(matches!(lost, Lost::Refused(_)), "{lost}");
}

#[test]
fn a_client_without_a_daemon_still_refuses_what_it_always_refuses() {
    let path = path();
    let daemon = EchoDaemon::start_at(path.clone(), terms());
    let mut client = options(&path).connect().unwrap();
    let claims: Vec<_> = (0..4)
        .map(|_| client.claim(None).unwrap().unwrap())
        .collect();
    daemon.stop();
    for (claim, x) in claims.into_iter().zip([0, 33, 0, 0]) {
        let submitted = client.submit(claim, 0, None, Crop { x, y: 0 });
        let refused = matches!(submitted, Err(SubmitError::Crop { .. }));
        assert_eq!(refused, x == 33);
    }
    for sequence in 1..=3 {
        let result = client.verdict(Some(0)).unwrap().unwrap();
        assert_eq!(result.sequence, sequence);
        assert_eq!(result.verdict, Verdict::Failed(Failure::DaemonGone));
    }
    assert_eq!(client.unanswered(), 0);
}
