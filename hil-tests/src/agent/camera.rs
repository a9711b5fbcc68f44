//! A camera that keeps account: paced frames, a verdict for each, and a new connection whenever
//! the daemon comes back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hdrhistogram::Histogram;
use nix::sys::signalfd::SignalFd;
use punctual_client::{Client, Crop, Failure, Lost, PixelFormat, ResultRecord, Verdict, now_ns};

use super::{AgentError, say, signals, told_to_end};
use crate::records::{CameraCounts, Latencies, Outage, SPANS_MAX};

/// How often the account is said, in ns.
const SAY_NS: u64 = 200_000_000;

/// What to send, where, how fast and how long.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where the daemon listens.
    #[arg(long)]
    socket: PathBuf,
    /// The task to send frames to, as the daemon's manifest names it.
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
    /// How long to wait for verdicts after the last frame, in seconds: a best-effort frame has no
    /// deadline, and waits while others are busy.
    #[arg(long, default_value_t = 30)]
    patience: u64,
    /// Closes the connection and reconnects at this interval, in seconds.
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
    let camera = Camera {
        options,
        signals,
        end_ns: options.seconds.map(|s| now_ns() + (s * 1e9) as u64),
    };
    let mut account = Account::new(&options.task);
    let result = camera.capture(&mut account);
    say(&account.counts_of(result.is_ok()));
    result
}

struct Camera<'a> {
    options: &'a Options,
    signals: SignalFd,
    end_ns: Option<u64>,
}

/// Why a camera stopped showing frames.
enum Ended {
    Stay,
    Time,
}

impl Camera<'_> {
    fn capture(&self, account: &mut Account) -> Result<(), AgentError> {
        let mut frames = Frames::default();
        while let Some(mut client) = self.connection()? {
            account.counts.connected += 1;
            let stay_ns = self.options.stay.map(|s| now_ns() + (s * 1e9) as u64);
            let end = self.show(&mut client, account, &mut frames, stay_ns);
            account.hung_up(&client);
            if matches!(end?, Ended::Time) {
                break;
            }
        }
        Ok(())
    }

    fn is_over(&self, at_ns: u64) -> bool {
        self.end_ns.is_some_and(|end| at_ns >= end) || told_to_end(&self.signals)
    }

    /// A connection; none when the time is over.
    fn connection(&self) -> Result<Option<Client>, AgentError> {
        let options = &self.options;
        while !self.is_over(now_ns()) {
            let wanted =
                punctual_client::Options::new(&options.socket, &options.task, options.format);
            match wanted.open(Some(now_ns() + SAY_NS)) {
                Ok(client) => return Ok(Some(client)),
                Err(Lost::NotInTime(_)) => {}
                Err(lost) => return Err(lost.into()),
            }
        }
        Ok(None)
    }

    /// Shows frames, whether or not there is a daemon, until the camera is to close its connection.
    fn show(
        &self,
        client: &mut Client,
        account: &mut Account,
        frames: &mut Frames,
        stay_ns: Option<u64>,
    ) -> Result<Ended, AgentError> {
        account.seen = client.connections();
        let end = loop {
            let captured_ns = match self.options.fps {
                Some(fps) => frames.next_ns(fps, &mut account.counts),
                None => now_ns(),
            };
            if self.is_over(captured_ns) {
                break Ended::Time;
            }
            if stay_ns.is_some_and(|stay| captured_ns >= stay) {
                break Ended::Stay;
            }
            account.collect(client, captured_ns)?;
            account.look_at(client);
            if self.options.fps.is_some() || client.unanswered() == 0 {
                submit(client, account, captured_ns)?;
            }
            if self.options.fps.is_none() {
                account.collect_one(client, now_ns() + SAY_NS)?;
            }
            if now_ns() >= frames.say_ns {
                say(&account.counts_of(false));
                frames.say_ns = now_ns() + SAY_NS;
            }
        };
        let until_ns = now_ns() + self.options.patience * 1_000_000_000;
        while client.unanswered() > 0 && now_ns() < until_ns {
            account.collect_one(client, until_ns)?;
        }
        Ok(end)
    }
}

/// When the next frame is due, and the next line.
#[derive(Default)]
struct Frames {
    began_ns: Option<u64>,
    number: u64,
    say_ns: u64,
}

