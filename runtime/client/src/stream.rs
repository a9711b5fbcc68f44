//! One stream whose verdicts come by themselves: as futures, or to callbacks.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use punctual_ipc::{
    Claim, Crop, Description, Failure, NoSuchTask, ResultRecord, SlotMemory, StreamTerms,
    SubmitError, VectorError, Verdict,
};
use punctual_platform::clock::now_ns;
use punctual_platform::poll::{Waker, wait_readable};
use punctual_platform::{Doorbell, thread};

use crate::reply::{Promise, Reply};
use crate::watch::Watch;
use crate::{Client, Lost, Options, Response};

/// A connection with a thread of its own that receives the verdicts. Any thread may submit.
///
/// Futures need no particular executor. Callbacks run on the stream's thread, one after the other,
/// and hold up the verdicts behind them: hand on what takes long. A real-time camera thread is
/// better served by a [`Client`]: here it shares a (short) lock with an ordinary thread.
///
/// Dropping the stream ends the thread; submissions without a verdict get
/// [`ClientGone`](Failure::ClientGone).
pub struct Stream {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    inside: Mutex<Inside>,
    /// Rung when slots may have come back, or whether there are any may have changed.
    news: Doorbell,
    watch: Arc<Watch>,
    /// The stream is to end. Relaxed: the store in `Stream::drop` and the loads in `receive` are partners; the wake-up
    /// that follows the store goes through the kernel.
    ending: AtomicBool,
}

struct Inside {
    client: Client,
    /// The future or callback of each submission.
    told: BTreeMap<u64, Told>,
    /// Slots that were given out and neither submitted nor given back.
    given_out: u64,
}

impl Inside {
    /// A slot, if there is one, and room for one more verdict: only the stream's thread can
    /// make any by reading.
    fn slot(&mut self) -> Result<Option<Claim>, Lost> {
        let room = u64::from(self.client.terms().results);
        if self.client.unanswered() + self.given_out >= room {
            return Ok(None);
        }
        let claim = self.client.try_claim()?;
        self.given_out += u64::from(claim.is_some());
        Ok(claim)
    }
}

enum Told {
    Future(Promise),
    Callback(Box<dyn FnOnce(Response) + Send>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Options {
    /// As [`open`](Self::open), with a thread that receives the verdicts: for futures and callbacks.
    ///
    /// # Errors
    /// As for [`open`](Self::open); or if the thread cannot be started.
    pub fn stream(self, until_ns: Option<u64>) -> Result<Stream, Lost> {
        let mut client = self.open(until_ns)?;
        let watch = client.watch()?;
        let waker = watch.waker();
        let shared = Arc::new(Shared {
            inside: Mutex::new(Inside {
                client,
                told: BTreeMap::new(),
                given_out: 0,
            }),
            news: Doorbell::new(),
            watch,
            ending: AtomicBool::new(false),
        });
        let receiving = Arc::clone(&shared);
        let thread = thread::spawn_ordinary("verdicts", move || receiving.receive())?;
        Ok(Stream {
            shared,
            waker,
            thread: Some(thread),
        })
    }
}

impl Stream {
    /// What was agreed with the daemon; with the last one, if there is none at present.
    #[must_use]
    pub fn terms(&self) -> StreamTerms {
        *self.shared.inside().client.terms()
    }

    /// As [`Client::description`].
    #[must_use]
    pub fn description(&self) -> Arc<Description> {
        Arc::clone(self.shared.inside().client.description())
    }

    /// Whether there is a daemon at present.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.inside().client.is_connected()
    }

    /// How many connections there were so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.inside().client.connections()
    }

    /// The application is ready for the frames of [`Lost::TermsChanged`].
    pub fn accept_terms(&self) {
        self.shared.inside().client.accept_terms();
    }

    /// As [`Client::latest`]: newer than the verdicts that futures and callbacks have had.
    #[must_use]
    pub fn latest(&self) -> Option<Response> {
        self.shared.inside().client.latest()
    }

