//! Answers before verdicts, of a daemon that does what each test says.

use std::os::fd::AsFd;

use crate::echo_daemon::{EchoDaemon, each_exit, terms};
use punctual_client::{
    Answer, Client, Crop, Failure, Options, PixelFormat, Response, ResultRecord, Streams, Verdict,
    now_ns,
};
use punctual_ipc::{
    Descriptor, HandedOver, Listener, OutputAreas, PayloadReader, Results, Submissions,
};
use punctual_platform::poll::wait_readable;
use punctual_platform::thread::current_tid;

fn soon() -> Option<u64> {
    Some(now_ns() + 20_000_000_000)
}

fn path(test: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("punctual-answers-{}-{test}", std::process::id()))
}

/// The daemon's side of one connection.
struct Daemon {
    submissions: Submissions,
    _payload: PayloadReader,
    results: Results,
    areas: OutputAreas,
}

/// A submission whose area is the client's.
struct Open {
    of: Descriptor,
    handed: HandedOver,
}

/// A client and its daemon, which is the last one.
fn open(test: &str) -> (Client, Daemon) {
    let path = path(test);
    let listener = Listener::bind(&path).unwrap();
    let options = Options::new(&path, "any", PixelFormat::Rgb8);
    let (client, mut server) = std::thread::scope(|scope| {
        let client = scope.spawn(|| options.connect().unwrap());
        assert!(wait_readable(listener.as_fd(), soon()));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(connection.as_fd(), soon()));
        assert!(connection.hello().unwrap().is_some());
        let (terms, description) = each_exit(terms());
        let server = connection.admit_with(&terms, &description).unwrap();
        (client.join().unwrap(), server)
    });
    let areas = server.areas().unwrap();
    let (submissions, _payload, results) = server.split();
    let daemon = Daemon {
        submissions,
        _payload,
        results,
        areas,
    };
    (client, daemon)
}

impl Daemon {
    /// Takes in the frame that was submitted, whose outputs are the exits' numbers.
    fn take_in(&mut self) -> Open {
        let of = self.submissions.poll().unwrap().unwrap();
        let area = self.areas.reserve().unwrap();
        let mut memory = self.areas.lend(area).unwrap();
        for (exit, part) in memory.as_mut_slice()[64..].chunks_mut(64).enumerate() {
            part[..4].copy_from_slice(&(exit as f32).to_ne_bytes());
        }
        self.areas.put_back(area, memory);
        let handed = self.areas.hand_over(area);
        Open { of, handed }
    }

    fn answer(&mut self, open: &Open, exit: u8, is_final: bool) {
        let record = ResultRecord {
            sequence: open.of.sequence,
            slot: open.of.slot,
            verdict: Verdict::OnTime,
            answer: Some(Answer {
                outputs: Some(open.handed),
                ..Answer::of_class(exit, 1, 2)
            }),
            part: None,
            left_out: 0,
            captured_ns: 0,
            deadline_ns: u64::MAX,
            finished_ns: now_ns(),
            sent_ns: now_ns(),
            is_final,
        };
        self.results.push(&record).unwrap();
    }

    fn has_areas(&mut self) -> usize {
        self.submissions.see_released();
        let free: Vec<u16> = std::iter::from_fn(|| self.areas.reserve()).collect();
        free.iter().for_each(|&area| self.areas.cancel(area));
        free.len()
    }
}

fn submit(client: &mut Client) -> u64 {
    let mut slot = client.slot(soon()).unwrap().unwrap();
    slot.set_vector("speed", &[0.0, 0.0]).unwrap();
    slot.submit(now_ns(), None, Crop { x: 0, y: 0 }).unwrap()
}

/// Whose answer it is, by which exit, and whether it is the verdict. Its outputs are that exit's.
fn place(response: &Response) -> (u64, u8, bool) {
    let exit = response.answer.unwrap().exit;
    let boxes = response.outputs().unwrap().get("boxes").unwrap();
    assert_eq!(boxes.as_f32().unwrap()[0], f32::from(exit));
    (response.sequence, exit, response.is_final)
}

