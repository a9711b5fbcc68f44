//! An eventfd each way, whose 64 bits carry the time: no message, no memory, no check. What is left is the waking.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::{read, write};
use punctual_platform::clock::now_ns;
use punctual_platform::poll::{Poller, wait_readable};

use super::Client;
use crate::Result;
use crate::child::{Orders, Wait};

/// The inherited descriptor of this number.
fn inherited(raw: i32) -> OwnedFd {
    // SAFETY: the parent made it for this process, and passes its number once.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// What was written; none if nothing was.
fn take(event: &OwnedFd) -> Result<Option<u64>> {
    let mut value = [0; 8];
    match read(event, &mut value) {
        Ok(_) => Ok(Some(u64::from_le_bytes(value))),
        Err(Errno::EAGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Even descriptors go to the server, odd ones to the client.
pub fn serve(orders: &Orders) -> Result<()> {
    let events: Vec<OwnedFd> = orders.events.iter().map(|&raw| inherited(raw)).collect();
    let mut poller = Poller::new(orders.clients + 1)?;
    for (token, pair) in events.chunks_exact(2).enumerate() {
        poller.add(pair[0].as_fd(), token as u64)?;
    }
    let answer = |pair: &[OwnedFd]| -> Result<()> {
        if take(&pair[0])?.is_some() {
            write(&pair[1], &now_ns().to_le_bytes())?;
        }
        Ok(())
    };
    loop {
        if orders.wait == Wait::Spin {
            events.chunks_exact(2).try_for_each(answer)?;
            continue;
        }
        for event in poller.wait(None) {
            let at = 2 * event.token as usize;
            answer(&events[at..at + 2])?;
        }
    }
}

pub struct Event {
    there: OwnedFd,
    back: OwnedFd,
    wait: Wait,
}

pub fn connect(orders: &Orders) -> Result<Event> {
    let at = 2 * orders.index;
    let pair = orders.events.get(at..at + 2).ok_or("no descriptors")?;
    Ok(Event {
        there: inherited(pair[0]),
        back: inherited(pair[1]),
        wait: orders.wait,
    })
}

impl Client for Event {
    fn exchange(&mut self, due_ns: u64) -> Result<u64> {
        write(&self.there, &due_ns.to_le_bytes())?;
        loop {
            if let Some(there_ns) = take(&self.back)? {
                return Ok(there_ns);
            }
            if self.wait == Wait::Sleep {
                let _ready = wait_readable(self.back.as_fd(), None);
            }
        }
    }
}
