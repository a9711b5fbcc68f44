//! Descriptors that are slow to close, handed to the daemon wherever a message can carry them. The
//! sender closes its own, so that what the daemon does with them ends them.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::SockType;

use super::lingering::{Lingering, hand_over};
use super::{AgentError, Attack, wire};
use crate::target::child::pause;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    Before,
    /// With an opening that announces none.
    Unannounced,
    /// With an opening that announces them.
    Announced,
    /// In messages behind the opening, before the welcome.
    Behind,
    /// After the welcome.
    After,
    Metrics,
}

/// Deliveries of one attacker; each stays, with its connection and the other ends of its sockets.
const DELIVERIES: u64 = 24;

/// From one delivery to the next, in ms.
const PACE_MS: u16 = 80;

/// Descriptors a message where several messages go: few are closed here before the daemon does it.
const SHARES: [usize; 3] = [1, 8, wire::DESCRIPTORS_MAX];

#[derive(Default)]
struct Tally {
    connected: AtomicU64,
    admitted: AtomicU64,
    descriptors: AtomicU64,
}

/// Attacks at this point until the time is over.
pub fn at(attack: &mut Attack<'_>, point: Point) -> Result<(), AgentError> {
    let tally = Arc::new(Tally::default());
    let mut begun = 0;
    while attack.goes_on(PACE_MS) {
        if begun < DELIVERIES {
            let delivery = Delivery {
                socket: attack.options.socket.clone(),
                task: attack.options.task.clone(),
                point,
                // As many as a task has slots where they are announced: more are refused unseen.
                count: match point {
                    Point::Announced => attack.options.count,
                    _ => wire::DESCRIPTORS_MAX,
                },
                share: SHARES[attack.random.below(SHARES.len() as u64) as usize],
                tally: Arc::clone(&tally),
            };
            // Not waited for: one whose sockets the daemon closed first waits for its own close, until
            // the end of this process ends that, too.
            let thread = thread::Builder::new().spawn(move || delivery.run());
            begun += u64::from(thread.is_ok());
        }
        // Relaxed: counts, each by itself.
        attack.done.acts = tally.connected.load(Ordering::Relaxed);
        attack.done.admitted = tally.admitted.load(Ordering::Relaxed);
        attack.done.descriptors = tally.descriptors.load(Ordering::Relaxed);
    }
    Ok(())
}

/// One connection, and what it carries.
struct Delivery {
    socket: PathBuf,
    task: String,
    point: Point,
    count: usize,
    share: usize,
    tally: Arc<Tally>,
}

impl Delivery {
    /// Delivers, and then keeps the connection and the other ends for as long as this process lives.
    fn run(self) {
        // Descriptors of its own: no other thread here holds its sockets open, or waits for their close.
        if unshare(CloneFlags::CLONE_FILES).is_err() {
            return;
        }
        let _kept = self.deliver();
        loop {
            pause(1000);
        }
    }

    fn deliver(&self) -> Option<(OwnedFd, Lingering)> {
        let mut lingering = Lingering::new().ok()?;
        let mut sockets = lingering.sockets(self.count);
        let to = self.begun()?;
        // Relaxed: counts, each by itself.
        self.tally.connected.fetch_add(1, Ordering::Relaxed);
        let (message, share) = match self.point {
            Point::Unannounced => (wire::opening(&self.task, 0), self.count),
            Point::Announced => (wire::opening(&self.task, sockets.len() as u16), self.count),
            _ => (vec![1], self.share),
        };
        while !sockets.is_empty() {
            let rest = sockets.split_off(share.min(sockets.len()));
            let shared = std::mem::replace(&mut sockets, rest);
            let gone = hand_over(&to, &message, shared) as u64;
            self.tally.descriptors.fetch_add(gone, Ordering::Relaxed);
        }
        Some((to, lingering))
    }

    /// A connection as it is before the descriptors come.
    fn begun(&self) -> Option<OwnedFd> {
        match self.point {
            Point::Metrics => {
                let mut path = self.socket.clone().into_os_string();
                path.push(".metrics");
                wire::connected(path.as_ref(), SockType::Stream).ok()
            }
            Point::After => {
                let client = wire::Welcomed::by(&self.socket, &self.task)?;
                self.tally.admitted.fetch_add(1, Ordering::Relaxed);
                Some(client.socket)
            }
            Point::Before | Point::Unannounced | Point::Announced | Point::Behind => {
                let socket = wire::connected(&self.socket, SockType::SeqPacket).ok()?;
                if self.point == Point::Behind {
                    wire::say(&socket, &wire::opening(&self.task, 0), &[]);
                }
                Some(socket)
            }
        }
    }
}
