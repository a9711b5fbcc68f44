//! Where drivers keep the mask of a stream.

use crate::key::{Architecture, CudaVersion, DriverKey, Soc};

use super::Layout;

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
    /// The source.
    pub source: &'static str,
    /// Whether the source's own word is in doubt: the row wants checking beyond calibration.
    pub unverified: bool,
}

impl Row {
    /// How the mask lies there.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::of(self.from)
    }

    /// Whether the row is about this driver.
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
    "the position of a stream's mask is not known for a driver for {key}; \
     use a driver in the table of `libsmctrl_sys::stream_mask`, or green contexts"
)]
pub struct UnknownDriver {
    /// What was asked for.
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

/// The public copies of libsmctrl, read in 2026; a copy may lack a row that another has.
const LIBSMCTRL: &str = "libsmctrl (Bakita), public copies, read 2026";

/// Likewise; no source reports a trial on an H100.
const LIBSMCTRL_DOUBTED: &str =
    "libsmctrl (Bakita), public copies, read 2026; not confirmed on H100";

const fn x86_64(from: (u16, u16), to: (u16, u16), offset: usize) -> Row {
    Row {
        architecture: Architecture::X86_64,
        from: CudaVersion::new(from.0, from.1),
        to: CudaVersion::new(to.0, to.1),
        soc: None,
        offset,
        source: LIBSMCTRL,
        unverified: false,
    }
}

const fn aarch64(version: (u16, u16), offset: usize, source: &'static str) -> Row {
    Row {
        architecture: Architecture::Aarch64,
        source,
        ..x86_64(version, version, offset)
    }
}

/// A version whose place differs from one system on a chip to the other.
const fn aarch64_of(soc: Soc, version: (u16, u16), offset: usize) -> Row {
    Row {
        soc: Some(soc),
        ..aarch64(version, offset, LIBSMCTRL)
    }
}

/// All that is known. No two rows are about the same driver.
pub const ROWS: &[Row] = &[
    x86_64((9, 0), (9, 1), 0x130),
    x86_64((9, 2), (9, 2), 0x140),
    x86_64((10, 0), (10, 2), 0x244),
    x86_64((11, 0), (11, 0), 0x274),
    x86_64((11, 1), (11, 1), 0x2c4),
    x86_64((11, 2), (11, 5), 0x37c),
    x86_64((11, 6), (11, 6), 0x38c),
    x86_64((11, 7), (11, 7), 0x3c4),
    x86_64((11, 8), (11, 8), 0x47c),
    x86_64((12, 0), (12, 1), 0x4cc),
    x86_64((12, 2), (12, 2), 0x4e4),
    x86_64((12, 3), (12, 3), 0x49c),
    x86_64((12, 4), (12, 4), 0x4ac),
    x86_64((12, 5), (12, 6), 0x4ec),
    x86_64((12, 7), (12, 8), 0x4fc),
    Row {
        unverified: true,
        source: LIBSMCTRL_DOUBTED,
        ..x86_64((13, 0), (13, 0), 0x51c)
    },
    x86_64((13, 3), (13, 3), 0x5fc),
    aarch64(
        (9, 0),
        0x128,
        "libsmctrl (Bakita), public copies, read 2026: TX2",
    ),
    aarch64(
        (10, 2),
        0x24c,
        "libsmctrl (Bakita), public copies, read 2026: Xavier and TX2",
    ),
    aarch64(
        (11, 4),
        0x394,
        "libsmctrl (Bakita), public copies, read 2026: Orin with JetPack 5",
    ),
    aarch64((12, 2), 0x50c, LIBSMCTRL),
    aarch64((12, 4), 0x4c4, LIBSMCTRL),
    aarch64((12, 5), 0x50c, LIBSMCTRL),
    aarch64(
        (12, 6),
        0x514,
        "libsmctrl (Bakita), public copies, read 2026: Orin with JetPack 6",
    ),
    aarch64_of(Soc::Spark, (13, 0), 0x53c),
    aarch64_of(Soc::Thor, (13, 0), 0x54c),
];
