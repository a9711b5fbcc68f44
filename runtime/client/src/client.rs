//! One stream of one thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use punctual_ipc::{
    Claim, ClientChannel, ConnectError, Crop, Description, Disconnected, FrameSpec, NoSuchTask,
    PixelFormat, StreamTerms, SubmitError, VectorError,
};
use punctual_platform::clock::{now_ns, sleep_until_ns};
use punctual_platform::poll;

use crate::ledger::Submission;
use crate::link::{Link, State};
use crate::watch::{Listening, Watch};
use crate::{Lost, Options, Response};

/// A connection to `punctuald`, for the frames of one task; renewed when the daemon is.
///
/// Once connected it neither allocates nor locks while the connection lasts. Each call that waits, or
/// looks for a verdict and finds none, renews the connection.
#[derive(Debug)]
pub struct Client {
    link: Link,
    /// Set once the descriptor was asked for.
    watch: Option<Arc<Watch>>,
    /// Behind the descriptor, for the connection of this number.
    listening: Option<(u64, Listening)>,
}

impl Options {
    /// Connects, if the daemon is there and has room now.
    ///
    /// # Errors
    /// If there is no daemon, or it refuses.
    pub fn connect(self) -> Result<Client, ConnectError> {
        let (socket, hello) = (&self.socket, &self.hello);
        let channel = ClientChannel::connect_with_buffers(socket, hello, &self.lent())?;
        Ok(Client {
            link: Link::over(self, channel),
            watch: None,
            listening: None,
        })
    }

    /// Connects as soon as the daemon is there and has room, but waits for that no longer than until
    /// `until_ns` (absolute; none: as long as it takes). The answer of a daemon that is there is
    /// waited for up to five seconds.
    ///
    /// # Errors
    /// If the daemon refuses permanently, or none was there in time.
    pub fn open(self, until_ns: Option<u64>) -> Result<Client, Lost> {
        let mut pause_ns = crate::link::PAUSE_NS_MIN;
        loop {
            match self.clone().connect() {
                Ok(client) => return Ok(client),
                Err(error) if !crate::lost::may_pass(&error) => {
                    return Err(Lost::Refused(Arc::new(error)));
                }
                Err(error) => {
                    let retry_ns = now_ns() + pause_ns;
                    if until_ns.is_some_and(|until| retry_ns > until) {
                        return Err(Lost::NotInTime(Arc::new(error)));
                    }
                    sleep_until_ns(retry_ns);
                    pause_ns = (2 * pause_ns).min(crate::link::PAUSE_NS_MAX);
                }
            }
        }
    }
}

impl Client {
    /// The longest time to spin: [`Options::SPIN_NS_MAX`].
    pub const SPIN_NS_MAX: u64 = Options::SPIN_NS_MAX;

    /// Connects as [`Options::connect`] does, to one daemon only: when that is gone, so is the client.
    ///
    /// # Errors
    /// If there is no daemon, or it refuses.
    pub fn connect(
        socket: impl AsRef<Path>,
        task: &str,
        format: PixelFormat,
    ) -> Result<Self, ConnectError> {
        Options::new(socket, task, format)
            .reconnect(false)
            .connect()
    }

    /// As [`Options::spin_ns`].
    #[must_use]
    pub fn with_spin_ns(mut self, spin_ns: u64) -> Self {
        self.link.spin(spin_ns);
        self
    }

    /// What was agreed with the daemon; with the last one, if there is none at present.
    #[must_use]
    pub fn terms(&self) -> &StreamTerms {
        self.link.terms()
    }

    /// Size and layout of the frames that go into slots.
    #[must_use]
    pub fn frame(&self) -> &FrameSpec {
        &self.link.terms().frame
    }

    /// What answers consist of (names of classes, outputs), and which vectors come with frames; as the present daemon says,
    /// or the last one.
    #[must_use]
    pub fn description(&self) -> &Arc<Description> {
        self.link.description()
    }

