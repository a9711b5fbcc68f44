//! A verdict to come, as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Response;

/// The verdict of one submission, to be awaited on whatever executor there is. Dropping it
/// renounces the verdict, not the submission.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited; drop it to renounce the verdict"]
pub struct Reply {
    sequence: u64,
    shared: Arc<Mutex<Cell>>,
}

/// The other end, which is told the verdict.
#[derive(Debug)]
pub(crate) struct Promise(Arc<Mutex<Cell>>);

#[derive(Debug, Default)]
struct Cell {
    verdict: Option<Response>,
    waker: Option<Waker>,
}

impl Reply {
    pub(crate) fn new() -> (Self, Promise) {
        let shared = Arc::new(Mutex::new(Cell::default()));
        let reply = Self {
            sequence: 0,
            shared: Arc::clone(&shared),
        };
        (reply, Promise(shared))
    }

    pub(crate) fn numbered(self, sequence: u64) -> Self {
        Self { sequence, ..self }
    }

    /// The submission's sequence number.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Promise {
    pub(crate) fn keep(self, verdict: Response) {
        let waker = {
            let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            cell.verdict = Some(verdict);
            cell.waker.take()
        };
        // Outside the lock, which is not recursive: an executor may poll on this very thread.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Reply {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        let mut cell = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = cell.verdict.take() {
            return Poll::Ready(verdict);
        }
        cell.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
