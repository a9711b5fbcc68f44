//! The backend of the `log` facade: what ordinary threads say, as entries with fields where standard error
//! is the journal, as plain lines where it is not. No thread waits for a reader: a line that finds no
//! room is dropped and counted ([`LineWriter`]).
//!
//! | `log` | journal | plain |
//! |---|---|---|
//! | level | `PRIORITY`: 3 (error), 4 (warn), 5 (info), 7 (debug, trace) | in front of debug and trace, with the target |
//! | time | its own | in front, UTC ([RFC 3339](https://www.rfc-editor.org/rfc/rfc3339)) |
//! | target, a module's path | `PUNCTUAL_TARGET` | |
//! | `key = value;` | `PUNCTUAL_KEY` | |
//! | `event = `[`Event`]`;` | `PUNCTUAL_EVENT`, `MESSAGE_ID` | |
//!
//! Real-time threads say nothing here: words are made on the heap. They have
//! [rings of typed values](crate::rt_log); what one says all the same is dropped and counted, and ends a
//! build with debug assertions.

mod levels;
mod standard_error;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use log::kv::{self, Key, ToValue, Value, VisitSource};
use log::{Level, Log, Metadata, Record};

pub use levels::{ENVIRONMENT, Levels, LevelsError};

use crate::journal::{Journal, Priority};
use crate::line_writer::LineWriter;
use crate::{allocator, clock};

/// A kind of thing to say, for programs that read the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `PUNCTUAL_EVENT`.
    pub name: &'static str,
    /// `MESSAGE_ID`: for ever, as it is what others search for.
    pub message_id: &'static str,
}

impl ToValue for Event {
    fn to_value(&self) -> Value<'_> {
        Value::from(self.name)
    }
}

static BACKEND: OnceLock<Backend> = OnceLock::new();

/// Has everything said at these levels written from now on, panics too; once a process. `program` stands
/// in front of plain lines; `events` are those that its lines may be of.
///
/// The first line starts a thread: signals that the program waits for must be blocked by then.
pub fn start(program: &'static str, events: &'static [Event], levels: &Levels) -> FlushOnDrop {
    let backend = BACKEND.get_or_init(|| Backend::new(program, events, levels.clone()));
    // It fails if the program has a logger of its own, which then gets the records instead.
    if log::set_logger(backend).is_ok() {
        log::set_max_level(backend.levels.most());
    }
    std::panic::set_hook(Box::new(|panic| {
        if let Some(backend) = BACKEND.get() {
            standard_error::tell_panic(backend.program, backend.lines(), panic);
        }
    }));
    FlushOnDrop(())
}

/// When it is dropped, it waits a moment until what was said is written.
#[must_use = "what was said last would be lost"]
#[derive(Debug)]
pub struct FlushOnDrop(());

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        flush();
    }
}

/// Waits a moment for what is not written yet.
pub fn flush() {
    if let Some(lines) = BACKEND.get().and_then(Backend::lines) {
        lines.flush(standard_error::PATIENCE);
    }
}

/// Lines that were dropped because standard error was full.
#[must_use]
pub fn dropped() -> u64 {
    BACKEND.get().map_or(0, Backend::dropped)
}

/// The thread that writes the lines runs on `cores` only from now on.
pub fn keep_to(cores: &[usize]) {
    if let Some(lines) = BACKEND.get().and_then(Backend::lines) {
        lines.keep_to(cores);
    }
}

/// The key of a record that was made at another time than it is written: ns of the monotonic clock.
pub const AT_NS: &str = "at_ns";

/// When a record was made, by the clock that other programs date by.
fn time(record: &Record<'_>) -> SystemTime {
    let at_ns = record.key_values().get(AT_NS.into());
    let at_ns = at_ns.and_then(|value| value.to_u64());
    let at_ns = at_ns.unwrap_or_else(clock::now_ns);
    let unix_ns = at_ns.saturating_add_signed(clock::unix_ahead_ns());
    SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns)
}

#[derive(Debug)]
struct Backend {
    program: &'static str,
    events: &'static [Event],
    levels: Levels,
    /// If standard error goes there. Descriptors and threads are for when there is something to say.
    journal: OnceLock<Option<Journal>>,
    /// None if no thread can be started.
    lines: OnceLock<Option<LineWriter>>,
    /// Lines of real-time threads. Relaxed: a counter that orders nothing.
    refused: AtomicU64,
}

impl Backend {
    const fn new(program: &'static str, events: &'static [Event], levels: Levels) -> Self {
        Self {
            program,
            events,
            levels,
            journal: OnceLock::new(),
            lines: OnceLock::new(),
            refused: AtomicU64::new(0),
        }
    }

