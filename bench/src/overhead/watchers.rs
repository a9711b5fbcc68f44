//! Readers of a daemon's report: what `punctual top`, `status` and `metrics` ask of it.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual_daemon::{Report, ReportError};
use punctual_platform::clock::now_ns;

/// How often each of them reads.
const PERIOD_NS: u64 = 1_000_000_000;

pub struct Watchers {
    /// Each leaves when its sender goes.
    leave: Vec<Sender<()>>,
    threads: Vec<JoinHandle<Result<u64, ReportError>>>,
}

impl Watchers {
    /// Starts `count` of them, evenly spread over their period.
    pub fn start(socket: &Path, count: u32) -> io::Result<Self> {
        let first_ns = now_ns();
        let (mut leave, mut threads) = (Vec::new(), Vec::new());
        for index in 0..count {
            let (sender, told) = channel();
            let socket = socket.to_owned();
            let first_ns = first_ns + u64::from(index) * PERIOD_NS / u64::from(count);
            leave.push(sender);
            let thread = thread::Builder::new().name(format!("watcher/{index}"));
            threads.push(thread.spawn(move || watch(&socket, &told, first_ns))?);
        }
        Ok(Self { leave, threads })
    }

    /// Ends them; how many reports they read together.
    pub fn stop(self) -> Result<u64, ReportError> {
        drop(self.leave);
        let read = |thread: JoinHandle<_>| thread.join().expect("a watcher returns");
        self.threads.into_iter().map(read).sum()
    }
}

fn watch(socket: &Path, told: &Receiver<()>, mut next_ns: u64) -> Result<u64, ReportError> {
    let mut read = 0;
    loop {
        let wait = Duration::from_nanos(next_ns.saturating_sub(now_ns()));
        match told.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(read),
        }
        Report::live(socket)?;
        read += 1;
        next_ns += PERIOD_NS;
    }
}
