//! The rings of a pair of sockets as the model checker sees them: a count for each end, under a lock
//! as in the kernel. The descriptors are real, and name the ends.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use loom::sync::{Condvar, Mutex};

use crate::socket::HungUp;

#[derive(Default)]
struct Ends {
    /// The other end of each.
    peers: BTreeMap<RawFd, RawFd>,
    /// Rings that each has not taken.
    rings: BTreeMap<RawFd, u32>,
    hung_up: bool,
}

loom::lazy_static! {
    static ref ENDS: (Mutex<Ends>, Condvar) = (Mutex::new(Ends::default()), Condvar::new());
}

/// Two ends that ring each other.
pub(crate) fn join(ours: BorrowedFd<'_>, theirs: BorrowedFd<'_>) {
    let mut ends = ENDS.0.lock().expect("no panic");
    let (ours, theirs) = (ours.as_raw_fd(), theirs.as_raw_fd());
    ends.peers.extend([(ours, theirs), (theirs, ours)]);
}

/// Rings the other side.
pub(crate) fn ring(socket: BorrowedFd<'_>) -> Result<(), HungUp> {
    let mut ends = ENDS.0.lock().expect("no panic");
    if ends.hung_up {
        return Err(HungUp);
    }
    let peer = ends.peers[&socket.as_raw_fd()];
    *ends.rings.entry(peer).or_default() += 1;
    ENDS.1.notify_all();
    Ok(())
}

/// Takes one ring, if there is one.
pub(crate) fn take_ring(socket: BorrowedFd<'_>) -> Result<bool, HungUp> {
    let mut ends = ENDS.0.lock().expect("no panic");
    let rings = ends.rings.entry(socket.as_raw_fd()).or_default();
    let rung = *rings > 0;
    *rings -= u32::from(rung);
    if !rung && ends.hung_up {
        return Err(HungUp);
    }
    Ok(rung)
}

/// Hangs up, for both ends.
pub(crate) fn hang_up(_: BorrowedFd<'_>) {
    ENDS.0.lock().expect("no panic").hung_up = true;
    ENDS.1.notify_all();
}

/// Whether either end has hung up.
pub(crate) fn is_hung_up(_: BorrowedFd<'_>) -> bool {
    ENDS.0.lock().expect("no panic").hung_up
}

/// Sleeps until there is a ring to take, as a poller does: a ring that is lost is a deadlock, which
/// the checker reports.
#[cfg(test)]
pub(crate) fn wait_for_ring(socket: BorrowedFd<'_>) {
    let mut ends = ENDS.0.lock().expect("no panic");
    while !ends.hung_up && ends.rings.get(&socket.as_raw_fd()).is_none_or(|&n| n == 0) {
        ends = ENDS.1.wait(ends).expect("no panic");
    }
}
