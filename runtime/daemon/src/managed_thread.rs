//! A real-time thread, and how to end it.

use std::sync::Arc;

use punctual_platform::Doorbell;
use punctual_platform::heartbeat::{Beat, Heartbeat, Pulse};
use punctual_platform::poll::Waker;
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};

use crate::drain::Flag;

/// What makes a sleeping thread look at its orders.
#[derive(Clone)]
pub enum Wakeup {
    Bell(Arc<Doorbell>),
    Poller(Waker),
}

impl Wakeup {
    pub fn send(&self) {
        match self {
            Self::Bell(bell) => bell.ring(),
            Self::Poller(waker) => waker.wake(),
        }
    }
}

/// A thread that works until its flag is raised and then gives back what it worked with.
pub struct ManagedThread<T> {
    pub thread: RealtimeThread<T>,
    pub stop: Arc<Flag>,
    pub wakeup: Wakeup,
    /// Beats at every turn of the thread's loop.
    pub heart: Arc<Heartbeat>,
}

struct ManagedPulse {
    heart: Arc<Heartbeat>,
    wakeup: Wakeup,
    tid: i32,
}

impl Pulse for ManagedPulse {
    fn beat(&self) -> Beat {
        self.heart.read()
    }

    fn nudge(&self) {
        self.wakeup.send();
    }

    fn tid(&self) -> i32 {
        self.tid
    }
}

impl<T: Send + 'static> ManagedThread<T> {
    /// Starts `body`, which looks at `stop` after each `wakeup`, and lets `heart` beat then.
    pub fn start(
        spec: ThreadSpec,
        stop: Arc<Flag>,
        wakeup: Wakeup,
        heart: Arc<Heartbeat>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self, ThreadError> {
        let thread = spawn_realtime(spec, body)?;
        Ok(Self {
            thread,
            stop,
            wakeup,
            heart,
        })
    }

    pub fn pulse(&self) -> Arc<dyn Pulse> {
        Arc::new(ManagedPulse {
            heart: Arc::clone(&self.heart),
            wakeup: self.wakeup.clone(),
            tid: self.thread.tid(),
        })
    }

    /// Tells it to end.
    pub fn stop(&self) {
        self.stop.raise();
        self.wakeup.send();
    }

    /// Ends it; what it worked with, or none if it panicked (and said so).
    pub fn stop_and_join(self) -> Option<T> {
        self.stop();
        self.thread.join().ok()
    }
}
