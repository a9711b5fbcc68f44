//! Threads for calls that another process can make slow: above all closing a client's descriptors. Closing a TCP
//! socket with `SO_LINGER`, for example, waits for its peer.

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use punctual_plan::ORDINARY_STACK_BYTES;
use punctual_platform::interrupt::Interrupter;
use punctual_platform::poll::Waker;
use punctual_platform::thread::spawn_ordinary_with_stack;

use crate::StartupError;

/// How long a call of a job may sleep where signals can interrupt it, in ns.
const CALL_NS: u64 = 5_000_000;

type Job<T> = Box<dyn FnOnce() -> Option<T> + Send>;

/// A few threads and their queue. Jobs that block for ever keep their threads, which
/// no other thread waits for; the number of jobs is bounded.
pub struct BlockingPool<T> {
    jobs: Sender<Job<T>>,
    done: Receiver<Option<T>>,
    pending: usize,
    limit: usize,
}

impl<T: Send + 'static> BlockingPool<T> {
    /// Starts `threads` threads for at most `limit` jobs at a time. `waker` is woken when one is done.
    pub fn start(
        name: &str,
        threads: u16,
        limit: usize,
        waker: &Waker,
    ) -> Result<Self, StartupError> {
        // Unbounded: a thread that submits a job, or has done one, does not wait. How many there are is
        // bounded by `limit`.
        let (jobs, waiting) = unbounded::<Job<T>>();
        let (finished, done) = unbounded();
        for number in 0..threads {
            let worker = Worker {
                waiting: waiting.clone(),
                finished: finished.clone(),
                waker: waker.clone(),
            };
            let (ready, started) = bounded(1);
            let stack = ORDINARY_STACK_BYTES as usize;
            spawn_ordinary_with_stack(&format!("{name}/{number}"), stack, move || {
                match Interrupter::of_this_thread() {
                    Ok(interrupter) => {
                        drop(ready);
                        worker.run(&interrupter);
                    }
                    // Received below.
                    Err(error) => drop(ready.send(error)),
                }
            })?;
            if let Ok(error) = started.recv() {
                return Err(error.into());
            }
        }
        Ok(Self {
            jobs,
            done,
            pending: 0,
            limit,
        })
    }

    /// Whether another job may be given.
    pub fn has_room(&self) -> bool {
        self.pending < self.limit
    }

    /// Jobs that were given and whose outcome was not taken.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Has a thread run this, sooner or later. Beyond the limit too: a caller that can wait asks first whether there
    /// is room.
    pub fn run(&mut self, job: impl FnOnce() -> Option<T> + Send + 'static) {
        self.pending += 1;
        // The threads end only after this sender is gone.
        let _ = self.jobs.send(Box::new(job));
    }

    /// What a job that is done had to say.
    pub fn outcome(&mut self) -> Option<T> {
        while let Ok(outcome) = self.done.try_recv() {
            self.pending -= 1;
            if outcome.is_some() {
                return outcome;
            }
        }
        None
    }
}

struct Worker<T> {
    waiting: Receiver<Job<T>>,
    finished: Sender<Option<T>>,
    waker: Waker,
}

impl<T> Worker<T> {
    fn run(self, interrupter: &Interrupter) {
        for job in self.waiting {
            let outcome = interrupter.limit(CALL_NS, job);
            if self.finished.send(outcome).is_err() {
                return;
            }
            self.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use punctual_platform::clock::now_ns;
    use punctual_platform::poll::Poller;

    use super::*;

    fn pool(poller: &Poller) -> BlockingPool<u32> {
        BlockingPool::start("test", 2, 3, &poller.waker()).expect("threads")
    }

    /// The outcomes of `count` jobs, in order of their numbers.
    fn outcomes(pool: &mut BlockingPool<u32>, poller: &mut Poller, count: usize) -> Vec<u32> {
        let limit_ns = now_ns() + 20_000_000_000;
        let mut outcomes = Vec::new();
        while outcomes.len() < count && now_ns() < limit_ns {
            outcomes.extend(std::iter::from_fn(|| pool.outcome()));
            let _ = poller.wait(Some(now_ns() + 10_000_000)).count();
        }
        outcomes.sort_unstable();
        outcomes
    }

    #[test]
    fn a_job_that_blocks_for_good_holds_up_no_other() {
        let mut poller = Poller::new(1).expect("descriptors");
        let mut pool = pool(&poller);
        let (hold, held) = bounded::<()>(0);
        pool.run(move || held.recv().err().map(|_| 99));
        pool.run(|| Some(1));
        pool.run(|| None);
        assert!(!pool.has_room());
        assert_eq!(outcomes(&mut pool, &mut poller, 1), [1]);
        pool.run(|| Some(2));
        assert_eq!(outcomes(&mut pool, &mut poller, 1), [2]);
        assert_eq!(pool.pending(), 1);
        drop(hold);
        assert_eq!(outcomes(&mut pool, &mut poller, 1), [99]);
        assert!(pool.has_room() && pool.pending() == 0);
    }

    #[test]
    fn jobs_run_where_a_wait_can_be_interrupted() {
        let mut poller = Poller::new(1).expect("descriptors");
        let mut pool = pool(&poller);
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let _nobody = TcpStream::connect(listener.local_addr().expect("bound")).expect("a peer");
        let (mut socket, _) = listener.accept().expect("a peer");
        // A read with no end but a signal.
        pool.run(move || {
            let interrupted = std::io::Read::read(&mut socket, &mut [0]).is_err();
            interrupted.then_some(7)
        });
        assert_eq!(outcomes(&mut pool, &mut poller, 1), [7]);
    }
}
