//! How much others can make the daemon say, so that a client that fails a thousand times a second does not
//! fill the log.

use log::Level;
use punctual_core::TaskId;
use punctual_events::{DaemonEvent, Declared, Names, say, say_later};
use punctual_platform::clock;

/// Lines that others can cause, at most, in one second.
const LINES_MAX: u32 = 20;

/// The second that they are counted in, in ns.
const WINDOW_NS: u64 = 1_000_000_000;

/// How many lines there were in this second. Details are counted apart, so that they drown nothing else.
#[derive(Debug, Default)]
pub struct RateLimit {
    lines: Window,
    details: Window,
}

impl RateLimit {
    /// Says an event that others can cause, unless there were too many in this second.
    pub fn say(&mut self, event: &DaemonEvent) {
        self.say_with(event, &());
    }

    /// The same, of an event with ids that have names.
    pub fn say_with(&mut self, event: &DaemonEvent, names: &dyn Names) {
        let declaration = event.declaration();
        if declaration.is_wanted() && self.permits(declaration.level) {
            say_later(event, clock::now_ns(), names);
        }
    }

    /// Whether one more line may be said, rather than one of too many in this second; it counts as said.
    pub fn permits(&mut self, level: Level) -> bool {
        let window = match level {
            Level::Error | Level::Warn | Level::Info => &mut self.lines,
            Level::Debug | Level::Trace => &mut self.details,
        };
        let (before, now) = window.permits(clock::now_ns());
        if before > 0 {
            say(&DaemonEvent::LinesDropped { count: before });
        }
        now
    }
}

#[derive(Debug, Default)]
struct Window {
    began_ns: u64,
    lines: u32,
}

impl Window {
    /// How many lines the last second left out, if this is the next one's first; and whether
    /// there is room for another.
    fn permits(&mut self, now_ns: u64) -> (u32, bool) {
        let mut before = 0;
        if now_ns.saturating_sub(self.began_ns) >= WINDOW_NS {
            before = self.lines.saturating_sub(LINES_MAX);
            (self.began_ns, self.lines) = (now_ns, 0);
        }
        self.lines = self.lines.saturating_add(1);
        (before, self.lines <= LINES_MAX)
    }
}

/// Who was refused, or came. By user, as a client that is started again after each refusal is another process; and by task,
/// so that a user's one client does not drown out another. Names that are no task's are one: the client chooses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub uid: u32,
    pub task: Option<TaskId>,
}

/// Events of the same kind that are told in [`REPEATS_NS`]; the others are counted.
const REPEATS_TOLD: u32 = 3;

/// How long they are counted before the count is told, in ns.
pub const REPEATS_NS: u64 = 60_000_000_000;

/// Kinds that are counted at once. Users are few, and tasks are the plan's; more kinds than these are only
/// limited in how many lines a second they make.
const REPEATS_KINDS: usize = 32;

/// How often clients were refused, or came, so that one that tries again every few milliseconds makes a few lines a minute.
#[derive(Debug, Default)]
pub struct Repeats {
    kinds: [Option<Counted>; REPEATS_KINDS],
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    who: Who,
    began_ns: u64,
    count: u32,
}

impl Repeats {
    /// Whether this one may be told; it counts.
    pub fn permits(&mut self, who: Who, now_ns: u64) -> bool {
        let is_same = |kind: &Option<Counted>| kind.is_some_and(|kind| kind.who == who);
        let known = self.kinds.iter().position(is_same);
        let place = known.or_else(|| self.kinds.iter().position(Option::is_none));
        let Some(place) = place else {
            return true;
        };
        let kind = self.kinds[place].get_or_insert(Counted {
            who,
            began_ns: now_ns,
            count: 0,
        });
        kind.count = kind.count.saturating_add(1);
        kind.count <= REPEATS_TOLD
    }

    /// How many of a kind were counted and not told, of one whose time is over: it is forgotten. None if there
    /// is no such kind (any more).
    pub fn untold(&mut self, now_ns: u64) -> Option<(Who, u32)> {
        for place in &mut self.kinds {
            let is_over = |kind: &mut Counted| now_ns.saturating_sub(kind.began_ns) >= REPEATS_NS;
            if let Some(kind) = place.take_if(is_over)
                && kind.count > REPEATS_TOLD
            {
                return Some((kind.who, kind.count - REPEATS_TOLD));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_the_next_second_is_heard_again() {
        let mut window = Window::default();
        let start = 5 * WINDOW_NS;
        let heard = (0..100).filter(|i| window.permits(start + i).1).count();
        assert_eq!(heard, LINES_MAX as usize);
        let later = window.permits(start + WINDOW_NS);
        assert_eq!(later, (100 - LINES_MAX, true));
        assert_eq!(window.permits(start + WINDOW_NS + 1), (0, true));
    }

    #[test]
    fn a_client_that_tries_again_and_again_is_told_of_three_times_and_then_counted() {
        let mut repeats = Repeats::default();
        let of = |uid, task| Who { uid, task };
        let (one, other) = (of(7, Some(TaskId(1))), of(7, None));
        let heard = (0..240).filter(|i| repeats.permits(one, i * 250_000_000));
        assert_eq!(heard.count(), REPEATS_TOLD as usize);
        assert!(repeats.permits(other, REPEATS_NS - 1), "of its own");
        assert_eq!(repeats.untold(REPEATS_NS - 1), None, "not yet");
        assert_eq!(repeats.untold(REPEATS_NS), Some((one, 237)));
        assert_eq!(repeats.untold(REPEATS_NS), None);
        assert!(repeats.permits(one, REPEATS_NS), "a new minute");
        assert_eq!(repeats.untold(u64::MAX), None, "all were told");
    }

    #[test]
    fn more_kinds_of_refusals_than_can_be_counted_are_told() {
        let mut repeats = Repeats::default();
        for uid in 0..2 * REPEATS_KINDS as u32 {
            assert!(repeats.permits(Who { uid, task: None }, 0));
        }
    }
}
