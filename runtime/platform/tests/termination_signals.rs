//! SIGTERM to this very process. One test, since signals are the process's; the main test thread
//! does not take part, so the signal is sent to the thread that blocked it.

use punctual_platform::clock;
use punctual_platform::signals::{Signal, TerminationSignals};

#[test]
fn blocked_signals_are_received_one_after_the_other() {
    let signals = TerminationSignals::take_over().unwrap();
    assert_eq!(signals.next(Some(0)), None);
    for (number, expected) in [
        (libc::SIGTERM, Signal::Terminate),
        (libc::SIGINT, Signal::Interrupt),
    ] {
        // SAFETY: signals this thread, which has blocked both.
        unsafe { libc::pthread_kill(libc::pthread_self(), number) };
        let limit = clock::now_ns() + 20_000_000_000;
        assert_eq!(signals.next(Some(limit)), Some(expected));
    }
    assert_eq!(signals.next(Some(0)), None);
}
