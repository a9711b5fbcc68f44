//! Buffers that are none, offered to a task that takes buffers.

use std::fs::File;
use std::io::PipeReader;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::eventfd::EventFd;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{AgentError, Attack, memory, wire};

const HELD_MAX: usize = 16;

/// Wrong kinds, wrong sizes, wrong numbers, and the connection itself.
pub fn wrong(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let foreign = foreign()?;
    let good = memory::buffer().map_err(AgentError::os("a memory file"))?;
    let mut held: Vec<OwnedFd> = Vec::new();
    while attack.goes_on(2) {
        held.retain(|socket| !wire::is_closed(socket, 0));
        held.truncate(HELD_MAX);
        let Some(socket) = attack.connected() else {
            continue;
        };
        let count = attack.random.below(attack.options.count as u64 * 2) as usize;
        let carried: Vec<RawFd> = (0..count)
            .map(
                |_| match attack.random.below(foreign.len() as u64 * 2 + 1) {
                    0 => socket.as_raw_fd(),
                    which => foreign
                        .get(which as usize)
                        .map_or(good.as_raw_fd(), AsRawFd::as_raw_fd),
                },
            )
            .collect();
        let announced = match attack.random.below(2) {
            0 => count as u64,
            _ => attack.random.below(300),
        };
        let opening = wire::opening(&attack.options.task, announced as u16);
        if wire::say(&socket, &opening, &carried) {
            attack.done.descriptors += count as u64;
        }
        held.insert(0, socket);
    }
    Ok(())
}

/// One of each kind that is no buffer.
fn foreign() -> Result<Vec<OwnedFd>, AgentError> {
    let failed = AgentError::io("a descriptor");
    let refused = AgentError::os("a descriptor");
    let (reader, writer): (PipeReader, _) = std::io::pipe().map_err(&failed)?;
    let small = memfd_create("punctual-hil", MFdFlags::MFD_CLOEXEC).map_err(&refused)?;
    Ok(vec![
        File::open("/dev/null").map_err(&failed)?.into(),
        File::open("/dev/zero").map_err(&failed)?.into(),
        File::open("/").map_err(&failed)?.into(),
        reader.into(),
        writer.into(),
        // Neither sealed nor of any size.
        small,
        EventFd::new().map_err(&refused)?.into(),
        Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(&refused)?
            .0,
    ])
}
