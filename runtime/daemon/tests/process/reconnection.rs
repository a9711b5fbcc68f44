//! Clients of a `punctuald` that is killed and started again: they stay, and every submission has
//! exactly one verdict.

use std::collections::BTreeSet;
use std::process::Child;

use crossbeam_channel::unbounded;
use punctual_client::{
    Client, Crop, Failure, Options, PixelFormat, Refusal, ResultRecord, Stream, Verdict,
};
use punctual_client::{ConnectError, Lost};
use punctual_platform::clock::now_ns;
use punctual_platform::shared_memory::MemoryFile;

use crate::support::{Folder, LIMIT, MANIFEST};

const KILLS: usize = 5;
const CORNER: Crop = Crop { x: 0, y: 0 };

/// A daemon that ends with its test.
struct Running(Child);

impl Running {
    fn start(folder: &Folder) -> Self {
        Self(folder.command().spawn().expect("punctuald starts"))
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn soon() -> Option<u64> {
    Some(now_ns() + LIMIT.as_nanos() as u64)
}

fn options(folder: &Folder, task: &str) -> Options {
    Options::new(folder.path("socket"), task, PixelFormat::Rgb8)
}

fn submit(client: &mut Client) {
    let slot = client.slot(soon()).unwrap().expect("a slot");
    slot.submit(now_ns(), None, CORNER).unwrap();
}

/// What was told so far, each submission once.
#[derive(Default)]
struct Heard {
    sequences: BTreeSet<u64>,
    gone: usize,
}

impl Heard {
    fn hear(&mut self, result: &ResultRecord) -> Verdict {
        assert!(self.sequences.insert(result.sequence), "a second verdict");
        self.gone += usize::from(result.verdict == Verdict::Failed(Failure::DaemonGone));
        result.verdict
    }

    fn is_complete(&self) -> bool {
        self.sequences.len() as u64 == self.sequences.last().copied().unwrap_or(0)
    }
}

#[test]
fn a_client_that_asks_outlives_its_daemons_and_loses_no_verdict() {
    let folder = Folder::with(MANIFEST);
    let mut daemon = Running::start(&folder);
    let mut client = options(&folder, "front").open(soon()).unwrap();
    let mut heard = Heard::default();
    for _ in 0..KILLS {
        submit(&mut client);
        heard.hear(&client.verdict(soon()).unwrap().expect("a verdict"));
        submit(&mut client);
        submit(&mut client);
        daemon.kill();
        let killed_ns = now_ns();
        daemon = Running::start(&folder);
        loop {
            while client.unanswered() > 0 {
                heard.hear(&client.verdict(soon()).unwrap().expect("a verdict"));
            }
            submit(&mut client);
            let result = client.verdict(soon()).unwrap().expect("a verdict");
            if heard.hear(&result) == Verdict::OnTime {
                break;
            }
        }
        let ms = (now_ns() - killed_ns) as f64 / 1e6;
        println!("from the kill to the first on-time verdict: {ms:.1} ms");
    }
    assert_eq!(client.connections(), 1 + KILLS as u64);
    assert!(heard.is_complete());
    assert!(heard.gone <= 2 * KILLS + KILLS);
}

#[test]
fn a_stream_with_callbacks_outlives_its_daemons_and_loses_no_verdict() {
    let folder = Folder::with(MANIFEST);
    let mut daemon = Running::start(&folder);
    let stream = options(&folder, "front").stream(soon()).unwrap();
    let (told, verdicts) = unbounded();
    let feed = |stream: &Stream| {
        let slot = stream.slot(soon()).unwrap().expect("a slot");
        let told = told.clone();
        let callback = move |result| told.send(result).expect("the receiver listens");
        slot.submit_then(now_ns(), None, CORNER, callback).unwrap()
    };
    let mut heard = Heard::default();
    let mut hear = |count: usize| {
        let results = (0..count).map(|_| verdicts.recv_timeout(LIMIT).expect("a verdict"));
        results.fold(None, |_, result| Some(heard.hear(&result)))
    };
    for _ in 0..2 {
        feed(&stream);
        hear(1);
        feed(&stream);
        feed(&stream);
        daemon.kill();
        daemon = Running::start(&folder);
        hear(2);
        while feed(&stream) > 0 && hear(1) != Some(Verdict::OnTime) {}
    }
    assert_eq!(stream.connections(), 3);
    assert!(heard.is_complete());
}

#[test]
fn a_task_that_is_gone_after_an_upgrade_ends_its_client_with_the_daemons_words() {
    let folder = Folder::with(MANIFEST);
    let daemon = Running::start(&folder);
    let mut client = options(&folder, "front").open(soon()).unwrap();
    submit(&mut client);
    daemon.kill();
    folder.write(
        "manifest.toml",
        MANIFEST.replace("\"front\"", "\"rear\"").as_bytes(),
    );
    let _daemon = Running::start(&folder);
    let result = client.verdict(soon()).unwrap().expect("a verdict");
    assert_eq!(result.sequence, 1);
    let lost = client.slot(soon()).unwrap_err();
    let Lost::Refused(why) = &lost else {
        panic!("{lost}");
    };
    let unknown = matches!(**why, ConnectError::Refused(Refusal::UnknownTask { .. }));
    assert!(unknown, "{lost}");
}

#[test]
fn a_client_brings_its_buffers_along_to_each_daemon() {
    let folder = Folder::with(&MANIFEST.replace("[[task]]", "[[task]]\nimport_buffers = true"));
    let mut daemon = Running::start(&folder);
    let buffer = |()| {
        MemoryFile::create(c"frame", 320 * 240 * 3)
            .expect("memory")
            .into()
    };
    let options = options(&folder, "front").buffers([(); 2].map(buffer).into());
    let mut client = options.open(soon()).expect("the manifest allows it");
    for daemons in 1..=2 {
        let claim = client.claim(soon()).unwrap().expect("a slot");
        client.give_back(claim);
        assert_eq!(client.connections(), daemons);
        assert_eq!(client.terms().slots, 2);
        let mut claim = client.claim_at(1).expect("free");
        assert!(claim.pixels().is_empty());
        client.submit(claim, now_ns(), None, CORNER).unwrap();
        let verdict = client.verdict(soon()).unwrap().expect("a verdict");
        assert!(verdict.answer.is_some(), "{:?}", verdict.verdict);
        daemon.kill();
        daemon = Running::start(&folder);
    }
}
