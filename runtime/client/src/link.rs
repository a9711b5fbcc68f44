//! A client's connection, and the next one when it is gone. Nothing in here waits.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use punctual_decode::{Size, View};
use punctual_ipc::{
    Claim, ClientChannel, ConnectError, Crop, Description, Disconnected, Opening, Outputs, Part,
    Progress, ResultRecord, StreamTerms, SubmitError,
};
use punctual_platform::clock::now_ns;

use crate::ledger::{Ledger, Submission};
use crate::lost::may_pass;
use crate::{Lost, Options, Response};

/// The pauses between attempts to connect double from the first to the last of these, in ns. The
/// last bounds what a client adds to the time that a daemon takes to restart.
pub(crate) const PAUSE_NS_MIN: u64 = 1_000_000;
pub(crate) const PAUSE_NS_MAX: u64 = 50_000_000;

/// How often a client that looks for verdicts without waiting checks that the daemon is there, in ns: a check is a
/// system call.
const LOOK_NS: u64 = 1_000_000;

/// Where the client stands with the daemon.
#[derive(Debug)]
pub(crate) enum State {
    /// Connected.
    Up(Box<ClientChannel>),
    /// Not connected; the next attempt is due then.
    Down { retry_ns: u64 },
    /// The handshake is under way.
    Opening(Opening),
    /// Connected, on terms that the application has not accepted yet.
    Changed(Box<ClientChannel>),
    /// For good.
    Lost(Lost),
}

/// The connection, whichever it is at present.
#[derive(Debug)]
pub(crate) struct Link {
    options: Options,
    state: State,
    ledger: Ledger,
    /// Of the present connection, or else the last one.
    terms: StreamTerms,
    /// The same one's.
    description: Arc<Description>,
    pause_ns: u64,
    look_ns: u64,
    /// How many connections there were.
    connections: u64,
    /// What the last attempt met.
    error: Option<Arc<ConnectError>>,
    /// Whether the present socket is watched.
    watched: bool,
}

impl Link {
    pub(crate) fn over(options: Options, channel: ClientChannel) -> Self {
        let terms = *channel.terms();
        let description = Arc::clone(channel.description());
        Self {
            options,
            state: State::Up(Box::new(channel)),
            ledger: Ledger::new(terms.results as usize),
            terms,
            description,
            pause_ns: PAUSE_NS_MIN,
            look_ns: 0,
            connections: 1,
            error: None,
            watched: false,
        }
    }

