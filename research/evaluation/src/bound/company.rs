//! How many others a request could share a batch with.

/// Of each window (from, to), the most windows, itself included, that are open at some time in it.
pub(super) fn most_at_once(windows: &[(u64, u64)]) -> Vec<u32> {
    let mut starts: Vec<u64> = windows.iter().map(|window| window.0).collect();
    let mut ends: Vec<u64> = windows.iter().map(|window| window.1).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    // The number of open windows only rises where one begins.
    let open = |start: &u64| {
        let begun = starts.partition_point(|other| other <= start);
        let over = ends.partition_point(|end| end < start);
        (begun - over) as u32
    };
    let maxima = Maxima::of(starts.iter().map(open).collect());
    let of = |&(from, to): &(u64, u64)| {
        let first = starts.partition_point(|start| *start < from);
        maxima.largest(first, starts.partition_point(|start| *start <= to))
    };
    windows.iter().map(of).collect()
}

/// Largest values of ranges: row k holds the largest of each 2^k in a row.
struct Maxima(Vec<Vec<u32>>);

impl Maxima {
    fn of(values: Vec<u32>) -> Self {
        let mut rows = vec![values];
        loop {
            let last = &rows[rows.len() - 1];
            let half = 1 << (rows.len() - 1);
            if last.len() <= half {
                return Self(rows);
            }
            let row = last
                .iter()
                .zip(&last[half..])
                .map(|(one, two)| *one.max(two));
            rows.push(row.collect());
        }
    }

    /// The largest from `first` to before `end`; 0 of none.
    fn largest(&self, first: usize, end: usize) -> u32 {
        let Some(row) = end.saturating_sub(first).checked_ilog2() else {
            return 0;
        };
        let row_of = &self.0[row as usize];
        row_of[first].max(row_of[end - (1 << row)])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn windows_that_only_touch_are_open_together() {
        assert_eq!(most_at_once(&[(0, 5), (5, 9), (6, 9)]), [2, 2, 2]);
        assert_eq!(most_at_once(&[(0, 5), (6, 9)]), [1, 1]);
        assert_eq!(most_at_once(&[]), Vec::<u32>::new());
    }

    proptest! {
        #[test]
        fn at_no_time_are_more_open(
            windows in prop::collection::vec((0..30_u64, 0..10_u64), 0..20),
        ) {
            let windows: Vec<(u64, u64)> =
                windows.into_iter().map(|(from, length)| (from, from + length)).collect();
            let open = |time: u64| {
                let here = windows.iter().filter(|w| w.0 <= time && time <= w.1);
                here.count() as u32
            };
            let by_trying: Vec<u32> =
                windows.iter().map(|w| (w.0..=w.1).map(open).max().unwrap_or(0)).collect();
            prop_assert_eq!(most_at_once(&windows), by_trying);
        }
    }
}
