//! A client that means harm: it writes everywhere it can, as fast as it can, and breaks every rule
//! of the socket. What it may achieve is to lose its own connection.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr, connect, send,
    sendmsg, setsockopt, shutdown, socket, sockopt,
};
use nix::sys::time::TimeVal;
use punctual_ipc::internals::{self, Fields};
use punctual_ipc::{ClientChannel, Crop};
use punctual_platform::clock::now_ns;
use punctual_types::Random;

use crate::ledger::{Entry, Ledger, Phase};
use crate::orders::{Orders, hello};

/// Frames begin with a page.
const PAGE: usize = 4096;

/// How long one attack goes on, at most, in ns.
const ATTACK_NS: u64 = 20_000_000;

/// Attacks until it is told to leave or the listener is gone. Its counters count connections.
pub fn live(orders: &Orders, ledger: &Ledger) -> io::Result<()> {
    let mut random = Random::new(orders.seed).stream("hostile", std::process::id().into());
    let mut entry = Entry {
        phase: Phase::Connected,
        ..Entry::default()
    };
    while !ledger.leave()? {
        let reached = match random.below(8) {
            0 => strange_opening(orders, &mut random),
            1 => mute(orders),
            2 | 3 => garbage_in_the_files(orders, &mut random),
            4 => rude_socket(orders, &mut random),
            5 => scribble(orders, &mut random),
            _ => damage(orders, &mut random),
        };
        if !reached && connected(orders).is_none() {
            break;
        }
        entry.begun += 1;
        ledger.write(&entry)?;
    }
    entry.phase = Phase::Finished;
    ledger.write(&entry)
}

/// A connection without an opening; none if there is no listener.
fn connected(orders: &Orders) -> Option<OwnedFd> {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).ok()?;
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(5, 0)).ok()?;
    let address = UnixAddr::new(&orders.socket).ok()?;
    connect(socket.as_raw_fd(), &address).ok()?;
    Some(socket)
}

/// Garbage, too much of it, half an opening, unannounced descriptors.
fn strange_opening(orders: &Orders, random: &mut Random) -> bool {
    let Some(socket) = connected(orders) else {
        return false;
    };
    let bytes = match random.below(3) {
        0 => random.below(64),
        1 => 1024 + random.below(2),
        _ => 100_000,
    };
    let mut message: Vec<u8> = (0..bytes).map(|_| random.next_u64() as u8).collect();
    if random.one_in(2) {
        // As far as the magic number it is ours.
        let magic = b"PNCT".iter().zip(&mut message);
        magic.for_each(|(from, to)| *to = *from);
    }
    send_with_files(&socket, &message, random.below(4) as usize);
    true
}

/// Says nothing, and goes.
fn mute(orders: &Orders) -> bool {
    connected(orders).is_some()
}

/// Lets itself in and writes over its memory files, of whose layout it knows nothing, through the
/// descriptors: words, holes, sizes, seals.
fn garbage_in_the_files(orders: &Orders, random: &mut Random) -> bool {
    let Ok((socket, files)) = internals::files(&orders.socket, &hello(&orders.task)) else {
        return false;
    };
    let files: Vec<File> = files.into_iter().map(File::from).collect();
    let until_ns = now_ns() + random.below(ATTACK_NS);
    while now_ns() < until_ns {
        for _ in 0..64 {
            let file = &files[random.below(files.len() as u64) as usize];
            // The words that matter lie in front.
            let end = if random.one_in(4) { 65_536 } else { 768 };
            let at = random.below(end);
            let value = match random.below(3) {
                0 => random.below(8),
                1 => random.next_u64(),
                _ => 1_u64 << random.below(64),
            };
            // Each may be refused: that is what is tried.
            let _ = file.write_all_at(&value.to_le_bytes()[..4], at & !3);
        }
        let file = &files[random.below(files.len() as u64) as usize];
        let _ = match random.below(4) {
            0 => file.set_len(random.below(4096)).ok(),
            1 => punch(file).ok(),
            2 => fcntl(file, FcntlArg::F_ADD_SEALS(SealFlag::all()))
                .ok()
                .map(drop),
            _ => ring(&socket),
        };
    }
    true
}

fn punch(file: &File) -> nix::Result<()> {
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, hole, 0, 1 << 20)
}

