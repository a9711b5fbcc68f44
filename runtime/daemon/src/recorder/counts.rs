//! What the recorder did, for the report.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Written by the recorder's threads, read by housekeeping: ordinary threads all. Relaxed: counts order nothing.
#[derive(Debug, Default)]
pub struct Counts {
    /// Files that are complete.
    written: AtomicU64,
    /// The newest of them.
    last: Mutex<Option<PathBuf>>,
    /// Files that could not be written, or not to their end.
    pub failed: AtomicU64,
    /// Segments that the disk was too slow for, or that came while it was left alone.
    pub unwritten: AtomicU64,
    pub steps: AtomicU64,
    pub steps_lost: AtomicU64,
    pub sent_lost: AtomicU64,
    pub pictures: AtomicU64,
    /// Steps that the recorder's own scheduler decided otherwise.
    pub differing: AtomicU64,
}

impl Counts {
    pub fn wrote(&self, path: PathBuf) {
        *self.last.lock().expect("no panic with it") = Some(path);
        self.written.fetch_add(1, Relaxed);
    }

    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    pub fn last(&self) -> Option<PathBuf> {
        self.last.lock().expect("no panic with it").clone()
    }
}
