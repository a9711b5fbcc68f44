//! SEEB's Algorithm 1: contiguous ranges of TPCs in proportion to the numbers of images.

use punctual_core::Units;

/// Shares the `free` units out among groups of `images` each, in their order, and calls `give`
/// with each group's position and range. Groups that nothing is left for get none.
pub fn assign(
    images: impl Iterator<Item = u32> + Clone,
    free: Units,
    mut give: impl FnMut(usize, Units),
) {
    let available = u64::from(free.count);
    let total: u64 = images.clone().map(u64::from).sum();
    let mut used = 0;
    for (index, images) in images.enumerate() {
        let share = (u64::from(images) * available)
            .checked_div(total)
            .unwrap_or(0);
        let count = share.max(1).min(available - used);
        if count == 0 {
            break;
        }
        let range = Units {
            first: free.first + used as u16,
            count: count as u16,
        };
        give(index, range);
        used += count;
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn units(first: u16, count: u16) -> Units {
        Units { first, count }
    }

    fn assigned(images: &[u32], free: Units) -> Vec<Units> {
        let mut ranges = Vec::new();
        assign(images.iter().copied(), free, |index, range| {
            assert_eq!(index, ranges.len());
            ranges.push(range);
        });
        ranges
    }

    /// Lines 13-17 of Algorithm 1: a set bit disables a TPC.
    fn mask(range: Units, all: u16) -> u64 {
        (0..all)
            .filter(|unit| !(range.first..range.end()).contains(unit))
            .fold(0, |mask, unit| mask | 1 << unit)
    }

    /// Section 3.3.1: 42 TPCs, 10 and 20 images. The algorithm's masks cover 42 bits; the two that
    /// the paper prints (seven and ten hexadecimal digits) do not fit their own description.
    #[test]
    fn ten_and_twenty_images_get_tpcs_0_to_13_and_14_to_41() {
        let ranges = assigned(&[10, 20], units(0, 42));
        assert_eq!(ranges, [units(0, 14), units(14, 28)]);
        assert_eq!(mask(ranges[0], 42), 0x3ff_ffff_c000);
        assert_eq!(mask(ranges[1], 42), 0x3fff);
    }

    #[test]
    fn a_small_group_gets_one_unit_and_late_groups_what_is_left() {
        let ranges = assigned(&[1, 100, 1], units(3, 10));
        assert_eq!(ranges, [units(3, 1), units(4, 9)]);
    }

    #[test]
    fn one_group_gets_everything() {
        assert_eq!(assigned(&[3], units(7, 5)), [units(7, 5)]);
    }

    proptest! {
        #[test]
        fn ranges_are_disjoint_contiguous_and_inside_what_is_free(
            images in prop::collection::vec(1_u32..1000, 1..12),
            first in 0_u16..40,
            count in 0_u16..42,
        ) {
            let free = units(first, count);
            let ranges = assigned(&images, free);
            let mut next = free.first;
            for range in &ranges {
                prop_assert_eq!(range.first, next);
                prop_assert!(range.count >= 1);
                next = range.end();
            }
            prop_assert!(next <= free.end());
            prop_assert!(ranges.len() == images.len() || next == free.end());
        }
    }
}
