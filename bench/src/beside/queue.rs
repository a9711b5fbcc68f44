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

impl Job {
    /// The smaller, the earlier it is due: frames without an answer before those that could have a deeper one, and both before
    /// best effort.
    const fn urgency(&self) -> (bool, bool, u64) {
        let is_best_effort = self.deadline_ns == u64::MAX;
        (is_best_effort, self.parts_done > 0, self.deadline_ns)
    }
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
            Order::Edf => positions.min_by_key(|&at| state.jobs[at].urgency()),
        };
        next.map(|next| state.jobs.remove(next))
    }

    /// Those that are as asked, out of the queue.
    pub fn remove(&self, mut is: impl FnMut(&Job) -> bool) -> Vec<Job> {
        self.locked().jobs.extract_if(.., |job| is(job)).collect()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use punctual_types::Size;

    use super::*;

    fn job(sequence: u64, deadline_ns: u64, parts_done: usize) -> Job {
        let size = Size {
            width: 1,
            height: 1,
        };
        Job {
            camera: 0,
            sequence,
            captured_ns: 0,
            deadline_ns,
            view: View::new(0, 0, size, size, false).expect("sides"),
            values: Values::default(),
            parts_done,
        }
    }

    /// Closed, with frames 0 to 4.
    fn queue() -> Queue {
        let queue = Queue::default();
        queue.push(job(0, 30, 0));
        queue.push(job(1, 10, 1));
        queue.push(job(2, 20, 0));
        queue.push(job(3, 5, 1));
        queue.push(job(4, u64::MAX, 0));
        queue.close();
        queue
    }

    fn taken(queue: &Queue, order: Order) -> Vec<u64> {
        std::iter::from_fn(|| Some(queue.take(order)?.sequence)).collect()
    }

    #[test]
    fn frames_leave_as_they_came_or_by_their_deadlines_those_without_an_answer_first_and_best_effort_last()
     {
        assert_eq!(taken(&queue(), Order::Fifo), [0, 1, 2, 3, 4]);
        assert_eq!(taken(&queue(), Order::Edf), [2, 0, 3, 1, 4]);
    }

    #[test]
    fn what_is_removed_is_not_taken() {
        let queue = queue();
        let removed = queue.remove(|job| job.parts_done > 0);
        assert_eq!(removed.len(), 2);
        assert_eq!(taken(&queue, Order::Fifo), [0, 2, 4]);
    }
}
