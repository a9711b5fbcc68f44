//! Descriptors that are slow to close, handed to the daemon wherever a message can carry them. The
//! sender closes its own, so that what the daemon does with them ends them.

use std::net::TcpStream;
use std::os::fd::OwnedFd;

use super::lingering::{Lingering, hand_over};
use super::{AgentError, Attack, wire};

/// Where in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Instead of an opening.
    Before,
    /// With an opening that announces none.
    Unannounced,
    /// With an opening that announces them.
    Announced,
    /// In messages behind the opening, before the welcome.
    Behind,
    /// After the welcome.
    After,
    /// At the metrics socket.
    Metrics,
}

/// Messages behind an opening, or after the welcome.
const MESSAGES: usize = 3;

/// Connections that carry such descriptors and stay open.
const HELD_MAX: usize = 32;

/// Sockets made at most; each needs a descriptor here for its other end.
const SOCKETS_MAX: usize = 6000;

/// Attacks at this point until the time is over.
pub fn at(attack: &mut Attack<'_>, point: Point) -> Result<(), AgentError> {
    let mut lingering = Lingering::new()?;
    let mut held: Vec<OwnedFd> = Vec::new();
    while attack.goes_on(20) {
        held.retain(|socket| !wire::is_closed(socket, 0));
        if lingering.made() > SOCKETS_MAX || held.len() >= HELD_MAX {
            continue;
        }
        // As many as a task has slots where they are announced: more would be refused unseen.
        let count = match point {
            Point::Announced => attack.options.count,
            _ => wire::DESCRIPTORS_MAX,
        };
        let Some(connection) = begun(attack, point) else {
            continue;
        };
        let sockets = lingering.sockets(count);
        attack.done.descriptors += deliver(attack, point, &connection, sockets) as u64;
        held.push(connection);
    }
    Ok(())
}

/// A connection as it is before the descriptors come.
fn begun(attack: &mut Attack<'_>, point: Point) -> Option<OwnedFd> {
    match point {
        Point::Before | Point::Unannounced | Point::Announced | Point::Behind => attack.connected(),
        Point::After => attack.let_in().map(|client| client.socket),
        Point::Metrics => attack.connected_to_metrics(),
    }
}

/// One delivery; how many descriptors went.
fn deliver(attack: &Attack<'_>, point: Point, to: &OwnedFd, mut sockets: Vec<TcpStream>) -> usize {
    let task = &attack.options.task;
    match point {
        Point::Before | Point::Metrics => hand_over(to, &[1], sockets),
        Point::Unannounced => hand_over(to, &wire::opening(task, 0), sockets),
        Point::Announced => hand_over(to, &wire::opening(task, sockets.len() as u16), sockets),
        Point::Behind | Point::After => {
            if point == Point::Behind {
                wire::say(to, &wire::opening(task, 0), &[]);
            }
            let share = sockets.len().div_ceil(MESSAGES).max(1);
            let mut gone = 0;
            while !sockets.is_empty() {
                let rest = sockets.split_off(share.min(sockets.len()));
                gone += hand_over(to, &[1], std::mem::replace(&mut sockets, rest));
            }
            gone
        }
    }
}
