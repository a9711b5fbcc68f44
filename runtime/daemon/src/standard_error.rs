//! Standard error, which perhaps nobody reads: no thread of the daemon waits for it
//! ([`punctual_platform::line_writer`]), nor does the daemon's end, for longer than a moment.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::panic::{Location, PanicHookInfo};
use std::sync::OnceLock;
use std::time::Duration;

use punctual_platform::line_writer::LineWriter;
use punctual_platform::{clock, poll};

/// How long the end of the process waits until somebody has read the last lines.
const PATIENCE: Duration = Duration::from_millis(150);

/// Of a panic's message, so that it needs no heap.
const PANIC_BYTES_MAX: usize = 1024;

/// None if no thread could be had, so that the daemon cannot start.
fn writer() -> Option<&'static LineWriter> {
    static WRITER: OnceLock<Option<LineWriter>> = OnceLock::new();
    let start = || LineWriter::start(io::stderr(), left_out).ok();
    WRITER.get_or_init(start).as_ref()
}

fn left_out(lines: u64) -> String {
    format!("punctuald: {lines} lines were left out here: nobody read standard error\n")
}

/// Has a line written, or drops and counts it.
pub fn write(line: &str) {
    let line = format!("punctuald: {line}\n");
    let Some(writer) = writer() else {
        let mut direct = io::stderr();
        let until_ns = clock::now_ns() + PATIENCE.as_nanos() as u64;
        if poll::wait_writable(direct.as_fd(), Some(until_ns)) {
            let _ = direct.write_all(line.as_bytes());
        }
        return;
    };
    writer.write(line.as_bytes());
}

pub fn dropped() -> u64 {
    writer().map_or(0, LineWriter::dropped)
}

/// Whoever writes the lines runs on `cores` only from now on.
pub fn keep_to(cores: &[usize]) {
    if let Some(writer) = writer() {
        writer.keep_to(cores);
    }
}

/// Waits a moment for what is not written yet.
pub fn flush() {
    if let Some(writer) = writer() {
        writer.flush(PATIENCE);
    }
}

/// While it is there, panics are said here too; when it goes, what was said is written, if somebody reads it.
pub struct LastWords(());

impl LastWords {
    pub fn take_over() -> Self {
        std::panic::set_hook(Box::new(tell_panic));
        Self(())
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        flush();
    }
}

/// The standard library's own hook would have a real-time thread wait for who reads standard error.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let Some(writer) = writer() else { return };
    let thread = std::thread::current();
    let words = panic.payload_as_str().unwrap_or("?");
    let line = panic_line(thread.name().unwrap_or("?"), panic.location(), words);
    writer.write_at_once(line.as_bytes());
    let trace = std::backtrace::Backtrace::capture();
    if trace.status() == std::backtrace::BacktraceStatus::Captured {
        writer.write_at_once(trace.to_string().as_bytes());
    }
    // There, unwinding ends the process: it allocates.
    if cfg!(debug_assertions) {
        flush();
    }
}

/// Of bounded length, on the stack.
fn panic_line(
    thread: &str,
    place: Option<&Location<'_>>,
    words: &str,
) -> heapless::String<PANIC_BYTES_MAX> {
    let words = &words[..words.floor_char_boundary(PANIC_BYTES_MAX / 2)];
    let mut line = heapless::String::new();
    // Names of threads and files are short: all of it fits.
    let _ = write!(line, "punctuald: thread '{thread}' panicked");
    if let Some(place) = place {
        let _ = write!(line, " at {place}");
    }
    let _ = writeln!(line, ": {words}");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panics_line_says_where_and_what_however_long_that_is() {
        let line = panic_line("main/0", Some(Location::caller()), "no such region");
        let expected = "punctuald: thread 'main/0' panicked at ";
        assert!(line.starts_with(expected), "{line}");
        assert!(line.contains("standard_error.rs:") && line.ends_with(": no such region\n"));
        let line = panic_line("main/0", None, &"\u{fc}".repeat(PANIC_BYTES_MAX));
        assert!(line.ends_with("\u{fc}\n"), "{line}");
    }
}