    pub(crate) fn spin(&mut self, spin_ns: u64) {
        self.options.spin_ns = spin_ns.min(Options::SPIN_NS_MAX);
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn terms(&self) -> &StreamTerms {
        &self.terms
    }

    pub(crate) fn description(&self) -> &Arc<Description> {
        &self.description
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections
    }

    pub(crate) fn unanswered(&self) -> u64 {
        self.ledger.unanswered()
    }

    /// The channel, if there is one with slots to use.
    pub(crate) fn channel(&mut self) -> Option<&mut ClientChannel> {
        match &mut self.state {
            State::Up(channel) => Some(channel),
            _ => None,
        }
    }

    /// The descriptor of the present connection, or of the one that is being made.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Up(channel) | State::Changed(channel) => Some(channel.as_fd()),
            State::Opening(opening) => Some(opening.as_fd()),
            State::Down { .. } | State::Lost(_) => None,
        }
    }

    /// The same, if it is not watched yet.
    pub(crate) fn unwatched_socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket().filter(|_| !self.watched)
    }

    pub(crate) fn socket_is_watched(&mut self) {
        self.watched = self.socket().is_some();
    }

    /// When there is something to do that no descriptor reports.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        if self.ledger.ready() > 0 {
            return Some(0);
        }
        match &self.state {
            State::Down { retry_ns } => Some(*retry_ns),
            State::Opening(opening) => Some(opening.limit_ns()),
            State::Up(_) | State::Changed(_) | State::Lost(_) => None,
        }
    }

    /// Why there are no slots and will be none; none if there are or may be.
    pub(crate) fn lost(&self) -> Option<Lost> {
        match &self.state {
            State::Lost(lost) => Some(lost.clone()),
            State::Changed(channel) => Some(Lost::TermsChanged {
                was: Box::new(self.terms),
                is: Box::new(*channel.terms()),
            }),
            State::Up(_) | State::Down { .. } | State::Opening(_) => None,
        }
    }

    /// What the last attempt to connect met.
    pub(crate) fn last_error(&self) -> Option<Arc<ConnectError>> {
        self.error.clone()
    }

    /// The next verdict, if there is one.
    pub(crate) fn take(&mut self) -> Option<Response> {
        self.take_in();
        self.ledger.take()
    }

    /// The next answer before its verdict, or else the next verdict, if there is one.
    pub(crate) fn take_answer(&mut self) -> Option<Response> {
        self.take_in();
        self.ledger.untold().or_else(|| self.ledger.take())
    }

    /// The newest answer that is there, whether or not its verdict is. Nothing is taken.
    pub(crate) fn latest(&mut self) -> Option<Response> {
        self.take_in();
        self.ledger.latest()
    }

    /// How many verdicts can be taken.
    pub(crate) fn waiting(&mut self) -> u32 {
        self.take_in();
        self.ledger.ready() as u32
    }

    /// Reads what the daemon has sent.
    fn take_in(&mut self) {
        if let Err(gone) = self.read_records() {
            self.go_down(gone);
        }
    }

    fn read_records(&mut self) -> Result<(), Disconnected> {
        let State::Up(channel) = &mut self.state else {
            return Ok(());
        };
        while let Some(record) = channel.take()? {
            let found = self.ledger.find(record);
            let (told, submission) = found.ok_or(Disconnected::Unasked(record.sequence))?;
            let outputs = channel.outputs_of(&record, task_of(&record, &submission));
            // The daemon works: after its end, attempts to connect begin with short pauses again.
            self.pause_ns = PAUSE_NS_MIN;
            let response = response(channel, told, submission, outputs);
            self.ledger.keep(response);
        }
        Ok(())
    }

    /// Notices that the daemon is gone, for a client that does not sleep; but only now and then.
    pub(crate) fn look_after_daemon(&mut self) {
        let now = now_ns();
        if now >= self.look_ns {
            self.look_ns = now + LOOK_NS;
            self.notice_end();
        }
    }

    /// Notices that the daemon is gone; whether that is news.
    pub(crate) fn notice_end(&mut self) -> bool {
        let gone = matches!(&self.state, State::Up(channel) if channel.is_hung_up());
        if gone {
            self.go_down(Disconnected::HungUp);
        }
        gone
    }

    /// The daemon is gone: what it has answered is kept, what it has not fails.
    pub(crate) fn go_down(&mut self, why: Disconnected) {
        let now = now_ns();
        let next = if self.options.reconnect {
            State::Down {
                retry_ns: now + self.pause_ns,
            }
        } else {
            State::Lost(Lost::Disconnected(why))
        };
        // Before the pending ones fail: results that the daemon had pushed are still in the ring.
        if let State::Up(mut channel) = std::mem::replace(&mut self.state, next) {
            while let Ok(Some(record)) = channel.take() {
                if let Some((told, submission)) = self.ledger.find(record) {
                    let outputs = channel.outputs_of(&record, task_of(&record, &submission));
                    let response = response(&channel, told, submission, outputs);
                    self.ledger.keep(response);
                }
            }
        }
        self.ledger.fail_pending(now);
    }

    /// Takes the next step towards a connection, if there is none and one is due.
    pub(crate) fn reconnect(&mut self) {
        let outcome = match &self.state {
            State::Down { retry_ns } if now_ns() >= *retry_ns => {
                self.watched = false;
                let Options { socket, hello, .. } = &self.options;
                Opening::begin_with_buffers(socket, hello, &self.options.lent())
                    .map(Progress::Waiting)
            }
            State::Opening(_) => {
                let nothing = State::Down { retry_ns: 0 };
                match std::mem::replace(&mut self.state, nothing) {
                    State::Opening(opening) => opening.go_on(),
                    _ => return,
                }
            }
            State::Changed(channel) if channel.is_hung_up() => {
                self.state = State::Down { retry_ns: 0 };
                return;
            }
            _ => return,
        };
        self.state = match outcome {
            Ok(Progress::Waiting(opening)) => State::Opening(opening),
            Ok(Progress::Open(channel)) => return self.came_up(channel),
            Err(error) => self.failed(error),
        };
    }

    fn failed(&mut self, error: ConnectError) -> State {
        let passing = may_pass(&error);
        let error = Arc::new(error);
        self.error = Some(Arc::clone(&error));
        if !passing {
            return State::Lost(Lost::Refused(error));
        }
        let retry_ns = now_ns() + self.pause_ns;
        self.pause_ns = (2 * self.pause_ns).min(PAUSE_NS_MAX);
        State::Down { retry_ns }
    }

    fn came_up(&mut self, channel: Box<ClientChannel>) {
        let (was, is) = (&self.terms, channel.terms());
        let looks = |terms: &StreamTerms| (terms.frame, terms.crop_max(), terms.vectors);
        let same = looks(was) == looks(is);
        if same {
            self.be_up(channel);
        } else {
            self.state = State::Changed(channel);
        }
    }

    fn be_up(&mut self, channel: Box<ClientChannel>) {
        self.terms = *channel.terms();
        self.description = Arc::clone(channel.description());
        self.connections += 1;
        self.state = State::Up(channel);
    }

    /// The application is ready for the terms of the daemon that is there now.
    pub(crate) fn accept_terms(&mut self) {
        let nothing = State::Down { retry_ns: 0 };
        match std::mem::replace(&mut self.state, nothing) {
            State::Changed(channel) => self.be_up(channel),
            other => self.state = other,
        }
    }

    /// Submits the frame in `claim`. With no daemon to submit it to, or if it was made for an
    /// earlier one, it gets its verdict from here.
    pub(crate) fn submit(
        &mut self,
        claim: Claim,
        submission: Submission,
    ) -> Result<u64, SubmitError> {
        let slot = claim.index();
        let Submission {
            captured_ns,
            deadline_ns,
            crop,
            ..
        } = submission;
        let max = self.terms.crop_max();
        if crop.x > max.x || crop.y > max.y {
            self.give_back(claim);
            return Err(SubmitError::Crop { crop, max });
        }
        if self.unanswered() >= u64::from(self.terms.results) {
            self.give_back(claim);
            return Err(SubmitError::ResultsUnread(self.terms.results));
        }
        let State::Up(channel) = &mut self.state else {
            return Ok(self.ledger.submitted_in_vain(slot, submission, now_ns()));
        };
        match channel.submit(claim, captured_ns, deadline_ns, crop) {
            Ok(number) => Ok(self.ledger.submitted(number, slot, submission)),
            Err(SubmitError::Disconnected(why)) => {
                self.go_down(why);
                Ok(self.ledger.submitted_in_vain(slot, submission, now_ns()))
            }
            // Of an earlier connection: no other slot ever gets here.
            Err(SubmitError::ForeignSlot) => {
                Ok(self.ledger.submitted_in_vain(slot, submission, now_ns()))
            }
            Err(refused) => Err(refused),
        }
    }

    /// The slot is not going to be submitted.
    pub(crate) fn give_back(&mut self, claim: Claim) {
        if let Some(channel) = self.channel() {
            // One of an earlier connection is gone with it.
            let _ = channel.give_back(claim);
        }
    }
}

