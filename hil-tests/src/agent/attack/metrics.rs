//! Readers of the metrics that do anything but read.

use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{Shutdown, shutdown};

use super::{AgentError, Attack, wire};

/// Writes, shuts down one direction, stays without reading, or closes at once.
pub fn abuse(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let mut held: Vec<OwnedFd> = Vec::new();
    while attack.goes_on(2) {
        let Some(socket) = attack.connected_to_metrics() else {
            continue;
        };
        match attack.random.below(5) {
            0 => {
                let garbage = attack.random.bytes(4096);
                wire::say(&socket, &garbage, &[]);
            }
            1 => drop(shutdown(socket.as_raw_fd(), Shutdown::Read)),
            2 => drop(shutdown(socket.as_raw_fd(), Shutdown::Write)),
            3 => continue,
            _ => {}
        }
        held.insert(0, socket);
        held.truncate(attack.options.count);
    }
    Ok(())
}