#[test]
fn a_control_loop_takes_the_newest_answer_at_each_turn_and_each_verdict_once() {
    let (mut client, mut daemon) = open("newest");
    assert_eq!(client.latest(), None);
    submit(&mut client);
    let first = daemon.take_in();
    daemon.answer(&first, 0, false);
    let kept: Vec<Response> = (0..3).map(|_| client.latest().unwrap()).collect();
    assert!(kept.iter().all(|it| place(it) == (1, 0, false)));
    submit(&mut client);
    let second = daemon.take_in();
    daemon.answer(&second, 0, false);
    daemon.answer(&first, 1, true);
    assert_eq!(client.latest().map(|it| place(&it)), Some((2, 0, false)));
    daemon.answer(&second, 1, true);
    assert_eq!(client.latest().map(|it| place(&it)), Some((2, 1, true)));
    assert_eq!((client.unanswered(), client.waiting_verdicts()), (2, 2));
    let verdicts: Vec<Response> = std::iter::from_fn(|| client.try_verdict().unwrap()).collect();
    let places: Vec<_> = verdicts.iter().map(place).collect();
    assert_eq!(places, [(1, 1, true), (2, 1, true)]);
    assert_eq!(client.latest(), None);
    // The first answer of a frame holds its area as long as the deeper one of the verdict does.
    drop(verdicts);
    assert_eq!(daemon.has_areas(), 3);
    assert!(kept.iter().all(|it| place(it) == (1, 0, false)));
    drop(kept);
    assert_eq!(daemon.has_areas(), 4);
}

#[test]
fn an_event_loop_hears_of_each_answer_by_the_clients_descriptor() {
    let (mut client, mut daemon) = open("loop");
    client.descriptor().unwrap();
    submit(&mut client);
    let frame = daemon.take_in();
    for (exit, is_final) in [(0, false), (1, true)] {
        assert_eq!(client.try_answer().unwrap(), None);
        daemon.answer(&frame, exit, is_final);
        let answer = loop {
            match client.try_answer().unwrap() {
                Some(answer) => break answer,
                None => assert!(wait_readable(client.descriptor().unwrap(), soon())),
            }
        };
        assert_eq!(place(&answer), (1, exit, is_final));
    }
}

/// How often a thread has gone to sleep, once it sleeps.
fn sleeps(thread: i32) -> u64 {
    let limit = soon();
    while Some(now_ns()) < limit {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
        let line = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap()
        };
        if line("State:").trim().starts_with('S') {
            return line("voluntary_ctxt_switches:").trim().parse().unwrap();
        }
        std::thread::yield_now();
    }
    panic!("it never sleeps");
}

#[test]
fn a_thread_that_waits_for_a_slot_is_not_woken_by_answers() {
    const FRAMES: usize = 4;
    /// After so long it looks for its daemon by itself.
    const LOOK_NS: u64 = 20_000_000;
    let (mut client, mut daemon) = open("slot");
    let frames: Vec<Open> = (0..FRAMES)
        .map(|_| {
            submit(&mut client);
            daemon.take_in()
        })
        .collect();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            tell.send(current_tid()).unwrap();
            client.claim(soon()).unwrap().is_some()
        });
        let thread = told.recv().unwrap();
        let (before, began_ns) = (sleeps(thread), now_ns());
        let mut slept = 0;
        for frame in &frames {
            daemon.answer(frame, 0, false);
            slept = sleeps(thread) - before;
        }
        let looks = 1 + (now_ns() - began_ns) / LOOK_NS;
        assert!(slept <= looks, "{slept} sleeps, {looks} looks");
        daemon.answer(&frames[0], 1, true);
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn a_frame_with_an_answer_fails_when_its_daemon_ends_and_the_answer_stays_readable() {
    let (mut client, mut daemon) = open("end");
    for _ in 0..2 {
        submit(&mut client);
    }
    let (first, second) = (daemon.take_in(), daemon.take_in());
    daemon.answer(&first, 0, false);
    let early = client.answer(soon()).unwrap().unwrap();
    daemon.answer(&second, 0, false);
    assert_eq!(client.latest().map(|it| place(&it)), Some((2, 0, false)));
    drop(daemon);
    let mut verdicts = Vec::new();
    while client.unanswered() > 0 {
        let response = client.answer(soon()).unwrap().unwrap();
        verdicts.extend(response.is_final.then(|| response.record()));
    }
    for (sequence, record) in (1..).zip(&verdicts) {
        assert_eq!(record.verdict, Verdict::Failed(Failure::DaemonGone));
        assert_eq!((record.sequence, record.answer), (sequence, None));
    }
    assert_eq!(verdicts.len(), 2);
    assert_eq!(client.latest(), None);
    assert_eq!(place(&early), (1, 0, false));
}

#[test]
fn answers_of_several_streams_are_waited_for_together() {
    let daemons =
        ["left", "right"].map(|test| EchoDaemon::start_giving_each_exit(path(test), terms()));
    let mut streams = Streams::new(2).unwrap();
    for daemon in &daemons {
        let options = Options::new(daemon.path(), "any", PixelFormat::Rgb8);
        streams.add(options.connect().unwrap()).unwrap();
    }
    for number in [1, 0] {
        submit(streams.get(number).unwrap());
        let (from, answer) = streams.answer(soon()).unwrap().unwrap();
        assert_eq!((from, answer.is_final), (number, false));
        let latest = streams.get(number).unwrap().latest();
        assert_eq!(latest, Some(answer));
    }
    assert_eq!(streams.answer(Some(0)).unwrap(), None);
}
