//! What every client process does first.

use std::io;
use std::os::fd::AsFd;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::ledger::Ledger;
use crate::orders::{Orders, Role};
use crate::{healthy, hostile};

/// A client process's life.
pub fn live(orders: &Orders) -> io::Result<()> {
    // The process that tortures may itself be killed: no client outlives it.
    set_pdeathsig(Signal::SIGKILL)?;
    let ledger = Ledger::given(io::stdin().as_fd().try_clone_to_owned()?);
    match orders.role {
        Role::Healthy => healthy::live(orders, ledger),
        Role::Hostile => hostile::live(orders, &ledger),
    }
}
