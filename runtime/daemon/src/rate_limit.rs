//! How much others can make the daemon say, so that a client that fails a thousand times a second does not
//! fill the log.

use log::{Level, info};
use punctual_platform::clock;

/// Lines that others can cause, at most, in one second.
const LINES_MAX: u32 = 20;

/// The second that they are counted in, in ns.
const WINDOW_NS: u64 = 1_000_000_000;

/// As `log!`, for lines that clients cause: drops the line if this limit had too many in this second.
macro_rules! log_limited {
    ($limit:expr, $level:expr, $($said:tt)+) => {
        if log::log_enabled!($level) && $limit.permits($level) {
            log::log!($level, $($said)+);
        }
    };
}
pub(crate) use log_limited;

/// How many lines there were in this second. Details are counted apart, so that they drown nothing else.
#[derive(Debug, Default)]
pub struct RateLimit {
    lines: Window,
    details: Window,
}

impl RateLimit {
    /// Whether one more line may be said, rather than one of too many in this second; it counts as said.
    pub fn permits(&mut self, level: Level) -> bool {
        let window = match level {
            Level::Error | Level::Warn | Level::Info => &mut self.lines,
            Level::Debug | Level::Trace => &mut self.details,
        };
        let (before, now) = window.permits(clock::now_ns());
        if before > 0 {
            info!("{before} more lines of this kind were dropped");
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
}
