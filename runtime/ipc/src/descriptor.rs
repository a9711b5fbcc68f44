//! What a client says about a frame: 64 bytes in the submission ring.

use crate::frame::{FrameSpec, PixelFormat};
use crate::ring::Cell;

/// A submission, copied out of shared memory and validated.
///
/// Layout, in 64-bit words: sequence; captured; deadline; slot ‖ stream; format ‖ generation;
/// crop y ‖ crop x (high half first); egress; task, of which only the low 16 bits may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The client's count of submissions, from 1, without gaps.
    pub sequence: u64,
    /// When the frame was captured, as the client claims: monotonic ns. May lie in the future;
    /// what to do then is the port's decision.
    pub captured_ns: u64,
    /// The absolute deadline in monotonic ns; none: capture + the task's own.
    pub deadline_ns: Option<u64>,
    /// The slot that holds the payload.
    pub slot: u16,
    /// The top left corner of the crop, inside the frame.
    pub crop: Crop,
    /// The longest time that a record took from its sending until the client, which waited, had read it: of those read
    /// since the submission before. 0: it waited for none.
    pub egress_ns: u64,
    /// Which task of the stream's it is for, the first being 1; 0: the one that the client asked for.
    pub task: u16,
}

/// The top left corner of a frame's crop, whose size the stream's terms fix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crop {
    /// Columns to its left.
    pub x: u32,
    /// Rows above it.
    pub y: u32,
}

impl Crop {
    /// The furthest that a crop of this width and height can lie. A tensor is taken whole: the crop in its terms is the
    /// size of a channel.
    pub(crate) const fn furthest(frame: &FrameSpec, width: u32, height: u32) -> Self {
        match frame.format {
            PixelFormat::Tensor => Self { x: 0, y: 0 },
            _ => Self {
                x: frame.width.saturating_sub(width),
                y: frame.height.saturating_sub(height),
            },
        }
    }
}

/// What is wrong with a descriptor, looking at nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// Not the next submission: replayed, reordered or lost.
    #[error("sequence {found}, expected {expected}")]
    Sequence { found: u64, expected: u64 },
    /// Another stream's.
    #[error("stream {found}, this channel's is {expected}")]
    Stream { found: u32, expected: u32 },
    #[error("format {found}, registered is {expected}")]
    Format { found: u32, expected: u32 },
    #[error("slot {found}, there are {slots}")]
    Slot { found: u32, slots: u16 },
    /// The crop reaches beyond the frame.
    #[error("crop at ({x}, {y}), at most ({x_max}, {y_max})")]
    Crop {
        x: u32,
        y: u32,
        x_max: u32,
        y_max: u32,
    },
    #[error("task {found}, the stream has {tasks}")]
    Task { found: u64, tasks: u16 },
}

/// The number of a client's first submission.
pub(crate) const FIRST_SEQUENCE: u64 = 1;

/// What a descriptor is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) sequence: u64,
    pub(crate) stream: u32,
    pub(crate) format: u32,
    pub(crate) slots: u16,
    /// The furthest corner: frame less crop.
    pub(crate) crop_max: Crop,
    /// How many tasks a submission can name.
    pub(crate) tasks: u16,
}

impl Expected {
    /// For the first submission of a stream for one task.
    pub(crate) fn first(stream: u32, slots: u16, format: PixelFormat, crop_max: Crop) -> Self {
        Self {
            sequence: FIRST_SEQUENCE,
            stream,
            format: format.code(),
            slots,
            crop_max,
            tasks: 0,
        }
    }
}

impl Descriptor {
    /// As it goes into the ring.
    pub(crate) fn encode(&self, generation: u32, stream: u32, format: u32) -> Cell {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        [
            self.sequence,
            self.captured_ns,
            self.deadline_ns.unwrap_or(0),
            pair(u32::from(self.slot), stream),
            pair(format, generation),
            pair(self.crop.y, self.crop.x),
            self.egress_ns,
            self.task.into(),
        ]
    }