    /// How many submissions have no verdict that was read.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.link.unanswered()
    }

    /// How many connections there were so far: one more for each daemon that came after another.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.link.connections()
    }

    /// A slot to write the next frame into; none if all were still in use, or there was no daemon,
    /// until `until_ns` (no limit: waits as long as it takes).
    ///
    /// # Errors
    /// If there will be none. [`Lost::TermsChanged`] is mended by
    /// [`accept_terms`](Self::accept_terms).
    pub fn slot(&mut self, until_ns: Option<u64>) -> Result<Option<Slot<'_>>, Lost> {
        let claim = self.claim(until_ns)?;
        Ok(claim.map(|claim| Slot::new(self, claim)))
    }

    /// As [`slot`](Self::slot), to be held while the client does other things: several frames can
    /// be under way. To be [submitted](Self::submit) or [given back](Self::give_back).
    ///
    /// # Errors
    /// As for [`slot`](Self::slot).
    pub fn claim(&mut self, until_ns: Option<u64>) -> Result<Option<Claim>, Lost> {
        loop {
            self.reconnect()?;
            let seen = self.link.channel().map_or(0, |channel| channel.bell());
            if let Some(claim) = self.try_claim()? {
                return Ok(Some(claim));
            }
            // Checked before `wait`, which marks the client as asleep: the daemon would then make a system call to
            // wake it.
            if until_ns == Some(0) || !self.wait(For::Verdict, seen, until_ns) {
                return Ok(None);
            }
        }
    }

    /// As [`claim`](Self::claim) without waiting or getting on with connecting.
    pub(crate) fn try_claim(&mut self) -> Result<Option<Claim>, Lost> {
        // A frame written for a daemon that is gone is a frame lost.
        self.link.look_after_daemon();
        self.watch_for_what_is_due();
        if let Some(lost) = self.link.lost() {
            return Err(lost);
        }
        Ok(self.link.channel().and_then(ClientChannel::claim))
    }

    /// The slot of this number, if it is free: for frames that lie in the buffer of that number.
    pub fn claim_at(&mut self, index: u16) -> Option<Claim> {
        self.link.channel()?.claim_at(index)
    }

    /// Submits the frame in `claim`: `captured_ns` and `deadline_ns` are absolute (no deadline: the
    /// capture time and the task's own), `crop` is where the network is to look. Returns the
    /// submission's sequence number, which its verdict repeats. They count from 1 and continue when
    /// the daemon changes; a frame that no daemon answers gets the verdict
    /// [`DaemonGone`](punctual_ipc::Failure::DaemonGone).
    ///
    /// # Errors
    /// If it is not submitted: the crop leaves the frame, or verdicts must be read first. The slot is free again.
    pub fn submit(
        &mut self,
        claim: Claim,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        let submission = Submission {
            captured_ns,
            deadline_ns,
            crop,
            task: claim.task(),
        };
        let submitted = self.link.submit(claim, submission);
        self.watch_for_what_is_due();
        submitted
    }

    /// A slot that is not going to be submitted.
    pub fn give_back(&mut self, claim: Claim) {
        self.link.give_back(claim);
    }

    /// The next verdict; none if there was none at `until_ns` (no limit: waits as long as it takes).
    ///
    /// # Errors
    /// If every verdict was read and there will be none: the client has [`Lost`] its daemon.
    pub fn verdict(&mut self, until_ns: Option<u64>) -> Result<Option<Response>, Lost> {
        self.next(For::Verdict, until_ns)
    }

    /// The next answer before its verdict, or else the next verdict ([`ResultRecord::is_final`](punctual_ipc::ResultRecord)
    /// tells); none if there was none at `until_ns`. Of a frame whose deeper answer is there already, only that one. There are
    /// answers before verdicts unless the manifest wants one answer (`answers`).
    ///
    /// # Errors
    /// As for [`verdict`](Self::verdict).
    pub fn answer(&mut self, until_ns: Option<u64>) -> Result<Option<Response>, Lost> {
        self.next(For::Answer, until_ns)
    }

    /// The newest answer, for a loop that takes what is there at each of its turns: that of the newest frame which has one,
    /// with or without its verdict. None if there is none that is newer than the verdicts that were read. Its verdict remains
    /// to be read.
    pub fn latest(&mut self) -> Option<Response> {
        self.link.latest()
    }

    fn next(&mut self, what: For, until_ns: Option<u64>) -> Result<Option<Response>, Lost> {
        loop {
            let seen = self.link.channel().map_or(0, |channel| channel.bell());
            if let Some(response) = self.take(what) {
                return Ok(Some(response));
            }
            self.reconnect()?;
            if let Some(lost) = self.link.lost() {
                return Err(lost);
            }
            if !self.wait(what, seen, until_ns) {
                return Ok(self.take(what));
            }
        }
    }

    fn take(&mut self, what: For) -> Option<Response> {
        match what {
            For::Verdict => self.link.take(),
            For::Answer => self.link.take_answer(),
        }
    }

    /// The next verdict if there is one. Continues a connection attempt in progress.
    ///
    /// # Errors
    /// As for [`verdict`](Self::verdict).
    pub fn try_verdict(&mut self) -> Result<Option<Response>, Lost> {
        self.try_next(For::Verdict)
    }

    /// As [`answer`](Self::answer) without waiting. Continues a connection attempt in progress.
    ///
    /// # Errors
    /// As for [`verdict`](Self::verdict).
    pub fn try_answer(&mut self) -> Result<Option<Response>, Lost> {
        self.try_next(For::Answer)
    }

    fn try_next(&mut self, what: For) -> Result<Option<Response>, Lost> {
        loop {
            // Before looking: what is rung for later makes the descriptor readable again.
            if let Some(watch) = &self.watch {
                watch.clear();
            }
            if let Some(result) = self.take(what) {
                return Ok(Some(result));
            }
            self.reconnect()?;
            if let Some(watch) = &self.watch {
                if self.link.notice_end() {
                    continue;
                }
                watch.set(self.link.due_ns());
            } else {
                self.link.look_after_daemon();
                if self.link.waiting() > 0 {
                    continue;
                }
            }
            return self.link.lost().map_or(Ok(None), Err);
        }
    }

    /// How many verdicts can be read without waiting.
    #[must_use]
    pub fn waiting_verdicts(&mut self) -> u32 {
        self.link.waiting()
    }

    /// Whether there is a daemon at present.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match self.link.state() {
            State::Up(channel) | State::Changed(channel) => !channel.is_hung_up(),
            State::Down { .. } | State::Opening(_) | State::Lost(_) => false,
        }
    }

    /// What the last attempt to connect anew met, for a message that says why there are no slots.
    #[must_use]
    pub fn last_error(&self) -> Option<Arc<ConnectError>> {
        self.link.last_error()
    }

    /// The application is ready for the frames of [`Lost::TermsChanged`].
    pub fn accept_terms(&mut self) {
        self.link.accept_terms();
        if let Some(watch) = &self.watch {
            watch.set(Some(0));
        }
    }

    /// A descriptor for an event loop, the same for the client's whole life. It is readable when there may be something
    /// for [`try_verdict`](Self::try_verdict) or [`try_answer`](Self::try_answer) to do; before each wait on it, call
    /// one of them until it gives none. From the first call on the client has a thread, which waits for the daemon and
    /// makes the descriptor readable; that takes some microseconds.
    ///
    /// # Errors
    /// When out of descriptors or threads.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Lost> {
        if self.watch.is_none() {
            let watch = Watch::new()?;
            if let Some(socket) = self.link.socket() {
                watch.add(socket)?;
            }
            watch.set(Some(0));
            self.link.socket_is_watched();
            self.watch = Some(Arc::new(watch));
            self.listen()?;
        }
        let watch = self.watch.as_ref().expect("just made");
        Ok(watch.as_fd())
    }

    pub(crate) fn watch(&mut self) -> Result<Arc<Watch>, Lost> {
        self.descriptor()?;
        Ok(Arc::clone(self.watch.as_ref().expect("just made")))
    }

    /// What was noticed outside of [`try_verdict`](Self::try_verdict) makes the descriptor readable.
    fn watch_for_what_is_due(&self) {
        if let Some(watch) = &self.watch
            && let Some(due_ns) = self.link.due_ns()
        {
            watch.set(Some(due_ns));
        }
    }

    /// Continues the connection attempt. A new connection is watched from its handshake on, and listened to once it is there.
    fn reconnect(&mut self) -> Result<(), Lost> {
        self.link.reconnect();
        if let Some(watch) = &self.watch
            && let Some(socket) = self.link.unwatched_socket()
        {
            watch.add(socket)?;
            self.link.socket_is_watched();
        }
        self.listen()
    }

    /// Has the bell of the present connection make the descriptor readable, if there is one.
    fn listen(&mut self) -> Result<(), Lost> {
        let number = self.link.connections();
        let Some(watch) = &self.watch else {
            return Ok(());
        };
        match self.link.channel() {
            Some(channel) => {
                if self.listening.as_ref().is_none_or(|(to, _)| *to != number) {
                    self.listening = Some((number, watch.listen(channel.watch())?));
                }
            }
            None => self.listening = None,
        }
        Ok(())
    }

    /// Waits for news; false once `until_ns` has come.
    fn wait(&mut self, what: For, seen: u32, until_ns: Option<u64>) -> bool {
        let spin_ns = self.link.options().spin_ns;
        let result = match self.link.state() {
            State::Up(channel) => {
                if spin(channel, seen, spin_ns, until_ns) {
                    return true;
                }
                match what {
                    For::Verdict => channel.wait_for_verdict(seen, until_ns),
                    For::Answer => channel.wait(seen, until_ns),
                }
            }
            State::Opening(opening) => {
                let limit_ns = opening.limit_ns();
                let limit_ns = until_ns.map_or(limit_ns, |until| until.min(limit_ns));
                Ok(poll::wait_readable(opening.as_fd(), Some(limit_ns)) || before(until_ns))
            }
            State::Down { retry_ns } => {
                sleep_until_ns(until_ns.map_or(*retry_ns, |until| until.min(*retry_ns)));
                Ok(before(until_ns))
            }
            // The callers have checked for these before.
            State::Changed(_) | State::Lost(_) => Ok(true),
        };
        result.unwrap_or_else(|gone: Disconnected| {
            self.link.go_down(gone);
            true
        })
    }
}

