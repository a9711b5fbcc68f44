//! The submissions of a client across all of its connections: each gets exactly one verdict.

use std::collections::VecDeque;

use punctual_ipc::{Crop, Failure, ResultRecord, Verdict};

use crate::Response;

/// A submission without a verdict.
#[derive(Debug)]
struct Pending {
    /// Its number on its connection.
    number: u64,
    /// Its number in the client's life.
    sequence: u64,
    slot: u16,
    submission: Submission,
    /// The last answer before the verdict.
    answer: Option<Response>,
    /// Whether that was given out as news.
    is_told: bool,
    /// What is known of parts of the frame, in the order in which it came.
    parts: Vec<Response>,
    /// How many of them were given out as news.
    parts_told: usize,
}

/// Submissions and their verdicts, until these are read.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// How many were ever submitted; the last one's sequence.
    submitted: u64,
    /// On the present connection. Few, so looked through.
    pending: Vec<Pending>,
    /// Verdicts to be read.
    ready: VecDeque<Response>,
    /// The newest submission whose verdict was read.
    read: u64,
}

/// The capture time and the deadline of a frame, and where the network is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    pub(crate) captured_ns: u64,
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) crop: Crop,
    /// The number of the task of the stream's that it is for.
    pub(crate) task: u16,
}

impl Ledger {
    /// With room for `room` submissions without a verdict that was read.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            submitted: 0,
            pending: Vec::with_capacity(room),
            ready: VecDeque::with_capacity(room),
            read: 0,
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
        let sequence = self.submitted;
        let pending = Pending::new(number, sequence, slot, submission);
        self.pending.push(pending);
        sequence
    }

    /// There was no daemon to submit it to. Returns its sequence.
    pub(crate) fn submitted_in_vain(
        &mut self,
        slot: u16,
        submission: Submission,
        now_ns: u64,
    ) -> u64 {
        self.submitted += 1;
        let pending = Pending::new(0, self.submitted, slot, submission);
        self.ready.push_back(pending.without_daemon(now_ns).into());
        self.submitted
    }

    /// A daemon's record in terms of the client's own count, and what was submitted; none if no submission waits for it.
    pub(crate) fn find(&self, record: ResultRecord) -> Option<(ResultRecord, Submission)> {
        let number = record.sequence;
        let pending = self.pending.iter().find(|it| it.number == number)?;
        let record = ResultRecord {
            sequence: pending.sequence,
            // A part's record has no room for it.
            captured_ns: match record.part {
                Some(_) => pending.submission.captured_ns,
                None => record.captured_ns,
            },
            ..record
        };
        Some((record, pending.submission))
    }

    /// Takes a daemon's word on an open submission: its verdict, read later; an answer before it, which replaces the last
    /// one; or the verdict on a part of it.
    pub(crate) fn keep(&mut self, response: Response) {
        let of = |pending: &Pending| pending.sequence == response.sequence;
        let Some(at) = self.pending.iter().position(of) else {
            return;
        };
        if response.is_final {
            let pending = self.pending.swap_remove(at);
            self.ready.push_back(response.of_parts(pending.parts));
            return;
        }
        let pending = &mut self.pending[at];
        if response.part.is_some() {
            pending.parts.push(response);
        } else {
            pending.answer = Some(response);
            pending.is_told = false;
        }
    }

    /// The next verdict of those kept.
    pub(crate) fn take(&mut self) -> Option<Response> {
        let verdict = self.ready.pop_front()?;
        self.read = self.read.max(verdict.sequence);
        Some(verdict)
    }

    /// An answer before its verdict, or the verdict on a part, that was not given out yet.
    pub(crate) fn untold(&mut self) -> Option<Response> {
        self.pending.iter_mut().find_map(Pending::tell)
    }

    /// The answer of the newest submission that has one and is newer than each whose verdict was read.
    pub(crate) fn latest(&self) -> Option<Response> {
        let before = self.pending.iter().filter_map(|it| it.answer.as_ref());
        let verdicts = self.ready.iter().filter(|it| it.answer.is_some());
        let newer = before.chain(verdicts).filter(|it| it.sequence > self.read);
        newer.max_by_key(|response| response.sequence).cloned()
    }

    /// The connection is gone, and everything that it gave was [kept](Self::keep): what is still pending has failed.
    pub(crate) fn fail_pending(&mut self, now_ns: u64) {
        self.pending
            .sort_unstable_by_key(|pending| pending.sequence);
        let failed = self.pending.drain(..);
        self.ready.extend(failed.map(|mut pending| {
            let parts = std::mem::take(&mut pending.parts);
            Response::from(pending.without_daemon(now_ns)).of_parts(parts)
        }));
    }
}

impl Pending {
    fn new(number: u64, sequence: u64, slot: u16, submission: Submission) -> Self {
        Self {
            number,
            sequence,
            slot,
            submission,
            answer: None,
            is_told: false,
            parts: Vec::new(),
            parts_told: 0,
        }
    }

    /// What is news of it.
    fn tell(&mut self) -> Option<Response> {
        if self.answer.is_some() && !self.is_told {
            self.is_told = true;
            return self.answer.clone();
        }
        let part = self.parts.get(self.parts_told)?;
        self.parts_told += 1;
        Some(part.clone())
    }

