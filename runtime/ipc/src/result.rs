//! What a client is told of a submission: 64 bytes in the result ring.

use std::ffi::CStr;
use std::fmt::{Display, Formatter};

use crate::ring::Cell;

/// One submission's result: its verdict, or an answer before it.
///
/// Layout, in 64-bit words: sequence; captured, or of a part its crop (left, top, width, height: 16 bits each, low first);
/// finished; deadline; verdict, reason, exit, flags (8 bits each, low first), class, confidence (16 bits each); slot, part, task,
/// left out (16 bits each, low first); area ‖ its generation (high half first); sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultRecord {
    /// The submission's.
    pub sequence: u64,
    pub slot: u16,
    pub verdict: Verdict,
    /// The network's answer, if one was reached.
    pub answer: Option<Answer>,
    /// Which part of the frame it is about; none: all of it.
    pub part: Option<Part>,
    /// Parts that the frame had beyond what the plan allows for, and that nothing was done with. With the verdict on a pipeline.
    pub left_out: u16,
    /// When the frame was captured: monotonic ns. 0 in the record of a part, until the client sets what it submitted.
    pub captured_ns: u64,
    /// The absolute deadline that applied; `u64::MAX`: none did.
    pub deadline_ns: u64,
    /// When the answer was sent first; without one, when the verdict was reached.
    pub finished_ns: u64,
    /// When this record was sent: later than `finished_ns` if an answer before the verdict stayed the last.
    pub sent_ns: u64,
    /// Whether this is the submission's verdict. Otherwise another record follows: with a deeper answer, or the verdict.
    pub is_final: bool,
}

impl ResultRecord {
    /// Whether there was a deadline to keep. Without one, an answer has the verdict [`Verdict::OnTime`], which then says no
    /// more than that there is an answer.
    #[must_use]
    pub const fn has_deadline(&self) -> bool {
        self.deadline_ns != u64::MAX
    }
}

/// A part of a frame that a task after another looked at. Its record is the only one of the part, and never the submission's last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the task among the stream's, the first being 1.
    pub task: u16,
    /// Which of the frame's parts, of all its tasks, the first being 1.
    pub number: u8,
    /// What the network saw, in pixels of the frame.
    pub crop: PartCrop,
}

/// A rectangle of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCrop {
    pub x: u16,
    pub y: u16,
    pub width: u16,
    pub height: u16,
}

impl PartCrop {
    fn encode(self) -> u64 {
        four([self.x, self.y, self.width, self.height])
    }

    fn decode(word: u64) -> Self {
        let [x, y, width, height] = quarters(word);
        Self {
            x,
            y,
            width,
            height,
        }
    }
}

/// A word of four numbers, the first in its lowest bits.
fn four(numbers: [u16; 4]) -> u64 {
    numbers
        .iter()
        .rev()
        .fold(0, |word, number| word << 16 | u64::from(*number))
}

fn quarters(word: u64) -> [u16; 4] {
    std::array::from_fn(|at| (word >> (16 * at)) as u16)
}

/// What a network answers for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The exit that it left the network through, counted from the input.
    pub exit: u8,
    /// The class with the largest score, if its answers have one.
    pub class: Option<u16>,
    /// How sure the network is, in units of 1/65535, if it says so.
    pub confidence: Option<u16>,
    /// Where its outputs are, if any are wanted.
    pub outputs: Option<HandedOver>,
    /// Whether some values of its outputs are not finite.
    pub not_finite: bool,
}

impl Answer {
    /// A class, and nothing else.
    #[must_use]
    pub const fn of_class(exit: u8, class: u16, confidence: u16) -> Self {
        Self {
            exit,
            class: Some(class),
            confidence: Some(confidence),
            outputs: None,
            not_finite: false,
        }
    }
}

/// An area with the outputs of an answer, which is the client's until it releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    pub area: u16,
    /// How often it was handed over, modulo 2^32: what the client says when it releases it.
    pub generation: u32,
}

/// Bits of a record's flags.
const ANSWERED: u8 = 1;
const HAS_CLASS: u8 = 2;
const HAS_CONFIDENCE: u8 = 4;
const HAS_OUTPUTS: u8 = 8;
const NOT_FINITE: u8 = 16;
const MORE_FOLLOWS: u8 = 32;

/// Where the flags lie in a record's word 4.
const FLAGS_AT: u32 = 24;

/// Every submission gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Answered before its deadline.
    OnTime,
    /// Answered, but after its deadline.
    Late,
    /// Not taken on.
    Rejected(Rejection),
    /// Taken on, and then not answered.
    Failed(Failure),
}

