//! A camera that keeps account: paced frames, a verdict for each, and a new connection whenever
//! the daemon comes back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hdrhistogram::Histogram;
use nix::sys::signalfd::SignalFd;
use punctual_client::{
    Client, ConnectError, Crop, Disconnected, PixelFormat, ResultRecord, SubmitError, Verdict,
    now_ns,
};

use super::{AgentError, say, signals, told_to_end};
use crate::book::{Book, LATE_SPANS_MAX, Latencies, Outage};
use crate::target::child::pause;

/// How often the account is said, in ns.
const SAY_NS: u64 = 200_000_000;

/// How long to wait for verdicts after the last frame, in ns.
const LAST_VERDICTS_NS: u64 = 2_000_000_000;

/// Between two attempts to connect, in ms: a small part of the recovery that is measured.
const RETRY_MS: u16 = 1;

/// What to send, where, how fast and how long.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where the daemon listens.
    #[arg(long)]
    socket: PathBuf,
    /// The task of its manifest to feed.
    #[arg(long)]
    task: String,
    /// `rgb8` or `nv12`.
    #[arg(long, value_parser = format_named, default_value = "rgb8")]
    format: PixelFormat,
    /// Frames a second; absent: the next one when the last is answered.
    #[arg(long)]
    fps: Option<f64>,
    /// Captures as long as this; absent: until SIGTERM.
    #[arg(long)]
    seconds: Option<f64>,
    /// Hangs up and connects anew this often, in seconds.
    #[arg(long)]
    stay: Option<f64>,
}

fn format_named(name: &str) -> Result<PixelFormat, &'static str> {
    match name {
        "rgb8" => Ok(PixelFormat::Rgb8),
        "nv12" => Ok(PixelFormat::Nv12),
        _ => Err("must be `rgb8` or `nv12`"),
    }
}

/// Captures until the time is over.
pub fn run(options: &Options) -> Result<(), AgentError> {
    let signals = signals(&[])?;
    let mut account = Account::new(&options.task);
    let result = Camera { options, signals }.capture(&mut account);
    say(&account.book(result.is_ok()));
    result
}

struct Camera<'a> {
    options: &'a Options,
    signals: SignalFd,
}

impl Camera<'_> {
    fn capture(&self, account: &mut Account) -> Result<(), AgentError> {
        let began_ns = now_ns();
        let end_ns = self.options.seconds.map(|s| began_ns + (s * 1e9) as u64);
        let mut say_ns = began_ns;
        // Frames are numbered by their time: what falls into an outage is dropped, not sent late.
        let mut number = 0;
        while let Some(mut client) = self.connection(account, end_ns)? {
            let stay_ns = self.options.stay.map(|s| now_ns() + (s * 1e9) as u64);
            let until_ns = [end_ns, stay_ns].into_iter().flatten().min();
            let end = self.show(
                &mut client,
                account,
                (began_ns, &mut number),
                until_ns,
                &mut say_ns,
            );
            account.hung_up(end.is_err());
            match end {
                Err(AgentError::Disconnected(_)) => {}
                Err(AgentError::Submit(SubmitError::Disconnected(_))) => {}
                Err(error) => return Err(error),
                Ok(Ended::Told) => break,
                Ok(Ended::Time) => {}
            }
        }
        Ok(())
    }

    /// A connection; none when the time is over.
    fn connection(
        &self,
        account: &mut Account,
        end_ns: Option<u64>,
    ) -> Result<Option<Client>, AgentError> {
        loop {
            if end_ns.is_some_and(|end| now_ns() >= end) || told_to_end(&self.signals) {
                return Ok(None);
            }
            match Client::connect(
                &self.options.socket,
                &self.options.task,
                self.options.format,
            ) {
                Ok(client) => {
                    account.connected();
                    return Ok(Some(client));
                }
                Err(source) if account.book.connected == 0 && !is_passing(&source) => {
                    let path = self.options.socket.clone();
                    return Err(AgentError::Connect { path, source });
                }
                Err(source) => account.refused(&source),
            }
            pause(RETRY_MS);
        }
    }

    fn show(
        &self,
        client: &mut Client,
        account: &mut Account,
        (began_ns, number): (u64, &mut u64),
        until_ns: Option<u64>,
        say_ns: &mut u64,
    ) -> Result<Ended, AgentError> {
        loop {
            let captured_ns = match self.options.fps {
                Some(fps) => {
                    let now = (now_ns() - began_ns) as f64 * fps / 1e9;
                    // More than one behind: the others fell into an outage.
                    let behind = (now as u64).saturating_sub(*number + 1);
                    account.book.offline += behind;
                    *number += behind + 1;
                    began_ns + ((*number - 1) as f64 * 1e9 / fps) as u64
                }
                None => now_ns(),
            };
            if until_ns.is_some_and(|until| captured_ns >= until) {
                return self.collect_rest(client, account, Ended::Time);
            }
            if told_to_end(&self.signals) {
                return self.collect_rest(client, account, Ended::Told);
            }
            account.collect(client, captured_ns)?;
            if self.options.fps.is_some() || client.unanswered() == 0 {
                submit(client, account, captured_ns)?;
            }
            if self.options.fps.is_none() {
                account.collect_one(client, now_ns() + SAY_NS)?;
            }
            if now_ns() >= *say_ns {
                say(&account.book(false));
                *say_ns = now_ns() + SAY_NS;
            }
        }
    }

    fn collect_rest(
        &self,
        client: &mut Client,
        account: &mut Account,
        end: Ended,
    ) -> Result<Ended, AgentError> {
        let until_ns = now_ns() + LAST_VERDICTS_NS;
        while client.unanswered() > 0 && now_ns() < until_ns {
            account.collect_one(client, until_ns)?;
        }
        Ok(end)
    }
}

