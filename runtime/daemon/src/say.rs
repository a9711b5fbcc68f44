//! Words for people, on standard error. Housekeeping and start-up only.

use std::io::Write as _;

/// Says one line; a standard error that is gone is no reason to stop.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "punctuald: {line}");
}