    fn journal(&self) -> Option<&Journal> {
        let journal = self.journal.get_or_init(Journal::behind_standard_error);
        journal.as_ref()
    }

    fn lines(&self) -> Option<&LineWriter> {
        let start = || standard_error::start(self.program);
        self.lines.get_or_init(start).as_ref()
    }

    fn dropped(&self) -> u64 {
        let lines = self.lines.get().and_then(Option::as_ref);
        lines.map_or(0, LineWriter::dropped) + self.refused.load(Ordering::Relaxed)
    }

    fn fields(&self, record: &Record<'_>) -> Vec<(String, String)> {
        let mut fields = Fields(Vec::new());
        fields.add("MESSAGE", record.args());
        fields.add("PRIORITY", priority(record.level()).as_str());
        fields.add("SYSLOG_IDENTIFIER", self.program);
        fields.add("PUNCTUAL_TARGET", record.target());
        // `visit_pair` of `Fields` never fails.
        let _ = record.key_values().visit(&mut fields);
        let named = fields.0.iter().find(|(field, _)| field == "PUNCTUAL_EVENT");
        let event = named.and_then(|(_, name)| self.events.iter().find(|event| event.name == name));
        if let Some(event) = event {
            fields.add("MESSAGE_ID", event.message_id);
        }
        fields.0
    }

    fn line(&self, record: &Record<'_>) -> String {
        let (program, words) = (self.program, record.args());
        let time = humantime::format_rfc3339_millis(time(record));
        match record.level() {
            Level::Error | Level::Warn | Level::Info => format!("{time} {program}: {words}\n"),
            level @ (Level::Debug | Level::Trace) => {
                let level = level.as_str().to_ascii_lowercase();
                format!("{time} {program}: {level} {}: {words}\n", record.target())
            }
        }
    }
}

impl Log for Backend {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.levels.enable(metadata.target(), metadata.level())
    }

    fn log(&self, record: &Record<'_>) {
        if allocator::is_realtime() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            debug_assert!(false, "a real-time thread says something in words");
            return;
        }
        if !self.enabled(record.metadata()) {
            return;
        }
        let entry = |journal: &Journal| journal.write(&self.fields(record)).is_ok();
        if !self.journal().is_some_and(entry) {
            standard_error::write(self.lines(), &self.line(record));
        }
    }

    fn flush(&self) {
        flush();
    }
}

const fn priority(level: Level) -> Priority {
    match level {
        Level::Error => Priority::Error,
        Level::Warn => Priority::Warning,
        Level::Info => Priority::Notice,
        Level::Debug | Level::Trace => Priority::Debug,
    }
}

struct Fields(Vec<(String, String)>);

