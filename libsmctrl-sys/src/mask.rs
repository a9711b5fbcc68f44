//! A set of TPCs, which the hardware wants as its complement.

use std::fmt;

/// TPCs that a stream may use: those whose number is *enabled*; any other is disabled.
///
/// In the hardware's words a set bit disables a TPC, everywhere else it names one. So each constructor and each
/// getter of this type says which of the two it means.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TpcMask {
    disabled: u128,
}

impl TpcMask {
    /// One more than the largest number of a TPC.
    pub const TPCS_MAX: u32 = u128::BITS;

    /// Every TPC is enabled: what a stream starts with.
    pub const UNRESTRICTED: Self = Self { disabled: 0 };

    /// From a word in which a set bit enables a TPC.
    #[must_use]
    pub const fn from_enabled_bits(enabled: u128) -> Self {
        Self { disabled: !enabled }
    }

    /// From a word in which a set bit disables a TPC, as the hardware has it.
    #[must_use]
    pub const fn from_disabled_bits(disabled: u128) -> Self {
        Self { disabled }
    }

    /// Enables these TPCs and no others. Numbers from [`TPCS_MAX`](Self::TPCS_MAX) on name no TPC and enable none.
    #[must_use]
    pub fn enabling(tpcs: impl IntoIterator<Item = u32>) -> Self {
        let bit = |tpc| 1_u128.checked_shl(tpc).unwrap_or(0);
        Self::from_enabled_bits(tpcs.into_iter().fold(0, |bits, tpc| bits | bit(tpc)))
    }

    /// A set bit enables a TPC.
    #[must_use]
    pub const fn enabled_bits(self) -> u128 {
        !self.disabled
    }

    /// A set bit disables a TPC, as the hardware has it.
    #[must_use]
    pub const fn disabled_bits(self) -> u128 {
        self.disabled
    }

    #[must_use]
    pub const fn enables(self, tpc: u32) -> bool {
        tpc < Self::TPCS_MAX && self.enabled_bits() >> tpc & 1 == 1
    }

    /// The enabled TPCs, rising.
    pub fn enabled(self) -> impl Iterator<Item = u32> {
        (0..Self::TPCS_MAX).filter(move |tpc| self.enables(*tpc))
    }

    /// The same of the first 64 TPCs, as the hardware has it, for what knows no others. None if TPCs
    /// 64 to 127 are not all alike, so that something would be lost.
    #[must_use]
    pub const fn disabled_bits_64(self) -> Option<u64> {
        match (self.disabled >> 64) as u64 {
            0 | u64::MAX => Some(self.disabled as u64),
            _ => None,
        }
    }
}

impl fmt::Debug for TpcMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TpcMask(enabled: {:#x})", self.enabled_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_enabled_is_what_is_not_disabled() {
        let mask = TpcMask::enabling([0, 2, 127]);
        assert_eq!(mask.enabled_bits(), 1 << 127 | 0b101);
        assert_eq!(mask.disabled_bits(), !(1 << 127 | 0b101));
        assert_eq!(mask, TpcMask::from_disabled_bits(mask.disabled_bits()));
        assert_eq!(mask, TpcMask::from_enabled_bits(mask.enabled_bits()));
        assert_eq!(mask.enabled().collect::<Vec<_>>(), [0, 2, 127]);
        assert!(mask.enables(2) && !mask.enables(1) && !mask.enables(128));
    }

    #[test]
    fn numbers_that_name_no_tpc_enable_none() {
        assert_eq!(TpcMask::enabling([128, u32::MAX]).enabled_bits(), 0);
    }

    /// Section 3.3.1 of SEEB-GPU: TPCs 0 to 13 of 42.
    #[test]
    fn a_range_of_tpcs_in_the_words_of_the_hardware() {
        let all_of_42 = (1_u128 << 42) - 1;
        let mask = TpcMask::enabling(0..14);
        assert_eq!(mask.disabled_bits() & all_of_42, 0x3ff_ffff_c000);
    }

    #[test]
    fn half_a_mask_is_given_only_if_nothing_is_lost() {
        assert_eq!(
            TpcMask::enabling([3]).disabled_bits_64(),
            Some(!(1_u64 << 3))
        );
        assert_eq!(TpcMask::UNRESTRICTED.disabled_bits_64(), Some(0));
        assert_eq!(TpcMask::enabling([3, 64]).disabled_bits_64(), None);
    }
}
