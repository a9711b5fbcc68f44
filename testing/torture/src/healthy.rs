//! A client that keeps the protocol, checks everything that it is told, and may die at any point.

use std::io;

use punctual_ipc::{
    ClientChannel, ConnectError, Crop, Disconnected, Outputs, Refusal, Rejection, ResultRecord,
    SubmitError, Verdict,
};
use punctual_platform::clock::{now_ns, sleep_until_ns};
use punctual_platform::output;
use punctual_types::Random;

use crate::ledger::{Entry, Ledger, Phase};
use crate::orders::{Answers, Orders, hello};
use crate::payload::{self, Name};

/// How long a client tries to get a place that another has just died on, in ns.
const ENTRY_NS: u64 = 5_000_000_000;
/// How long it waits between attempts, in ns.
const ATTEMPT_NS: u64 = 200_000;
/// How long a verdict may take before the client counts itself as stuck, in ns. Clients are stopped
/// for milliseconds only.
const STUCK_NS: u64 = 5_000_000_000;
/// How far behind its frame's capture a deadline lies, in ns. Only compared, never acted upon.
const DEADLINE_NS: u64 = 1_000_000_000;

/// A submission without a verdict.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    sequence: u64,
    captured_ns: u64,
    /// How many answers it had.
    answers: usize,
}

struct Healthy<'o> {
    orders: &'o Orders,
    ledger: Ledger,
    entry: Entry,
    random: Random,
    channel: ClientChannel,
    nonce: u64,
    /// As many as there is room for results, in no order.
    outstanding: Vec<Outstanding>,
    /// Outputs that it has not let go of, with their frames' names.
    kept: Vec<(Name, Outputs)>,
    /// Reading the ledger costs a system call: it looks for the order to leave now and then only.
    leaving: bool,
}

/// Lives as a client, until it was told to leave or the daemon closes the connection.
pub fn live(orders: &Orders, ledger: Ledger) -> io::Result<()> {
    let mut entry = Entry::default();
    let Some(channel) = connect(orders, &ledger, &mut entry)? else {
        entry.phase = Phase::Failed;
        return ledger.write(&entry);
    };
    let mut random = Random::new(orders.seed).stream("healthy", std::process::id().into());
    let mut healthy = Healthy {
        nonce: random.next_u64(),
        outstanding: Vec::with_capacity(channel.terms().results as usize),
        kept: Vec::new(),
        orders,
        ledger,
        entry,
        random,
        channel,
        leaving: false,
    };
    healthy.entry.phase = match healthy.work()? {
        Ok(()) => Phase::Finished,
        Err(_) => Phase::HungUpOn,
    };
    healthy.ledger.write(&healthy.entry)
}

impl Healthy<'_> {
    fn work(&mut self) -> io::Result<Result<(), Disconnected>> {
        while !self.leaving || self.channel.unanswered() > 0 {
            let seen = self.channel.bell();
            let round = self
                .submit_some()
                .and_then(|submitted| Ok((submitted, self.take_all()?)));
            let (submitted, taken) = match round {
                Ok(counts) => counts,
                Err(Stop::Io(error)) => return Err(error),
                Err(Stop::Disconnected(gone)) => return Ok(Err(gone)),
            };
            if taken > 0 {
                self.ledger.write(&self.entry)?;
                self.leaving = self.leaving || self.ledger.leave()?;
            }
            if submitted + taken == 0 {
                let limit_ns = Some(now_ns() + STUCK_NS);
                let waited = match self.random.below(2) {
                    0 => self.channel.wait(seen, limit_ns),
                    _ => self.channel.wait_for_verdict(seen, limit_ns),
                };
                match waited {
                    Ok(true) => {}
                    Ok(false) => {
                        self.entry.stuck += 1;
                        self.ledger.write(&self.entry)?;
                    }
                    Err(gone) => return Ok(Err(gone)),
                }
            }
        }
        Ok(Ok(()))
    }

    /// Up to as many frames as there are slots.
    fn submit_some(&mut self) -> Result<u64, Stop> {
        if self.leaving {
            return Ok(0);
        }
        let terms = *self.channel.terms();
        let most = 1 + self.random.below(u64::from(terms.slots));
        let mut submitted = 0;
        while submitted < most && self.channel.unanswered() < u64::from(terms.results) {
            let Some(mut slot) = self.channel.slot() else {
                break;
            };
            let name = Name {
                nonce: self.nonce,
                stream: terms.stream,
                sequence: self.entry.begun + 1,
            };
            payload::write(&name, slot.pixels());
            self.entry.begun += 1;
            // Before the submission: if the client dies in it, it is unknown whether it was made.
            self.ledger.write(&self.entry)?;
            let captured_ns = now_ns();
            let deadline =
                (self.orders.answers == Answers::Computed).then(|| captured_ns + DEADLINE_NS);
            let sequence = slot.submit(captured_ns, deadline, Crop::default())?;
            self.outstanding.push(Outstanding {
                sequence,
                captured_ns,
                answers: 0,
            });
            submitted += 1;
        }
        Ok(submitted)
    }

    fn take_all(&mut self) -> Result<u64, Stop> {
        let mut taken = 0;
        while let Some(record) = self.channel.take()? {
            let outputs = self.channel.outputs(&record);
            self.check(&record, outputs);
            taken += u64::from(record.is_final);
        }
        self.entry.taken += taken;
        Ok(taken)
    }

    fn check(&mut self, record: &ResultRecord, outputs: Option<Outputs>) {
        let same = |o: &Outstanding| o.sequence == record.sequence;
        let Some(at) = self.outstanding.iter().position(same) else {
            self.entry.duplicated += 1;
            return;
        };
        let outstanding = self.outstanding[at];
        if record.is_final {
            self.outstanding.swap_remove(at);
            let took_ns = now_ns().saturating_sub(outstanding.captured_ns);
            self.entry.round_trip_ns_max = self.entry.round_trip_ns_max.max(took_ns);
            self.entry.late += u64::from(took_ns > self.orders.late_ns);
        } else {
            self.outstanding[at].answers += 1;
            self.entry.early += 1;
        }
        let mut right = record.captured_ns == outstanding.captured_ns;
        let name = Name {
            nonce: self.nonce,
            stream: self.channel.terms().stream,
            sequence: record.sequence,
        };
        match self.orders.answers {
            Answers::Unknown => {}
            Answers::Computed => {
                right &= record.deadline_ns == outstanding.captured_ns + DEADLINE_NS
                    && is_outcome_of(&name, record, outstanding.answers)
                    && self.keep(name, outputs, payload::are_outputs_of);
            }
            Answers::Mirrored => {
                right &= record.answer.is_some() == outputs.is_some()
                    && self.keep(name, outputs, payload::are_pixels_of);
            }
        }
        self.entry.wrong += u64::from(!right);
    }
}

