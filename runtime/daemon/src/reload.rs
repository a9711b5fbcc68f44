//! A reload: a daemon's plan is frozen at its start, since promises were tested against it and memory was sized by it. So the
//! present configuration is checked by a process of its own, and only if it can be served does the daemon end in order,
//! for the service manager to start it again.

use log::{error, info};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_events::message_ids;
use punctual_plan::{Plan, Policies};
use punctual_platform::logging;

use crate::options::ManifestSource;
use crate::validate::validate;
use crate::{Options, StartupError, Termination, host, startup};

/// Checks the present configuration, and asks the daemon of this process id to end if it can be served; says on standard error
/// what came of it. Otherwise the daemon is left alone.
#[must_use]
pub fn reload(options: &Options, policies: &Policies, daemon: u32) -> Termination {
    if let Err(termination) = checked(options, policies, daemon) {
        return termination;
    }
    // Last of all: to a service manager that still waits for this process a daemon that has ended is a reload that failed.
    match signal(daemon, Signal::SIGHUP) {
        Ok(()) => Termination::Clean,
        Err(_) => Termination::NotReloaded,
    }
}

fn checked(options: &Options, policies: &Policies, daemon: u32) -> Result<(), Termination> {
    let _last_words = logging::start("punctuald", message_ids(), &options.log);
    let source = options.manifest();
    let path = source.path.display();
    let copy = if source.is_credential {
        " (a credential: the copy that was made at the last start)"
    } else {
        ""
    };
    let plan = planned(&source, options, policies, daemon).map_err(|error| {
        error!(
            "nothing was reloaded: {path}{copy} cannot be served now. The daemon continues to serve, unchanged: {error}"
        );
        error.termination()
    })?;
    signal(daemon, None).map_err(|errno| {
        error!("nothing was reloaded: process {daemon} cannot be told: {errno}");
        Termination::NotReloaded
    })?;
    info!(
        "{path}{copy} is valid, plan {}: process {daemon} answers what it accepted and ends; the service manager starts it again",
        &plan.hash.as_str()[..12]
    );
    Ok(())
}

/// As the next start would: with the memory that the daemon gives back.
fn planned(
    source: &ManifestSource,
    options: &Options,
    policies: &Policies,
    daemon: u32,
) -> Result<Plan, StartupError> {
    let mut host = startup::host_of_the_daemon()?;
    host.memory_bytes = host.memory_bytes.saturating_add(host::resident(daemon));
    validate(source, options, policies, host).map(|validated| validated.plan)
}

/// None: only looks whether it could be sent.
fn signal(daemon: u32, signal: impl Into<Option<Signal>>) -> Result<(), Errno> {
    let pid = i32::try_from(daemon).map_err(|_| Errno::ESRCH)?;
    kill(Pid::from_raw(pid), signal)
}
