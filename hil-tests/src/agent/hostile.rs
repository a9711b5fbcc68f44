//! A client that does what no client does: nonsense for an opening, silence, and random bytes all
//! over the memory that it shares with the daemon. `runtime/torture` is the thorough one; this one is
//! for the rig, to hurt others with.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket,
};
use punctual_client::{Client, Crop, PixelFormat, now_ns};

use super::{AgentError, say, signals, told_to_end};
use crate::book::Mischief;
use crate::target::child::pause;

/// Silent connections that are held at a time.
const MUTES: usize = 8;

/// Writes a connection.
const WRITES: u64 = 2000;

/// How long a scribbler waits for what the daemon makes of it, in ns.
const ANSWER_NS: u64 = 20_000_000;

/// How often the account is said, in ns.
const SAY_NS: u64 = 200_000_000;

/// Whom to annoy.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where the daemon listens.
    #[arg(long)]
    socket: PathBuf,
    /// A task of its manifest.
    #[arg(long)]
    task: String,
    /// Of all that is random here.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long; absent: until SIGTERM.
    #[arg(long)]
    seconds: Option<f64>,
}

/// Annoys until the time is over.
pub fn run(options: &Options) -> Result<(), AgentError> {
    let signals = signals(&[])?;
    let mut random = Random(options.seed);
    let mut done = Mischief::default();
    let mut mutes: Vec<OwnedFd> = Vec::new();
    let end_ns = options
        .seconds
        .map(|seconds| now_ns() + (seconds * 1e9) as u64);
    let mut say_ns = now_ns();
    while end_ns.is_none_or(|end| now_ns() < end) && !told_to_end(&signals) {
        match random.next() % 3 {
            0 => done.openings += u64::from(opening(&options.socket, &mut random)),
            1 => {
                if let Ok(mute) = stranger(&options.socket) {
                    mutes.truncate(MUTES - 1);
                    mutes.insert(0, mute);
                    done.mutes += 1;
                }
            }
            _ => done.scribbled += u64::from(scribble(options, &mut random)),
        }
        if now_ns() >= say_ns {
            say(&done);
            say_ns = now_ns() + SAY_NS;
        }
        // A turn a millisecond at most: a bad neighbour, not a processor hog, which is another role.
        pause(1);
    }
    say(&Mischief {
        finished: true,
        ..done
    });
    Ok(())
}

/// A connection that has said nothing.
fn stranger(path: &Path) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

/// Random bytes for an opening; whether they could be said.
fn opening(path: &Path, random: &mut Random) -> bool {
    let length = random.next() as usize % 600;
    let words: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    let said =
        stranger(path).and_then(|socket| send(socket.as_raw_fd(), &words, MsgFlags::MSG_NOSIGNAL));
    said.is_ok()
}

/// Connects well, and writes at random into the memory that came with it; whether that was possible.
fn scribble(options: &Options, random: &mut Random) -> bool {
    // Not to come back: the next connection is another victim.
    let Ok(mut client) = Client::connect(&options.socket, &options.task, PixelFormat::Rgb8) else {
        return false;
    };
    let Ok(memory) = OpenOptions::new().write(true).open("/proc/self/mem") else {
        return false;
    };
    let mappings = shared_with_daemon();
    for &(start, length) in &mappings {
        for _ in 0..WRITES {
            let bytes = random.next().to_le_bytes();
            // What matters is at the beginning: rings and slot states come before pixels.
            let near = match random.next().is_multiple_of(2) {
                true => length.min(8192),
                false => length,
            };
            // Refused where the daemon sealed it, which is as it should be.
            let _ = memory.write_at(&bytes, start + random.next() % near.max(1));
        }
    }
    // Rings, so that the daemon looks; then waits for what it makes of it.
    if let Ok(Some(slot)) = client.slot(Some(0)) {
        let _ = slot.submit(now_ns(), None, Crop { x: 0, y: 0 });
    }
    let _ = client.verdict(Some(now_ns() + ANSWER_NS));
    !mappings.is_empty()
}

/// Where the memory that came with a connection is mapped: address and length.
fn shared_with_daemon() -> Vec<(u64, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let shared = maps.lines().filter(|line| line.contains("/memfd:"));
    let ranges = shared.filter_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        Some((
            start,
            u64::from_str_radix(end, 16).ok()?.checked_sub(start)?,
        ))
    });
    ranges.collect()
}

/// A small generator with a good spread (SplitMix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
