//! Spans that overlap, each in a lane in which none does.

/// The lanes of one track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    /// Where the last span of each ends.
    ends: Vec<u64>,
}

/// Only a damaged recording has more at once: a plan has fewer buffers for requests.
const LANES_MAX: usize = 256;

impl Lanes {
    /// The first lane that is free from `from` to `to`; none if there are too many. Spans come by their ends, more or less: a
    /// lane is free behind its last span only.
    pub(crate) fn place(&mut self, from: u64, to: u64) -> Option<usize> {
        let free = self.ends.iter().position(|end| *end <= from);
        let lane = match free {
            Some(lane) => lane,
            None if self.ends.len() < LANES_MAX => {
                self.ends.push(0);
                self.ends.len() - 1
            }
            None => return None,
        };
        self.ends[lane] = to.max(from);
        Some(lane)
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_overlap_are_in_different_lanes_and_others_in_the_first() {
        let mut lanes = Lanes::default();
        let placed = [(0, 10), (10, 20), (15, 25), (20, 30), (12, 40)];
        let placed = placed.map(|(from, to)| lanes.place(from, to));
        assert_eq!(placed, [Some(0), Some(0), Some(1), Some(0), Some(2)]);
        assert_eq!(lanes.count(), 3);
    }

    #[test]
    fn a_span_that_ends_before_it_begins_takes_no_time() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.place(10, 5), Some(0));
        assert_eq!(lanes.place(9, 12), Some(1));
    }

    #[test]
    fn lanes_are_bounded() {
        let mut lanes = Lanes::default();
        let placed = (0..LANES_MAX as u64 + 1).filter_map(|_| lanes.place(0, u64::MAX));
        assert_eq!(placed.count(), LANES_MAX);
    }
}