/// The number of the task whose answer a record is.
fn task_of(record: &ResultRecord, submission: &Submission) -> u16 {
    record.part.map_or(submission.task, |part| part.task)
}

/// What the client is told of a submission that this channel's daemon has answered.
fn response(
    channel: &ClientChannel,
    record: ResultRecord,
    submission: Submission,
    outputs: Option<Outputs>,
) -> Response {
    let description = Arc::clone(channel.description());
    let task = task_of(&record, &submission);
    let terms = channel.terms();
    let seen = match record.part {
        Some(Part { crop, .. }) => Seen {
            corner: Crop {
                x: crop.x.into(),
                y: crop.y.into(),
            },
            size: Size {
                width: crop.width.into(),
                height: crop.height.into(),
            },
        },
        None => Seen {
            corner: submission.crop,
            size: Size {
                width: terms.crop_width,
                height: terms.crop_height,
            },
        },
    };
    let view = seen.view(description.of_task(task));
    Response::new(record, description, task, view, outputs)
}

/// What a network saw of a frame.
struct Seen {
    corner: Crop,
    size: Size,
}

impl Seen {
    /// None if the daemon does not say what the network's input is.
    fn view(self, description: &Description) -> Option<View> {
        let input = description.input?;
        let of_input = Size {
            width: input.width,
            height: input.height,
        };
        let Crop { x, y } = self.corner;
        View::new(x, y, self.size, of_input, input.letterbox).ok()
    }
}
