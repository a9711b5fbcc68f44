//! What a client may do to its memory files, and what the seals forbid.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::fcntl::{FallocateFlags, fallocate};
use punctual_ipc::internals::{files, small_terms};
use punctual_ipc::{Hello, Listener, PixelFormat, ServerChannel};
use punctual_platform::poll::wait_readable;
use punctual_platform::shared_memory::{Access, MemoryFile, Seals};

/// The daemon's side, and what it sent to the client: its socket, and both files.
struct Admitted {
    server: ServerChannel,
    _socket: OwnedFd,
    requests: OwnedFd,
    results: OwnedFd,
}

fn admitted(test: &str) -> Admitted {
    let name = format!("punctual-sealed-{}-{test}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let listener = Listener::bind(&path).unwrap();
    let hello = Hello::new("signs", PixelFormat::Rgb8);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| files(&path, &hello).unwrap());
        assert!(wait_readable(listener.as_fd(), None));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(connection.as_fd(), None));
        assert_eq!(connection.hello().unwrap().as_ref(), Some(&hello));
        let server = connection.admit(&small_terms()).unwrap();
        let (socket, files) = client.join().unwrap();
        let [requests, results, _outputs, _bell] = <[OwnedFd; 4]>::try_from(files).unwrap();
        Admitted {
            server,
            _socket: socket,
            requests,
            results,
        }
    })
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
fn holes_punched_into_the_requests_read_as_nothing_submitted() {
    let admitted = admitted("holes");
    let (mut submissions, _payload, _results) = admitted.server.split();
    let file = admitted.requests.try_clone().unwrap();
    let bytes = MemoryFile::received(file).unwrap().bytes();
    for _ in 0..10 {
        punch(&admitted.requests, bytes).unwrap();
        assert_eq!(submissions.poll(), Ok(None));
    }
}