/// What a call waits for.
#[derive(Clone, Copy)]
enum For {
    Verdict,
    /// An answer before a verdict, or a verdict.
    Answer,
}

/// Whether the limit has not come yet.
fn before(until_ns: Option<u64>) -> bool {
    until_ns.is_none_or(|until| now_ns() < until)
}

/// Looks for a ring without sleeping; false if there was none in that time.
fn spin(channel: &ClientChannel, seen: u32, spin_ns: u64, until_ns: Option<u64>) -> bool {
    if spin_ns == 0 {
        return false;
    }
    channel.begin_to_wait();
    let spin_until = now_ns() + spin_ns;
    let spin_until = until_ns.map_or(spin_until, |until| until.min(spin_until));
    while now_ns() < spin_until {
        if channel.bell() != seen {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// A slot to write a frame into, while the client waits.
#[derive(Debug)]
pub struct Slot<'c> {
    client: &'c mut Client,
    /// There until it is submitted.
    claim: Option<Claim>,
}

impl<'c> Slot<'c> {
    pub(crate) fn new(client: &'c mut Client, claim: Claim) -> Self {
        Self {
            client,
            claim: Some(claim),
        }
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

    /// As [`Claim::write_tensor`].
    ///
    /// # Panics
    /// If the slot is not as long as these values.
    pub fn write_tensor(&mut self, values: &[f32]) {
        let claim = self.claim.as_mut().expect("there until it is submitted");
        claim.write_tensor(values);
    }

    /// As [`Client::submit`].
    ///
    /// # Errors
    /// If it is not submitted.
    pub fn submit(
        mut self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        let claim = self.claim.take().expect("there until it is submitted");
        self.client.submit(claim, captured_ns, deadline_ns, crop)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.client.give_back(claim);
        }
    }
}
