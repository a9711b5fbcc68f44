//! How often launches look whether they are preempted, chosen by measuring.
//!
//! A look is a read of far memory, in the middle of a main loop. On an integrated GPU that memory is not cached, and how
//! much of the read is hidden depends on the kernel. So the time of the longest stage decides.
//!
//! Any choice keeps the plan's bound on preemption, which is the longest stage, measured with the same choice: a stage
//! looks at the start of each block in any case.

use std::num::NonZeroU8;

use punctual_device::Provider;
use punctual_device::profile::{self, Effort, MeasureError, Progress, Request, Subject};
use punctual_model::{Package, Profile};

/// Main-loop tiles between two looks that are tried, rising. A tile takes about half a microsecond, so the last one
/// delays an eviction by about ten.
pub const STRIDES: [NonZeroU8; 5] = [stride(1), stride(2), stride(4), stride(8), stride(16)];

const fn stride(tiles: u8) -> NonZeroU8 {
    NonZeroU8::new(tiles).expect("not zero")
}

/// What looking may add to a stage: 3%.
const ADDED_PERMILLE_MAX: u64 = 30;

/// The smallest stride whose looks cost the longest stage of a package little, on the largest of the requested partitions
/// at batch 1. Takes five short measurements, each by the provider that `with` gives for a stride.
///
/// # Errors
/// [`MeasureError`].
pub fn choose<P: Provider>(
    with: impl Fn(NonZeroU8) -> P,
    package: &Package,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<NonZeroU8, MeasureError<P::Error>> {
    let request = Request {
        batches: vec![1],
        units: request.units.iter().copied().max().into_iter().collect(),
        beside: Vec::new(),
        frames: Vec::new(),
        frames_on_device: Vec::new(),
        effort: Effort::Quick,
        ..request.clone()
    };
    let subject = Subject {
        package,
        solutions: &[],
    };
    let mut profiles = Vec::with_capacity(STRIDES.len());
    for stride in STRIDES {
        let provider = with(stride);
        let measured = profile::measure(&provider, subject, None, &request, progress);
        profiles.push(measured?);
    }
    Ok(smallest_that_costs_little(&longest_ns(&profiles)))
}

/// The median of the stage that is the longest in the last profile, in each.
fn longest_ns(profiles: &[Profile]) -> Vec<u64> {
    let stages = profiles.last().map_or(&[][..], |last| &last.stages);
    let longest = stages.iter().max_by_key(|stage| stage.p50_ns);
    let stage = longest.map_or(0, |longest| longest.stage);
    let time = |profile: &Profile| {
        let found = profile.stages.iter().find(|other| other.stage == stage);
        found.map_or(u64::MAX, |found| found.p50_ns)
    };
    profiles.iter().map(time).collect()
}

/// Of [`STRIDES`], whose times these are: the first that takes at most 3% more than the last.
fn smallest_that_costs_little(times_ns: &[u64]) -> NonZeroU8 {
    let last = times_ns.last().copied().unwrap_or(0);
    let most = last.saturating_add(last / 1000 * ADDED_PERMILLE_MAX);
    let mut pairs = STRIDES.iter().zip(times_ns);
    let found = pairs.find(|(_, time_ns)| **time_ns <= most);
    found.map_or(STRIDES[STRIDES.len() - 1], |(stride, _)| *stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_stride_within_three_percent_of_the_largest_is_chosen() {
        let chosen = |times_ns: [u64; 5]| smallest_that_costs_little(&times_ns).get();
        assert_eq!(
            chosen([1_280_000, 1_140_000, 1_070_000, 1_030_000, 1_000_000]),
            8
        );
        assert_eq!(
            chosen([1_280_000, 1_140_000, 1_070_000, 1_031_000, 1_000_000]),
            16
        );
        assert_eq!(chosen([1_000_000; 5]), 1);
        // Chance: the largest is the slowest.
        assert_eq!(chosen([900_000, 900_000, 900_000, 900_000, 1_000_000]), 1);
    }
}
