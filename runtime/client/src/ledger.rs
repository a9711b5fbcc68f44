//! The submissions of a client across all of its connections: each gets exactly one verdict.

use std::collections::VecDeque;

use punctual_ipc::{Crop, Failure, ResultRecord, Verdict};

use crate::Response;

/// A submission without a verdict.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Its number on its connection.
    number: u64,
    /// Its number in the client's life.
    sequence: u64,
    slot: u16,
    submission: Submission,
}

/// Submissions and their verdicts, until these are read.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// How many were ever submitted; the last one's sequence.
    submitted: u64,
    /// On the present connection. Few, so looked through.
    pending: Vec<Pending>,
    /// Verdicts to be read before those of the present connection.
    ready: VecDeque<Response>,
}

/// The capture time and the deadline of a frame, and where the network is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    pub(crate) captured_ns: u64,
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) crop: Crop,
}

impl Ledger {
    /// With room for `room` submissions without a verdict that was read.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            submitted: 0,
            pending: Vec::with_capacity(room),
            ready: VecDeque::with_capacity(room),
        }
    }

    /// How many submissions have no verdict that was read.
    pub(crate) fn unanswered(&self) -> u64 {
        (self.pending.len() + self.ready.len()) as u64
    }

    /// How many verdicts wait in here.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The submission has this `number` on its connection. Returns its sequence.
    pub(crate) fn submitted(&mut self, number: u64, slot: u16, submission: Submission) -> u64 {
        self.submitted += 1;
        self.pending.push(Pending {
            number,
            sequence: self.submitted,
            slot,
            submission,
        });
        self.submitted
    }

    /// There was no daemon to submit it to. Returns its sequence.
    pub(crate) fn submitted_in_vain(
        &mut self,
        slot: u16,
        submission: Submission,
        now_ns: u64,
    ) -> u64 {
        self.submitted += 1;
        let pending = Pending {
            number: 0,
            sequence: self.submitted,
            slot,
            submission,
        };
        self.ready.push_back(pending.without_daemon(now_ns).into());
        self.submitted
    }

    /// A daemon's verdict in terms of the client's own count, and the crop; none if it was not asked for it.
    pub(crate) fn settle(&mut self, record: ResultRecord) -> Option<(ResultRecord, Crop)> {
        let is_it = |pending: &Pending| pending.number == record.sequence;
        let at = self.pending.iter().position(is_it)?;
        let Pending {
            sequence,
            submission,
            ..
        } = self.pending.swap_remove(at);
        Some((ResultRecord { sequence, ..record }, submission.crop))
    }

    /// A verdict that will be read later.
    pub(crate) fn keep(&mut self, response: Response) {
        self.ready.push_back(response);
    }

    /// The next verdict of those kept.
    pub(crate) fn take(&mut self) -> Option<Response> {
        self.ready.pop_front()
    }

    /// The connection is gone, and everything that it gave was [kept](Self::keep): what is still pending has failed.
    pub(crate) fn fail_pending(&mut self, now_ns: u64) {
        self.pending
            .sort_unstable_by_key(|pending| pending.sequence);
        let failed = self.pending.drain(..);
        self.ready
            .extend(failed.map(|p| p.without_daemon(now_ns).into()));
    }
}

impl Pending {
    fn without_daemon(self, now_ns: u64) -> ResultRecord {
        ResultRecord {
            sequence: self.sequence,
            slot: self.slot,
            verdict: Verdict::Failed(Failure::DaemonGone),
            answer: None,
            captured_ns: self.submission.captured_ns,
            // What the task's own would have been, only the daemon knew.
            deadline_ns: self.submission.deadline_ns.unwrap_or(u64::MAX),
            finished_ns: now_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROP: Crop = Crop { x: 3, y: 4 };

    const FRAME: Submission = Submission {
        captured_ns: 5,
        deadline_ns: None,
        crop: CROP,
    };

    fn answer(number: u64) -> ResultRecord {
        ResultRecord {
            sequence: number,
            slot: 0,
            verdict: Verdict::OnTime,
            answer: None,
            captured_ns: 5,
            deadline_ns: 9,
            finished_ns: 7,
        }
    }

    #[test]
    fn sequences_go_on_across_connections_and_nothing_is_answered_twice() {
        let mut ledger = Ledger::new(4);
        assert_eq!(ledger.submitted(1, 0, FRAME), 1);
        assert_eq!(ledger.submitted(2, 1, FRAME), 2);
        assert_eq!(ledger.submitted(3, 2, FRAME), 3);
        let (settled, crop) = ledger.settle(answer(2)).unwrap();
        assert_eq!((settled.sequence, crop), (2, CROP));
        assert_eq!(ledger.settle(answer(2)), None, "a second verdict");
        assert_eq!(ledger.settle(answer(9)), None, "never submitted");
        ledger.fail_pending(100);
        assert_eq!(ledger.submitted_in_vain(0, FRAME, 101), 4);
        assert_eq!(ledger.submitted(1, 0, FRAME), 5, "a new connection");
        assert_eq!(ledger.unanswered(), 4);
        let read: Vec<_> = std::iter::from_fn(|| ledger.take()).collect();
        let sequences: Vec<u64> = read.iter().map(|record| record.sequence).collect();
        assert_eq!(sequences, [1, 3, 4]);
        for record in read {
            assert_eq!(record.verdict, Verdict::Failed(Failure::DaemonGone));
            assert_eq!((record.captured_ns, record.deadline_ns), (5, u64::MAX));
        }
        assert_eq!(ledger.settle(answer(1)).unwrap().0.sequence, 5);
        assert_eq!(ledger.unanswered(), 0);
    }
}
