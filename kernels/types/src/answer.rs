//! What an answer is, and the area of memory that its tensors come in.

use serde::{Deserialize, Serialize};

/// Each output begins at a multiple of this many bytes of its area: a cache line.
pub const OUTPUT_ALIGNMENT: u32 = 64;
pub const AREA_BYTES_MAX: u32 = 64 << 20;
/// The most that a client is told of its answers: names of tasks, classes and outputs.
pub const DESCRIPTION_BYTES_MAX: u32 = 4 << 20;
/// An area begins with a head: for each of its halves a u32, how many values of its last answer are not finite.
pub const AREA_HEAD_BYTES: u32 = 64;

/// What an answer is, the same for all exits of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerKind {
    /// One class of several that exclude each other.
    #[default]
    Classes,
    /// Any number of labels that do not exclude each other.
    Labels,
    /// Objects, each with a place and a class.
    Detections,
    /// Something else: a map, a pose, an angle. Without the author's confidence no exit is good enough by itself.
    None,
}

impl AnswerKind {
    pub const ALL: [Self; 4] = [Self::Classes, Self::Labels, Self::Detections, Self::None];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Labels => "labels",
            Self::Detections => "detections",
            Self::None => "none",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether an answer has a class: that with the largest score.
    #[must_use]
    pub const fn has_class(self) -> bool {
        matches!(self, Self::Classes | Self::Labels)
    }
}

impl core::fmt::Display for AnswerKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}
