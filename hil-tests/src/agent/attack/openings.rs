//! Connections that are no clients, or clients for a moment only.

use std::os::fd::OwnedFd;

use punctual_client::now_ns;

use super::{AgentError, Attack, wire};

/// A daemon waits two seconds for an opening; this comes shortly before.
const SLOW_NS: u64 = 1_900_000_000;

/// Connections made in one turn at most, so that the time is looked at.
const AT_ONCE: usize = 64;

/// Openings that are none.
pub fn garbage(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        say_garbage(attack);
    }
    Ok(())
}

/// One opening that is none: random, too long, empty, or right up to some byte.
pub fn say_garbage(attack: &mut Attack<'_>) {
    let Some(socket) = attack.connected() else {
        return;
    };
    let length = match attack.random.below(4) {
        0 => attack.random.below(64),
        1 => 1024 + attack.random.below(2),
        2 => 100_000,
        _ => attack.random.below(600),
    };
    let mut message = attack.random.bytes(length as usize);
    let right = wire::opening(&attack.options.task, attack.random.next_u64() as u16);
    let kept = attack.random.below(2 * right.len() as u64) as usize;
    let kept = kept.min(right.len()).min(message.len());
    message[..kept].copy_from_slice(&right[..kept]);
    wire::say(&socket, &message, &[]);
}

/// Openings that come when the daemon's patience is nearly over.
pub fn slow(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let mut waiting: Vec<(u64, OwnedFd)> = Vec::new();
    while attack.goes_on(10) {
        while waiting.len() < attack.options.count
            && let Some(socket) = attack.connected()
        {
            // Not all at the same moment.
            let due_ns = now_ns() + SLOW_NS - attack.random.below(SLOW_NS / 4);
            waiting.push((due_ns, socket));
        }
        let due = waiting.extract_if(.., |(due_ns, _)| *due_ns <= now_ns());
        for (_, socket) in due.collect::<Vec<_>>() {
            wire::say(&socket, &wire::opening(&attack.options.task, 0), &[]);
            if let Some(client) = wire::Welcomed::on(socket) {
                client.say_mapped();
                attack.done.admitted += 1;
            }
        }
        waiting.retain(|(_, socket)| !wire::is_closed(socket, 0));
    }
    Ok(())
}

/// Connections that say nothing, as many as were asked for, all the time.
pub fn silent(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let mut held: Vec<OwnedFd> = Vec::new();
    while attack.goes_on(10) {
        let before = held.len();
        held.retain(|socket| !wire::is_closed(socket, 0));
        attack.done.ended += (before - held.len()) as u64;
        while held.len() < attack.options.count
            && let Some(socket) = attack.connected()
        {
            held.push(socket);
        }
    }
    Ok(())
}

/// Connections that are closed at once.
pub fn storm(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        for _ in 0..AT_ONCE {
            if attack.connected().is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Openings whose answer no client waits for: memory is made for them, or is not.
pub fn desert(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        if let Some(socket) = attack.connected() {
            wire::say(&socket, &wire::opening(&attack.options.task, 0), &[]);
        }
    }
    Ok(())
}

/// Clients that leave as soon as they are in.
pub fn visits(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        attack.admitted_client();
    }
    Ok(())
}
