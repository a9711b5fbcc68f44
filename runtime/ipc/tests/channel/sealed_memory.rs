//! What a client may do to its memory files, and what the seals forbid.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::fcntl::{FallocateFlags, fallocate};
use punctual_ipc::internals::{say_mapped, small_terms, welcomed};
use punctual_ipc::{AdmitError, Hello, Listener, PixelFormat, ServerChannel};
use punctual_platform::poll::wait_readable;
use punctual_platform::shared_memory::{Access, MemoryFile, Seals};

/// The daemon's side, and what it sent to the client: its socket, and both files.
struct Admitted {
    server: ServerChannel,
    _socket: OwnedFd,
    requests: OwnedFd,
    results: OwnedFd,
}

/// What becomes of a client that does this before it says that it has mapped its memory.
fn admitted_after(
    test: &str,
    does: impl FnOnce(&[OwnedFd]) + Send,
) -> Result<Admitted, AdmitError> {
    let name = format!("punctual-sealed-{}-{test}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let listener = Listener::bind(&path).unwrap();
    let hello = Hello::new("signs", PixelFormat::Rgb8);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let (socket, files) = welcomed(&path, &hello).unwrap();
            does(&files);
            say_mapped(&files);
            (socket, files)
        });
        assert!(wait_readable(listener.as_fd(), None));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(connection.as_fd(), None));
        assert_eq!(connection.hello().unwrap().as_ref(), Some(&hello));
        let server = connection.admit(&small_terms());
        let (socket, files) = client.join().unwrap();
        let [requests, results, _outputs, _bell] = <[OwnedFd; 4]>::try_from(files).unwrap();
        Ok(Admitted {
            server: server?,
            _socket: socket,
            requests,
            results,
        })
    })
}

fn admitted(test: &str) -> Admitted {
    admitted_after(test, |_| ()).unwrap()
}

fn punch(file: &OwnedFd, bytes: usize) -> nix::Result<()> {
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, hole, 0, bytes as i64)
}

#[test]
fn neither_file_can_shrink_or_grow_under_the_daemon() {
    let Admitted {
        requests, results, ..
    } = admitted("size");
    for file in [requests, results] {
        let file = File::from(file);
        let bytes = file.metadata().unwrap().len();
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(bytes + 4096).is_err());
    }
}

#[test]
fn nobody_but_the_daemon_can_write_results() {
    let Admitted { results, .. } = admitted("results");
    let bytes = results
        .try_clone()
        .map(|file| MemoryFile::received(file).unwrap().bytes());
    assert!(punch(&results, bytes.unwrap()).is_err());
    assert!(
        File::from(results.try_clone().unwrap())
            .write_all(b"x")
            .is_err()
    );
    let results = MemoryFile::received(results).unwrap();
    assert!(results.map(Access::ReadWrite).is_err());
    assert!(results.map(Access::Read).is_ok());
}

#[test]
fn the_client_cannot_add_seals() {
    let Admitted {
        requests, results, ..
    } = admitted("seals");
    for file in [requests, results] {
        let file = MemoryFile::received(file).unwrap();
        assert!(file.seal(Seals::FUTURE_WRITE).is_err());
        assert!(file.seals().unwrap().contain(Seals::SIZE.and(Seals::SEAL)));
    }
}

#[test]
fn what_a_client_has_mapped_it_can_write_and_nobody_can_punch_holes_into_it() {
    let mapped = std::sync::Mutex::new(None);
    let map = |files: &[OwnedFd]| {
        let file = MemoryFile::received(files[0].try_clone().unwrap()).unwrap();
        *mapped.lock().unwrap() = Some(file.map(Access::ReadWrite).unwrap());
    };
    let Admitted { requests, .. } = admitted_after("mapped", map).unwrap();
    let mapped = mapped.into_inner().unwrap().expect("it was mapped");
    let file = MemoryFile::received(requests.try_clone().unwrap()).unwrap();
    assert!(punch(&requests, file.bytes()).is_err());
    assert!(file.map(Access::ReadWrite).is_err(), "no others map it");
    // SAFETY: in bounds of our own mapping.
    unsafe { mapped.as_ptr().write_volatile(7) };
    let mut byte = [0];
    file.read_at(0, &mut byte).unwrap();
    assert_eq!(byte, [7]);
}

#[test]
fn holes_that_were_punched_before_that_read_as_nothing_submitted() {
    let punch_all = |files: &[OwnedFd]| {
        let file = MemoryFile::received(files[0].try_clone().unwrap()).unwrap();
        punch(&files[0], file.bytes()).unwrap();
    };
    let admitted = admitted_after("holes", punch_all).unwrap();
    let (mut submissions, _payload, _results) = admitted.server.split();
    assert_eq!(submissions.poll(), Ok(None));
}

#[test]
fn a_client_that_keeps_our_seals_out_is_not_admitted() {
    let seal = |files: &[OwnedFd]| {
        let file = MemoryFile::received(files[0].try_clone().unwrap()).unwrap();
        file.seal(Seals::SEAL).unwrap();
    };
    let admitted = admitted_after("kept-out", seal).map(|_| ());
    assert!(matches!(admitted, Err(AdmitError::Sealed)), "{admitted:?}");
}
