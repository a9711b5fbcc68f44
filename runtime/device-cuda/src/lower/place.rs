//! Where launches read and write, before anything has an address.

/// Where something lies that a launch reads or writes. Addresses are known only when a stage is
/// launched: the workspace is its partition's, pages move at each load, request slots are the
/// members'. Until then a place stands, encoded, where the address will be.
///
/// Places cannot be compared: one place holds many tensors, one after the other, so it names none of them. A tensor is
/// what an operator makes ([`TensorId`](punctual_model::TensorId)).
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Not there: the address is 0.
    Nothing,
    /// In the partition's workspace.
    Workspace {
        /// Bytes from its start.
        offset: u64,
    },
    /// In the weights of the model.
    Weights {
        /// Which of the model's pages.
        page: u32,
        /// Bytes from the page's start.
        offset: u32,
    },
    /// In a request's slot in device memory: what is carried from stage to stage.
    Request {
        /// The position in the batch of the request whose slot it is.
        member: u8,
        /// Bytes from the slot's start.
        offset: u64,
    },
    /// In a prepared input: `f32`, in the request buffer as the device reads it
    /// ([`Program::input`](super::Program::input) says how it lies).
    Input {
        /// The position in the batch of the request whose input it is.
        member: u8,
        /// Bytes from the start of the request buffer.
        offset: u64,
    },
    /// In the partition's memory for outputs, which the host reads.
    Outputs {
        /// Bytes from the start of that memory.
        offset: u64,
    },
    /// The partition's [`Answer`](punctual_cuda_kernels::params::Answer)s, one an image.
    Answers,
    /// The partition's word that says that a stage is done.
    Done,
}

/// The kind of place is in the highest byte.
const KIND_SHIFT: u32 = 56;
/// Bits of an offset; a member is above them. A page is above 32 bits, those of its own offset.
const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

impl Place {
    /// Most pages of a model that a place can name.
    pub const PAGES_MAX: u32 = 1 << 24;

    #[must_use]
    pub const fn is_nothing(self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// As it stands in the place of an address.
    ///
    /// # Panics
    /// If an offset has more than 48 bits or a page more than 24.
    #[must_use]
    pub fn encode(self) -> u64 {
        let offset_of = |offset: u64| {
            assert!(offset <= OFFSET_MASK, "{offset} bytes from a start");
            offset
        };
        let (kind, rest) = match self {
            Self::Nothing => (0, 0),
            Self::Workspace { offset } => (1, offset_of(offset)),
            Self::Weights { page, offset } => {
                assert!(page < Self::PAGES_MAX, "page {page}");
                (2, u64::from(page) << 32 | u64::from(offset))
            }
            Self::Request { member, offset } => {
                (3, u64::from(member) << OFFSET_BITS | offset_of(offset))
            }
            Self::Input { member, offset } => {
                (4, u64::from(member) << OFFSET_BITS | offset_of(offset))
            }
            Self::Outputs { offset } => (7, offset_of(offset)),
            Self::Answers => (5, 0),
            Self::Done => (6, 0),
        };
        kind << KIND_SHIFT | rest
    }

    /// The place that stands in the place of an address.
    ///
    /// # Panics
    /// If none does.
    #[must_use]
    pub fn decode(encoded: u64) -> Self {
        let rest = encoded & ((1 << KIND_SHIFT) - 1);
        match encoded >> KIND_SHIFT {
            0 if rest == 0 => Self::Nothing,
            1 => Self::Workspace { offset: rest },
            2 => Self::Weights {
                page: (rest >> 32) as u32,
                offset: rest as u32,
            },
            3 => Self::Request {
                member: (rest >> OFFSET_BITS) as u8,
                offset: rest & OFFSET_MASK,
            },
            4 => Self::Input {
                member: (rest >> OFFSET_BITS) as u8,
                offset: rest & OFFSET_MASK,
            },
            5 => Self::Answers,
            6 => Self::Done,
            7 => Self::Outputs { offset: rest },
            _ => panic!("{encoded:#x} is no place"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let places = [
            Place::Nothing,
            Place::Workspace { offset: 0 },
            Place::Workspace {
                offset: OFFSET_MASK,
            },
            Place::Weights {
                page: Place::PAGES_MAX - 1,
                offset: u32::MAX,
            },
            Place::Request {
                member: 31,
                offset: 4096,
            },
            Place::Input {
                member: 7,
                offset: 64,
            },
            Place::Outputs { offset: 4096 },
            Place::Answers,
            Place::Done,
        ];
        for place in places {
            let decoded = Place::decode(place.encode());
            assert_eq!(format!("{decoded:?}"), format!("{place:?}"));
        }
        assert_eq!(Place::Nothing.encode(), 0);
        assert!(Place::decode(0).is_nothing());
    }

    #[test]
    #[should_panic(expected = "is no place")]
    fn an_address_is_not_taken_for_a_place() {
        let _ = Place::decode(0x7f00_0000_0000_1000);
    }
}