impl Frames {
    /// The time of the next frame. Frames are numbered by their time: one that the camera had no
    /// time for is skipped, not sent late.
    fn next_ns(&mut self, fps: f64, counts: &mut CameraCounts) -> u64 {
        // The first is due when there is a connection for it.
        let began_ns = *self.began_ns.get_or_insert_with(now_ns);
        let due = ((now_ns() - began_ns) as f64 * fps / 1e9) as u64;
        let behind = due.saturating_sub(self.number + 1);
        counts.skipped += behind;
        self.number += behind + 1;
        began_ns + ((self.number - 1) as f64 * 1e9 / fps) as u64
    }
}

fn submit(client: &mut Client, account: &mut Account, captured_ns: u64) -> Result<(), AgentError> {
    // A camera's next frame does not wait for a slot.
    let Some(mut slot) = client.slot(Some(0))? else {
        let dropped = if client.is_connected() {
            &mut account.counts.skipped
        } else {
            &mut account.counts.offline
        };
        *dropped += 1;
        return Ok(());
    };
    let shade = account.counts.submitted as u8;
    slot.pixels().fill(shade);
    let sequence = slot.submit(captured_ns, None, Crop { x: 0, y: 0 })?;
    account.submitted(sequence);
    Ok(())
}

/// The counts while the camera runs.
struct Account {
    counts: CameraCounts,
    latency_us: Histogram<u64>,
    open: BTreeSet<u64>,
    /// Connections of the present client that were counted.
    seen: u64,
}

impl Account {
    fn new(task: &str) -> Self {
        Self {
            counts: CameraCounts {
                task: task.to_owned(),
                ..CameraCounts::default()
            },
            latency_us: Latencies::histogram(),
            open: BTreeSet::new(),
            seen: 1,
        }
    }

    /// Notes whether there is a daemon, and whether it is another one.
    fn look_at(&mut self, client: &Client) {
        self.note(client.is_connected(), client.connections());
    }

    fn note(&mut self, connected: bool, connections: u64) {
        let now_ns = now_ns();
        let open = self
            .counts
            .outages
            .last_mut()
            .filter(|outage| outage.connected_ns == 0);
        if let Some(outage) = open {
            if connected && connections > self.seen {
                outage.connected_ns = now_ns;
            }
        } else if !connected || connections > self.seen {
            let connected_ns = if connected { now_ns } else { 0 };
            let outage = Outage {
                noticed_ns: now_ns,
                connected_ns,
                on_time_ns: 0,
            };
            self.counts.outages.push(outage);
        }
        if connected {
            self.counts.connected += connections - self.seen;
            self.seen = connections;
        }
    }

    fn submitted(&mut self, sequence: u64) {
        self.counts.submitted += 1;
        self.open.insert(sequence);
    }

    /// The camera closed the connection; what has no verdict now gets none.
    fn hung_up(&mut self, client: &Client) {
        self.look_at(client);
        self.counts.open += std::mem::take(&mut self.open).len() as u64;
    }

    /// Takes verdicts until `until_ns`; also those that a daemon gave before it went.
    fn collect(&mut self, client: &mut Client, until_ns: u64) -> Result<(), Lost> {
        while let Some(record) = client.verdict(Some(until_ns))? {
            self.count(&record, now_ns());
            self.look_at(client);
        }
        Ok(())
    }

    fn collect_one(&mut self, client: &mut Client, until_ns: u64) -> Result<(), Lost> {
        if client.unanswered() > 0
            && let Some(record) = client.verdict(Some(until_ns))?
        {
            self.count(&record, now_ns());
            self.look_at(client);
        }
        Ok(())
    }

