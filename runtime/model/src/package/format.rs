//! The format: its version, its limits, and the kinds of sections.

use std::fmt;

pub(super) const MAGIC: [u8; 8] = *b"PUNCTUAL";
/// The version of the format that this program writes and reads: docs/package.md.
pub const VERSION: u32 = 4;
/// A larger file is refused: about three times the largest network with all its images.
pub(super) const BYTES_MAX: u64 = 1 << 34;
/// Magic, version, number of sections, size of the file, zeros, hash.
pub(super) const HEADER_BYTES: usize = 64;
/// More than the kinds of sections that there are.
pub(super) const SECTIONS_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectionKind {
    /// The network without its weights, calibration, layouts.
    Description,
    /// The network's weights, f32.
    Weights,
    /// What the ONNX file had in the place of the input, where that differs.
    Origin,
    /// The weights packed for vectors of this many floats, f32.
    Image(u8),
    /// Measurements on machines, JSON. The only section that the package's hash leaves out.
    Profiles,
}

impl SectionKind {
    /// Number and parameter in the table. Sections are sorted by them, those that may be replaced alone last.
    pub(super) fn code(self) -> (u32, u32) {
        match self {
            Self::Description => (1, 0),
            Self::Weights => (2, 0),
            Self::Origin => (3, 0),
            Self::Image(lanes) => (4, lanes.into()),
            Self::Profiles => (15, 0),
        }
    }

    pub(super) fn of_code(kind: u32, parameter: u32) -> Option<Self> {
        match (kind, parameter) {
            (1, 0) => Some(Self::Description),
            (2, 0) => Some(Self::Weights),
            (3, 0) => Some(Self::Origin),
            (4, lanes @ (4 | 8 | 16)) => Some(Self::Image(lanes as u8)),
            (15, 0) => Some(Self::Profiles),
            _ => None,
        }
    }

    pub(super) fn is_floats(self) -> bool {
        matches!(self, Self::Weights | Self::Image(_))
    }
}

impl fmt::Display for SectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Description => f.write_str("description"),
            Self::Weights => f.write_str("weights"),
            Self::Origin => f.write_str("origin"),
            Self::Image(lanes) => write!(f, "image/{lanes}"),
            Self::Profiles => f.write_str("profiles"),
        }
    }
}
