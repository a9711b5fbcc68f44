//! `punctual daemon`: the same as `punctuald`.

use punctual_platform::termination::Termination;

pub use punctual_daemon::Options;

/// Serves until a signal.
pub fn run(options: &Options) -> Termination {
    match punctual_daemon::run(options) {
        punctual_daemon::Termination::Clean => Termination::Done,
        other => Termination::Code(other.code()),
    }
}
