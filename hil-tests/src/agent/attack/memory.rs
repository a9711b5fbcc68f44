//! Shared memory, written where no client writes, and taken away.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;

use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use punctual_client::{Client, Crop, Options, PixelFormat, now_ns};

use super::{AgentError, Attack, wire};

const WRITES: u64 = 2000;

/// How long a scribbler waits for what the daemon makes of it, in ns.
const ANSWER_NS: u64 = 20_000_000;

const STAY: u64 = 50;

/// A buffer of its own: more than a frame of any task of the rig's.
const BUFFER: i64 = 1 << 20;

/// Where the bell lies in the results.
const BELL: u64 = 64;

/// Random words all over the shared memory.
pub fn scribble(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        scribble_once(attack);
    }
    Ok(())
}

/// One client that connects well, and writes at random into the memory that came with it.
pub fn scribble_once(attack: &mut Attack<'_>) {
    let Some((mut client, memory)) = working(attack) else {
        return;
    };
    for mapping in shared() {
        for _ in 0..WRITES {
            let bytes = attack.random.next_u64().to_le_bytes();
            // What matters is at the beginning: rings and slot states come before pixels.
            let near = match attack.random.below(2) {
                0 => mapping.bytes.min(8192),
                _ => mapping.bytes,
            };
            // Refused where the daemon sealed it, which is as it should be.
            let _ = memory.write_at(&bytes, mapping.start + attack.random.below(near));
        }
    }
    // Rings, so that the daemon looks; then waits for what it makes of it.
    submit(&mut client);
    let _ = client.verdict(Some(now_ns() + ANSWER_NS));
    attack.done.ended += u64::from(!client.is_connected());
}

/// Pixels and descriptors change while the daemon reads them.
pub fn rewrite(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        let Some((mut client, memory)) = working(attack) else {
            continue;
        };
        let written: Vec<_> = shared().into_iter().filter(|at| at.writable).collect();
        for _ in 0..STAY {
            if !attack.goes_on(1) || !client.is_connected() {
                break;
            }
            submit(&mut client);
            for _ in 0..WRITES / STAY {
                for mapping in &written {
                    let bytes = attack.random.bytes(256);
                    // Behind the positions: the cells of the ring, and pixels.
                    let at = 192 + attack.random.below(mapping.bytes - 512);
                    let _ = memory.write_at(&bytes, mapping.start + at);
                }
            }
            let _ = client.verdict(Some(now_ns()));
        }
        attack.done.ended += u64::from(!client.is_connected());
    }
    Ok(())
}

/// Holes in the daemon's memory files and, where buffers are taken, in its own.
pub fn punch_holes(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let buffers: Vec<_> = (0..attack.options.count)
        .map(|_| buffer())
        .collect::<nix::Result<_>>()
        .map_err(AgentError::os("a memory file"))?;
    while attack.goes_on(1) {
        let options = Options::new(&attack.options.socket, "own", PixelFormat::Rgb8);
        let copies = buffers
            .iter()
            .map(|buffer| buffer.try_clone().map(Into::into));
        let lent = copies.collect::<Result<_, _>>();
        let lent = options.buffers(lent.map_err(AgentError::io("a memory file"))?);
        let mut lender = lent.reconnect(false).connect().ok();
        let Some(client) = attack.admitted_client() else {
            continue;
        };
        for _ in 0..STAY {
            if !attack.goes_on(1) {
                break;
            }
            lender.as_mut().map(submit);
            client.ring();
            for buffer in &buffers {
                let _ = fallocate(buffer, hole, 0, BUFFER);
            }
            // Sizes and seals are the daemon's: refused, which is as it should be.
            let _ = fallocate(client.requests(), hole, 0, BUFFER);
            let _ = nix::unistd::ftruncate(client.requests(), attack.random.below(8192) as i64);
            let _ = fcntl(client.requests(), FcntlArg::F_ADD_SEALS(SealFlag::all()));
        }
        attack.done.ended += u64::from(wire::is_closed(&client.socket, 0));
    }
    Ok(())
}

/// A memory file that the daemon takes.
pub fn buffer() -> nix::Result<File> {
    let file = memfd_create(
        "punctual-hil",
        MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC,
    )?;
    nix::unistd::ftruncate(&file, BUFFER)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK))?;
    Ok(file.into())
}

/// A client by the library, and a way to write where it does not; counted.
fn working(attack: &mut Attack<'_>) -> Option<(Client, File)> {
    // Not to come back: the next connection is another victim.
    let options = &attack.options;
    let wanted = Options::new(&options.socket, &options.task, PixelFormat::Rgb8).reconnect(false);
    let client = wanted.connect().ok()?;
    let memory = OpenOptions::new().write(true).open("/proc/self/mem").ok()?;
    attack.done.acts += 1;
    attack.done.admitted += 1;
    Some((client, memory))
}

fn submit(client: &mut Client) {
    if let Ok(Some(slot)) = client.slot(Some(0)) {
        let _ = slot.submit(now_ns(), None, Crop { x: 0, y: 0 });
    }
}

/// Memory that is shared with the daemon.
pub struct Shared {
    pub start: u64,
    pub bytes: u64,
    writable: bool,
}

fn shared() -> Vec<Shared> {
    shared_of("")
}

/// Of the files whose names begin so.
pub fn shared_of(name: &str) -> Vec<Shared> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let name = format!("/memfd:{name}");
    let shared = maps.lines().filter(|line| line.contains(&name));
    let ranges = shared.filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        Some(Shared {
            start,
            bytes: u64::from_str_radix(end, 16).ok()?.checked_sub(start)?,
            writable: rest.starts_with("rw"),
        })
    });
    ranges.collect()
}

/// The address of the bell that a client of this process sleeps on.
pub fn results() -> Option<u64> {
    let results = shared_of("punctual-results").pop()?;
    Some(results.start + BELL)
}
