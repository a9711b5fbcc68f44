//! What wakes the daemon and its clients, mistreated: the doorbell, an eventfd whose state both
//! share, and the word that clients sleep on.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use punctual_client::{Client, Crop, Options, PixelFormat, now_ns};

use super::{AgentError, Attack, own, ring, wire};

/// What an eventfd holds at most.
const FULL: u64 = u64::MAX - 1;

/// Epoll instances, and copies of the doorbell in each: 4096 watches.
const WATCHES: (usize, usize) = (64, 64);

const RINGS: usize = 1000;

/// A stack for a thread that only waits.
pub const STACK: usize = 32 * 1024;

/// Frames a second of the client whose bell is waited for.
const PACE_NS: u64 = 33_000_000;

const STAY: u64 = 200;

/// Empties the doorbell, fills it, makes it blocking, in any order.
pub fn mistreat(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        let Some(client) = attack.admitted_client() else {
            continue;
        };
        let Some(bell) = client.doorbell() else {
            client.ring();
            continue;
        };
        for _ in 0..STAY {
            if !attack.goes_on(1) || wire::is_closed(&client.socket, 0) {
                break;
            }
            mistreat_once(attack.random.below(4), bell);
        }
        attack.done.ended += u64::from(wire::is_closed(&client.socket, 0));
    }
    Ok(())
}

/// Not blocking while we write or read, and blocking for every later user.
fn mistreat_once(how: u64, bell: &OwnedFd) {
    let _ = fcntl(bell, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
    let _ = match how {
        0 => nix::unistd::read(bell, &mut [0; 8]),
        1 => nix::unistd::write(bell, &FULL.to_le_bytes()),
        2 => nix::unistd::read(bell, &mut [0; 8])
            .and_then(|_| nix::unistd::write(bell, &FULL.to_le_bytes())),
        _ => nix::unistd::write(bell, &1_u64.to_le_bytes()),
    };
    let _ = fcntl(bell, FcntlArg::F_SETFL(OFlag::empty()));
}

/// Thousands of watches and hundreds of threads on the doorbell, which is rung a hundred times a second.
pub fn watch(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        let Some(client) = attack.admitted_client() else {
            continue;
        };
        let bell = client.doorbell().unwrap_or(&client.socket);
        let (instances, copies) =
            watches(bell).map_err(AgentError::os("watches of the doorbell"))?;
        attack.done.waiters = (instances.len() * copies.len() + attack.options.count) as u64;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..attack.options.count {
                let waits = || {
                    // Relaxed: the scope's end synchronises; this only tells threads to leave.
                    while !over.load(Ordering::Relaxed) {
                        let mut waiting = [PollFd::new(bell.as_fd(), PollFlags::POLLPRI)];
                        let _ = poll(&mut waiting, PollTimeout::from(100_u16));
                    }
                };
                let thread = thread::Builder::new().stack_size(STACK);
                // Fewer where the system grants fewer.
                let _ = thread.spawn_scoped(scope, waits);
            }
            while attack.goes_on(10) && !wire::is_closed(&client.socket, 0) {
                client.ring();
            }
            over.store(true, Ordering::Relaxed);
        });
        attack.done.ended += u64::from(wire::is_closed(&client.socket, 0));
    }
    Ok(())
}

fn watches(bell: &OwnedFd) -> nix::Result<(Vec<Epoll>, Vec<OwnedFd>)> {
    let copies = (0..WATCHES.1)
        .map(|_| nix::unistd::dup(bell))
        .collect::<nix::Result<Vec<_>>>()?;
    let mut instances = Vec::new();
    for _ in 0..WATCHES.0 {
        let instance = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for copy in &copies {
            let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
            instance.add(copy, event)?;
        }
        instances.push(instance);
    }
    Ok((instances, copies))
}

/// Tens of thousands of waits without a thread for each, at whatever the daemon may look at.
pub fn poll_by_rings(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        let Some(client) = attack.admitted_client() else {
            continue;
        };
        let bell = client.doorbell().unwrap_or(&client.socket);
        let rings: Vec<OwnedFd> = (0..attack.options.count)
            .flat_map(|_| [bell, &client.socket])
            .filter_map(|descriptor| ring::wait_often(descriptor.as_raw_fd()))
            .collect();
        attack.done.waiters = rings.len() as u64 * u64::from(ring::WAITS);
        attack.ring_for_nothing(&client, STAY);
    }
    Ok(())
}

/// Rings as fast as it goes, and never submits anything.
pub fn ring(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        let Some(client) = attack.admitted_client() else {
            continue;
        };
        while attack.goes_on(1) && !wire::is_closed(&client.socket, 0) {
            for _ in 0..RINGS {
                client.ring();
            }
            attack.done.acts += RINGS as u64;
        }
        attack.done.ended += u64::from(wire::is_closed(&client.socket, 0));
    }
    Ok(())
}

/// A client that works, and thousands of threads that wait for its verdicts at the same time.
pub fn wait_in_crowds(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let memory = File::open("/proc/self/mem").map_err(AgentError::io("/proc/self/mem"))?;
    while attack.goes_on(1) {
        let (socket, task) = (&attack.options.socket, &attack.options.task);
        let options = Options::new(socket, task, PixelFormat::Rgb8).reconnect(false);
        let Ok(mut client) = options.open(Some(now_ns() + 1_000_000_000)) else {
            continue;
        };
        let Some(bell) = super::memory::results() else {
            continue;
        };
        attack.done.admitted += 1;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let waits = || {
                // Relaxed: the scope's end synchronises; this only tells threads to leave.
                while !over.load(Ordering::Relaxed) {
                    let mut value = [0; 4];
                    let _ = memory.read_exact_at(&mut value, bell);
                    own::wait_while(bell, u32::from_le_bytes(value));
                }
            };
            for _ in 0..attack.options.count {
                let thread = thread::Builder::new().stack_size(STACK);
                attack.done.waiters += u64::from(thread.spawn_scoped(scope, waits).is_ok());
            }
            be_served(attack, &mut client);
            over.store(true, Ordering::Relaxed);
        });
    }
    Ok(())
}

/// Submits a frame now and then and waits for its verdict, which is what rings the bell.
pub fn be_served(attack: &mut Attack<'_>, client: &mut Client) {
    while attack.goes_on(0) && client.is_connected() {
        if let Ok(Some(slot)) = client.slot(Some(0)) {
            attack.done.acts += u64::from(slot.submit(now_ns(), None, Crop { x: 0, y: 0 }).is_ok());
        }
        let next_ns = now_ns() + PACE_NS;
        while now_ns() < next_ns && client.verdict(Some(next_ns)).is_ok() {}
    }
}
