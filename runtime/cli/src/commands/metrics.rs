//! `punctual metrics`: a daemon's metrics for Prometheus.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use punctual_platform::output;
use punctual_platform::signals::TerminationSignals;
use punctual_platform::termination::{Terminates, Termination};

use crate::live::daemon::{Daemon, LiveError};
use crate::metrics::{Observations, Server};

/// Of which daemon, where.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual metrics
  punctual metrics --socket /tmp/punctual.sock --listen 127.0.0.1:9465

A process of its own, which asks the daemon for its report at each scrape; the daemon has no HTTP. While no daemon answers, `punctual_up` is 0
and nothing else is there. All metrics: docs/metrics.md. It serves until Ctrl-C or SIGTERM. Whoever can connect can read: beyond this machine, a
firewall or a proxy says who may.

TERMINATION CODES: 0 a signal ended it; 3 several daemons serve, and none was named; 5 the address is taken or not of this machine.")]
pub struct Options {
    /// Where HTTP is served, at /metrics.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Where the daemon listens, if it is not the only one here.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("cannot listen at {address}: {source}; --listen chooses another address")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot wait for signals: {0}")]
    Signals(punctual_platform::OsError),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Live(error) => error.termination(),
            Self::Listen { .. } | Self::Signals(_) | Self::Thread(_) => Termination::Resources,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    // One that is not there yet is waited for; of several, it would never be clear which one is meant.
    if let Err(several @ LiveError::Several { .. }) = Daemon::find(options.socket.as_deref()) {
        return Err(several.into());
    }
    let signals = TerminationSignals::take_over().map_err(Error::Signals)?;
    let server = Server::bind(options.listen).map_err(|source| Error::Listen {
        address: options.listen,
        source,
    })?;
    let url = server.url();
    let observations = Observations::of(options.socket.clone());
    server
        .start(move |format| format.text(observations.now()))
        .map_err(Error::Thread)?;
    output::note(format_args!("punctual metrics: serves {url}"));
    let _signal = signals.next(None);
    Ok(())
}