    /// From a private copy of the ring's cell; with it the generation that the client claims for the slot.
    pub(crate) fn decode(cell: &Cell, expected: &Expected) -> Result<(Self, u32), DescriptorError> {
        let &[
            sequence,
            captured_ns,
            deadline_ns,
            slot_stream,
            format_generation,
            crop,
            egress_ns,
            task,
        ] = cell;
        let halves = |word: u64| ((word >> 32) as u32, word as u32);
        let (slot, stream) = halves(slot_stream);
        let (format, generation) = halves(format_generation);
        let (y, x) = halves(crop);
        if sequence != expected.sequence {
            return Err(DescriptorError::Sequence {
                found: sequence,
                expected: expected.sequence,
            });
        }
        if stream != expected.stream {
            return Err(DescriptorError::Stream {
                found: stream,
                expected: expected.stream,
            });
        }
        if format != expected.format {
            return Err(DescriptorError::Format {
                found: format,
                expected: expected.format,
            });
        }
        let Some(slot) = u16::try_from(slot).ok().filter(|&s| s < expected.slots) else {
            return Err(DescriptorError::Slot {
                found: slot,
                slots: expected.slots,
            });
        };
        let Crop { x: x_max, y: y_max } = expected.crop_max;
        if x > x_max || y > y_max {
            return Err(DescriptorError::Crop { x, y, x_max, y_max });
        }
        let tasks = expected.tasks;
        let Some(task) = u16::try_from(task).ok().filter(|&t| t <= tasks) else {
            return Err(DescriptorError::Task { found: task, tasks });
        };
        let descriptor = Self {
            sequence,
            captured_ns,
            deadline_ns: (deadline_ns != 0).then_some(deadline_ns),
            slot,
            crop: Crop { x, y },
            egress_ns,
            task,
        };
        Ok((descriptor, generation))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expected() -> Expected {
        let frame = FrameSpec::packed(PixelFormat::Rgb8, 640, 480);
        let first = Expected::first(3, 4, frame.format, Crop::furthest(&frame, 192, 192));
        Expected { tasks: 2, ..first }
    }

    fn valid() -> Descriptor {
        Descriptor {
            sequence: 1,
            captured_ns: 5,
            deadline_ns: Some(9),
            slot: 3,
            crop: Crop { x: 448, y: 288 },
            egress_ns: 7,
            task: 2,
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let cell = valid().encode(77, 3, 1);
        assert_eq!(Descriptor::decode(&cell, &expected()), Ok((valid(), 77)));
        let without = Descriptor {
            deadline_ns: None,
            ..valid()
        };
        let cell = without.encode(77, 3, 1);
        assert_eq!(Descriptor::decode(&cell, &expected()), Ok((without, 77)));
    }

    #[test]
    fn each_field_out_of_range_has_its_own_error() {
        let decode = |d: Descriptor, stream, format| {
            Descriptor::decode(&d.encode(0, stream, format), &expected()).unwrap_err()
        };
        let wrong = Descriptor {
            sequence: 2,
            ..valid()
        };
        assert!(matches!(
            decode(wrong, 3, 1),
            DescriptorError::Sequence {
                found: 2,
                expected: 1
            }
        ));
        assert!(matches!(
            decode(valid(), 4, 1),
            DescriptorError::Stream { found: 4, .. }
        ));
        assert!(matches!(
            decode(valid(), 3, 2),
            DescriptorError::Format { found: 2, .. }
        ));
        let wrong = Descriptor { slot: 4, ..valid() };
        assert!(matches!(
            decode(wrong, 3, 1),
            DescriptorError::Slot { found: 4, slots: 4 }
        ));
        let wrong = Descriptor {
            crop: Crop { x: 449, y: 0 },
            ..valid()
        };
        assert!(matches!(
            decode(wrong, 3, 1),
            DescriptorError::Crop {
                x: 449,
                x_max: 448,
                ..
            }
        ));
        for found in [3, 1 << 16 | 1, 1 << 63] {
            let mut cell = valid().encode(0, 3, 1);
            cell[7] = found;
            assert_eq!(
                Descriptor::decode(&cell, &expected()),
                Err(DescriptorError::Task { found, tasks: 2 })
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_in_range_and_encodes_to_itself(
            mut cell in proptest::array::uniform8(any::<u64>()),
            keep in any::<u8>(),
        ) {
            // Random words alone would all fail at the sequence: start from a valid cell.
            let good = valid().encode(9, 3, 1);
            for (word, good) in cell.iter_mut().zip(good).enumerate()
                .filter_map(|(i, pair)| (keep >> i & 1 == 1).then_some(pair)) {
                *word = good;
            }
            if let Ok((d, generation)) = Descriptor::decode(&cell, &expected()) {
                prop_assert!(d.slot < 4 && d.crop.x <= 448 && d.crop.y <= 288 && d.sequence == 1 && d.task <= 2);
                prop_assert_eq!(d.encode(generation, 3, 1), cell);
            }
        }
    }
}