fn ring(socket: &OwnedFd) -> Option<()> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    send(socket.as_raw_fd(), &[1], flags).ok().map(drop)
}

/// Lets itself in and floods the socket: doorbells, long messages, descriptors, half a hang-up.
fn rude_socket(orders: &Orders, random: &mut Random) -> bool {
    let Ok((socket, _files)) = internals::files(&orders.socket, &hello(&orders.task)) else {
        return false;
    };
    let until_ns = now_ns() + random.below(ATTACK_NS);
    while now_ns() < until_ns {
        match random.below(16) {
            0 => send_with_files(&socket, &[2; 3], 1 + random.below(8) as usize),
            1 => send_with_files(&socket, &[3; 60_000], 0),
            2 => send_with_files(&socket, &[], 0),
            3 => {
                let which = [Shutdown::Read, Shutdown::Write, Shutdown::Both];
                let _ = shutdown(socket.as_raw_fd(), which[random.below(3) as usize]);
            }
            _ => while ring(&socket).is_some() && now_ns() < until_ns {},
        }
    }
    true
}

fn send_with_files(socket: &OwnedFd, message: &[u8], count: usize) {
    let Ok(null) = File::open("/dev/null") else {
        return;
    };
    let raw = vec![null.as_fd().as_raw_fd(); count];
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if count == 0 { &[][..] } else { &rights };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let parts = [IoSlice::new(message)];
    // It may be full or gone.
    let _ = sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, control, flags, None);
}

/// A client that works, but for its frames: it writes to them all the time, so also while they are prepared from where they
/// lie.
fn scribble(orders: &Orders, random: &mut Random) -> bool {
    let Ok(mut channel) = ClientChannel::connect(&orders.socket, &hello(&orders.task)) else {
        return false;
    };
    let fields = Fields::of(&channel);
    let frames = fields.vectors.next_multiple_of(PAGE)..fields.requests.bytes() & !7;
    let until_ns = now_ns() + random.below(ATTACK_NS);
    while now_ns() < until_ns && !channel.is_hung_up() {
        if let Some(slot) = channel.slot() {
            let _ = slot.submit(now_ns(), None, Crop::default());
        }
        for at in frames.clone().step_by(8) {
            fields.requests.write_word(at, random.next_u64());
        }
        while let Ok(Some(_)) = channel.take() {}
    }
    true
}

/// A client that works, but for what it damages: this gets past the first checks.
fn damage(orders: &Orders, random: &mut Random) -> bool {
    let Ok(mut channel) = ClientChannel::connect(&orders.socket, &hello(&orders.task)) else {
        return false;
    };
    let fields = Fields::of(&channel);
    let until_ns = now_ns() + random.below(ATTACK_NS);
    while now_ns() < until_ns && !channel.is_hung_up() {
        match random.below(64) {
            0 => {
                let at = random.below(fields.words_end as u64 / 4) as usize * 4;
                let word = fields.requests.word32(at);
                word.store(
                    random.next_u64() as u32,
                    std::sync::atomic::Ordering::Relaxed,
                );
            }
            1 => fields.requests.write_word(
                fields.cells + 8 * random.below(8) as usize,
                1 << random.below(64),
            ),
            2 => {
                let counts = [fields.results_taken, fields.verdicts_taken];
                let taken = counts[random.below(2) as usize];
                let taken = fields.requests.word32(taken);
                taken.fetch_add(random.below(3) as u32, std::sync::atomic::Ordering::Relaxed);
            }
            3 => internals::ring(&channel),
            4..24 => {
                // A broken answer is its own doing. Some outputs are never let go of.
                if let Ok(Some(record)) = channel.take() {
                    let outputs = channel.outputs(&record);
                    if random.one_in(4) {
                        std::mem::forget(outputs);
                    }
                }
            }
            24..28 => {
                let area = random.below(8) as usize;
                let word = fields.requests.word32(fields.released + 4 * area);
                word.store(random.below(4) as u32, std::sync::atomic::Ordering::Relaxed);
            }
            _ => {
                if let Some(slot) = channel.slot() {
                    let _ =
                        slot.submit(random.next_u64(), Some(random.next_u64()), Crop::default());
                }
            }
        }
    }
    true
}
