//! `punctual daemon`: the same as `punctuald`.

use punctual_plan::Policies;
use punctual_platform::termination::Termination;

pub use punctual_daemon::Options;

/// Serves until a signal.
pub fn run(options: &Options, policies: &Policies) -> Termination {
    match punctual_daemon::run(options, policies) {
        punctual_daemon::Termination::Clean => Termination::Done,
        other => Termination::Code(other.code()),
    }
}
