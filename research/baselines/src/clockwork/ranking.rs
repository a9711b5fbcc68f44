//! Items in the order of a key that changes: a binary heap that knows where each item stands.

/// Items `0..n`, some of which are ranked. The first is the one with the least key; of equal keys, the
/// least item. Setting, changing and removing a key take O(log n); nothing is allocated after construction.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    heap: Vec<(u64, u32)>,
    /// Where an item stands in the heap, or [`UNRANKED`].
    place: Box<[u32]>,
}

const UNRANKED: u32 = u32::MAX;

impl Ranking {
    pub(super) fn new(items: usize) -> Self {
        assert!(items < UNRANKED as usize, "{items} items cannot be ranked");
        Self {
            heap: Vec::with_capacity(items),
            place: vec![UNRANKED; items].into(),
        }
    }

    /// The item with the least key, and its key.
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        self.heap.first().map(|&(key, item)| (key, item as usize))
    }

    /// Ranks an item, or takes it out.
    pub(super) fn set(&mut self, item: usize, key: Option<u64>) {
        match (self.place[item], key) {
            (UNRANKED, None) => {}
            (UNRANKED, Some(key)) => {
                // As many entries as items at most: within the capacity.
                self.heap.push((key, item as u32));
                self.rise(self.heap.len() - 1);
            }
            (at, Some(key)) => self.replace(at as usize, (key, item as u32)),
            (at, None) => {
                self.place[item] = UNRANKED;
                let last = self.heap.pop().expect("one is ranked");
                if (at as usize) < self.heap.len() {
                    self.replace(at as usize, last);
                }
            }
        }
    }

    fn replace(&mut self, at: usize, entry: (u64, u32)) {
        let rises = entry < self.heap[at];
        self.heap[at] = entry;
        if rises {
            self.rise(at);
        } else {
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 && entry < self.heap[(at - 1) / 2] {
            self.settle(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.settle(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut child) = self.heap.get(left).map(|_| left) else {
                break;
            };
            if right < self.heap.len() && self.heap[right] < self.heap[left] {
                child = right;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.settle(at, self.heap[child]);
            at = child;
        }
        self.settle(at, entry);
    }

    fn settle(&mut self, at: usize, entry: (u64, u32)) {
        self.heap[at] = entry;
        self.place[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Ranking;

    proptest! {
        #[test]
        fn the_first_is_always_the_least(
            changes in prop::collection::vec((0usize..20, prop::option::of(0u64..50)), 0..300)
        ) {
            let mut ranking = Ranking::new(20);
            let mut keys = [None; 20];
            for (item, key) in changes {
                ranking.set(item, key);
                keys[item] = key;
                let plain: BTreeSet<(u64, usize)> =
                    keys.iter().enumerate().filter_map(|(i, key)| key.map(|k| (k, i))).collect();
                prop_assert_eq!(ranking.first(), plain.first().copied());
            }
        }

        #[test]
        fn taking_the_first_again_and_again_sorts(keys in prop::collection::vec(any::<u64>(), 1..60)) {
            let mut ranking = Ranking::new(keys.len());
            for (item, key) in keys.iter().enumerate() {
                ranking.set(item, Some(*key));
            }
            let mut sorted = Vec::new();
            while let Some((key, item)) = ranking.first() {
                sorted.push((key, item));
                ranking.set(item, None);
            }
            prop_assert_eq!(sorted.len(), keys.len());
            prop_assert!(sorted.is_sorted());
        }
    }
}
