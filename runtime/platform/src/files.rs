//! Writing files so that a reader never sees half of one; and into what is no file.
//!
//! | what is there | what happens |
//! |---|---|
//! | nothing | a file is written next to it and renamed: a reader sees all of it or none |
//! | a regular file | likewise. If it was ours, the new one has its mode and group; otherwise its owner, who is not trusted, gets nothing of the new one |
//! | a symbolic link of ours or of root's | it is followed. Anybody else's is refused: it may point at what they may not write |
//! | a character device, a pipe | it is written into, not replaced; one that takes nothing for a second, or that has no reader, is an error |
//! | a directory, a block device, a socket | it is refused |

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{clock, poll};

/// How long a pipe or a device may take nothing.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Writes `content` to `path`; see the [module](self).
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    write_whole_with(path, |file| file.write_all(content))
}

/// As [`write_whole`], with content that `write` makes piece by piece.
pub fn write_whole_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<Destination>) -> io::Result<()>,
) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return replace(path, None, write),
        found => found?,
    };
    if !found.is_symlink() {
        return write_onto(path, &found, write);
    }
    // What the kernel does in /tmp (fs.protected_symlinks), everywhere.
    if found.uid() != 0 && found.uid() != own_user() {
        return Err(refused("is a symbolic link of another user"));
    }
    let found = fs::metadata(path)?;
    if found.is_file() {
        return write_onto(&fs::canonicalize(path)?, &found, write);
    }
    // A pipe behind /dev/stdout has no other name.
    write_onto(path, &found, write)
}

/// Has the names in a folder on the disk: links and renames are there after a loss of power.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    let flags = libc::O_DIRECTORY;
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(folder)?;
    folder.sync_all()
}

#[derive(Debug)]
pub struct Destination(File);

impl Write for Destination {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(content) {
                // Only what was opened so in here: what is no regular file.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !poll::wait_writable(self.0.as_fd(), Some(clock::now_ns() + PATIENCE_NS)) {
                        let words = "accepts no data: its reader does not read";
                        return Err(io::Error::new(ErrorKind::TimedOut, words));
                    }
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Onto what is there, `found` at `path`, which is no link.
fn write_onto(
    path: &Path,
    found: &Metadata,
    write: impl FnOnce(&mut BufWriter<Destination>) -> io::Result<()>,
) -> io::Result<()> {
    let kind = found.file_type();
    if kind.is_file() {
        return replace(path, Some(found), write);
    }
    if !kind.is_char_device() && !kind.is_fifo() {
        return Err(refused("is a directory, a block device or a socket"));
    }
    // Waits for no reader, and makes no terminal ours.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => io::Error::new(ErrorKind::BrokenPipe, "is a pipe without a reader"),
        _ => error,
    })?;
    if !is_same(&file.metadata()?, found) {
        return Err(refused("was replaced meanwhile"));
    }
    write_to(file, write)
}

/// Writes a file next to `path`, then renames it; `old` is the file that is there.
fn replace(
    path: &Path,
    old: Option<&Metadata>,
    write: impl FnOnce(&mut BufWriter<Destination>) -> io::Result<()>,
) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers are different, and order nothing.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.{count}.new", std::process::id()));
    // Left by a process that had our number, or a link that another user put there: removed, not followed.
    let _ = fs::remove_file(&beside);
    let written = || {
        let file = File::create_new(&beside)?;
        if let Some(old) = old.filter(|old| old.uid() == own_user()) {
            // A group that we are not in any more is not ours to give.
            let _ = fchown(&file, None, Some(old.gid()));
            file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        write_to(file, write)?;
        fs::rename(&beside, path)
    };
    written().inspect_err(|_| {
        // It may not exist; the first error is the one to report.
        let _ = fs::remove_file(&beside);
    })
}

