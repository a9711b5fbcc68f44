//! Why a package cannot be made, read or trusted.

use std::path::PathBuf;

use thiserror::Error;

use super::format::{BYTES_MAX, HEADER_BYTES, SECTIONS_MAX, SectionKind, VERSION};
use super::hash::ContentHash;
use crate::validate::NetworkError;
use crate::{CalibrationError, ProfileError};

/// Why a package cannot be made, read or trusted.
#[derive(Debug, Error)]
pub enum PackageError {
    /// The file cannot be opened, read or written.
    #[error("cannot access the package {path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file is larger than any package.
    #[error("the package has {bytes} bytes; the limit is {BYTES_MAX}")]
    TooLarge { bytes: u64 },
    /// The file ends inside the header.
    #[error("the package ends after {bytes} bytes, inside its header of {HEADER_BYTES}")]
    Truncated { bytes: usize },
    /// Without the bytes that are there: this message is for any file that a program's user names, and the program may be
    /// allowed to read what that user, or the author of the manifest, is not.
    #[error(
        "this is no package: it does not begin with `PUNCTUAL`; make one with `punctual compile`"
    )]
    Magic,
    #[error(
        "the package has format version {found}, this program reads {VERSION}; compile the ONNX file again: `punctual compile NETWORK.onnx`"
    )]
    Version { found: u32 },
    /// The header and the file disagree about the file's size.
    #[error(
        "the package's header promises {promised} bytes and the file has {found}; copy or compile it again"
    )]
    Length { promised: u64, found: u64 },
    /// No sections, or more than a package has.
    #[error("the package has {found} sections; there must be 1 to {SECTIONS_MAX}")]
    SectionCount { found: u32 },
    /// The header or the table of sections is damaged.
    #[error(
        "the package's table of sections hashes to {found}, its header says {expected}; copy or compile it again"
    )]
    Table {
        expected: ContentHash,
        found: ContentHash,
    },
    /// The table has an entry that no compiler writes.
    #[error("section {index} of the package: {problem}; compile the model again")]
    Section {
        index: usize,
        problem: SectionProblem,
    },
    /// A section that every package has is not there.
    #[error("the package has no section `{0}`; compile the model again")]
    Missing(SectionKind),
    /// Bytes that hold nothing and are not zero.
    #[error("byte {at} of the package holds nothing and is not zero; compile the model again")]
    Padding { at: u64 },
    #[error(
        "the package is damaged: section `{section}` hashes to {found}, the table says {expected}; copy or compile it again"
    )]
    Damaged {
        section: SectionKind,
        expected: ContentHash,
        found: ContentHash,
    },
    /// The description is not the encoding of one.
    #[error("the package's description cannot be decoded: {0}; compile the model again")]
    Description(postcard::Error),
    /// The description decodes, and this many bytes remain.
    #[error("{0} bytes follow the package's description; compile the model again")]
    Trailing(usize),
    /// The description decodes, and is not what encoding it gives.
    #[error("the package's description is not encoded as this program does; compile it again")]
    NotCanonical,
    /// The largest batch is none that a device runs.
    #[error("the package is for batches of up to {found}; the limit is 1 to {limit}")]
    BatchMax { found: u8, limit: usize },
    /// The network breaks a rule that devices rely on.
    #[error("the network is invalid: {0}")]
    Network(#[from] NetworkError),
    /// The calibration does not fit the network.
    #[error("the calibration does not fit the network: {0}")]
    Calibration(#[from] CalibrationError),
    /// What the package says that its stages compute is not what they compute.
    #[error("the package's prefix hashes are not those of its stages; compile the model again")]
    Prefixes,
    /// A layout, or the image that follows it, does not fit the network.
    #[error("weights for {lanes} lanes: {problem}; compile the model again")]
    Image { lanes: u8, problem: ImageProblem },
    #[error(
        "the package's section `origin` is none that a compiler writes; compile the model again"
    )]
    Origin,
    #[error(transparent)]
    Profiles(#[from] ProfileError),
    #[error("the profile is of package {found}, this package is {expected}; measure this one")]
    ProfileOfAnother { found: String, expected: String },
}

/// What is wrong with an entry of the table of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SectionProblem {
    /// A kind that this version does not know, or lanes that no processor has.
    #[error("kind {kind} with parameter {parameter} is not known")]
    Unknown { kind: u32, parameter: u32 },
    /// Sections are sorted, each kind at most once.
    #[error("`{0}` is out of order: sections are sorted, and none is repeated")]
    Order(SectionKind),
    /// Sections follow each other at the next boundary.
    #[error("it begins at byte {found} instead of {expected}")]
    Offset {
        found: u64,
        /// Where the section before it lets it begin.
        expected: u64,
    },
    /// Empty, too large, not whole floats, or past the end of the file.
    #[error("{found} bytes; a section `{section}` must have {expected}")]
    Length {
        section: SectionKind,
        found: u64,
        expected: &'static str,
    },
}

/// Why a weight image, or the layout that it follows, cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum ImageProblem {
    /// Layouts are for 4, 8 and 16 lanes, sorted, each once.
    #[error("layouts must be for 4, 8 or 16 lanes, in this order, each at most once")]
    Lanes,
    /// Another number of stages, or of operators in a stage, than the network has.
    #[error("its layout has {found} {what}, the network {expected}")]
    Count {
        what: &'static str,
        found: usize,
        expected: usize,
    },
    /// Room for an operator's weights that they cannot be packed into.
    #[error(
        "operator {operator} of stage {stage} takes {found} floats, which do not fit its {weights} weights"
    )]
    Operator {
        stage: usize,
        operator: usize,
        found: u32,
        /// Weights and biases of the operator.
        weights: u64,
    },
    /// More floats than a network may have.
    #[error("{what} of {found} floats; the limit is {limit}")]
    TooLarge {
        what: &'static str,
        found: u64,
        limit: u64,
    },
    /// An image without a layout, or the other way round.
    #[error("the image has no layout or no page hashes")]
    NoLayout,
    /// The image has another size than its layout says.
    #[error("the image has {found} {what}, its layout {expected}")]
    Size {
        what: &'static str,
        found: u64,
        expected: u64,
    },
    #[error("there is no page {page}: it has {pages}")]
    NoPage { page: usize, pages: usize },
    #[error("page {page} hashes to {found}, the description says {expected}")]
    Page {
        page: usize,
        expected: ContentHash,
        found: ContentHash,
    },
}
