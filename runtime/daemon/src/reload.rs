//! Why a daemon is not reloaded: its plan is frozen at the start, since promises were tested against it and
//! memory was sized by it. It reports to the service manager whether a restart would work.

use log::info;
use punctual_events::message_ids;
use punctual_plan::Policies;
use punctual_platform::logging;

use crate::{Options, Termination, startup};

/// Says on standard error why nothing is reloaded, and whether a restart would work. The daemon that runs,
/// if one does, is left alone.
#[must_use]
pub fn refuse_reload(options: &Options, policies: &Policies) -> Termination {
    let _last_words = logging::start("punctuald", message_ids(), &options.log);
    let source = options.manifest();
    let path = source.path.display();
    let copy = if source.is_credential {
        " (a credential: the copy that was made at the last start)"
    } else {
        ""
    };
    info!(
        "nothing was reloaded: the plan is frozen when the daemon starts. It continues to serve, unchanged"
    );
    match startup::plan(options, policies) {
        Ok(_) => {
            info!("{path}{copy} is valid: a restart would serve it");
            Termination::ReloadRefused
        }
        Err(error) => {
            info!("a restart would not serve it, as {path}{copy} is not valid now: {error}");
            error.termination()
        }
    }
}
