//! Words for people, on standard error. Housekeeping and start-up only.

use std::io::Write as _;

use punctual_platform::clock;

/// Lines that others can cause, at most, in one second.
const LINES_MAX: u32 = 20;

/// The second that they are counted in, in ns.
const WINDOW_NS: u64 = 1_000_000_000;

/// Says one line; a standard error that is gone is no reason to stop.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "punctuald: {line}");
}

/// Says what others cause, so that a client that fails a thousand times a second does not fill
/// the log.
#[derive(Debug, Default)]
pub struct Moderated {
    window_ns: u64,
    lines: u32,
}

impl Moderated {
    /// Says one line, unless there were too many in this second.
    pub fn say(&mut self, line: &str) {
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
