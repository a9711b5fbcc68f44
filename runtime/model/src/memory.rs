//! Static memory planning: buffers with lifetimes get offsets in one workspace.
//!
//! A pure function of its input. The device supplies the sizes, since only it knows its layout (channel
//! blocks, halos, batch); [`Stage::lifetimes`](crate::Stage::lifetimes) supplies the lifetimes.

/// A buffer that is in use from operator `first` to operator `last`, both included.
///
/// An operator's inputs live up to and including it and its output from it on, so an output can
/// never share memory with an input of its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub first: u32,
    /// The last one that reads it; at least `first`.
    pub last: u32,
    /// Bytes; zero is allowed and takes no room.
    pub size: usize,
}

impl Lifetime {
    /// Whether both are in use during some operator.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// One offset a buffer, in bytes, each a multiple of the alignment.
    pub offsets: Vec<usize>,
    /// Bytes of the workspace: the end of the furthest buffer, rounded up to the alignment.
    pub total: usize,
}

/// Plans one workspace for `buffers`: largest first, each into the smallest gap between the
/// already placed buffers that live at the same time (greedy by size with best fit, the strategy
/// that Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020,
/// found within a few percent of the lower bound). Quadratic in the number of buffers.
///
/// # Panics
/// On a programmer's error: `alignment` is not a power of two, a lifetime ends before it begins,
/// or the sizes do not fit the address space.
#[must_use]
pub fn plan(buffers: &[Lifetime], alignment: usize) -> MemoryPlan {
    assert!(
        alignment.is_power_of_two(),
        "alignment {alignment} is not a power of two"
    );
    for (index, buffer) in buffers.iter().enumerate() {
        assert!(
            buffer.first <= buffer.last,
            "buffer {index} ends before it begins: {buffer:?}"
        );
    }
    // Ties are broken by position, so the same input gives the same plan.
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&index| (core::cmp::Reverse(buffers[index].size), index));

    let mut offsets = vec![0; buffers.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(buffers.len());
    for index in order {
        // Ascending by offset: the gaps are between one's end and the next one's offset.
        let alive = placed
            .iter()
            .filter(|&&other| buffers[other].overlaps(&buffers[index]));
        let alive = alive.map(|&other| (offsets[other], offsets[other] + buffers[other].size));
        offsets[index] = best_gap(alive, buffers[index].size, alignment);
        let at = placed.partition_point(|&other| offsets[other] <= offsets[index]);
        placed.insert(at, index);
    }
    let end = (0..buffers.len())
        .map(|index| offsets[index] + buffers[index].size)
        .max();
    let plan = MemoryPlan {
        offsets,
        total: round_up(end.unwrap_or(0), alignment),
    };
    assert_eq!(
        plan.first_collision(buffers),
        None,
        "the planner placed two live buffers together"
    );
    plan
}

/// The start of the smallest gap between `occupied` (ascending by start) that takes `size`, or
/// the end of the last of them.
fn best_gap(
    occupied: impl Iterator<Item = (usize, usize)>,
    size: usize,
    alignment: usize,
) -> usize {
    let mut best: Option<(usize, usize)> = None;
    let mut free = 0;
    for (start, end) in occupied {
        if start >= free && start - free >= size && best.is_none_or(|(gap, _)| start - free < gap) {
            best = Some((start - free, free));
        }
        free = free.max(round_up(end, alignment));
    }
    best.map_or(free, |(_, offset)| offset)
}

fn round_up(bytes: usize, alignment: usize) -> usize {
    bytes
        .checked_next_multiple_of(alignment)
        .expect("a workspace fits the address space")
}

