//! Lines for a descriptor whose reader may have stopped: a write to a full pipe or to a stopped log service
//! blocks without limit. So a thread of its own writes, from a bounded buffer. A line that finds the buffer full
//! is dropped and counted.
//!
//! The descriptor itself stays blocking: `O_NONBLOCK` belongs to the open file description, which a shell
//! or a sibling shares.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::Builder;
use std::time::Duration;

use crate::error::OsError;
use crate::thread::ThreadError;
use crate::{affinity, capabilities, clock, poll};

/// Bytes that wait, in addition to those that are being written. A longer line is taken if nothing waits.
pub const WAITING_BYTES_MAX: usize = 64 << 10;

/// It writes, and calls nothing else. Memory that is locked has all of it.
const STACK_BYTES: usize = 64 << 10;

/// How long a descriptor that another process made non-blocking is waited for before it is looked at again.
const LOOK_NS: u64 = 1_000_000_000;

/// Takes lines and has them written. Never waits for the descriptor; see the [module](self).
#[derive(Debug)]
pub struct LineWriter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Relaxed: a counter that orders nothing.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct State {
    waiting: Vec<u8>,
    /// Whether the thread has taken something that is not written yet.
    writing: bool,
    /// Of those dropped, how many a line has told of.
    told: u64,
    /// Where the thread is to run, if that is new.
    cores: Option<Vec<usize>>,
}