/// Why a submission was not taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Its deadline had passed, or could not be met even alone, when it arrived.
    LateOnArrival,
    /// Taking it on would endanger requests already promised.
    NoSlack,
    /// Its task's queue is full.
    QueueFull,
    /// The daemon is shutting down.
    Draining,
    /// It claims to have been captured in the future.
    CapturedInFuture,
    /// Its client submits faster than the manifest lets it.
    Quota,
    /// A newer frame of the same client took its place before anything was done with it.
    Superseded,
    /// The daemon does without best-effort work for now, to keep its promises.
    Shedding,
    /// There is no area for its outputs: the client holds them, or its earlier frames are still in work.
    NoArea,
    /// Its task's network is not loaded yet: the daemon is starting.
    NotReady,
}

/// Why an accepted request got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The device reported an error, or did not respond.
    Device,
    /// The payload could not be read or converted.
    Payload,
    /// The client was thought gone.
    ClientGone,
    /// Dropped after an overrun, to keep the promises that still could be kept.
    Shed,
    /// The payload is a tensor with a value that is infinite or no number.
    NotFinite,
    /// A number of its vectors is out of range, or is none.
    Vector,
    /// The daemon's threads got no processor: another program had their core, or the hypervisor.
    Starved,
    /// The daemon ended without a verdict. Said by the client library, never by a daemon.
    DaemonGone,
}

/// A record that this version cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Unknown verdict or reason.
    #[error("verdict {verdict} with reason {reason} does not exist in this protocol version")]
    Verdict { verdict: u8, reason: u8 },
    #[error("outputs in area {area}, there are {areas}")]
    Area { area: u16, areas: u16 },
    /// A field beyond its range, or a reserved one that is not zero.
    #[error("word {word} is {found:#x}, which this protocol version does not use")]
    Field {
        /// Which 64-bit word of the record.
        word: u8,
        found: u64,
    },
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text().to_string_lossy())
    }
}

impl Verdict {
    /// In words, with the reason. Also for C.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::OnTime => c"on time",
            Self::Late => c"late",
            Self::Rejected(Rejection::LateOnArrival) => {
                c"rejected: its deadline had passed or could not be met at arrival"
            }
            Self::Rejected(Rejection::NoSlack) => {
                c"rejected: not enough slack beside promised deadlines"
            }
            Self::Rejected(Rejection::QueueFull) => c"rejected: its task's queue is full",
            Self::Rejected(Rejection::Draining) => c"rejected: the daemon is shutting down",
            Self::Rejected(Rejection::CapturedInFuture) => {
                c"rejected: its capture time is in the future"
            }
            Self::Rejected(Rejection::Quota) => {
                c"rejected: submitted faster than the manifest allows"
            }
            Self::Rejected(Rejection::Superseded) => c"rejected: superseded by a newer frame",
            Self::Rejected(Rejection::Shedding) => c"rejected: best-effort work is shed at present",
            Self::Rejected(Rejection::NoArea) => {
                c"rejected: no area is free for its outputs: release earlier ones"
            }
            Self::Rejected(Rejection::NotReady) => c"rejected: its network is not loaded yet",
            Self::Failed(Failure::Device) => c"failed: the device reported an error",
            Self::Failed(Failure::Payload) => c"failed: its pixels could not be read or converted",
            Self::Failed(Failure::ClientGone) => c"failed: the client has disconnected",
            Self::Failed(Failure::Shed) => c"failed: shed to keep promised deadlines",
            Self::Failed(Failure::NotFinite) => c"failed: a value of the tensor is not finite",
            Self::Failed(Failure::Vector) => c"failed: a number of its vectors is out of range",
            Self::Failed(Failure::Starved) => c"failed: the daemon's threads got no processor time",
            Self::Failed(Failure::DaemonGone) => c"failed: the daemon ended without a verdict",
        }
    }

    const fn codes(self) -> (u8, u8) {
        match self {
            Self::OnTime => (1, 0),
            Self::Late => (2, 0),
            Self::Rejected(Rejection::LateOnArrival) => (3, 1),
            Self::Rejected(Rejection::NoSlack) => (3, 2),
            Self::Rejected(Rejection::QueueFull) => (3, 3),
            Self::Rejected(Rejection::Draining) => (3, 4),
            Self::Rejected(Rejection::CapturedInFuture) => (3, 5),
            Self::Rejected(Rejection::Quota) => (3, 6),
            Self::Rejected(Rejection::Superseded) => (3, 7),
            Self::Rejected(Rejection::Shedding) => (3, 8),
            Self::Rejected(Rejection::NoArea) => (3, 9),
            Self::Rejected(Rejection::NotReady) => (3, 10),
            Self::Failed(Failure::Device) => (4, 1),
            Self::Failed(Failure::Payload) => (4, 2),
            Self::Failed(Failure::ClientGone) => (4, 3),
            Self::Failed(Failure::Shed) => (4, 4),
            Self::Failed(Failure::NotFinite) => (4, 5),
            Self::Failed(Failure::Vector) => (4, 6),
            Self::Failed(Failure::Starved) => (4, 7),
            Self::Failed(Failure::DaemonGone) => (4, 255),
        }
    }

    /// The verdict with these numbers in a record.
    #[must_use]
    pub const fn from_codes(verdict: u8, reason: u8) -> Option<Self> {
        Some(match (verdict, reason) {
            (1, 0) => Self::OnTime,
            (2, 0) => Self::Late,
            (3, 1) => Self::Rejected(Rejection::LateOnArrival),
            (3, 2) => Self::Rejected(Rejection::NoSlack),
            (3, 3) => Self::Rejected(Rejection::QueueFull),
            (3, 4) => Self::Rejected(Rejection::Draining),
            (3, 5) => Self::Rejected(Rejection::CapturedInFuture),
            (3, 6) => Self::Rejected(Rejection::Quota),
            (3, 7) => Self::Rejected(Rejection::Superseded),
            (3, 8) => Self::Rejected(Rejection::Shedding),
            (3, 9) => Self::Rejected(Rejection::NoArea),
            (3, 10) => Self::Rejected(Rejection::NotReady),
            (4, 1) => Self::Failed(Failure::Device),
            (4, 2) => Self::Failed(Failure::Payload),
            (4, 3) => Self::Failed(Failure::ClientGone),
            (4, 4) => Self::Failed(Failure::Shed),
            (4, 5) => Self::Failed(Failure::NotFinite),
            (4, 6) => Self::Failed(Failure::Vector),
            (4, 7) => Self::Failed(Failure::Starved),
            // (4, 255) is not for daemons to say.
            _ => return None,
        })
    }
}

