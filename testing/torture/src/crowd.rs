//! The client processes: starts, stops and kills them, and compares their counters when they have ended.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_ipc::ChannelFault;
use punctual_platform::clock::now_ns;

use crate::ledger::{Entry, Ledger, Phase};
use crate::orders::{Orders, Role};
use crate::report::Report;
use crate::server::{ConnectionCounts, Ended};

/// One client process, alive or dead.
#[derive(Debug)]
pub struct Client {
    process: std::process::Child,
    ledger: Ledger,
    /// Whether it keeps the protocol.
    pub role: Role,
    pub killed_ns: Option<u64>,
    pub stopped_until_ns: Option<u64>,
    /// It is dead, and its parent knows.
    pub reaped: bool,
    /// Its connection, for a healthy one, which has one only.
    pub token: Option<u64>,
    ended: Option<(ConnectionCounts, ChannelFault, u64)>,
}

impl Client {
    /// Starts one: `program` with its leading arguments, then the orders.
    pub fn start(program: &[OsString], orders: &Orders) -> io::Result<Self> {
        let ledger = Ledger::create()?;
        let (name, leading) = program.split_first().expect("a program");
        let process = Command::new(name)
            .args(leading)
            .args(orders.arguments())
            .stdin(Stdio::from(ledger.share()?))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            process,
            ledger,
            role: orders.role,
            killed_ns: None,
            stopped_until_ns: None,
            reaped: false,
            token: None,
            ended: None,
        })
    }

    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// Whether it may still be killed or stopped.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.killed_ns.is_none() && !self.reaped
    }

    pub fn entry(&self) -> io::Result<Entry> {
        self.ledger.read()
    }

    pub fn kill(&mut self) -> io::Result<()> {
        self.killed_ns = Some(now_ns());
        self.process.kill()
    }

    /// SIGSTOP, for a while.
    pub fn stop(&mut self, until_ns: u64) -> io::Result<()> {
        self.stopped_until_ns = Some(until_ns);
        self.signal(Signal::SIGSTOP)
    }

    /// SIGCONT, once its time has come.
    pub fn resume(&mut self, now_ns: u64) -> io::Result<()> {
        if self.reaped || self.stopped_until_ns.is_none_or(|until| until > now_ns) {
            return Ok(());
        }
        self.stopped_until_ns = None;
        self.signal(Signal::SIGCONT)
    }

    /// Tells it to leave, and lets it run.
    pub fn ask_to_leave(&mut self) -> io::Result<()> {
        self.ledger.ask_to_leave()?;
        self.resume(u64::MAX)
    }

    pub fn reap(&mut self) -> io::Result<()> {
        self.reaped = self.reaped || self.process.try_wait()?.is_some();
        Ok(())
    }

    pub fn end(&mut self, ended: &Ended) {
        self.ended = Some((ended.counts, ended.fault, ended.freed_ns));
    }

    /// Whether all that could happen to it has happened: it is dead, and its connection, if it had
    /// one, has ended. A connection may still wait for its handshake.
    #[must_use]
    pub fn is_over(&self, acceptor_is_idle: bool) -> bool {
        let while_connecting = self.role == Role::Healthy && self.token.is_none();
        let connection_over = if while_connecting {
            acceptor_is_idle
        } else {
            true
        };
        self.reaped && connection_over && (self.token.is_none() || self.ended.is_some())
    }

    /// Compares both sides' counters and adds them to the report. Returns how long after
    /// its death its slots and its place were free, in ns.
    pub fn audit(&self, has_server: bool, report: &mut Report) -> io::Result<Option<u64>> {
        let entry = self.entry()?;
        report.kills_while_connecting +=
            u64::from(self.killed_ns.is_some() && entry.phase == Phase::Outside);
        if self.role == Role::Hostile {
            report.hostile_connections += entry.begun;
            return Ok(None);
        }
        report.find("verdict twice or for nothing", entry.duplicated);
        report.find("verdict of another frame", entry.wrong);
        report.find("wait of seconds for a verdict", entry.stuck);
        report.late += entry.late;
        report.verdicts += entry.taken;
        report.early += entry.early;
        report.proved += entry.proved;
        report.round_trip_us_max = report
            .round_trip_us_max
            .max(entry.round_trip_ns_max as f64 / 1e3);
        if self.killed_ns.is_none() {
            self.audit_survivor(&entry, report);
        }
        if !has_server {
            report.submitted += entry.begun;
            report.gone += entry.begun.saturating_sub(entry.taken);
            report.find(
                "verdict for nothing",
                entry.taken.saturating_sub(entry.begun),
            );
            return Ok(None);
        }
        let Some((counts, fault, freed_ns)) = self.ended else {
            report.find("submission without a connection", entry.begun);
            return Ok(None);
        };
        audit_connection(&entry, &counts, fault, self.killed_ns.is_some(), report);
        Ok(self.killed_ns.map(|killed| freed_ns.saturating_sub(killed)))
    }

    fn audit_survivor(&self, entry: &Entry, report: &mut Report) {
        match entry.phase {
            Phase::Finished => {}
            Phase::HungUpOn => report.find("connection of a healthy client closed", 1),
            Phase::Failed | Phase::Outside => report.find("healthy client not admitted", 1),
            Phase::Connected => report.find("healthy client crashed", 1),
        }
        if entry.phase == Phase::Finished {
            report.find("verdict lost", entry.begun.abs_diff(entry.taken));
        }
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill(Pid::from_raw(self.pid()), signal)?)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.reaped {
            // Dead already, or about to be.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// Both sides' counters of a healthy client must agree.
fn audit_connection(
    entry: &Entry,
    counts: &ConnectionCounts,
    fault: ChannelFault,
    killed: bool,
    report: &mut Report,
) {
    report.submitted += counts.accepted;
    report.gone += counts.accepted.saturating_sub(entry.taken);
    // One that died may have written down a submission that it did not get to make.
    let slack = u64::from(killed);
    let lost = entry.begun.saturating_sub(counts.accepted);
    report.find("submission lost", lost.saturating_sub(slack));
    report.find(
        "submission out of nothing",
        counts.accepted.saturating_sub(entry.begun),
    );
    report.find(
        "verdict out of nothing",
        entry.taken.saturating_sub(counts.answered),
    );
    report.find(
        "answer out of nothing",
        entry.early.saturating_sub(counts.early),
    );
    if !killed {
        report.find("answer lost", counts.early.saturating_sub(entry.early));
    }
    report.find(
        "submission without a verdict",
        counts.accepted.abs_diff(counts.answered + counts.gone),
    );
    report.find("frame damaged", counts.damaged);
    report.find("slot leaked", counts.leaked);
    report.find("healthy client accused", u64::from(fault.is_violation()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(entry: Entry, counts: ConnectionCounts, killed: bool) -> Vec<&'static str> {
        let mut report = Report::default();
        audit_connection(&entry, &counts, ChannelFault::HungUp, killed, &mut report);
        report.findings.into_keys().collect()
    }

    #[test]
    fn counters_that_agree_are_clean_and_each_disagreement_has_a_name() {
        let entry = Entry {
            begun: 10,
            taken: 8,
            ..Entry::default()
        };
        let counts = ConnectionCounts {
            accepted: 10,
            answered: 9,
            gone: 1,
            ..ConnectionCounts::default()
        };
        assert_eq!(found(entry, counts, true), Vec::<&str>::new());
        let cut_short = Entry { begun: 11, ..entry };
        assert_eq!(found(cut_short, counts, true), Vec::<&str>::new());
        assert_eq!(found(cut_short, counts, false), ["submission lost"]);
        let unanswered = ConnectionCounts { gone: 0, ..counts };
        assert_eq!(
            found(entry, unanswered, true),
            ["submission without a verdict"]
        );
        let invented = Entry { taken: 10, ..entry };
        assert_eq!(found(invented, counts, true), ["verdict out of nothing"]);
        let replayed = Entry { begun: 9, ..entry };
        assert_eq!(found(replayed, counts, true), ["submission out of nothing"]);
        let early = |killed, of_client, of_daemon| {
            let entry = Entry {
                early: of_client,
                ..entry
            };
            let counts = ConnectionCounts {
                early: of_daemon,
                ..counts
            };
            found(entry, counts, killed)
        };
        assert_eq!(early(true, 2, 3), Vec::<&str>::new());
        assert_eq!(early(false, 2, 3), ["answer lost"]);
        assert_eq!(early(true, 3, 2), ["answer out of nothing"]);
        let bad = ConnectionCounts {
            damaged: 1,
            leaked: 2,
            ..counts
        };
        assert_eq!(found(entry, bad, true), ["frame damaged", "slot leaked"]);
    }
}
