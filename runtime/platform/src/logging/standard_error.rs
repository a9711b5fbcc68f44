//! Standard error, whose reader may have stopped. No thread of a program that logs waits for it
//! ([`crate::line_writer`]). The program's end waits for it for [`PATIENCE`] at most.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::panic::{Location, PanicHookInfo};
use std::time::Duration;

use crate::line_writer::LineWriter;
use crate::{clock, poll};

/// How long the end of the process waits until the last lines are written.
pub(super) const PATIENCE: Duration = Duration::from_millis(150);

/// The most bytes of a panic's line. It is fixed so that the line lies on the stack: a real-time thread that
/// panics must not allocate.
const PANIC_BYTES_MAX: usize = 1024;

/// None if no thread can be started.
pub(super) fn start(program: &'static str) -> Option<LineWriter> {
    let left_out = move |lines| {
        format!("{program}: {lines} lines were dropped here: standard error was full\n")
    };
    LineWriter::start(io::stderr(), left_out).ok()
}

/// Has a line written, or drops and counts it; without a thread that writes, waits a moment for room.
pub(super) fn write(writer: Option<&LineWriter>, line: &str) {
    if let Some(writer) = writer {
        writer.write(line.as_bytes());
        return;
    }
    let mut direct = io::stderr();
    let until_ns = clock::now_ns() + PATIENCE.as_nanos() as u64;
    if poll::wait_writable(direct.as_fd(), Some(until_ns)) {
        let _ = direct.write_all(line.as_bytes());
    }
}

/// In place of the standard library's hook, which writes to standard error itself: a real-time thread would
/// wait until its reader reads.
pub(super) fn tell_panic(program: &str, writer: Option<&LineWriter>, panic: &PanicHookInfo<'_>) {
    let Some(writer) = writer else { return };
    let thread = std::thread::current();
    let words = panic.payload_as_str().unwrap_or("?");
    let thread = thread.name().unwrap_or("?");
    let mut buffer = [0; PANIC_BYTES_MAX];
    writer.write_at_once(panic_line(
        &mut buffer,
        program,
        thread,
        panic.location(),
        words,
    ));
    let trace = std::backtrace::Backtrace::capture();
    if trace.status() == std::backtrace::BacktraceStatus::Captured {
        writer.write_at_once(trace.to_string().as_bytes());
    }
    // Unwinding allocates, and in such a build an allocation of a real-time thread may end the process: the line
    // must be written before.
    if cfg!(debug_assertions) {
        writer.flush(PATIENCE);
    }
}

/// What a thread of a program said when it panicked, in `buffer`.
fn panic_line<'a>(
    buffer: &'a mut [u8; PANIC_BYTES_MAX],
    program: &str,
    thread: &str,
    place: Option<&Location<'_>>,
    words: &str,
) -> &'a [u8] {
    let words = &words[..words.floor_char_boundary(PANIC_BYTES_MAX / 2)];
    let mut rest = &mut buffer[..];
    // Names of threads and files are short: all of it fits.
    let _ = write!(rest, "{program}: thread '{thread}' panicked");
    if let Some(place) = place {
        let _ = write!(rest, " at {place}");
    }
    let _ = writeln!(rest, ": {words}");
    let left = rest.len();
    &buffer[..PANIC_BYTES_MAX - left]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(place: Option<&Location<'_>>, words: &str) -> String {
        let mut buffer = [0; PANIC_BYTES_MAX];
        let line = panic_line(&mut buffer, "punctuald", "main/0", place, words);
        String::from_utf8(line.to_vec()).unwrap()
    }

    #[test]
    fn a_panics_line_says_where_and_what_however_long_that_is() {
        let short = line(Some(Location::caller()), "no such region");
        let expected = "punctuald: thread 'main/0' panicked at ";
        assert!(short.starts_with(expected), "{short}");
        assert!(short.contains("standard_error.rs:") && short.ends_with(": no such region\n"));
        let long = line(None, &"\u{fc}".repeat(PANIC_BYTES_MAX));
        assert!(long.ends_with("\u{fc}\n"), "{long}");
    }
}