impl ResultRecord {
    pub(crate) fn encode(&self) -> Cell {
        let (verdict, reason) = self.verdict.codes();
        let answer = self.answer.map_or(0, Answer::encode);
        let more = u64::from(MORE_FOLLOWS) << FLAGS_AT;
        let more = if self.is_final { 0 } else { more };
        let outputs = self.answer.and_then(|answer| answer.outputs);
        let outputs = outputs.map_or(0, |outputs| {
            u64::from(outputs.area) << 32 | u64::from(outputs.generation)
        });
        let (part, task) = self.part.map_or((0, 0), |part| (part.number, part.task));
        [
            self.sequence,
            self.part
                .map_or(self.captured_ns, |part| part.crop.encode()),
            self.finished_ns,
            self.deadline_ns,
            u64::from(verdict) | u64::from(reason) << 8 | answer | more,
            four([self.slot, part.into(), task, self.left_out]),
            outputs,
            self.sent_ns,
        ]
    }

    pub(crate) fn decode(cell: &Cell) -> Result<Self, RecordError> {
        let &[
            sequence,
            captured,
            finished_ns,
            deadline_ns,
            outcome,
            place,
            outputs,
            sent_ns,
        ] = cell;
        let [slot, number, task, left_out] = quarters(place);
        let field = RecordError::Field {
            word: 5,
            found: place,
        };
        let part = match (u8::try_from(number), task) {
            (Ok(0), 0) => None,
            (Ok(0), _) | (_, 0) | (Err(_), _) => return Err(field),
            (Ok(number), task) => Some(Part {
                task,
                number,
                crop: PartCrop::decode(captured),
            }),
        };
        let [verdict, reason, ..] = outcome.to_le_bytes();
        let verdict =
            Verdict::from_codes(verdict, reason).ok_or(RecordError::Verdict { verdict, reason })?;
        let more = u64::from(MORE_FOLLOWS) << FLAGS_AT;
        let is_final = outcome & more == 0;
        let answer = match (outcome & !more) >> 16 {
            0 if outputs == 0 => None,
            _ => Some(Answer::decode(outcome & !more, outputs)?),
        };
        // A frame's own record before its verdict is an answer; a part's is its verdict.
        if !is_final && answer.is_none() && part.is_none() {
            let found = outcome;
            return Err(RecordError::Field { word: 4, found });
        }
        if is_final && part.is_some() || left_out > 0 && !is_final {
            return Err(field);
        }
        Ok(Self {
            sequence,
            slot,
            verdict,
            answer,
            part,
            left_out,
            captured_ns: if part.is_some() { 0 } else { captured },
            deadline_ns,
            finished_ns,
            sent_ns,
            is_final,
        })
    }
}