    /// A slot to write the next frame into, as [`Client::slot`]. Several may be held at once.
    ///
    /// # Errors
    /// If there will be none.
    pub fn slot(&self, until_ns: Option<u64>) -> Result<Option<StreamSlot>, Lost> {
        let mut seen = self.shared.news.count();
        loop {
            if let Some(claim) = self.shared.inside().slot()? {
                return Ok(Some(StreamSlot {
                    shared: Arc::clone(&self.shared),
                    claim: Some(claim),
                }));
            }
            let now = self.shared.news.wait(seen, until_ns);
            if now == seen {
                return Ok(None);
            }
            seen = now;
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        self.waker.wake();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A callback that drops the stream runs on the very thread: that one ends by itself.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: hands verdicts to futures and callbacks, until the stream ends.
    fn receive(&self) {
        let mut verdicts = Vec::new();
        while !self.ending.load(Ordering::Relaxed) {
            {
                let mut inside = self.inside();
                // The next call for a slot reports the loss.
                while let Ok(Some(verdict)) = inside.client.try_verdict() {
                    let told = inside.told.remove(&verdict.sequence);
                    verdicts.extend(told.map(|told| (told, verdict)));
                }
            }
            self.news.ring();
            // Without the lock: a callback may take a slot or submit.
            for (told, verdict) in verdicts.drain(..) {
                told.tell(verdict);
            }
            let _ = wait_readable(self.watch.as_fd(), None);
        }
        let told = std::mem::take(&mut self.inside().told);
        let finished_ns = now_ns();
        for (sequence, told) in told {
            let record = ResultRecord {
                sequence,
                slot: 0,
                verdict: Verdict::Failed(Failure::ClientGone),
                answer: None,
                part: None,
                left_out: 0,
                captured_ns: 0,
                deadline_ns: u64::MAX,
                finished_ns,
                sent_ns: finished_ns,
                is_final: true,
            };
            told.tell(record.into());
        }
        self.news.ring();
    }
}

impl Told {
    fn tell(self, verdict: Response) {
        match self {
            Self::Future(promise) => promise.keep(verdict),
            // A callback that panics must not end the thread, which has the verdicts of other submissions to hand
            // on. The panic was reported on standard error when it happened.
            Self::Callback(callback) => {
                let _ = catch_unwind(AssertUnwindSafe(|| callback(verdict)));
            }
        }
    }
}

/// A slot of a [`Stream`], to write a frame into.
pub struct StreamSlot {
    shared: Arc<Shared>,
    /// There until it is submitted.
    claim: Option<Claim>,
}

impl fmt::Debug for StreamSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSlot")
            .field("claim", &self.claim)
            .finish_non_exhaustive()
    }
}

impl StreamSlot {
    /// As [`Claim::index`].
    #[must_use]
    pub fn index(&self) -> u16 {
        self.claim.as_ref().map_or(0, Claim::index)
    }

    /// As [`Claim::memory`]; none once it was submitted.
    #[must_use]
    pub fn memory(&self) -> Option<SlotMemory> {
        self.claim.as_ref().map(Claim::memory)
    }

    /// As [`Claim::pixels`].
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        self.claim.as_mut().map_or(&mut [], Claim::pixels)
    }

    /// As [`Claim::set_task`].
    ///
    /// # Errors
    /// As there.
    pub fn set_task(&mut self, name: &str) -> Result<(), NoSuchTask> {
        let claim = self.claim.as_mut().expect("there until it is submitted");
        claim.set_task(name)
    }

    /// As [`Claim::set_vector`].
    ///
    /// # Errors
    /// As there.
    pub fn set_vector(&mut self, name: &str, values: &[f32]) -> Result<(), VectorError> {
        let claim = self.claim.as_mut().expect("there until it is submitted");
        claim.set_vector(name, values)
    }

    /// As [`Claim::set_vector_at`].
    ///
    /// # Errors
    /// As there.
    pub fn set_vector_at(&mut self, at: usize, values: &[f32]) -> Result<(), VectorError> {
        let claim = self.claim.as_mut().expect("there until it is submitted");
        claim.set_vector_at(at, values)
    }

    /// As [`Client::submit`]; the verdict comes by the future that is returned.
    ///
    /// # Errors
    /// If it is not submitted.
    pub fn submit(
        self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<Reply, SubmitError> {
        let (reply, promise) = Reply::new();
        let sequence = self.hand_in(captured_ns, deadline_ns, crop, Told::Future(promise))?;
        Ok(reply.numbered(sequence))
    }

    /// As [`Client::submit`]; the verdict comes to `callback`, on the stream's thread. Returns the
    /// submission's sequence number.
    ///
    /// # Errors
    /// If it is not submitted: `callback` is not called then.
    pub fn submit_then(
        self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
        callback: impl FnOnce(Response) + Send + 'static,
    ) -> Result<u64, SubmitError> {
        let told = Told::Callback(Box::new(callback));
        self.hand_in(captured_ns, deadline_ns, crop, told)
    }

    fn hand_in(
        mut self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
        told: Told,
    ) -> Result<u64, SubmitError> {
        let claim = self.claim.take().expect("there until it is submitted");
        let mut inside = self.shared.inside();
        inside.given_out -= 1;
        let sequence = inside
            .client
            .submit(claim, captured_ns, deadline_ns, crop)?;
        // Under the same lock, so the thread cannot have looked for it yet.
        inside.told.insert(sequence, told);
        Ok(sequence)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            let mut inside = self.shared.inside();
            inside.given_out -= 1;
            inside.client.give_back(claim);
            drop(inside);
            self.shared.news.ring();
        }
    }
}
