//! What became of a camera's frames, held against what they show.

use hdrhistogram::Histogram;
use punctual_decode::{Detection, Rect};
use punctual_platform::stall::Stall;
use punctual_quality::{AveragePrecision, Matched, Object};
use punctual_signs::Truth;

/// What a camera got for a frame.
#[derive(Clone, Debug)]
pub enum Outcome {
    Answered(Answer),
    Rejected,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Answer {
    /// The first is 0; none: it is not told.
    pub exit: Option<usize>,
    pub class: Option<usize>,
    /// In pixels of the frame; none if the answer has none.
    pub boxes: Option<Vec<Detection>>,
    pub captured_ns: u64,
    /// `u64::MAX`: it has none.
    pub deadline_ns: u64,
    /// Whether it was on time when it was given.
    pub given_in_time: bool,
    /// When the camera had it.
    pub received_ns: u64,
    /// When it had the first one of this frame, which this one may have replaced.
    pub first_ns: u64,
}

impl Answer {
    /// An answer that is read after its deadline is late for its reader.
    pub fn is_in_time(&self) -> bool {
        self.given_in_time && self.received_ns <= self.deadline_ns
    }
}

/// The outcomes of a camera's frames.
#[derive(Clone, Debug)]
pub struct Tally {
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    /// Those of `late` that were given on time: the camera got no core in time to read them.
    pub read_late: u64,
    pub rejected: u64,
    pub failed: u64,
    /// Frames that the camera dropped, as all its slots were in work.
    pub skipped: u64,
    /// Answers by the exit they came from.
    pub exits: Vec<u64>,
    /// Answers on time whose class was the label.
    pub right: u64,
    /// Frames with boxes, compared with what they show; without an answer on time nothing was found.
    matched: Vec<Matched>,
    /// From the intended capture to the answer, in us.
    pub latency_us: Histogram<u64>,
    /// The same of frames' first answers.
    pub first_us: Histogram<u64>,
    /// `[captured, received]` of the late ones, in ns.
    late_spans_ns: Vec<[u64; 2]>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("sound bounds")
}

impl Tally {
    pub fn new() -> Self {
        Self {
            submitted: 0,
            on_time: 0,
            late: 0,
            read_late: 0,
            rejected: 0,
            failed: 0,
            skipped: 0,
            exits: Vec::new(),
            right: 0,
            matched: Vec::new(),
            latency_us: histogram(),
            first_us: histogram(),
            late_spans_ns: Vec::new(),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.submitted += other.submitted;
        self.on_time += other.on_time;
        self.late += other.late;
        self.read_late += other.read_late;
        self.rejected += other.rejected;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.right += other.right;
        let exits = self.exits.len().max(other.exits.len());
        self.exits.resize(exits, 0);
        for (own, others) in self.exits.iter_mut().zip(&other.exits) {
            *own += others;
        }
        self.matched.extend_from_slice(&other.matched);
        self.latency_us += &other.latency_us;
        self.first_us += &other.first_us;
        self.late_spans_ns.extend_from_slice(&other.late_spans_ns);
    }

    pub const fn frames(&self) -> u64 {
        self.submitted + self.skipped
    }

    /// Mean average precision at an overlap of 0.5 of all frames that were compared; none if none was.
    pub fn map50(&self) -> Option<f64> {
        AveragePrecision::of(&self.matched).map50
    }

    /// Late ones that were not on their way while the machine stood still.
    pub fn late_outside(&self, stalls: &[Stall]) -> u64 {
        let outside = |[captured_ns, received_ns]: &&[u64; 2]| {
            let overlaps =
                |stall: &Stall| stall.start_ns <= *received_ns && *captured_ns <= stall.end_ns;
            !stalls.iter().any(overlaps)
        };
        self.late_spans_ns.iter().filter(outside).count() as u64
    }

    /// A frame that was never submitted shows this: nothing was found in it.
    pub fn skip(&mut self, truth: &Truth) {
        self.skipped += 1;
        self.hold_against(truth, None);
    }

    pub fn count(&mut self, outcome: &Outcome, truth: &Truth) {
        let answer = match outcome {
            Outcome::Answered(answer) => Some(answer),
            Outcome::Rejected => {
                self.rejected += 1;
                None
            }
            Outcome::Failed => {
                self.failed += 1;
                None
            }
        };
        if let Some(answer) = answer {
            self.count_answer(answer);
        }
        self.hold_against(truth, answer.filter(|answer| answer.is_in_time()));
    }

    fn count_answer(&mut self, answer: &Answer) {
        if answer.is_in_time() {
            self.on_time += 1;
        } else {
            self.late += 1;
            self.read_late += u64::from(answer.given_in_time);
            self.late_spans_ns
                .push([answer.captured_ns, answer.received_ns]);
        }
        let after_us = |at_ns: u64| (at_ns.saturating_sub(answer.captured_ns) / 1000).max(1);
        self.latency_us
            .saturating_record(after_us(answer.received_ns));
        self.first_us.saturating_record(after_us(answer.first_ns));
        if let Some(exit) = answer.exit {
            let exits = self.exits.len().max(exit + 1);
            self.exits.resize(exits, 0);
            self.exits[exit] += 1;
        }
    }

    fn hold_against(&mut self, truth: &Truth, in_time: Option<&Answer>) {
        match truth {
            Truth::Sign(label) => {
                let class = in_time.and_then(|answer| answer.class);
                self.right += u64::from(class == Some(*label));
            }
            Truth::Objects(objects) => {
                let truth: Vec<Object> = objects.iter().map(object).collect();
                let found = in_time.and_then(|answer| answer.boxes.as_deref());
                self.matched
                    .push(Matched::of(&truth, found.unwrap_or_default()));
            }
        }
    }
}

/// What a frame shows, as it is compared.
fn object(object: &punctual_signs::Object) -> Object {
    Object {
        rect: Rect {
            left: object.left,
            top: object.top,
            right: object.right,
            bottom: object.bottom,
        },
        class: object.category as u16,
        crowd: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a frame that shows a sign of class 3, due at 20 ms.
    fn answer(class: usize, received_ns: u64) -> Outcome {
        Outcome::Answered(Answer {
            exit: Some(1),
            class: Some(class),
            boxes: None,
            captured_ns: 8_000_000,
            deadline_ns: 20_000_000,
            given_in_time: true,
            received_ns,
            first_ns: received_ns,
        })
    }

    #[test]
    fn right_is_what_has_the_label_and_was_read_in_time() {
        let mut tally = Tally::new();
        for outcome in [
            answer(3, 20_000_000),
            answer(4, 20_000_000),
            answer(3, 20_000_001),
            Outcome::Rejected,
            Outcome::Failed,
        ] {
            tally.count(&outcome, &Truth::Sign(3));
        }
        assert_eq!((tally.right, tally.on_time, tally.late), (1, 2, 1));
        assert_eq!((tally.read_late, tally.rejected, tally.failed), (1, 1, 1));
        assert_eq!(tally.exits, [0, 3]);
    }

    #[test]
    fn late_during_a_stall_is_told_from_late_outside() {
        let mut tally = Tally::new();
        tally.count(&answer(3, 30_000_000), &Truth::Sign(3));
        let stall = |start_ns, end_ns| Stall { start_ns, end_ns };
        assert_eq!(tally.late_outside(&[]), 1);
        assert_eq!(tally.late_outside(&[stall(0, 7_999_999)]), 1);
        assert_eq!(tally.late_outside(&[stall(29_000_000, 40_000_000)]), 0);
    }

    #[test]
    fn in_a_frame_without_an_answer_in_time_nothing_was_found() {
        let object = punctual_signs::Object {
            left: 10.0,
            top: 10.0,
            right: 50.0,
            bottom: 50.0,
            category: 0,
        };
        let truth = Truth::Objects(vec![object]);
        let found = Detection {
            rect: super::object(&object).rect,
            score: 0.9,
            class: 0,
        };
        let with_box = |received_ns| {
            let Outcome::Answered(answer) = answer(0, received_ns) else {
                panic!("it is an answer");
            };
            Outcome::Answered(Answer {
                boxes: Some(vec![found]),
                ..answer
            })
        };
        let mut tally = Tally::new();
        tally.count(&with_box(20_000_000), &truth);
        assert_eq!(tally.map50(), Some(1.0));
        tally.count(&with_box(20_000_001), &truth);
        let late = tally.map50().expect("objects");
        assert!(late < 0.51, "{late}");
        tally.skip(&truth);
        let skipped = tally.map50().expect("objects");
        assert!(skipped < 0.34, "{skipped}");
    }
}