impl LineWriter {
    /// Starts the thread, which writes to `sink` until the process ends. `notice` makes the line
    /// that says how many were dropped.
    pub fn start(
        sink: impl Write + AsFd + Send + 'static,
        notice: impl Fn(u64) -> String + Send + 'static,
    ) -> Result<Self, ThreadError> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                waiting: Vec::with_capacity(WAITING_BYTES_MAX),
                writing: false,
                told: 0,
                cores: None,
            }),
            changed: Condvar::new(),
            dropped: AtomicU64::new(0),
        });
        let writer = Arc::clone(&shared);
        let name = "log";
        Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                capabilities::give_up_if_wanted();
                writer.write_all(sink, notice);
            })
            .map_err(|source| ThreadError::Start {
                name: name.to_owned(),
                source: OsError {
                    call: "pthread_create",
                    source,
                },
            })?;
        Ok(Self { shared })
    }

    /// Has `line`, which ends with a newline, written; false if it is dropped.
    pub fn write(&self, line: &[u8]) -> bool {
        let taken = self.shared.lock().take(line);
        self.shared.taken(taken)
    }

    /// As [`write`](Self::write), but does not even wait for another thread that says something: for one
    /// that panics, wherever it does. Allocates nothing.
    pub fn write_at_once(&self, line: &[u8]) -> bool {
        let taken = match self.shared.state.try_lock() {
            Ok(mut state) => state.take(line),
            Err(TryLockError::Poisoned(state)) => state.into_inner().take(line),
            Err(TryLockError::WouldBlock) => false,
        };
        self.shared.taken(taken)
    }

    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The thread runs on `cores` only from now on.
    pub fn keep_to(&self, cores: &[usize]) {
        self.shared.lock().cores = Some(cores.to_owned());
        self.shared.changed.notify_all();
    }

    /// Waits until all is written, for at most `patience`; whether it is.
    pub fn flush(&self, patience: Duration) -> bool {
        let unwritten = |state: &mut State| state.writing || !state.waiting.is_empty();
        let shared = &self.shared;
        let waited = shared
            .changed
            .wait_timeout_while(shared.lock(), patience, unwritten);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl State {
    fn take(&mut self, line: &[u8]) -> bool {
        let fits = self.waiting.is_empty() || self.waiting.len() + line.len() <= WAITING_BYTES_MAX;
        if fits {
            self.waiting.extend_from_slice(line);
        }
        fits
    }
}

impl Shared {
    /// Nothing in here panics with the lock held, and if it did the text would still be text.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self, taken: bool) -> bool {
        if taken {
            self.changed.notify_all();
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn write_all(&self, mut sink: impl Write + AsFd, notice: impl Fn(u64) -> String) {
        let mut text = Vec::with_capacity(WAITING_BYTES_MAX);
        loop {
            let (untold, cores) = self.next(&mut text);
            if let Some(cores) = cores {
                // It runs anywhere then, which is no loss of a line.
                let _ = affinity::keep_current_thread_to(&cores);
            }
            if untold > 0 {
                text.extend_from_slice(notice(untold).as_bytes());
            }
            // A sink that is gone is no reason to stop.
            let _ = write_to(&mut sink, &text);
            text.clear();
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }

    /// Waits for something to write, or to do; `text`, which is empty, gets it. How many lines were
    /// dropped before and not told of.
    fn next(&self, text: &mut Vec<u8>) -> (u64, Option<Vec<usize>>) {
        let idle = |state: &mut State| state.waiting.is_empty() && state.cores.is_none();
        let state = self.changed.wait_while(self.lock(), idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.waiting, text);
        state.writing = true;
        let dropped = self.dropped.load(Ordering::Relaxed);
        let untold = dropped - std::mem::replace(&mut state.told, dropped);
        (untold, state.cores.take())
    }
}

fn write_to(sink: &mut (impl Write + AsFd), mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match sink.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => text = &text[bytes..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another process that shares the open file made it non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = poll::wait_writable(sink.as_fd(), Some(clock::now_ns() + LOOK_NS));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, PipeReader, Read, pipe};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn notice(lines: u64) -> String {
        format!("{lines} dropped\n")
    }

    /// A writer to a pipe that is not read, after more lines than fit anywhere; and how many of them it has taken.
    fn overfull() -> (LineWriter, PipeReader, u64) {
        let (reader, sink) = pipe().unwrap();
        let writer = LineWriter::start(sink, notice).unwrap();
        let mut taken = 0;
        for number in 0..20_000 {
            taken += u64::from(writer.write(format!("line {number}\n").as_bytes()));
        }
        (writer, reader, taken)
    }

    #[test]
    fn lines_arrive_in_order_and_a_flush_waits_for_them() {
        let (mut reader, sink) = pipe().unwrap();
        let writer = LineWriter::start(sink, notice).unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            assert!(writer.write(line.as_bytes()));
        }
        assert!(writer.flush(LONG));
        let mut text = [0; 14];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"one\ntwo\nthree\n");
        assert_eq!(writer.dropped(), 0);
    }

    #[test]
    fn a_pipe_that_nobody_reads_blocks_nobody_and_what_is_lost_is_told_when_somebody_reads() {
        let (writer, reader, taken) = overfull();
        assert!(!writer.flush(Duration::from_millis(20)));
        let dropped = writer.dropped();
        assert!(dropped > 0 && taken + dropped == 20_000);
        let read_all = move || {
            let lines = BufReader::new(reader).lines().map(Result::unwrap);
            let (mut read, mut told) = (0, 0);
            for line in lines.take_while(|line| line != "the end") {
                match line.strip_suffix(" dropped") {
                    Some(count) => told += count.parse::<u64>().unwrap(),
                    None => read += 1,
                }
            }
            (told, read)
        };
        // Not in a scope, which would wait for it when an assertion fails.
        let reading = Builder::new().spawn(read_all).unwrap();
        // What was dropped is told of after the next line that is taken.
        for line in ["", "there is room again\n", "the end\n"] {
            assert!(writer.write(line.as_bytes()) && writer.flush(LONG));
        }
        assert_eq!(reading.join().unwrap(), (dropped, taken + 1));
    }

    #[test]
    fn a_thread_that_panics_waits_for_no_other() {
        let (writer, _reader, _) = overfull();
        let held = writer.shared.lock();
        let before = writer.dropped();
        assert!(!writer.write_at_once(b"panicked\n"));
        assert_eq!(writer.dropped(), before + 1);
        drop(held);
    }

    #[test]
    fn a_line_that_is_longer_than_all_room_is_taken_if_nothing_waits() {
        let (mut reader, sink) = pipe().unwrap();
        let writer = LineWriter::start(sink, notice).unwrap();
        let mut line = vec![b'x'; 3 * WAITING_BYTES_MAX];
        line.push(b'\n');
        assert!(writer.write(&line));
        let mut text = vec![0; line.len()];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(text, line);
    }

    #[test]
    fn a_sink_that_somebody_made_non_blocking_loses_nothing() {
        use std::os::unix::net::UnixStream;
        let (mut reader, sink) = UnixStream::pair().unwrap();
        sink.set_nonblocking(true).unwrap();
        let writer = LineWriter::start(sink, notice).unwrap();
        let line = vec![b'x'; 1 << 20];
        assert!(writer.write(&line));
        let mut text = vec![0; line.len()];
        reader.read_exact(&mut text).unwrap();
        assert!(text == line && writer.flush(LONG));
    }
}
