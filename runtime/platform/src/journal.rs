//! The journal's own protocol (systemd.io, "Native Journal Protocol"): a log entry as fields, one
//! datagram each. Entries keep what a line of text loses: priority, task, process.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

const SOCKET: &str = "/run/systemd/journal/socket";

/// The syslog(3) priorities that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Something is lost, or the program ends.
    Error,
    /// It goes on, with less than was asked for.
    Warning,
    /// Worth knowing: it began, it ended.
    Notice,
    /// For the search for a fault.
    Debug,
}

impl Priority {
    /// The number, as the journal takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "3",
            Self::Warning => "4",
            Self::Notice => "5",
            Self::Debug => "7",
        }
    }
}

#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
}

impl Journal {
    /// The journal, if this process's standard error goes there (`JOURNAL_STREAM` names the stream's
    /// device and inode); otherwise standard error gets plain lines.
    #[must_use]
    pub fn behind_standard_error() -> Option<Self> {
        let named = std::env::var("JOURNAL_STREAM").ok()?;
        let stream = io::stderr().as_fd().try_clone_to_owned().ok()?;
        let found = std::fs::File::from(stream).metadata().ok()?;
        if named != format!("{}:{}", found.dev(), found.ino()) {
            return None;
        }
        Self::at(Path::new(SOCKET)).ok()
    }

    /// The journal that listens at `path`.
    pub fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // A journal that is busy must not block the thread that logs: the line then goes to standard error.
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// Writes one entry. A field's name is of the letters A to Z, digits and `_`, a letter first.
    pub fn write(&self, fields: &[(impl AsRef<str>, impl AsRef<str>)]) -> io::Result<()> {
        self.socket.send(&entry(fields)).map(drop)
    }
}

fn entry(fields: &[(impl AsRef<str>, impl AsRef<str>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        let (name, value) = (name.as_ref(), value.as_ref());
        bytes.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            // A value of several lines has its length in front, as a little-endian 64-bit number.
            bytes.push(b'\n');
            bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            bytes.push(b'=');
        }
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_several_lines_has_its_length_in_front() {
        let bytes = entry(&[("PRIORITY", "4"), ("MESSAGE", "a\nb")]);
        assert_eq!(bytes, b"PRIORITY=4\nMESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n");
    }

    #[test]
    fn an_entry_is_one_datagram() {
        let path = std::env::temp_dir().join(format!("punctual-journal-{}", std::process::id()));
        let listening = UnixDatagram::bind(&path).expect("a socket");
        let journal = Journal::at(&path).expect("a journal");
        let written = journal.write(&[("MESSAGE", "serving"), ("PUNCTUAL_TASK", "front")]);
        std::fs::remove_file(&path).expect("it is there");
        written.expect("written");
        let mut buffer = [0; 64];
        let bytes = listening.recv(&mut buffer).expect("an entry");
        assert_eq!(&buffer[..bytes], b"MESSAGE=serving\nPUNCTUAL_TASK=front\n");
    }

    #[test]
    fn a_journal_that_was_stopped_is_an_error_and_holds_nobody_up() {
        let path = std::env::temp_dir().join(format!("punctual-stopped-{}", std::process::id()));
        let listening = UnixDatagram::bind(&path).expect("a socket");
        let journal = Journal::at(&path).expect("a journal");
        std::fs::remove_file(&path).expect("it is there");
        // Its queue has an end.
        let refused = (0..100_000).find_map(|_| journal.write(&[("MESSAGE", "unread")]).err());
        assert_eq!(
            refused.map(|error| error.kind()),
            Some(io::ErrorKind::WouldBlock)
        );
        drop(listening);
    }

    #[test]
    fn without_a_journal_there_is_none() {
        assert!(Journal::at(Path::new("/nonexistent/journal")).is_err());
    }
}
