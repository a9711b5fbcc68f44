//! Words for people: plain lines on standard error, or entries with fields where that is the journal.
//! Housekeeping and start-up only. Nobody waits here for who reads them.

use std::sync::OnceLock;

use punctual_platform::clock;
use punctual_platform::journal::{Journal, Priority};

use crate::standard_error;

/// Lines that others can cause, at most, in one second.
const LINES_MAX: u32 = 20;

/// The second that they are counted in, in ns.
const WINDOW_NS: u64 = 1_000_000_000;

/// What a line tells of, for programs that read the journal (`PUNCTUAL_EVENT=`, `MESSAGE_ID=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Clients may come.
    Started,
    /// It could not start.
    NotStarted,
    /// It answers what it accepted, and ends.
    Stopping,
    Stopped,
    /// A real-time thread no longer moves.
    Stuck,
    /// A model lost its promises, or got them back.
    Demoted,
    /// A client broke the protocol and was disconnected.
    ClientFault,
}

impl Event {
    /// All of them, with their names and message ids. An id is for ever: it is what others search for.
    pub const ALL: [(Self, &'static str, &'static str); 7] = [
        (Self::Started, "started", "903dce8004174b71a0ea92518f93e667"),
        (
            Self::NotStarted,
            "not-started",
            "2f35a347eb124ffa8cdc15df8fd53444",
        ),
        (
            Self::Stopping,
            "stopping",
            "146c6094993043e4bf831d03d3d6f18a",
        ),
        (Self::Stopped, "stopped", "14c2dbf764294204903e6aaea931c546"),
        (Self::Stuck, "stuck", "009aeaad361d464f90ec5a68f43e5e6d"),
        (Self::Demoted, "demoted", "1d1b49d13c3948918eff78e1bf9d8492"),
        (
            Self::ClientFault,
            "client-fault",
            "edb91d82256c4ddea11fbe2ed991ed05",
        ),
    ];

    fn names(self) -> (&'static str, &'static str) {
        let found = Self::ALL.iter().find(|(event, ..)| *event == self);
        found.map_or(("", ""), |(_, name, id)| (name, id))
    }
}

/// One thing to say, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    text: String,
    priority: Priority,
    event: Option<Event>,
    about: Vec<(&'static str, String)>,
}

impl Line {
    fn new(priority: Priority, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            priority,
            event: None,
            about: Vec::new(),
        }
    }

    /// Something is lost, or the daemon ends.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Priority::Error, text)
    }

    /// It goes on, with less than was asked for.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Priority::Warning, text)
    }

    pub fn notice(text: impl Into<String>) -> Self {
        Self::new(Priority::Notice, text)
    }

    pub fn event(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }

    /// It is about this task of the plan.
    pub fn task(self, name: &str) -> Self {
        self.about("PUNCTUAL_TASK", name.to_owned())
    }

    /// It is about this client's process.
    pub fn client_pid(self, pid: i32) -> Self {
        self.about("PUNCTUAL_CLIENT_PID", pid.to_string())
    }

    /// It is about this thread of ours.
    pub fn thread(self, name: &str) -> Self {
        self.about("PUNCTUAL_THREAD", name.to_owned())
    }

    fn about(mut self, field: &'static str, value: String) -> Self {
        self.about.push((field, value));
        self
    }

    fn fields(&self) -> Vec<(&'static str, &str)> {
        let mut fields = vec![
            ("MESSAGE", self.text.as_str()),
            ("PRIORITY", self.priority.as_str()),
            ("SYSLOG_IDENTIFIER", "punctuald"),
        ];
        if let Some(event) = self.event {
            let (name, id) = event.names();
            fields.extend([("PUNCTUAL_EVENT", name), ("MESSAGE_ID", id)]);
        }
        let about = self
            .about
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        fields.extend(about);
        fields
    }
}

impl<T: AsRef<str> + ?Sized> From<&T> for Line {
    fn from(text: &T) -> Self {
        Self::notice(text.as_ref())
    }
}

/// Says one line; a standard error that is gone, or that nobody reads, is no reason to stop.
pub fn say(line: impl Into<Line>) {
    let line = line.into();
    let written = journal().is_some_and(|journal| journal.write(&line.fields()).is_ok());
    if !written {
        standard_error::write(&line.text);
    }
}

/// Says what a service's log is to have, and who looks at a terminal knows without.
pub fn record(line: impl Into<Line>) {
    if journal().is_some() {
        say(line);
    }
}

/// The journal, if standard error goes there; found out once.
fn journal() -> Option<&'static Journal> {
    static JOURNAL: OnceLock<Option<Journal>> = OnceLock::new();
    JOURNAL.get_or_init(Journal::behind_standard_error).as_ref()
}

/// Says what others cause, so that a client that fails a thousand times a second does not fill the log.
#[derive(Debug, Default)]
pub struct Moderated {
    window_ns: u64,
    lines: u32,
}

impl Moderated {
    /// Says one line, unless there were too many in this second.
    pub fn say(&mut self, line: impl Into<Line>) {
        let (before, now) = self.permits(clock::now_ns());
        if before > 0 {
            say(&format!("{before} more lines like these were left out"));
        }
        if now {
            say(line);
        }
    }

    /// How many lines the last second left out, if this is the next one's first; and whether
    /// there is room for another.
    fn permits(&mut self, now_ns: u64) -> (u32, bool) {
        let mut before = 0;
        if now_ns.saturating_sub(self.window_ns) >= WINDOW_NS {
            before = self.lines.saturating_sub(LINES_MAX);
            (self.window_ns, self.lines) = (now_ns, 0);
        }
        self.lines = self.lines.saturating_add(1);
        (before, self.lines <= LINES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_gets_what_a_line_is_about_in_fields_of_its_own() {
        let line = Line::warning("client slot 3: disconnected");
        let line = line.event(Event::ClientFault).task("front").client_pid(17);
        let fields = line.fields();
        for expected in [
            ("MESSAGE", "client slot 3: disconnected"),
            ("PRIORITY", "4"),
            ("PUNCTUAL_EVENT", "client-fault"),
            ("PUNCTUAL_TASK", "front"),
            ("PUNCTUAL_CLIENT_PID", "17"),
        ] {
            assert!(fields.contains(&expected), "{expected:?} in {fields:?}");
        }
        assert_eq!(Line::from("plain").fields().len(), 3);
    }

    #[test]
    fn every_event_has_an_id_of_its_own() {
        for (event, name, id) in Event::ALL {
            assert_eq!(event.names(), (name, id));
            assert_eq!(id.len(), 32);
            let same = Event::ALL.iter().filter(|(_, _, other)| *other == id);
            assert_eq!(same.count(), 1, "{name}");
        }
    }

    #[test]
    fn a_flood_is_cut_and_counted_and_the_next_second_is_heard_again() {
        let mut moderated = Moderated::default();
        let start = 5 * WINDOW_NS;
        let heard = (0..100).filter(|i| moderated.permits(start + i).1).count();
        assert_eq!(heard, LINES_MAX as usize);
        let later = moderated.permits(start + WINDOW_NS);
        assert_eq!(later, (100 - LINES_MAX, true));
        assert_eq!(moderated.permits(start + WINDOW_NS + 1), (0, true));
    }
}
