//! Says events: to the log, and to a listener such as the recorder.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

use log::kv::{ToValue, Value};
use log::{Level, Record, log_enabled};
use punctual_platform::{clock, logging};

use crate::declaration::{Declaration, Declared};
use crate::field::Names;
use crate::list::DaemonEvent;
use crate::note::Note;

type Listener = Box<dyn Fn(&Note) + Send + Sync>;

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// How many notes are kept for people who look at a daemon that runs.
const RECENT_MAX: usize = 32;

static RECENT: Mutex<VecDeque<Note>> = Mutex::new(VecDeque::new());

/// The last notes of the log's usual levels, by time.
#[must_use]
pub fn recent() -> Vec<Note> {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().cloned().collect()
}

fn keep(note: &Note) {
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    if recent.len() == RECENT_MAX {
        recent.pop_front();
    }
    recent.push_back(note.clone());
}

/// From now on `to` hears all that is said, also what the log's levels leave out. Once a process; false if somebody
/// listens already.
pub fn listen(to: impl Fn(&Note) + Send + Sync + 'static) -> bool {
    LISTENER.set(Box::new(to)).is_ok()
}

impl Declaration {
    /// Whether the log wants its lines.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        log_enabled!(target: self.writer.target(), self.level)
    }

    /// Whether the log or a listener wants them.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        LISTENER.get().is_some() || self.is_logged()
    }
}

/// Says an event of the moment.
pub fn say(event: &DaemonEvent) {
    if event.declaration().is_wanted() {
        tell(&Note::new(event, clock::now_ns(), &()));
    }
}

/// Says an event of `at_ns`, which may be earlier, as those of real-time threads are; with the names of its ids.
pub fn say_later(event: &impl Declared, at_ns: u64, names: &dyn Names) {
    if event.declaration().is_wanted() {
        tell(&Note::new(event, at_ns, names));
    }
}

fn tell(note: &Note) {
    if let Some(listener) = LISTENER.get() {
        listener(note);
    }
    if !note.declaration.is_logged() {
        return;
    }
    if note.declaration.level <= Level::Info {
        keep(note);
    }
    let mut pairs = vec![
        ("event", Value::from(note.declaration.name)),
        (logging::AT_NS, Value::from(note.at_ns)),
    ];
    pairs.extend(
        note.fields
            .iter()
            .map(|(name, value)| (*name, value.to_value())),
    );
    log::logger().log(
        &Record::builder()
            .level(note.declaration.level)
            .target(note.declaration.writer.target())
            .key_values(&pairs.as_slice())
            .args(format_args!("{}", note.text))
            .build(),
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use log::kv::{self, Key, VisitSource};
    use log::{LevelFilter, Log, Metadata};
    use punctual_core::ClientId;

    use super::*;
    use crate::list::RtEvent;

    /// What the log and the listener heard: one test uses both, as both are the process's.
    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct TestLog;

    impl Log for TestLog {
        fn enabled(&self, of: &Metadata<'_>) -> bool {
            of.level() <= LevelFilter::Info
        }

        fn log(&self, record: &Record<'_>) {
            struct Pairs(String);
            impl<'kvs> VisitSource<'kvs> for Pairs {
                fn visit_pair(
                    &mut self,
                    key: Key<'kvs>,
                    value: Value<'kvs>,
                ) -> Result<(), kv::Error> {
                    self.0 += &format!(" {key}={value}");
                    Ok(())
                }
            }
            let mut pairs = Pairs(String::new());
            record.key_values().visit(&mut pairs).unwrap();
            let (level, target, line) = (record.level(), record.target(), record.args());
            hear(format!("{level} {target}{}: {line}", pairs.0));
        }

        fn flush(&self) {}
    }

    fn hear(words: String) {
        HEARD.lock().unwrap().push(words);
    }

    fn heard() -> Vec<String> {
        std::mem::take(&mut HEARD.lock().unwrap())
    }

    #[test]
    fn an_event_is_a_line_with_fields_and_a_note_for_the_listener_whatever_the_level() {
        log::set_logger(&TestLog).expect("the only logger here");
        log::set_max_level(LevelFilter::Trace);
        let fault = RtEvent::ClientFault {
            client: ClientId(3),
            fault: "slow memory",
        };
        say_later(&fault, 1_000_002_000, &());
        let line = "WARN punctual_daemon::port event=client-fault at_ns=1000002000 client=3 fault=slow memory: \
                    client 3: disconnected for slow memory";
        assert_eq!(heard(), [line]);
        let detail = DaemonEvent::ThreadPlanned {
            role: "Scheduler".into(),
            core: 1,
            priority: "7".into(),
        };
        say(&detail);
        assert_eq!(heard(), [""; 0], "no detail");
        let kept: Vec<&str> = recent().iter().map(|note| note.declaration.name).collect();
        assert_eq!(kept, ["client-fault"]);
        assert!(listen(|note| hear(note.declaration.name.into())));
        say(&detail);
        assert_eq!(heard(), ["thread-planned"]);
        assert!(!listen(|_| ()));
    }
}
