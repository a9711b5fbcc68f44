//! Several streams of one thread.

use std::os::fd::AsFd;

use crate::Response;
use punctual_platform::poll::Poller;

use crate::{Client, Lost};

/// The streams of a process that feeds several tasks: each is a connection of its own, dies alone
/// and is renewed alone; their verdicts are waited for together, on their descriptors.
///
/// Behind each descriptor is a thread that sleeps on its connection's futex: to wait on several takes
/// `futex_waitv`, and boards run kernels that do not have it.
#[derive(Debug)]
pub struct Streams {
    clients: Vec<Client>,
    poller: Poller,
    /// The stream that is asked first: the one behind the last that gave a verdict, so that a busy stream does not
    /// silence the others.
    first: usize,
}

impl Streams {
    /// No streams yet, and never more than `capacity` (from 1).
    ///
    /// # Errors
    /// When out of descriptors.
    pub fn new(capacity: usize) -> Result<Self, Lost> {
        Ok(Self {
            clients: Vec::with_capacity(capacity),
            poller: Poller::new(capacity.max(1))?,
            first: 0,
        })
    }

    /// Takes a stream in. Returns its number: 0, 1, ...
    ///
    /// # Errors
    /// When out of descriptors or of kernel memory.
    pub fn add(&mut self, mut client: Client) -> Result<usize, Lost> {
        let number = self.clients.len();
        self.poller
            .add(client.descriptor()?.as_fd(), number as u64)?;
        self.clients.push(client);
        Ok(number)
    }

    /// The stream of this number: for its slots.
    #[must_use]
    pub fn get(&mut self, number: usize) -> Option<&mut Client> {
        self.clients.get_mut(number)
    }

    /// The next verdict of any stream, with the stream's number; none if there was none at `until_ns`
    /// (no limit: waits as long as it takes). A stream that has permanently lost its daemon gives no more.
    ///
    /// # Errors
    /// Each stream's first [`Lost`] with its number is the caller's to see through
    /// [`get`](Self::get); here only if every stream has lost its daemon: that of the first.
    pub fn verdict(&mut self, until_ns: Option<u64>) -> Result<Option<(usize, Response)>, Lost> {
        self.next(Client::try_verdict, until_ns)
    }

    /// The next answer before its verdict, or else the next verdict, of any stream, with the stream's number: as
    /// [`Client::answer`] for all. The newest of one stream is that of [`get`](Self::get)'s [`Client::latest`].
    ///
    /// # Errors
    /// As for [`verdict`](Self::verdict).
    pub fn answer(&mut self, until_ns: Option<u64>) -> Result<Option<(usize, Response)>, Lost> {
        self.next(Client::try_answer, until_ns)
    }

    fn next(
        &mut self,
        take: fn(&mut Client) -> Result<Option<Response>, Lost>,
        until_ns: Option<u64>,
    ) -> Result<Option<(usize, Response)>, Lost> {
        loop {
            let count = self.clients.len();
            let mut lost = None;
            let mut alive = 0;
            for at in (0..count).map(|i| (self.first + i) % count) {
                match take(&mut self.clients[at]) {
                    Ok(Some(result)) => {
                        self.first = at + 1;
                        return Ok(Some((at, result)));
                    }
                    Ok(None) => alive += 1,
                    Err(error) => lost = lost.or(Some(error)),
                }
            }
            if let (0, Some(lost)) = (alive, lost) {
                return Err(lost);
            }
            let ready = self.poller.wait(until_ns).count();
            if ready == 0
                && until_ns.is_some_and(|until| punctual_platform::clock::now_ns() >= until)
            {
                return Ok(None);
            }
        }
    }
}
