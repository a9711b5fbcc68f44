//! Frames that wait for their network.

use std::sync::{Condvar, Mutex, MutexGuard};

use punctual_decode::View;
use punctual_device_ort::Values;

use super::contestants::Order;

/// A frame, prepared.
pub struct Job {
    /// Position of its camera.
    pub camera: usize,
    pub sequence: u64,
    pub captured_ns: u64,
    /// `u64::MAX`: it has none.
    pub deadline_ns: u64,
    /// Where the network sees the frame.
    pub view: View,
    /// The camera's slot: the input, and what the parts that have run have left.
    pub values: Values,
    pub parts_done: usize,
}

/// Of one thread.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    /// In the order in which they came.
    jobs: Vec<Job>,
    closed: bool,
}

impl Queue {
    pub fn push(&self, job: Job) {
        self.locked().jobs.push(job);
        self.came.notify_one();
    }

    /// No further frames come.
    pub fn close(&self) {
        self.locked().closed = true;
        self.came.notify_one();
    }

    /// Waits for a frame; none: the queue is empty and closed.
    pub fn take(&self, order: Order) -> Option<Job> {
        let idle = |state: &mut State| state.jobs.is_empty() && !state.closed;
        let state = self.came.wait_while(self.locked(), idle);
        let mut state = state.expect("no holder panics");
        let positions = 0..state.jobs.len();
        let next = match order {
            Order::Fifo => positions.min(),
            Order::Edf => positions.min_by_key(|&at| state.jobs[at].deadline_ns),
        };
        next.map(|next| state.jobs.remove(next))
    }

    /// Whether all that wait are as asked.
    pub fn all(&self, mut is: impl FnMut(&Job) -> bool) -> bool {
        self.locked().jobs.iter().all(|job| is(job))
    }

    /// Those that are as asked, out of the queue.
    pub fn remove(&self, mut is: impl FnMut(&Job) -> bool) -> Vec<Job> {
        self.locked().jobs.extract_if(.., |job| is(job)).collect()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}
