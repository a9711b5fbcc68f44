//! Verdicts by descriptor, for several streams, as futures and to callbacks.

use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::echo_daemon::{EchoDaemon, terms};
use crossbeam_channel::{Sender, unbounded};
use punctual_client::{
    Client, Crop, Failure, Lost, Options, PixelFormat, Response, Stream, Streams, Verdict, now_ns,
};
use punctual_platform::Doorbell;
use punctual_platform::poll::wait_readable;

const CORNER: Crop = Crop { x: 0, y: 0 };
const FRAMES: u64 = 500;

fn connect(daemon: &EchoDaemon) -> Client {
    options(daemon).connect().unwrap()
}

fn options(daemon: &EchoDaemon) -> Options {
    Options::new(daemon.path(), "any", PixelFormat::Rgb8)
}

fn soon() -> Option<u64> {
    Some(now_ns() + 20_000_000_000)
}

/// Runs a future: what an executor is at the least.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Bell(Doorbell);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.ring();
        }
    }
    let bell = Arc::new(Bell(Doorbell::new()));
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    let mut seen = bell.0.count();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let now = bell.0.wait(seen, soon());
        assert_ne!(now, seen, "never woken");
        seen = now;
    }
}

#[test]
fn an_event_loop_needs_nothing_but_the_clients_descriptor() {
    let daemon = EchoDaemon::start(terms());
    let path = daemon.path().to_owned();
    let mut client = connect(&daemon);
    client.descriptor().unwrap();
    let mut answered = 0;
    for sequence in 1..=FRAMES {
        let slot = client.slot(soon()).unwrap().unwrap();
        assert_eq!(slot.submit(sequence, None, CORNER), Ok(sequence));
        while answered < sequence {
            match client.try_verdict().unwrap() {
                Some(result) => {
                    answered += 1;
                    assert_eq!(result.sequence, answered);
                }
                None => assert!(wait_readable(client.descriptor().unwrap(), soon())),
            }
        }
    }
    assert_eq!(client.try_verdict().unwrap(), None);
    let quiet = Some(now_ns() + 1_000_000);
    assert!(!wait_readable(client.descriptor().unwrap(), quiet));
    // The same descriptor reports the daemon's end, and the next daemon.
    daemon.stop();
    let _daemon = EchoDaemon::start_at(path, terms());
    while client.connections() == 1 {
        assert!(wait_readable(client.descriptor().unwrap(), soon()));
        assert_eq!(client.try_verdict().unwrap(), None);
    }
    let slot = client.slot(soon()).unwrap().unwrap();
    slot.submit(0, None, CORNER).unwrap();
    let result = loop {
        match client.try_verdict().unwrap() {
            Some(result) => break result,
            None => assert!(wait_readable(client.descriptor().unwrap(), soon())),
        }
    };
    assert_eq!(
        (result.sequence, result.verdict),
        (FRAMES + 1, Verdict::OnTime)
    );
}

#[test]
fn a_descriptor_stays_good_when_the_connection_was_renewed_by_another_call() {
    let daemon = EchoDaemon::start(terms());
    let path = daemon.path().to_owned();
    let mut client = connect(&daemon);
    client.descriptor().unwrap();
    assert_eq!(client.try_verdict().unwrap(), None);
    daemon.stop();
    assert_eq!(client.verdict(Some(0)).unwrap(), None, "it notices");
    let _daemon = EchoDaemon::start_at(path, terms());
    let slot = client.slot(soon()).unwrap().unwrap();
    slot.submit(0, None, CORNER).unwrap();
    let result = loop {
        assert!(wait_readable(client.descriptor().unwrap(), soon()));
        if let Some(result) = client.try_verdict().unwrap() {
            break result;
        }
    };
    assert_eq!(result.verdict, Verdict::OnTime);
}

#[test]
fn verdicts_of_several_streams_are_waited_for_together() {
    let daemons = [(); 3].map(|()| EchoDaemon::start(terms()));
    let mut streams = Streams::new(3).unwrap();
    for (number, daemon) in daemons.iter().enumerate() {
        assert_eq!(streams.add(connect(daemon)).unwrap(), number);
    }
    assert_eq!(streams.verdict(Some(0)).unwrap(), None);
    let mut counts = BTreeMap::new();
    for round in 1..=100 {
        for number in 0..3 {
            let client = streams.get(number).unwrap();
            let slot = client.slot(soon()).unwrap().unwrap();
            slot.submit(round, None, CORNER).unwrap();
        }
        for _ in 0..3 {
            let (number, result) = streams.verdict(soon()).unwrap().unwrap();
            assert_eq!(result.verdict, Verdict::OnTime);
            *counts.entry(number).or_insert(0) += 1;
        }
    }
    assert_eq!(counts, BTreeMap::from([(0, 100), (1, 100), (2, 100)]));
    assert!(streams.get(3).is_none());
    // One daemon less: its stream waits, the others continue.
    let [first, others @ ..] = daemons;
    first.stop();
    let slot = streams.get(1).unwrap().slot(soon()).unwrap().unwrap();
    slot.submit(0, None, CORNER).unwrap();
    assert_eq!(streams.verdict(soon()).unwrap().unwrap().0, 1);
    drop(others);
}

