//! `punctual metrics` of real daemons.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_ipc::PixelFormat;
use punctual_platform::clock;

use crate::support::{Daemon, Folder, LIMIT, MANIFEST, connect, result, submit};

const OPEN_METRICS: &str = "Accept: application/openmetrics-text; version=1.0.0\r\n";

/// The process; killed with this.
pub struct Exporter {
    child: Child,
    said: BufReader<ChildStderr>,
    pub address: SocketAddr,
}

impl Exporter {
    /// At a port that is free.
    pub fn of(socket: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["metrics", "--listen", "127.0.0.1:0", "--socket"])
            .arg(socket)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        let address = line.trim().strip_prefix("punctual metrics: serves http://");
        let address = address
            .and_then(|url| url.strip_suffix("/metrics"))
            .expect("an address");
        Self {
            address: address.parse().expect("an address"),
            child,
            said,
        }
    }

    /// What a scrape by Prometheus gets, which is answered in any case.
    fn scrape(&self) -> String {
        let answer = get(self.address, "/metrics", OPEN_METRICS);
        assert!(answer.ends_with("# EOF\n"), "{answer}");
        answer
    }

    /// The first scrape that is as wanted: what one saw is shared with others for a moment.
    fn scrape_when(&self, wanted: impl Fn(&str) -> bool) -> String {
        let limit_ns = clock::now_ns() + LIMIT.as_nanos() as u64;
        loop {
            let text = self.scrape();
            if wanted(&text) {
                return text;
            }
            assert!(clock::now_ns() < limit_ns, "still not so: {text}");
        }
    }

    /// Asks it to end; all that it said since its start.
    fn stop(mut self, signal: Signal) -> String {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        assert_eq!(
            self.child.wait().expect("it ends").code(),
            Some(0),
            "{said}"
        );
        said
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of an answer, which must be a success.
pub fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let answer = answer(address, path, headers).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    assert!(head.split(' ').nth(1) == Some("200"), "{path}: {answer}");
    body.to_owned()
}

/// None: nothing listens there.
pub fn answer(address: SocketAddr, path: &str, headers: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    // Of this version no answer is in chunks.
    let request = format!("GET {path} HTTP/1.0\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The value of a series, by the line that it has.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series))?;
    line.trim().parse().ok()
}

/// Samples of all kinds.
fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

fn is_up(text: &str) -> bool {
    value(text, "punctual_up ") == Some(1.0)
}

const ON_TIME: &str = r#"punctual_frames_total{task="front",verdict="on_time",reason=""}"#;
const LATE: &str = r#"punctual_frames_total{task="front",verdict="late",reason=""}"#;

fn answered(text: &str) -> f64 {
    value(text, ON_TIME).expect("a count") + value(text, LATE).expect("a count")
}

/// Lets the daemon answer frames.
pub fn frames(daemon: &Daemon, count: usize) {
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    for _ in 0..count {
        submit(&mut client);
        result(&mut client);
    }
}

#[test]
fn metrics_are_the_daemons_and_begin_anew_with_the_next_one() {
    let mut daemon = Daemon::start(MANIFEST);
    let exporter = Exporter::of(&daemon.socket());
    frames(&daemon, 3);
    let text = exporter.scrape();
    assert!(is_up(&text), "{text}");
    assert_eq!(answered(&text), 3.0, "{text}");
    let count = value(&text, r#"punctual_latency_seconds_count{task="front"}"#);
    assert_eq!(count, Some(3.0), "{text}");
    daemon.kill();
    exporter.scrape_when(|text| samples(text) == ["punctual_up 0.0"]);
    let folder = std::mem::replace(&mut daemon.folder, Folder::with(MANIFEST));
    folder.remove("notify");
    let next = Daemon::start_in(folder);
    frames(&next, 1);
    let text = exporter.scrape_when(is_up);
    assert_eq!(answered(&text), 1.0, "{text}");
    let said = exporter.stop(Signal::SIGTERM);
    assert!(said.contains("no report: no daemon listens at"), "{said}");
    assert!(said.contains("the daemon gives its report again"), "{said}");
    next.stop();
}

#[test]
fn a_daemon_that_stands_still_is_away_until_it_goes_on() {
    let daemon = Daemon::start(MANIFEST);
    let exporter = Exporter::of(&daemon.socket());
    daemon.signal("STOP");
    let began_ns = clock::now_ns();
    let text = exporter.scrape();
    let took = Duration::from_nanos(clock::now_ns() - began_ns);
    daemon.signal("CONT");
    assert_eq!(samples(&text), ["punctual_up 0.0"]);
    assert!(
        took > Duration::from_millis(900) && took < LIMIT,
        "{took:?}"
    );
    exporter.scrape_when(is_up);
    exporter.stop(Signal::SIGINT);
}

#[test]
fn an_address_that_is_taken_is_said() {
    let folder = Folder::with(MANIFEST);
    let exporter = Exporter::of(&folder.socket());
    assert_eq!(samples(&exporter.scrape()), ["punctual_up 0.0"]);
    let taken = exporter.address.to_string();
    let mut second = Command::new(env!("CARGO_BIN_EXE_punctual"));
    second
        .args(["metrics", "--listen", &taken, "--socket"])
        .arg(folder.socket());
    let output = second.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains(&format!("cannot listen at {taken}: Address already in use")),
        "{said}"
    );
}