impl Answer {
    /// The upper six bytes of the record's word 4.
    fn encode(self) -> u64 {
        let flags = [
            (true, ANSWERED),
            (self.class.is_some(), HAS_CLASS),
            (self.confidence.is_some(), HAS_CONFIDENCE),
            (self.outputs.is_some(), HAS_OUTPUTS),
            (self.not_finite, NOT_FINITE),
        ];
        let flags = flags.iter().filter(|(set, _)| *set);
        let flags = flags.fold(0, |all, (_, flag)| all | flag);
        u64::from(self.exit) << 16
            | u64::from(flags) << FLAGS_AT
            | u64::from(self.class.unwrap_or(0)) << 32
            | u64::from(self.confidence.unwrap_or(0)) << 48
    }

    fn decode(outcome: u64, outputs: u64) -> Result<Self, RecordError> {
        let [_, _, exit, flags, c0, c1, s0, s1] = outcome.to_le_bytes();
        let has = |flag| flags & flag != 0;
        let handed = HandedOver {
            area: (outputs >> 32) as u16,
            generation: outputs as u32,
        };
        let class = u16::from_le_bytes([c0, c1]);
        let confidence = u16::from_le_bytes([s0, s1]);
        let answer = Self {
            exit,
            class: has(HAS_CLASS).then_some(class),
            confidence: has(HAS_CONFIDENCE).then_some(confidence),
            outputs: has(HAS_OUTPUTS).then_some(handed),
            not_finite: has(NOT_FINITE),
        };
        // Whatever has no flag is 0, so that each answer has one form.
        if answer.encode() != outcome & !0xFFFF {
            let found = outcome;
            return Err(RecordError::Field { word: 4, found });
        }
        let expected = match answer.outputs {
            Some(_) => u64::from(handed.area) << 32 | u64::from(handed.generation),
            None => 0,
        };
        if outputs != expected {
            let found = outputs;
            return Err(RecordError::Field { word: 6, found });
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_record() -> impl Strategy<Value = ResultRecord> {
        let codes: Vec<Verdict> = (0..=255)
            .flat_map(|v| (0..=255).filter_map(move |r| Verdict::from_codes(v, r)))
            .collect();
        let (half, word) = (any::<Option<u16>>(), any::<Option<(u16, u32)>>());
        let answer = proptest::option::of((any::<(u8, bool)>(), half.clone(), half, word));
        let part = proptest::option::of((1_u8.., 1_u16.., any::<[u16; 4]>()));
        (
            any::<([u64; 5], bool)>(),
            any::<(u16, u16)>(),
            proptest::sample::select(codes),
            answer,
            part,
        )
            .prop_map(|(times, (slot, left_out), verdict, answer, part)| {
                let ([sequence, captured_ns, finished_ns, sent_ns, deadline_ns], is_final) = times;
                let is_final = part.is_none() && (is_final || answer.is_none());
                let part = part.map(|(number, task, [x, y, width, height])| Part {
                    task,
                    number,
                    crop: PartCrop {
                        x,
                        y,
                        width,
                        height,
                    },
                });
                ResultRecord {
                    sequence,
                    slot,
                    verdict,
                    answer: answer.map(|((exit, not_finite), class, confidence, outputs)| Answer {
                        exit,
                        class,
                        confidence,
                        outputs: outputs.map(|(area, generation)| HandedOver { area, generation }),
                        not_finite,
                    }),
                    part,
                    left_out: if is_final { left_out } else { 0 },
                    captured_ns: part.map_or(captured_ns, |_| 0),
                    deadline_ns,
                    finished_ns,
                    sent_ns,
                    is_final,
                }
            })
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(record in any_record()) {
            prop_assert_eq!(ResultRecord::decode(&record.encode()), Ok(record));
        }

        #[test]
        fn whatever_is_accepted_encodes_to_itself(
            record in any_record(), word in 0_usize..8, noise in any::<u64>(),
        ) {
            let mut cell = record.encode();
            cell[word] ^= noise;
            if let Ok(read) = ResultRecord::decode(&cell) {
                prop_assert_eq!(read.encode(), cell);
            }
        }
    }

    #[test]
    fn codes_without_a_meaning_are_no_verdicts() {
        let count = (0..=255_u8)
            .flat_map(|v| (0..=255_u8).filter_map(move |r| Verdict::from_codes(v, r)))
            .count();
        assert_eq!(count, 19);
    }
}