#[test]
fn streams_that_are_all_lost_say_so() {
    let daemon = EchoDaemon::start(terms());
    let mut streams = Streams::new(1).unwrap();
    let once = options(&daemon).reconnect(false).connect().unwrap();
    streams.add(once).unwrap();
    daemon.stop();
    let lost = streams.verdict(soon()).unwrap_err();
    assert!(matches!(lost, Lost::Disconnected(_)), "{lost}");
}

#[test]
fn replies_are_futures_for_any_executor() {
    let daemon = EchoDaemon::start(terms());
    let stream = options(&daemon).stream(None).unwrap();
    for sequence in 1..=FRAMES {
        let mut slot = stream.slot(soon()).unwrap().unwrap();
        slot.pixels().fill(sequence as u8);
        let reply = slot.submit(0, None, CORNER).unwrap();
        assert_eq!(reply.sequence(), sequence);
        let result = block_on(reply);
        assert_eq!(
            (result.sequence, result.verdict),
            (sequence, Verdict::OnTime)
        );
        let class = result.class();
        assert_eq!(class, Some(u16::from(sequence as u8)));
    }
}

#[test]
fn a_renounced_reply_holds_nothing_up() {
    let daemon = EchoDaemon::start(terms());
    let stream = options(&daemon).stream(None).unwrap();
    for _ in 0..100 {
        let slot = stream.slot(soon()).unwrap().unwrap();
        drop(slot.submit(0, None, CORNER).unwrap());
        drop(stream.slot(soon()).unwrap().unwrap());
    }
    let slot = stream.slot(soon()).unwrap().unwrap();
    let reply = slot.submit(0, None, CORNER).unwrap();
    assert_eq!(block_on(reply).sequence, 101);
}

fn submit_to(stream: &Stream, told: &Sender<Response>) {
    let slot = stream.slot(soon()).unwrap().unwrap();
    let told = told.clone();
    let callback = move |result| told.send(result).unwrap();
    slot.submit_then(0, None, CORNER, callback).unwrap();
}

#[test]
fn callbacks_hear_each_verdict_once_from_several_submitting_threads() {
    let daemon = EchoDaemon::start(terms());
    let stream = options(&daemon).stream(None).unwrap();
    let (told, verdicts) = unbounded();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..100).for_each(|_| submit_to(&stream, &told)));
        }
    });
    let mut sequences: Vec<u64> = (0..300)
        .map(|_| {
            verdicts
                .recv_timeout(Duration::from_secs(20))
                .unwrap()
                .sequence
        })
        .collect();
    sequences.sort_unstable();
    assert_eq!(sequences, (1..=300).collect::<Vec<u64>>());
    drop(stream);
    assert!(verdicts.try_recv().is_err());
}

#[test]
fn a_callback_that_panics_costs_only_itself() {
    let daemon = EchoDaemon::start(terms());
    let stream = options(&daemon).stream(None).unwrap();
    let slot = stream.slot(soon()).unwrap().unwrap();
    slot.submit_then(0, None, CORNER, |_| panic!("on purpose"))
        .unwrap();
    let (told, verdicts) = unbounded();
    submit_to(&stream, &told);
    let verdict = verdicts.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(verdict.sequence, 2);
}

#[test]
fn a_stream_outlives_its_daemon_and_tells_what_failed() {
    let daemon = EchoDaemon::start(terms());
    let path = daemon.path().to_owned();
    let stream = options(&daemon).stream(None).unwrap();
    let old = stream.slot(soon()).unwrap().unwrap();
    daemon.stop();
    let _daemon = EchoDaemon::start_at(path, terms());
    let reply = loop {
        let slot = stream.slot(soon()).unwrap().unwrap();
        if stream.connections() == 2 {
            break slot.submit(0, None, CORNER).unwrap();
        }
    };
    assert_eq!(block_on(reply).verdict, Verdict::OnTime);
    let failed = block_on(old.submit(0, None, CORNER).unwrap());
    assert_eq!(failed.verdict, Verdict::Failed(Failure::DaemonGone));
}

#[test]
fn a_stream_that_ends_leaves_nobody_waiting() {
    // A daemon that admits clients and then sends nothing.
    let path = std::env::temp_dir().join(format!("punctual-mute-{}", std::process::id()));
    let listener = punctual_ipc::Listener::bind(&path).unwrap();
    let options = Options::new(&path, "any", PixelFormat::Rgb8);
    let (stream, _mute) = std::thread::scope(|scope| {
        let stream = scope.spawn(|| options.stream(None).unwrap());
        assert!(wait_readable(listener.as_fd(), soon()));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(connection.as_fd(), soon()));
        assert!(connection.hello().unwrap().is_some());
        let mute = connection.admit(&terms()).unwrap();
        (stream.join().unwrap(), mute)
    });
    let slot = stream.slot(soon()).unwrap().unwrap();
    let reply = slot.submit(0, None, CORNER).unwrap();
    drop(stream);
    let result = block_on(reply);
    assert_eq!(result.verdict, Verdict::Failed(Failure::ClientGone));
}
