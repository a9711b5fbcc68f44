//! The library's own threads, made and pinned by us.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort::environment::ThreadManager;
use punctual_platform::thread::{RealtimeThread, ThreadSpec, spawn_realtime};

/// Makes the mates of a partition's leader: one on each core but the first, at its priority.
#[derive(Clone)]
pub(crate) struct PinnedThreads {
    name: Arc<str>,
    cores: Arc<[usize]>,
    priority: Option<u8>,
    /// Threads made so far by this session: the next one's core.
    made: Arc<AtomicUsize>,
}

impl PinnedThreads {
    /// For a partition's cores, whose first is the leader's.
    pub(crate) fn new(name: &str, cores: &[usize], priority: Option<u8>) -> Self {
        Self {
            name: name.into(),
            cores: cores.get(1..).unwrap_or_default().into(),
            priority,
            made: Arc::new(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.cores.len()
    }

    /// The same cores for another session.
    pub(crate) fn again(&self) -> Self {
        Self {
            made: Arc::new(AtomicUsize::new(0)),
            ..self.clone()
        }
    }
}

impl ThreadManager for PinnedThreads {
    type Thread = RealtimeThread<()>;

    fn create(&self, work: impl FnOnce() + Send + 'static) -> ort::Result<Self::Thread> {
        // Relaxed: a counter; the library makes a session's threads one after the other.
        let mate = self.made.fetch_add(1, Ordering::Relaxed);
        let core = self.cores[mate % self.cores.len()];
        let spec = ThreadSpec::new(
            format!("{}/{}", self.name, mate + 1),
            Some(core),
            self.priority,
        );
        spawn_realtime(spec, work).map_err(|error| ort::Error::new(error.to_string()))
    }

    fn join(thread: Self::Thread) -> ort::Result<()> {
        // One that panicked has said so.
        let _ = thread.join();
        Ok(())
    }
}