impl MemoryPlan {
    /// Two buffers that are in use at the same time and share a byte, if any: a plan's audit by comparing all pairs.
    #[must_use]
    pub fn first_collision(&self, buffers: &[Lifetime]) -> Option<(usize, usize)> {
        let shares = |a: usize, b: usize| {
            self.offsets[a] < self.offsets[b] + buffers[b].size
                && self.offsets[b] < self.offsets[a] + buffers[a].size
        };
        let pairs = (0..buffers.len()).flat_map(|a| (0..a).map(move |b| (b, a)));
        pairs
            .filter(|&(a, b)| buffers[a].size > 0 && buffers[b].size > 0)
            .find(|&(a, b)| buffers[a].overlaps(&buffers[b]) && shares(a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buffer(first: u32, last: u32, size: usize) -> Lifetime {
        Lifetime { first, last, size }
    }

    /// The least that any plan can need: the largest sum of sizes in use during one operator.
    fn lower_bound(buffers: &[Lifetime]) -> usize {
        let used = |at: u32| {
            let alive = buffers
                .iter()
                .filter(move |buffer| buffer.first <= at && at <= buffer.last);
            alive.map(|buffer| buffer.size).sum()
        };
        buffers
            .iter()
            .map(|buffer| used(buffer.first))
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn a_chain_needs_two_buffers_alternately() {
        let chain: Vec<_> = (0..10).map(|at| buffer(at, at + 1, 64)).collect();
        let plan = plan(&chain, 64);
        assert_eq!(plan.total, 128);
        assert!(plan.offsets.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_skip_connection_stays_while_others_come_and_go() {
        let buffers = [
            buffer(0, 3, 100),
            buffer(1, 2, 100),
            buffer(2, 3, 100),
            buffer(3, 4, 100),
        ];
        assert_eq!(plan(&buffers, 1).total, lower_bound(&buffers));
    }

    #[test]
    fn the_smallest_gap_that_fits_is_taken() {
        let occupied = [(0, 10), (20, 30), (34, 40)];
        assert_eq!(best_gap(occupied.into_iter(), 4, 1), 30);
        assert_eq!(best_gap(occupied.into_iter(), 8, 1), 10);
        assert_eq!(best_gap(occupied.into_iter(), 11, 1), 40);
    }

    #[test]
    fn no_buffers_need_no_memory() {
        assert_eq!(
            plan(&[], 64),
            MemoryPlan {
                offsets: vec![],
                total: 0
            }
        );
    }

    #[test]
    fn the_audit_finds_a_planted_collision() {
        let buffers = [buffer(0, 1, 8), buffer(1, 2, 8)];
        let bad = MemoryPlan {
            offsets: vec![0, 7],
            total: 16,
        };
        assert_eq!(bad.first_collision(&buffers), Some((0, 1)));
    }

    #[test]
    #[should_panic(expected = "ends before it begins")]
    fn a_lifetime_that_ends_before_it_begins_is_a_programmers_error() {
        let _ = plan(&[buffer(2, 1, 8)], 64);
    }

    proptest! {
        /// Every byte of the workspace, at every operator, belongs to at most one buffer.
        #[test]
        fn no_byte_has_two_owners_at_once(
            raw in prop::collection::vec((0_u32..12, 0_u32..6, 0_usize..40), 0..24),
            shift in 0_u32..5,
        ) {
            let alignment = 1 << shift;
            let buffers: Vec<_> =
                raw.iter().map(|&(first, span, size)| buffer(first, first + span, size)).collect();
            let plan = plan(&buffers, alignment);
            prop_assert_eq!(plan.total % alignment, 0);
            prop_assert!(plan.total >= lower_bound(&buffers));
            for at in 0..18 {
                let mut owners = vec![None; plan.total];
                for (index, buffer) in buffers.iter().enumerate() {
                    prop_assert_eq!(plan.offsets[index] % alignment, 0);
                    if buffer.first <= at && at <= buffer.last {
                        for owner in &mut owners[plan.offsets[index]..][..buffer.size] {
                            prop_assert_eq!(owner.replace(index), None, "operator {}", at);
                        }
                    }
                }
            }
        }
    }
}