/// Why a camera stopped showing frames.
enum Ended {
    Time,
    Told,
}

/// Whether a daemon may let us in later.
fn is_passing(error: &ConnectError) -> bool {
    // There is none yet, or it is about to go or to come.
    !matches!(error, ConnectError::Refused(refusal)
        if !matches!(refusal, punctual_client::Refusal::Draining))
}

fn submit(client: &mut Client, account: &mut Account, captured_ns: u64) -> Result<(), AgentError> {
    // A camera's next frame does not wait for a slot.
    let Some(mut slot) = client.slot(Some(0))? else {
        account.book.skipped += 1;
        return Ok(());
    };
    let shade = account.book.submitted as u8;
    slot.pixels().fill(shade);
    let sequence = slot.submit(captured_ns, None, Crop { x: 0, y: 0 })?;
    account.submitted(sequence);
    Ok(())
}

/// The book while it is being written.
struct Account {
    book: Book,
    latency_us: Histogram<u64>,
    open: BTreeSet<u64>,
}

impl Account {
    fn new(task: &str) -> Self {
        Self {
            book: Book {
                task: task.to_owned(),
                ..Book::default()
            },
            latency_us: Latencies::histogram(),
            open: BTreeSet::new(),
        }
    }

    fn connected(&mut self) {
        self.book.connected += 1;
        if let Some(outage) = self
            .book
            .outages
            .last_mut()
            .filter(|outage| outage.connected_ns == 0)
        {
            outage.connected_ns = now_ns();
        }
    }

    fn refused(&mut self, error: &ConnectError) {
        // The variant's name, without what it carries.
        let words = format!("{error:?}");
        let name = words.split([' ', '{']).next().unwrap_or_default();
        *self.book.refused.entry(name.to_owned()).or_default() += 1;
    }

    fn submitted(&mut self, sequence: u64) {
        self.book.submitted += 1;
        self.open.insert(sequence);
    }

    /// The connection is over: `lost` if we did not mean it to be.
    fn hung_up(&mut self, lost: bool) {
        let without = std::mem::take(&mut self.open).len() as u64;
        if lost {
            self.book.gone += without;
            self.book.outages.push(Outage {
                noticed_ns: now_ns(),
                ..Outage::default()
            });
        } else {
            self.book.open += without;
        }
    }

    /// Takes verdicts until `until_ns`; also those that a daemon gave before it went.
    fn collect(&mut self, client: &mut Client, until_ns: u64) -> Result<(), Disconnected> {
        while let Some(record) = client.verdict(Some(until_ns))? {
            self.count(&record, now_ns());
        }
        Ok(())
    }

