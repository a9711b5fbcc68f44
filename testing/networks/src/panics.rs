//! What a thread said when it panicked: a finding with a seed, not the end of the program.

use std::cell::RefCell;
use std::panic;

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on panics are remembered instead of printed.
pub fn remember() {
    panic::set_hook(Box::new(|info| {
        LAST.with(|last| last.replace(info.to_string()));
    }));
}

/// What this thread's last panic said.
pub(crate) fn last() -> String {
    let said = LAST.with(|last| last.take());
    if said.is_empty() {
        "it said nothing".to_owned()
    } else {
        said
    }
}
