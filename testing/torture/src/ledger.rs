//! What a client has done, in a file that outlives it: a process that is killed at any point
//! leaves counters that are at most one step behind.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// Where the parent tells the child to leave.
const LEAVE_AT: u64 = 512;

/// How far a client has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not connected, perhaps not even started.
    #[default]
    Outside,
    Connected,
    /// All was answered, and it closed its connection.
    Finished,
    /// The daemon closed its connection.
    HungUpOn,
    /// It was not admitted, or failed by itself.
    Failed,
}

/// A client's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub phase: Phase,
    /// Submissions that it has made, or had begun to make when it died.
    pub begun: u64,
    /// Verdicts that it has read and checked.
    pub taken: u64,
    /// Answers before their verdicts that it has read and checked.
    pub early: u64,
    /// Verdicts for nothing that was outstanding: twice, or never submitted.
    pub duplicated: u64,
    /// Verdicts that say something else than this frame's.
    pub wrong: u64,
    /// Answers whose outputs were compared, number by number, with what the frame makes them.
    pub proved: u64,
    /// Verdicts that took longer than the bound, counted from the submission.
    pub late: u64,
    /// Times that it waited for seconds with submissions outstanding: a lost verdict or wake-up.
    pub stuck: u64,
    /// The longest way from submission to verdict, in ns.
    pub round_trip_ns_max: u64,
    /// From its first attempt to connect to its admission, in ns.
    pub entry_ns: u64,
}

const FIELDS: usize = 11;
const ENTRY_BYTES: usize = FIELDS * size_of::<u64>();

impl Entry {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let words: [u64; FIELDS] = [
            self.phase as u64,
            self.begun,
            self.taken,
            self.early,
            self.duplicated,
            self.wrong,
            self.proved,
            self.late,
            self.stuck,
            self.round_trip_ns_max,
            self.entry_ns,
        ];
        let mut bytes = [0; ENTRY_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let mut words = bytes.chunks_exact(8).map(|word| {
            let bytes = word.try_into().expect("eight of them");
            u64::from_le_bytes(bytes)
        });
        let mut next = || words.next().expect("as many as fields");
        Self {
            phase: match next() {
                0 => Phase::Outside,
                1 => Phase::Connected,
                2 => Phase::Finished,
                3 => Phase::HungUpOn,
                _ => Phase::Failed,
            },
            begun: next(),
            taken: next(),
            early: next(),
            duplicated: next(),
            wrong: next(),
            proved: next(),
            late: next(),
            stuck: next(),
            round_trip_ns_max: next(),
            entry_ns: next(),
        }
    }
}

/// The file, as either side has it.
#[derive(Debug)]
pub struct Ledger(File);

impl Ledger {
    pub fn create() -> io::Result<Self> {
        let file = memfd_create("torture-ledger", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self(File::from(file)))
    }

    /// The one that a child was given.
    #[must_use]
    pub fn given(file: OwnedFd) -> Self {
        Self(File::from(file))
    }

    /// For giving it to a child.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Child: writes its counters, in one call.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        self.0.write_all_at(&entry.encode(), 0)
    }

    /// Parent: the counters as they are now.
    pub fn read(&self) -> io::Result<Entry> {
        let mut bytes = [0; ENTRY_BYTES];
        // A child that died before it wrote anything leaves an empty file: zeros.
        let read = self.0.read_at(&mut bytes, 0)?;
        bytes[read..].fill(0);
        Ok(Entry::decode(&bytes))
    }

    /// Parent: asks the child to leave once all is answered.
    pub fn ask_to_leave(&self) -> io::Result<()> {
        self.0.write_all_at(&[1], LEAVE_AT)
    }

    /// Child: whether it was asked to leave.
    pub fn leave(&self) -> io::Result<bool> {
        let mut asked = [0];
        Ok(self.0.read_at(&mut asked, LEAVE_AT)? == 1 && asked[0] == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_reads_what_the_child_wrote() {
        let ledger = Ledger::create().unwrap();
        assert_eq!(ledger.read().unwrap(), Entry::default());
        let child = Ledger(ledger.share().unwrap());
        let entry = Entry {
            phase: Phase::HungUpOn,
            begun: 5,
            taken: 4,
            early: 3,
            stuck: 1,
            entry_ns: 77,
            ..Entry::default()
        };
        child.write(&entry).unwrap();
        assert_eq!(ledger.read().unwrap(), entry);
        assert!(!child.leave().unwrap());
        ledger.ask_to_leave().unwrap();
        assert!(child.leave().unwrap());
    }
}