/// Whether a record is the one that is due to this frame after `answers` of its answers: the next of them; after the
/// last its verdict; or that there was no memory for its outputs.
fn is_outcome_of(name: &Name, record: &ResultRecord, answers: usize) -> bool {
    let mut answer = record.answer;
    let handed = answer.as_mut().and_then(|answer| answer.outputs.take());
    let (verdict, last) = name.outcome();
    let next = name.answers_before().nth(answers);
    let expected = (verdict, next.or(last), next.is_none());
    let no_area = (Verdict::Rejected(Rejection::NoArea), None, true);
    let outcome = (record.verdict, answer, record.is_final);
    (outcome == expected || answers == 0 && outcome == no_area)
        && handed.is_some() == answer.is_some()
}

impl Healthy<'_> {
    /// Keeps outputs for a while; whether they are this frame's, and those that it lets go of have stayed so.
    fn keep(
        &mut self,
        name: Name,
        outputs: Option<Outputs>,
        are_its: fn(&Name, &Outputs) -> bool,
    ) -> bool {
        let is_right = |(name, outputs): &(Name, Outputs)| are_its(name, outputs);
        let mut right = true;
        if let Some(outputs) = outputs {
            self.kept.push((name, outputs));
            self.entry.proved += 1;
            right &= self.kept.last().is_some_and(is_right);
        }
        let most = self
            .random
            .below(1 + u64::from(self.channel.terms().slots) / 2);
        while self.kept.len() as u64 > most {
            let at = self.random.below(self.kept.len() as u64) as usize;
            right &= is_right(&self.kept.swap_remove(at));
        }
        right
    }
}

/// Why it ends early.
enum Stop {
    Io(io::Error),
    Disconnected(Disconnected),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Disconnected> for Stop {
    fn from(gone: Disconnected) -> Self {
        Self::Disconnected(gone)
    }
}

impl From<SubmitError> for Stop {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Disconnected(gone) => Self::Disconnected(gone),
            // It asked for a place that is not there, or has not read: this program's mistake.
            other => Self::Io(io::Error::other(other)),
        }
    }
}

/// Connects, if need be after the daemon has noticed that the place's last holder is dead; none if it is not admitted.
fn connect(
    orders: &Orders,
    ledger: &Ledger,
    entry: &mut Entry,
) -> io::Result<Option<ClientChannel>> {
    let began_ns = now_ns();
    let hello = hello(&orders.task);
    loop {
        match ClientChannel::connect(&orders.socket, &hello) {
            Ok(channel) => {
                entry.phase = Phase::Connected;
                entry.entry_ns = now_ns() - began_ns;
                ledger.write(entry)?;
                return Ok(Some(channel));
            }
            // The killed and hostile clients that run at the same time are of the same user.
            Err(ConnectError::Refused(Refusal::Full { .. } | Refusal::Unfinished { .. }))
                if now_ns() - began_ns < ENTRY_NS =>
            {
                sleep_until_ns(now_ns() + ATTEMPT_NS);
            }
            Err(error) => {
                output::note(format_args!(
                    "channel-torture: the daemon did not admit a client: {error}"
                ));
                return Ok(None);
            }
        }
    }
}