impl Fields {
    fn add(&mut self, field: impl Into<String>, value: impl ToString) {
        self.0.push((field.into(), value.to_string()));
    }
}

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let key = key.as_str().to_ascii_uppercase();
        self.add(format!("PUNCTUAL_{key}"), value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};
    use std::os::unix::net::UnixDatagram;
    use std::path::PathBuf;

    use log::{debug, error, info, trace, warn};

    use super::*;
    use crate::thread::{ThreadSpec, spawn_realtime};

    const FAULT: Event = Event {
        name: "client-fault",
        message_id: "edb91d82256c4ddea11fbe2ed991ed05",
    };

    /// A backend that hears everything that is said to it, at these levels; the process's own stays silent.
    fn backend(levels: &str) -> Backend {
        log::set_max_level(log::LevelFilter::Trace);
        Backend::new("program", &[FAULT], levels.parse().unwrap())
    }

    /// One whose standard error is a pipe.
    fn plain(levels: &str) -> (Backend, PipeReader) {
        let backend = backend(levels);
        let (reader, sink) = pipe().unwrap();
        let writer = LineWriter::start(sink, |lines| format!("{lines} left out\n")).unwrap();
        backend.journal.set(None).unwrap();
        backend.lines.set(Some(writer)).unwrap();
        (backend, reader)
    }

    /// All that is written, as the pipe's other end stays open.
    fn written(backend: &Backend, mut reader: PipeReader) -> String {
        let lines = backend.lines().unwrap();
        lines.write(b"the end\n");
        assert!(lines.flush(Duration::from_secs(20)));
        let mut text = Vec::new();
        while !text.ends_with(b"the end\n") {
            let mut some = [0; 4096];
            let read = reader.read(&mut some).unwrap();
            text.extend_from_slice(&some[..read]);
        }
        text.truncate(text.len() - b"the end\n".len());
        let text = String::from_utf8(text).unwrap();
        let lines = text.split_inclusive('\n');
        lines.map(|line| line.split_once("Z ").unwrap().1).collect()
    }

    #[test]
    fn a_line_has_the_time_of_its_record_which_may_be_earlier_than_its_writing() {
        let (backend, _reader) = plain("info");
        let time = |at_ns: u64| {
            let pairs = [(AT_NS, at_ns)];
            let record = Record::builder()
                .key_values(&pairs)
                .args(format_args!("late"))
                .build();
            let line = backend.line(&record);
            let (time, rest) = line.split_once(' ').unwrap();
            assert_eq!(rest, "program: late\n");
            humantime::parse_rfc3339(time).unwrap()
        };
        let now_ns = clock::now_ns();
        let ago = time(now_ns)
            .duration_since(time(now_ns - 5_000_000_000))
            .unwrap();
        assert!(
            ago.abs_diff(Duration::from_secs(5)) < Duration::from_secs(4),
            "{ago:?}"
        );
    }

    /// One with a journal that this test plays.
    fn journaled(name: &str, levels: &str) -> (Backend, UnixDatagram, PathBuf) {
        let name = format!("punctual-logging-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listening = UnixDatagram::bind(&path).unwrap();
        let backend = backend(levels);
        let journal = Journal::at(&path).unwrap();
        backend.journal.set(Some(journal)).unwrap();
        (backend, listening, path)
    }

    fn entry(listening: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 4096];
        let bytes = listening.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..bytes]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_journal_gets_what_a_line_is_about_in_fields_of_its_own() {
        let (backend, listening, path) = journaled("fields", "debug");
        warn!(logger: backend, event = FAULT, task = "front", client_pid = 17; "slot {}: {}", 3, "gone");
        let expected = [
            "MESSAGE=slot 3: gone",
            "PRIORITY=4",
            "SYSLOG_IDENTIFIER=program",
            "PUNCTUAL_TARGET=punctual_platform::logging::tests",
            "PUNCTUAL_EVENT=client-fault",
            "PUNCTUAL_TASK=front",
            "PUNCTUAL_CLIENT_PID=17",
            "MESSAGE_ID=edb91d82256c4ddea11fbe2ed991ed05",
        ];
        assert_eq!(entry(&listening), expected);
        error!(logger: backend, "plain");
        info!(logger: backend, "plain");
        debug!(logger: backend, "plain");
        trace!(logger: backend, "not at this level");
        for priority in ["PRIORITY=3", "PRIORITY=5", "PRIORITY=7"] {
            let entry = entry(&listening);
            assert_eq!((entry.len(), entry[1].as_str()), (4, priority));
        }
        listening.set_nonblocking(true).unwrap();
        assert!(listening.recv(&mut [0]).is_err());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_journal_that_takes_nothing_gives_way_to_standard_error() {
        let (backend, listening, path) = journaled("gone", "info");
        let (reader, sink) = pipe().unwrap();
        let writer = LineWriter::start(sink, |lines| format!("{lines} left out\n")).unwrap();
        backend.lines.set(Some(writer)).unwrap();
        drop(listening);
        std::fs::remove_file(path).unwrap();
        info!(logger: backend, "heard");
        assert_eq!(written(&backend, reader), "program: heard\n");
    }

    #[test]
    fn plain_lines_have_the_program_in_front_and_details_say_where_they_come_from() {
        let (backend, reader) = plain("info,punctual_platform::logging=debug");
        error!(logger: backend, event = FAULT; "lost");
        warn!(logger: backend, "less");
        info!(logger: backend, "serving");
        debug!(logger: backend, "a client came");
        trace!(logger: backend, "not at this level");
        debug!(logger: backend, target: "punctual_platform::paging", "nor there");
        let expected = "program: lost\nprogram: less\nprogram: serving\n\
                        program: debug punctual_platform::logging::tests: a client came\n";
        assert_eq!(written(&backend, reader), expected);
    }

    #[test]
    fn nobody_waits_for_a_standard_error_that_nobody_reads() {
        let (backend, reader) = plain("info");
        for number in 0..20_000 {
            info!(logger: backend, "line {number}");
        }
        assert!(backend.dropped() > 0);
        drop(reader);
    }

    #[test]
    fn what_a_real_time_thread_says_is_left_out_and_counted() {
        let (backend, reader) = plain("trace");
        let spec = ThreadSpec::new("says", None, None);
        let says = move || {
            // Where assertions are compiled in, it ends there.
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                info!(logger: backend, "words");
            }));
            assert_eq!(said.is_err(), cfg!(debug_assertions));
            backend
        };
        let backend = spawn_realtime(spec, says).unwrap().join().unwrap();
        assert_eq!(backend.dropped(), 1);
        assert_eq!(written(&backend, reader), "");
    }
}