    fn collect_one(&mut self, client: &mut Client, until_ns: u64) -> Result<(), Disconnected> {
        if client.unanswered() > 0
            && let Some(record) = client.verdict(Some(until_ns))?
        {
            self.count(&record, now_ns());
        }
        Ok(())
    }

    fn count(&mut self, record: &ResultRecord, read_ns: u64) {
        if !self.open.remove(&record.sequence) {
            self.book.unasked += 1;
            return;
        }
        let book = &mut self.book;
        match record.verdict {
            Verdict::OnTime | Verdict::Late => {}
            Verdict::Rejected(reason) => {
                *book.rejected.entry(format!("{reason:?}")).or_default() += 1;
                return;
            }
            Verdict::Failed(reason) => {
                *book.failed.entry(format!("{reason:?}")).or_default() += 1;
                return;
            }
        }
        self.latency_us
            .saturating_record((read_ns.saturating_sub(record.captured_ns) / 1000).max(1));
        // An answer that is read after its deadline is late for whoever reads it.
        if record.verdict == Verdict::OnTime && read_ns <= record.deadline_ns {
            book.on_time += 1;
            if let Some(outage) = book
                .outages
                .last_mut()
                .filter(|outage| outage.on_time_ns == 0)
            {
                outage.on_time_ns = read_ns;
            }
        } else {
            book.late += 1;
            if book.late_spans_ns.len() < LATE_SPANS_MAX {
                book.late_spans_ns.push([record.captured_ns, read_ns]);
            }
        }
    }

    fn book(&self, finished: bool) -> Book {
        Book {
            latency_us: Latencies::of(&self.latency_us),
            // Only the last line has the list: the others would grow with it.
            late_spans_ns: if finished {
                self.book.late_spans_ns.clone()
            } else {
                Vec::new()
            },
            finished,
            ..self.book.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_client::Rejection;

    fn record(sequence: u64, verdict: Verdict) -> ResultRecord {
        ResultRecord {
            sequence,
            slot: 0,
            verdict,
            answer: None,
            captured_ns: 1_000_000,
            deadline_ns: 5_000_000,
            finished_ns: 3_000_000,
        }
    }

    #[test]
    fn a_second_verdict_for_a_frame_is_unasked() {
        let mut account = Account::new("front");
        account.submitted(1);
        account.count(&record(1, Verdict::OnTime), 4_000_000);
        account.count(&record(1, Verdict::OnTime), 4_000_000);
        let book = account.book(true);
        assert_eq!((book.on_time, book.unasked, book.lost()), (1, 1, 0));
    }

    #[test]
    fn an_answer_that_is_read_too_late_is_late_whatever_the_daemon_says() {
        let mut account = Account::new("front");
        account.submitted(1);
        account.count(&record(1, Verdict::OnTime), 5_000_001);
        let book = account.book(true);
        assert_eq!((book.on_time, book.late), (0, 1));
        assert_eq!(book.late_spans_ns, [[1_000_000, 5_000_001]]);
    }

    #[test]
    fn frames_without_a_verdict_are_gone_with_the_daemon_and_open_otherwise() {
        let mut account = Account::new("front");
        (1..=3).for_each(|sequence| account.submitted(sequence));
        account.count(&record(2, Verdict::Rejected(Rejection::NoSlack)), 0);
        account.hung_up(true);
        account.submitted(1);
        account.hung_up(false);
        let book = account.book(true);
        assert_eq!((book.gone, book.open, book.rejected["NoSlack"]), (2, 1, 1));
        assert_eq!(book.lost(), 1, "what stayed open is lost");
    }

    #[test]
    fn an_outage_ends_with_the_first_answer_on_time() {
        let mut account = Account::new("front");
        account.connected();
        account.hung_up(true);
        account.connected();
        account.submitted(1);
        account.submitted(2);
        account.count(&record(1, Verdict::Late), 6_000_000);
        assert_eq!(account.book.outages[0].on_time_ns, 0);
        account.count(&record(2, Verdict::OnTime), 4_500_000);
        assert_eq!(account.book.outages[0].on_time_ns, 4_500_000);
        assert!(account.book.outages[0].connected_ns > 0);
    }
}
