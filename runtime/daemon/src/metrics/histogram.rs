//! Quantiles of times, recorded by real-time threads and read by ordinary ones.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bits of a value that choose a bucket inside its power of two: buckets are 1/64 wide.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
/// Values from 2^40 ns (18 minutes) on share the last bucket.
const TOP_BITS: u32 = 40;
const BUCKETS: usize = SUB + (TOP_BITS - SUB_BITS) as usize * SUB;

/// A histogram of nanoseconds in fixed memory. Recording is wait-free and allocates nothing;
/// a reader sees each value or does not see it yet. (`hdrhistogram` has no atomic form that
/// can be read while another thread records.)
#[derive(Debug)]
pub struct AtomicHistogram {
    // Relaxed everywhere: counts that order nothing else.
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl AtomicHistogram {
    /// An empty one; the only allocation.
    pub fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            max: AtomicU64::new(0),
        }
    }

    pub fn record(&self, ns: u64) {
        self.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
        self.max.fetch_max(ns, Relaxed);
    }

    /// All that was recorded until now.
    pub fn now(&self) -> Recorded {
        Recorded {
            counts: self.buckets.iter().map(|b| b.load(Relaxed)).collect(),
            max: self.max.load(Relaxed),
        }
    }

    pub fn quantiles(&self) -> Quantiles {
        let recorded = self.now();
        Quantiles {
            count: recorded.count(),
            p50: recorded.at(500),
            p99: recorded.at(990),
            p999: recorded.at(999),
            max: recorded.max,
        }
    }
}

/// An [`AtomicHistogram`] at a moment.
#[derive(Debug)]
pub struct Recorded {
    counts: Vec<u64>,
    max: u64,
}

impl Recorded {
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A quantile, in ns.
    pub fn at(&self, per_mille: u64) -> u64 {
        let rank = (self.count() * per_mille).div_ceil(1_000).max(1);
        let mut below = 0;
        let bucket = self.counts.iter().position(|n| {
            below += n;
            below >= rank
        });
        bucket.map_or(0, |bucket| upper_edge(bucket).min(self.max))
    }

    /// The buckets that are not empty: the largest value of each, in us, and how many are in it.
    pub fn buckets_us(&self) -> Vec<(f64, u64)> {
        let counts = self.counts.iter().enumerate();
        let filled = counts.filter(|(_, count)| **count > 0);
        filled
            .map(|(bucket, count)| (upper_edge(bucket) as f64 / 1e3, *count))
            .collect()
    }
}

/// In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    pub count: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

fn bucket_of(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let power = ns.ilog2();
    if power >= TOP_BITS {
        return BUCKETS - 1;
    }
    let sub = (ns >> (power - SUB_BITS)) as usize & (SUB - 1);
    SUB + (power - SUB_BITS) as usize * SUB + sub
}

/// The largest value of a bucket.
fn upper_edge(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let power = (bucket - SUB) / SUB;
    let sub = (bucket - SUB) % SUB;
    ((SUB + sub + 1) as u64) * (1 << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut before = 0;
        for bucket in 0..BUCKETS - 1 {
            let edge = upper_edge(bucket);
            assert_eq!(bucket_of(edge), bucket);
            assert_eq!(bucket_of(edge + 1), bucket + 1);
            assert!(edge - before <= 1 + before / 63, "bucket {bucket} is wide");
            before = edge;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_agree_with_a_kept_library_within_a_bucket() {
        let ours = AtomicHistogram::new();
        let mut theirs =
            hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 39, 3).expect("bounds");
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50_000 {
            let ns = 1 + random.u64(..1 << 24) * random.u64(..16);
            ours.record(ns);
            theirs.record(ns).expect("in bounds");
        }
        let found = ours.quantiles();
        assert_eq!(found.count, 50_000);
        for (ours, quantile) in [(found.p50, 0.5), (found.p99, 0.99), (found.p999, 0.999)] {
            let expected = theirs.value_at_quantile(quantile) as f64;
            let ratio = ours as f64 / expected;
            assert!(
                (0.98..1.03).contains(&ratio),
                "{quantile}: {ours} against {expected}"
            );
        }
        assert!(found.max >= found.p999);
    }

    #[test]
    fn an_empty_histogram_is_all_zeros() {
        let quantiles = AtomicHistogram::new().quantiles();
        assert_eq!((quantiles.count, quantiles.p99, quantiles.max), (0, 0, 0));
    }
}