    fn without_daemon(self, now_ns: u64) -> ResultRecord {
        ResultRecord {
            sequence: self.sequence,
            slot: self.slot,
            verdict: Verdict::Failed(Failure::DaemonGone),
            answer: None,
            part: None,
            left_out: 0,
            captured_ns: self.submission.captured_ns,
            // What the task's own would have been, only the daemon knew.
            deadline_ns: self.submission.deadline_ns.unwrap_or(u64::MAX),
            finished_ns: now_ns,
            sent_ns: now_ns,
            is_final: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_ipc::{Answer, Part, PartCrop};

    use super::*;

    const CROP: Crop = Crop { x: 3, y: 4 };

    const FRAME: Submission = Submission {
        task: 0,
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
            part: None,
            left_out: 0,
            captured_ns: 5,
            deadline_ns: 9,
            finished_ns: 7,
            sent_ns: 7,
            is_final: true,
        }
    }

    #[test]
    fn sequences_go_on_across_connections_and_nothing_is_answered_twice() {
        let mut ledger = Ledger::new(4);
        assert_eq!(ledger.submitted(1, 0, FRAME), 1);
        assert_eq!(ledger.submitted(2, 1, FRAME), 2);
        assert_eq!(ledger.submitted(3, 2, FRAME), 3);
        let (settled, frame) = ledger.find(answer(2)).unwrap();
        assert_eq!((settled.sequence, frame), (2, FRAME));
        ledger.keep(settled.into());
        assert_eq!(ledger.take().map(|it| it.sequence), Some(2));
        assert_eq!(ledger.find(answer(2)), None, "a second verdict");
        assert_eq!(ledger.find(answer(9)), None, "never submitted");
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
        assert_eq!(ledger.find(answer(1)).unwrap().0.sequence, 5);
        ledger.keep(ledger.find(answer(1)).unwrap().0.into());
        assert_eq!(ledger.take().map(|it| it.sequence), Some(5));
        assert_eq!(ledger.unanswered(), 0);
    }

    /// Answer of exit `exit` to the submission `number`, before its verdict or with it.
    fn at_exit(number: u64, exit: u8, is_final: bool) -> Response {
        let record = ResultRecord {
            answer: Some(Answer::of_class(exit, 0, 0)),
            is_final,
            ..answer(number)
        };
        record.into()
    }

    fn exit(response: Option<Response>) -> Option<(u64, u8)> {
        let response = response?;
        Some((response.sequence, response.record().answer?.exit))
    }

    #[test]
    fn answers_before_a_verdict_are_told_once_and_replaced_by_deeper_ones() {
        let mut ledger = Ledger::new(4);
        ledger.submitted(1, 0, FRAME);
        ledger.submitted(2, 1, FRAME);
        ledger.keep(at_exit(1, 0, false));
        assert_eq!(exit(ledger.untold()), Some((1, 0)));
        assert_eq!(exit(ledger.untold()), None);
        ledger.keep(at_exit(1, 1, false));
        ledger.keep(at_exit(1, 2, false));
        assert_eq!(exit(ledger.untold()), Some((1, 2)), "the deepest alone");
        ledger.keep(at_exit(1, 3, false));
        ledger.keep(at_exit(1, 3, true));
        assert_eq!(exit(ledger.untold()), None, "it has its verdict");
        assert_eq!(exit(ledger.take()), Some((1, 3)));
        assert_eq!(ledger.unanswered(), 1);
    }

    #[test]
    fn parts_are_told_after_the_answer_they_are_of_and_come_with_the_verdict() {
        let part = |number: u8| {
            let crop = PartCrop::default();
            ResultRecord {
                part: Some(Part {
                    task: 2,
                    number,
                    crop,
                }),
                captured_ns: 0,
                is_final: false,
                ..answer(1)
            }
        };
        let mut ledger = Ledger::new(4);
        ledger.submitted(1, 0, FRAME);
        ledger.keep(at_exit(1, 0, false));
        for number in [1, 2] {
            let (told, _) = ledger.find(part(number)).expect("it is open");
            assert_eq!(told.captured_ns, 5, "as it was submitted");
            ledger.keep(told.into());
        }
        let number =
            |response: Option<Response>| response.map(|it| it.part.map(|part| part.number));
        assert_eq!(number(ledger.untold()), Some(None), "the frame's own");
        assert_eq!(number(ledger.untold()), Some(Some(1)));
        ledger.keep(at_exit(1, 0, true));
        assert_eq!(number(ledger.untold()), None, "it has its verdict");
        let verdict = ledger.take().expect("the verdict");
        let parts = verdict.parts().iter().filter_map(|it| it.part);
        assert_eq!(parts.map(|part| part.number).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn the_latest_answer_is_of_the_newest_frame_that_has_one() {
        let mut ledger = Ledger::new(4);
        for number in 1..=4 {
            ledger.submitted(number, 0, FRAME);
        }
        assert_eq!(exit(ledger.latest()), None);
        ledger.keep(at_exit(1, 0, false));
        ledger.keep(at_exit(2, 1, true));
        assert_eq!(exit(ledger.latest()), Some((2, 1)));
        assert_eq!(exit(ledger.latest()), Some((2, 1)), "nothing is taken");
        ledger.keep(at_exit(3, 0, false));
        assert_eq!(exit(ledger.latest()), Some((3, 0)));
        assert_eq!(exit(ledger.take()), Some((2, 1)));
        ledger.keep(at_exit(3, 1, true));
        assert_eq!(exit(ledger.take()), Some((3, 1)));
        ledger.keep(at_exit(1, 2, false));
        assert_eq!(exit(ledger.latest()), None, "older than what was read");
    }
}
