//! What the layout of a driver's objects depends on.

use std::fmt;

/// The processor that the driver was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Architecture {
    /// That of this program; none if no driver exists for it.
    #[must_use]
    pub const fn of_this_program() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        })
    }
}

/// The newest CUDA version that a driver supports: a build of the driver, as far as layouts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion {
    /// e.g. 12.
    pub major: u16,
    /// e.g. 6.
    pub minor: u16,
}

impl CudaVersion {
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// From what `cuDriverGetVersion` says: `1000 * major + 10 * minor`. None of a number that is no version.
    #[must_use]
    pub fn from_driver(number: i32) -> Option<Self> {
        let number = u32::try_from(number)
            .ok()
            .filter(|n| (1000..1_000_000).contains(n))?;
        Some(Self {
            major: u16::try_from(number / 1000).ok()?,
            minor: (number % 1000 / 10) as u16,
        })
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A system on a chip whose driver is a build of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Soc {
    /// Jetson TX2 (compute capability 6.2).
    Tx2,
    /// Jetson Xavier (7.2).
    Xavier,
    /// Jetson Orin (8.7).
    Orin,
    /// Jetson Thor (11.0; 10.1 in the numbering before CUDA 13).
    Thor,
    /// DGX Spark, GB10 (12.1).
    Spark,
}

impl Soc {
    /// The one with a graphics processor of this compute capability. No board with a plug-in card has
    /// the capability of a system on a chip.
    #[must_use]
    pub const fn of_compute_capability(major: u32, minor: u32) -> Option<Self> {
        match (major, minor) {
            (6, 2) => Some(Self::Tx2),
            (7, 2) => Some(Self::Xavier),
            (8, 7) => Some(Self::Orin),
            (11, 0) | (10, 1) => Some(Self::Thor),
            (12, 1) => Some(Self::Spark),
            _ => None,
        }
    }
}

impl fmt::Display for Soc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tx2 => "TX2",
            Self::Xavier => "Xavier",
            Self::Orin => "Orin",
            Self::Thor => "Thor",
            Self::Spark => "Spark",
        })
    }
}

/// What the place of a stream's mask depends on, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverKey {
    /// The processor that the driver was built for.
    pub architecture: Architecture,
    pub version: CudaVersion,
    /// The system on a chip, if it is one.
    pub soc: Option<Soc>,
}

/// A processor that there are no drivers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no CUDA driver for this processor, only for x86_64 and aarch64")]
pub struct NoDrivers;

impl DriverKey {
    /// That of a driver of this version, on this machine, whose device is this system on a chip, if it is one.
    ///
    /// # Errors
    /// If there are no drivers for this program's processor.
    pub fn here(version: CudaVersion, soc: Option<Soc>) -> Result<Self, NoDrivers> {
        Ok(Self {
            architecture: Architecture::of_this_program().ok_or(NoDrivers)?,
            version,
            soc,
        })
    }
}

impl fmt::Display for DriverKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA {} on {}", self.version, self.architecture)?;
        match self.soc {
            Some(soc) => write!(f, " ({soc})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_says_its_version_as_one_number() {
        let version = |number| CudaVersion::from_driver(number).map(|v| v.to_string());
        assert_eq!(version(12060).as_deref(), Some("12.6"));
        assert_eq!(version(13000).as_deref(), Some("13.0"));
        assert_eq!(version(9020).as_deref(), Some("9.2"));
        assert_eq!(version(0), None);
        assert_eq!(version(-12060), None);
        assert_eq!(version(i32::MAX), None);
    }

    #[test]
    fn versions_are_ordered_by_major_then_minor() {
        assert!(CudaVersion::new(9, 2) < CudaVersion::new(10, 0));
        assert!(CudaVersion::new(12, 0) > CudaVersion::new(11, 8));
    }

    #[test]
    fn a_driver_is_named_in_one_line() {
        let key = DriverKey {
            architecture: Architecture::Aarch64,
            version: CudaVersion::new(12, 6),
            soc: Some(Soc::Orin),
        };
        assert_eq!(key.to_string(), "CUDA 12.6 on aarch64 (Orin)");
        let here = DriverKey::here(CudaVersion::new(12, 6), None);
        assert_eq!(
            here.map(|key| key.soc),
            Architecture::of_this_program()
                .map(|_| None)
                .ok_or(NoDrivers)
        );
    }

    #[test]
    fn a_capability_names_a_system_on_a_chip_or_none() {
        assert_eq!(Soc::of_compute_capability(8, 7), Some(Soc::Orin));
        assert_eq!(Soc::of_compute_capability(8, 6), None);
        assert_eq!(Soc::of_compute_capability(9, 0), None);
    }
}
