//! A real-time thread, and how to end it.

use std::sync::Arc;

use punctual_platform::Doorbell;
use punctual_platform::heartbeat::{Beat, Heartbeat, Pulse};
use punctual_platform::poll::Waker;
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};

use crate::drain::Flag;

/// What makes a sleeping thread look at its orders.
#[derive(Clone)]
pub enum Alarm {
    Bell(Arc<Doorbell>),
    Poller(Waker),
}

impl Alarm {
    pub fn sound(&self) {
        match self {
            Self::Bell(bell) => bell.ring(),
            Self::Poller(waker) => waker.wake(),
        }
    }
}

/// A thread that works until its flag is raised and then gives back what it worked with.
pub struct Hired<T> {
    pub thread: RealtimeThread<T>,
    pub stop: Arc<Flag>,
    pub alarm: Alarm,
    /// Beats at every turn of the thread's loop.
    pub heart: Arc<Heartbeat>,
}

struct HiredPulse {
    heart: Arc<Heartbeat>,
    alarm: Alarm,
    tid: i32,
}

impl Pulse for HiredPulse {
    fn beat(&self) -> Beat {
        self.heart.read()
    }

    fn nudge(&self) {
        self.alarm.sound();
    }

    fn tid(&self) -> i32 {
        self.tid
    }
}

impl<T: Send + 'static> Hired<T> {
    /// Starts `body`, which looks at `stop` whenever `alarm` is sounded, and lets `heart` beat then.
    pub fn start(
        spec: ThreadSpec,
        stop: Arc<Flag>,
        alarm: Alarm,
        heart: Arc<Heartbeat>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self, ThreadError> {
        let thread = spawn_realtime(spec, body)?;
        Ok(Self {
            thread,
            stop,
            alarm,
            heart,
        })
    }

    pub fn pulse(&self) -> Arc<dyn Pulse> {
        Arc::new(HiredPulse {
            heart: Arc::clone(&self.heart),
            alarm: self.alarm.clone(),
            tid: self.thread.tid(),
        })
    }

    /// Ends it; what it worked with, or none if it panicked (and said so).
    pub fn dismiss(self) -> Option<T> {
        self.stop.raise();
        self.alarm.sound();
        self.thread.join().ok()
    }
}
