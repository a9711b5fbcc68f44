//! Which layout is the present one, and how often it changed, counted for plans with several.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub struct LayoutMetrics {
    /// 0: the first.
    present: AtomicU64,
    /// By layout: changes to it.
    entered: Box<[AtomicU64]>,
}

impl LayoutMetrics {
    /// None if there is only the first.
    pub fn new(further: usize) -> Option<Self> {
        (further > 0).then(|| Self {
            present: AtomicU64::new(0),
            entered: (0..=further).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// The layout is this one now; the one before, if that was another. Scheduler's thread only.
    pub fn set(&self, layout: usize) -> Option<usize> {
        let before = self.present();
        if before == layout {
            return None;
        }
        self.present.store(layout as u64, Relaxed);
        self.entered[layout].fetch_add(1, Relaxed);
        Some(before)
    }

    pub fn present(&self) -> usize {
        self.present.load(Relaxed) as usize
    }

    /// By layout: how often it was changed to.
    pub fn entered(&self) -> impl Iterator<Item = u64> {
        self.entered.iter().map(|count| count.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_counts() {
        assert!(LayoutMetrics::new(0).is_none());
        let metrics = LayoutMetrics::new(2).expect("three in all");
        assert_eq!(metrics.set(0), None);
        assert_eq!(metrics.set(2), Some(0));
        assert_eq!(metrics.set(2), None);
        assert_eq!(metrics.set(0), Some(2));
        assert_eq!(metrics.entered().collect::<Vec<_>>(), [1, 0, 1]);
        assert_eq!(metrics.present(), 0);
    }
}
