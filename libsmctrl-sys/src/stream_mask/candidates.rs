//! Where the mask of a stream may be, in a driver that has not been examined.

use crate::key::CudaVersion;

use super::layout::{Layout, Place};
use super::table::ROWS;

/// All known masks from CUDA 10 on lie at multiples of eight and four more.
const STEP: usize = 8;
const PHASE: usize = 4;
/// How far beyond the known places one is looked for. From one version to the next, masks have moved by up to 0xb8.
const BEYOND: usize = 0x100;

/// The places to try in a driver of this version, the likeliest first: those nearest to a place where a version with
/// the same layout has its mask.
#[must_use]
pub fn candidates(version: CudaVersion) -> Vec<Place> {
    let layout = Layout::of(version);
    let known = || {
        let rows = ROWS.iter().map(|row| row.place());
        rows.filter(move |place| place.layout == layout)
            .map(|place| place.offset)
    };
    let first = known().min().unwrap_or(0).saturating_sub(BEYOND);
    let last = known().max().unwrap_or(0) + BEYOND;
    let first = first.next_multiple_of(STEP) + PHASE;
    let mut offsets: Vec<usize> = (first..=last).step_by(STEP).collect();
    let distance = |offset: usize| known().map(|known| known.abs_diff(offset)).min();
    offsets.sort_by_key(|offset| distance(*offset));
    let place = |offset| Place { offset, layout };
    offsets.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_place_from_cuda_10_on_comes_first_and_no_place_twice() {
        for version in [CudaVersion::new(11, 4), CudaVersion::new(13, 2)] {
            let candidates = candidates(version);
            let known = ROWS.iter().filter(|row| {
                row.place().layout == Layout::of(version) && row.from >= CudaVersion::new(10, 0)
            });
            let mut known: Vec<usize> = known.map(|row| row.offset).collect();
            known.sort_unstable();
            known.dedup();
            let mut first: Vec<usize> =
                candidates[..known.len()].iter().map(|p| p.offset).collect();
            first.sort_unstable();
            assert_eq!(first, known);
            let mut all: Vec<usize> = candidates.iter().map(|place| place.offset).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), candidates.len());
        }
    }

    #[test]
    fn what_a_version_to_come_may_have_is_among_them() {
        let candidates = candidates(CudaVersion::new(13, 2));
        for offset in [0x3a4, 0x5a4, 0x6fc] {
            assert!(
                candidates.iter().any(|place| place.offset == offset),
                "{offset:#x}"
            );
        }
        assert!(candidates.len() <= 128, "{}", candidates.len());
    }
}
