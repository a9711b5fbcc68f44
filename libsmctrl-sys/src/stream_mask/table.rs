//! Where drivers keep the mask of a stream.

use std::fmt;
use std::ops::RangeInclusive;

use crate::key::{Architecture, CudaVersion, DriverKey, Soc};

use super::layout::{Layout, Place};

/// An offset, and what it holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The processor that the driver was built for.
    pub architecture: Architecture,
    /// The oldest version.
    pub from: CudaVersion,
    /// The newest version.
    pub to: CudaVersion,
    /// The only systems on a chip that it holds for; none: it holds for any machine.
    pub soc: Option<Soc>,
    /// Bytes from the start of the stream's object to the mask.
    pub offset: usize,
    /// Who says so.
    pub standing: Standing,
    /// The source, and where its author says to have tried the row.
    pub source: &'static str,
}

/// Who says that a row is right. Calibration asks the machine anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Several public copies of libsmctrl have it, with the same offset.
    SeveralCopies,
    /// One copy, fork or note has it, and no other one: no trial by anyone else is known.
    OneCopy,
    /// We saw launches obey it on hardware.
    Measured,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SeveralCopies => "several public copies of libsmctrl agree",
            Self::OneCopy => "one public source only",
            Self::Measured => "measured by this project",
        })
    }
}

impl Row {
    /// Where it says that the mask is.
    #[must_use]
    pub fn place(&self) -> Place {
        Place {
            offset: self.offset,
            layout: Layout::of(self.from),
        }
    }

    #[must_use]
    pub fn is_about(&self, key: DriverKey) -> bool {
        self.architecture == key.architecture
            && (self.from..=self.to).contains(&key.version)
            && (self.soc.is_none() || self.soc == key.soc)
    }
}

/// No row is about this driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no public source says where a driver for {key} keeps a stream's mask: this mechanism is left out, and the next \
     one is tried; masks of launches need no such position"
)]
pub struct UnknownDriver {
    pub key: DriverKey,
}

/// The row about a driver. Versions between two rows are unknown ones: objects grow and shrink from
/// one version to the next.
///
/// # Errors
/// If there is none.
pub fn find(key: DriverKey) -> Result<&'static Row, UnknownDriver> {
    ROWS.iter()
        .find(|row| row.is_about(key))
        .ok_or(UnknownDriver { key })
}

/// Bakita's own table, in all copies that were read in 2026; some of its rows name the drivers that he tried.
const COPIES: &str = "libsmctrl (Bakita), read 2026";

const fn x86_64(major: u16, minors: RangeInclusive<u16>, offset: usize) -> Row {
    Row {
        architecture: Architecture::X86_64,
        from: CudaVersion::new(major, *minors.start()),
        to: CudaVersion::new(major, *minors.end()),
        soc: None,
        offset,
        standing: Standing::SeveralCopies,
        source: COPIES,
    }
}

const fn aarch64(major: u16, minor: u16, offset: usize, source: &'static str) -> Row {
    Row {
        architecture: Architecture::Aarch64,
        source,
        ..x86_64(major, minor..=minor, offset)
    }
}

/// A row that one source has, by the trial that it reports.
const fn once(row: Row, source: &'static str) -> Row {
    Row {
        standing: Standing::OneCopy,
        source,
        ..row
    }
}

/// A version whose place differs from one system on a chip to the other.
const fn of(soc: Soc, row: Row) -> Row {
    Row {
        soc: Some(soc),
        ..row
    }
}

/// All that is known. No two rows are about the same driver. No public source was found for 12.9, 13.1 and 13.2, nor
/// for any 13 on Orin.
pub const ROWS: &[Row] = &[
    x86_64(9, 0..=1, 0x130),
    x86_64(9, 2..=2, 0x140),
    x86_64(10, 0..=2, 0x244),
    x86_64(11, 0..=0, 0x274),
    x86_64(11, 1..=1, 0x2c4),
    x86_64(11, 2..=5, 0x37c),
    x86_64(11, 6..=6, 0x38c),
    x86_64(11, 7..=7, 0x3c4),
    x86_64(11, 8..=8, 0x47c),
    x86_64(12, 0..=1, 0x4cc),
    x86_64(12, 2..=2, 0x4e4),
    x86_64(12, 3..=3, 0x49c),
    x86_64(12, 4..=4, 0x4ac),
    x86_64(12, 5..=6, 0x4ec),
    x86_64(12, 7..=8, 0x4fc),
    Row {
        standing: Standing::Measured,
        source: "docs/results/hopper.md: driver 580.159.04, H200; fork charsyam/libsmctrl: driver 580.65.06, RTX 4070 Laptop",
        ..x86_64(13, 0..=0, 0x51c)
    },
    once(
        x86_64(13, 3..=3, 0x5fc),
        "fork AureliusJustin/libsmctrl, read 2026: driver 610.43.02",
    ),
    aarch64(9, 0, 0x128, "libsmctrl (Bakita), read 2026: TX2"),
    aarch64(
        10,
        2,
        0x24c,
        "libsmctrl (Bakita), read 2026: Xavier and TX2",
    ),
    aarch64(
        11,
        4,
        0x394,
        "libsmctrl (Bakita), read 2026: Orin with JetPack 5",
    ),
    aarch64(
        12,
        2,
        0x50c,
        "libsmctrl (Bakita), read 2026: Orin with JetPack 6",
    ),
    aarch64(
        12,
        4,
        0x4c4,
        "libsmctrl (Bakita), read 2026: Orin with JetPack 6 and cuda-compat",
    ),
    aarch64(
        12,
        5,
        0x50c,
        "libsmctrl (Bakita), read 2026: Orin with JetPack 6 and cuda-compat",
    ),
    aarch64(
        12,
        6,
        0x514,
        "libsmctrl (Bakita), read 2026: Orin with JetPack 6 and cuda-compat",
    ),
    once(
        of(Soc::Spark, aarch64(13, 0, 0x53c, COPIES)),
        "fork charsyam/libsmctrl, read 2026: driver 580.95.05, DGX Spark",
    ),
    once(
        of(Soc::Thor, aarch64(13, 0, 0x54c, COPIES)),
        "notes with an excerpt of libsmctrl, read 2026: Jetson Thor",
    ),
];