fn write_to(
    file: File,
    write: impl FnOnce(&mut BufWriter<Destination>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(Destination(file));
    let written = write(&mut file).and_then(|()| file.flush());
    // What could not be written is not tried again.
    let _ = file.into_parts();
    written
}

/// Whether these are of one file.
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

fn own_user() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

fn refused(words: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, words)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    /// A folder, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("punctual-files-{name}-{}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            fs::create_dir(&folder.0).unwrap();
            folder
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn fifo(&self) -> PathBuf {
            let path = self.path("fifo");
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
            path
        }

        fn names(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_device_is_written_into_and_not_replaced() {
        for (device, error) in [
            ("/dev/null", None),
            ("/dev/full", Some(ErrorKind::StorageFull)),
        ] {
            let written = write_whole(Path::new(device), b"content");
            assert_eq!(written.err().map(|error| error.kind()), error);
            let found = fs::symlink_metadata(device).unwrap();
            assert!(found.file_type().is_char_device(), "{device} was replaced");
        }
    }

    #[test]
    fn a_pipe_is_written_into_and_one_that_nobody_reads_is_an_error() {
        let folder = Folder::new("fifo");
        let fifo = folder.fifo();
        let error = write_whole(&fifo, b"content").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        // Both ends, so that opening it does not wait for another process.
        let mut reader = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&fifo)
            .unwrap();
        write_whole(&fifo, b"content").unwrap();
        let mut content = [0; 7];
        reader.read_exact(&mut content).unwrap();
        assert_eq!(&content, b"content");
        let error = write_whole(&fifo, &vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        assert_eq!(folder.names(), 1);
    }

    #[test]
    fn a_pipe_with_a_slow_reader_gets_all_of_it() {
        let folder = Folder::new("slow");
        let fifo = folder.fifo();
        let mut reader = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&fifo)
            .unwrap();
        let content = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            let written = scope.spawn(|| write_whole(&fifo, &content));
            let mut read = vec![0; content.len()];
            reader.read_exact(&mut read).unwrap();
            assert!(read == content);
            written.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_pipe_without_a_name_is_written_into_through_its_descriptor() {
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        write_whole(Path::new(&path), b"content").unwrap();
        drop(writer);
        let mut content = Vec::new();
        reader.read_to_end(&mut content).unwrap();
        assert_eq!(content, b"content");
    }

    #[test]
    fn what_is_nothing_to_write_to_is_refused_and_stays() {
        let folder = Folder::new("refused");
        let socket = folder.path("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&socket, &folder.0] {
            let error = write_whole(path, b"content").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}");
        }
        assert!(
            fs::symlink_metadata(&socket)
                .unwrap()
                .file_type()
                .is_socket()
        );
        assert_eq!(folder.names(), 1);
    }

    #[test]
    fn a_link_of_ours_is_followed_and_stays() {
        let folder = Folder::new("link");
        let (link, file) = (folder.path("link"), folder.path("file"));
        symlink("file", &link).unwrap();
        let error = write_whole(&link, b"content").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "a link to nothing");
        fs::write(&file, b"old").unwrap();
        write_whole(&link, b"content").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"content");
        assert_eq!(folder.names(), 2);
    }

    #[test]
    fn a_link_of_another_user_is_refused_and_their_file_keeps_nothing_of_ours() {
        let folder = Folder::new("others");
        let (link, file) = (folder.path("link"), folder.path("file"));
        fs::write(&file, b"old").unwrap();
        symlink("file", &link).unwrap();
        if std::os::unix::fs::lchown(&link, Some(65_534), None).is_err() {
            eprintln!("skipped: only root may give a link away");
            return;
        }
        let error = write_whole(&link, b"content").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(fs::read(&file).unwrap(), b"old");
        fs::set_permissions(&file, Permissions::from_mode(0o606)).unwrap();
        std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
        write_whole(&file, b"content").unwrap();
        let found = fs::metadata(&file).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o002), (own_user(), 0));
    }

    #[test]
    fn a_file_of_ours_keeps_its_mode_and_a_failure_leaves_it_alone() {
        let folder = Folder::new("mode");
        let file = folder.path("file");
        write_whole(&file, b"first").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
        write_whole(&file, b"second").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o604);
        let failed = write_whole_with(&file, |file| {
            file.write_all(b"third")?;
            Err(ErrorKind::Other.into())
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&file).unwrap(), b"second");
        assert_eq!(folder.names(), 1);
    }

    #[test]
    fn a_link_where_the_new_file_goes_first_is_not_followed() {
        let folder = Folder::new("beside");
        let (file, target) = (folder.path("file"), folder.path("target"));
        fs::write(&target, b"precious").unwrap();
        // The next names, whichever other tests take.
        for count in 0..64 {
            let beside = format!("file.{}.{count}.new", std::process::id());
            symlink("target", folder.path(&beside)).unwrap();
        }
        write_whole(&file, b"content").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert_eq!(fs::read(&file).unwrap(), b"content");
    }
}