    fn count(&mut self, record: &ResultRecord, read_ns: u64) {
        if !self.open.remove(&record.sequence) {
            self.counts.unasked += 1;
            return;
        }
        let counts = &mut self.counts;
        let span = [record.captured_ns, read_ns];
        match record.verdict {
            Verdict::OnTime | Verdict::Late => {}
            Verdict::Failed(Failure::DaemonGone) => {
                counts.gone += 1;
                return;
            }
            Verdict::Rejected(reason) => {
                *counts.rejected.entry(format!("{reason:?}")).or_default() += 1;
                return note(&mut counts.unserved_spans_ns, span);
            }
            Verdict::Failed(reason) => {
                *counts.failed.entry(format!("{reason:?}")).or_default() += 1;
                return note(&mut counts.unserved_spans_ns, span);
            }
        }
        self.latency_us
            .saturating_record((read_ns.saturating_sub(record.captured_ns) / 1000).max(1));
        // An answer that is read after its deadline is late for its reader.
        if record.verdict == Verdict::OnTime && read_ns <= record.deadline_ns {
            counts.on_time += 1;
            if let Some(outage) = counts
                .outages
                .last_mut()
                .filter(|outage| outage.connected_ns > 0 && outage.on_time_ns == 0)
            {
                outage.on_time_ns = read_ns;
            }
        } else {
            counts.late += 1;
            note(&mut counts.late_spans_ns, span);
        }
    }

    fn counts_of(&self, finished: bool) -> CameraCounts {
        // Only the last line has the lists: the others would grow with them.
        let spans = |spans: &[[u64; 2]]| if finished { spans.to_vec() } else { Vec::new() };
        CameraCounts {
            latency_us: Latencies::of(&self.latency_us),
            late_spans_ns: spans(&self.counts.late_spans_ns),
            unserved_spans_ns: spans(&self.counts.unserved_spans_ns),
            finished,
            ..self.counts.clone()
        }
    }
}

/// Notes one of the first spans.
fn note(spans: &mut Vec<[u64; 2]>, span: [u64; 2]) {
    if spans.len() < SPANS_MAX {
        spans.push(span);
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
            part: None,
            left_out: 0,
            captured_ns: 1_000_000,
            deadline_ns: 5_000_000,
            finished_ns: 3_000_000,
            sent_ns: 3_000_000,
            is_final: true,
        }
    }

    #[test]
    fn a_second_verdict_for_a_frame_is_unasked() {
        let mut account = Account::new("front");
        account.submitted(1);
        account.count(&record(1, Verdict::OnTime), 4_000_000);
        account.count(&record(1, Verdict::OnTime), 4_000_000);
        let counts = account.counts_of(true);
        assert_eq!((counts.on_time, counts.unasked, counts.lost()), (1, 1, 0));
    }

    #[test]
    fn an_answer_that_is_read_too_late_is_late_whatever_the_daemon_says() {
        let mut account = Account::new("front");
        account.submitted(1);
        account.count(&record(1, Verdict::OnTime), 5_000_001);
        let counts = account.counts_of(true);
        assert_eq!((counts.on_time, counts.late), (0, 1));
        assert_eq!(counts.late_spans_ns, [[1_000_000, 5_000_001]]);
    }

    #[test]
    fn frames_that_died_with_the_daemon_are_gone_and_not_failed() {
        let mut account = Account::new("front");
        (1..=3).for_each(|sequence| account.submitted(sequence));
        account.count(&record(2, Verdict::Rejected(Rejection::NoSlack)), 0);
        account.count(&record(1, Verdict::Failed(Failure::DaemonGone)), 0);
        let counts = account.counts_of(true);
        assert_eq!((counts.gone, counts.rejected["NoSlack"]), (1, 1));
        assert_eq!(
            (counts.failed_total(), counts.lost()),
            (0, 1),
            "the third has none"
        );
    }

    #[test]
    fn an_outage_ends_with_the_first_answer_on_time() {
        let mut account = Account::new("front");
        account.note(true, 1);
        assert_eq!(
            account.counts.outages,
            [],
            "the first connection is no outage"
        );
        account.note(false, 1);
        account.note(false, 1);
        account.note(true, 2);
        account.submitted(1);
        account.submitted(2);
        account.count(&record(1, Verdict::Late), 6_000_000);
        assert_eq!(account.counts.outages[0].on_time_ns, 0);
        account.count(&record(2, Verdict::OnTime), 4_500_000);
        assert_eq!(account.counts.outages.len(), 1);
        assert_eq!(account.counts.outages[0].on_time_ns, 4_500_000);
        assert!(account.counts.outages[0].connected_ns > 0);
    }

    #[test]
    fn a_daemon_that_was_replaced_between_two_looks_is_an_outage_too() {
        let mut account = Account::new("front");
        account.note(true, 2);
        assert_eq!(account.counts.outages.len(), 1);
        assert_eq!(
            account.counts.connected, 1,
            "beside the first, which the caller counts"
        );
    }
}
